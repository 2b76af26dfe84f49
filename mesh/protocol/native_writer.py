"""What a native producer keeps: the records it has published, until enough stores have them.

Rules: a sequence is published once and never reused; an acknowledgement of what was never published counts
for nothing; what is sent again has the content of its sequence. The C producer breaks the last two (see
docs/mesh-protocol.md, section 12).

Theory of operation: `append` gives the next sequence, the shell publishes it at once. `on_ack` moves one
store's head; what `stores` different ones have leaves the window. While anything is unacknowledged `on_tick`
asks for HEAD, after 50 ms first and then with back-off to 1 s; afterwards every second, so that a consumer
that missed the last record learns of it. A store that missed records answers HEAD with FETCH.

Our stores acknowledge what nobody announced as `~incarnation`, C stores without a name: all of them together
count as one. A C store acknowledges once, and never again if that is lost: so after `ASK_SECONDS` without
progress stores are asked for their heads, and one that is told counts as an acknowledgement where any store's
does.
"""

from collections import deque
from typing import NamedTuple

from mesh.protocol.writer import (
    HEAD_FIRST_SECONDS,
    HEAD_LAST_SECONDS,
    MAX_RESEND_BYTES,
    MAX_WINDOW_RECORDS,
    RECORD_OVERHEAD_BYTES,
    Unacknowledged,
)

MAX_NATIVE_WINDOW_BYTES = 64 * 1024 * 1024
"""Records of one native producer that too few stores have, with their overhead. Beyond it producing waits."""

MAX_ACKNOWLEDGING_STORES = 256
"""Stores that one native producer counts; a stranger could make names up."""

ASK_SECONDS = 2.0
"""Without an acknowledgement for so long, while one is owed, stores are asked for their heads, and asked
again after as long."""


class Due(NamedTuple):
    """What is to be published now."""

    head: bool
    """HEAD of `next_sequence - 1`."""
    ask: bool
    """GET-HEADS."""


class NativeWriter:
    """One native producer's window. `stores` different stores must have a record before it leaves."""

    def __init__(self, address: str, subject: str, stores: int = 1) -> None:
        if not 1 <= stores <= MAX_ACKNOWLEDGING_STORES:
            raise ValueError(f"{stores} stores")
        self.address = address
        self.subject = subject
        self.stores = stores
        self.next_sequence = 0
        self.acknowledged = -1
        """The highest sequence that enough stores have."""
        self.bytes = 0
        """In the window, with `RECORD_OVERHEAD_BYTES` for each record."""
        self.refused_acks = 0
        self._heads: dict[str, int] = {}
        self._window: deque[Unacknowledged] = deque()
        self._head_due = 0.0
        self._head_interval = HEAD_FIRST_SECONDS
        self._ask_due = 0.0

    def __len__(self) -> int:
        return len(self._window)

    @property
    def full(self) -> bool:
        """Whether the next record has to wait for acknowledgements."""
        return len(self._window) >= MAX_WINDOW_RECORDS or self.bytes >= MAX_NATIVE_WINDOW_BYTES

    def append(self, content: bytes, now: float) -> int:
        """Take a record that is published at once; its sequence. Not while the window is `full`."""
        sequence = self.next_sequence
        if not self._window:
            self._begin_to_wait(now)
        self._window.append(Unacknowledged(sequence, content))
        self.bytes += len(content) + RECORD_OVERHEAD_BYTES
        self.next_sequence = sequence + 1
        return sequence

    def _begin_to_wait(self, now: float) -> None:
        self._head_interval = HEAD_FIRST_SECONDS
        self._head_due = now + HEAD_FIRST_SECONDS
        self._ask_due = now + ASK_SECONDS

    def on_ack(self, store: str, sequence: int, now: float) -> bool:
        """A store has everything up to `sequence`. True if `acknowledged` moved."""
        known = store in self._heads or len(self._heads) < MAX_ACKNOWLEDGING_STORES
        if sequence >= self.next_sequence or not known:
            self.refused_acks += 1
            return False
        if sequence <= self._heads.get(store, -1):
            return False
        self._heads[store] = sequence
        self._begin_to_wait(now)
        if len(self._heads) < self.stores:
            return False
        enough = sorted(self._heads.values(), reverse=True)[self.stores - 1]
        if enough <= self.acknowledged:
            return False
        self.acknowledged = enough
        while self._window and self._window[0].sequence <= enough:
            self.bytes -= len(self._window.popleft().content) + RECORD_OVERHEAD_BYTES
        return True

    def on_told_head(self, sequence: int, now: float) -> bool:
        """A store that does not say which it is has everything up to `sequence`. As `on_ack`."""
        return self.stores == 1 and self.on_ack("", sequence, now)

    def on_fetch(self, sequence: int, count: int) -> list[Unacknowledged]:
        """What of [sequence, sequence + count) is in the window, from its start, up to `MAX_RESEND_BYTES`.

        Nothing if the start has left the window: stores have it.
        """
        start = sequence - self._window[0].sequence if self._window else -1
        if start < 0:
            return []
        entries: list[Unacknowledged] = []
        size = 0
        for index in range(start, min(start + count, len(self._window))):
            entries.append(self._window[index])
            size += len(self._window[index].content)
            if size >= MAX_RESEND_BYTES:
                break
        return entries

    def on_tick(self, now: float) -> Due:
        """What is due now."""
        head = self.next_sequence > 0 and now >= self._head_due
        if head:
            waits = self._head_interval * 2 if self._window else HEAD_LAST_SECONDS
            self._head_interval = min(waits, HEAD_LAST_SECONDS)
            self._head_due = now + self._head_interval
        ask = bool(self._window) and self.stores == 1 and now >= self._ask_due
        if ask:
            self._ask_due = now + ASK_SECONDS
        return Due(head, ask)
