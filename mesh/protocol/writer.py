"""The writer's window: what one segment's only writer has published, and who has it.

Rule: a published sequence is never reused or withdrawn. The window keeps a record until `w` distinct members
have acknowledged it; acknowledgements are cumulative, count only from the segment's own members, and only for
sequences that were published.

Theory of operation: `append` gives the next sequence. Until `opened` (the announcement is durable) nothing is
published; from then on the shell publishes each record as soon as it is appended. `on_ack` moves one member's
durable head and tells whether the committed head (the w-th highest) moved. While anything is unacknowledged,
`on_tick` asks for HEAD, after 50 ms first and then with back-off to 1 s; a member that missed records answers
HEAD with FETCH, and `on_fetch` gives what to send again.
"""

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

MAX_WINDOW_RECORDS = 10_000
"""Records in one window: below the sockets' high-water mark, so that a healthy member sees no drops."""

RECORD_OVERHEAD_BYTES = 400
"""Counted per record besides its content wherever records wait, at the gateway and at the store, so that very
many tiny ones cannot outgrow a bound in bytes."""

MAX_RESEND_BYTES = 4 * 1024 * 1024
"""Content sent again for one FETCH; the rest is asked for again."""

HEAD_FIRST_SECONDS = 0.05
HEAD_LAST_SECONDS = 1.0
"""HEAD is repeated from the first to the last of these intervals while something is unacknowledged."""


class State(Enum):
    """OPENING: nothing is published yet. FENCED: never again."""

    OPENING = "opening"
    OPEN = "open"
    FENCED = "fenced"


class Unacknowledged(NamedTuple):
    """A record in the window."""

    sequence: int
    content: bytes | bytearray | memoryview


class Writer:
    """One segment's window. `members` are incarnations; `w` of them make a record count."""

    __slots__ = (
        "_head_due",
        "_head_interval",
        "_heads",
        "_window",
        "address",
        "bytes",
        "committed",
        "first",
        "members",
        "next_sequence",
        "refused_acks",
        "state",
        "subject",
        "w",
        "waiting_since",
    )

    def __init__(self, address: str, subject: str, members: Sequence[str], w: int) -> None:
        if not 1 <= w <= len(set(members)):
            raise ValueError(f"w {w} of {len(members)} members")
        self.address = address
        self.subject = subject
        self.members = tuple(members)
        self.w = w
        self.state = State.OPENING
        self.next_sequence = 0
        self.committed = -1
        """The highest sequence that w members have (durable head of the segment), -1 for none."""
        self.first = -1
        """The highest sequence that any one member has."""
        self.bytes = 0
        """Bytes of content in the window."""
        self.waiting_since = 0.0
        """When `committed` last moved, or what is in the window began to wait for it."""
        self.refused_acks = 0
        self._heads = dict.fromkeys(members, -1)
        self._window: deque[Unacknowledged] = deque()
        self._head_due = 0.0
        self._head_interval = HEAD_FIRST_SECONDS

    def __len__(self) -> int:
        return len(self._window)

    def append(self, content: bytes | bytearray | memoryview, now: float) -> int:
        """Take a record; its sequence. The caller publishes it at once if the state is OPEN."""
        if self.state is State.FENCED:
            raise RuntimeError("append to a fenced writer")
        sequence = self.next_sequence
        if not self._window:
            self._head_interval = HEAD_FIRST_SECONDS
            self._head_due = now + HEAD_FIRST_SECONDS
            self.waiting_since = now
        self._window.append(Unacknowledged(sequence, content))
        self.bytes += len(content)
        self.next_sequence = sequence + 1
        return sequence

    def opened(self, now: float) -> list[Unacknowledged]:
        """The announcement is durable: everything appended so far may be published, now."""
        self.state = State.OPEN
        self._head_due = now + HEAD_FIRST_SECONDS
        return list(self._window)

    def on_ack(self, member: str, sequence: int, now: float) -> bool:
        """A member has everything up to `sequence`. True if `committed` or `first` moved."""
        head = self._heads.get(member)
        if head is None or sequence >= self.next_sequence or self.state is State.OPENING:
            self.refused_acks += 1
            return False
        if sequence <= head:
            return False
        self._heads[member] = sequence
        self._head_interval = HEAD_FIRST_SECONDS
        self._head_due = now + HEAD_FIRST_SECONDS
        moved = sequence > self.first
        if moved:
            self.first = sequence
        committed = sequence if self.w == 1 else sorted(self._heads.values(), reverse=True)[self.w - 1]
        if committed > self.committed:
            self.committed = committed
            self.waiting_since = now
            moved = True
            window = self._window
            while window and window[0].sequence <= committed:
                self.bytes -= len(window.popleft().content)
        return moved

    def on_fetch(self, sequence: int, count: int) -> list[Unacknowledged]:
        """What of [sequence, sequence + count) is in the window, from its start, up to `MAX_RESEND_BYTES`."""
        if self.state is not State.OPEN or not self._window:
            return []
        start = sequence - self._window[0].sequence
        if start < 0:
            return []
        entries: list[Unacknowledged] = []
        size = 0
        for index in range(start, min(start + count, len(self._window))):
            entry = self._window[index]
            entries.append(entry)
            size += len(entry.content)
            if size >= MAX_RESEND_BYTES:
                break
        return entries

    def on_tick(self, now: float) -> bool:
        """True if HEAD (of `next_sequence - 1`) is to be published now."""
        if self.state is not State.OPEN or not self._window or now < self._head_due:
            return False
        self._head_interval = min(self._head_interval * 2, HEAD_LAST_SECONDS)
        self._head_due = now + self._head_interval
        return True

    def behind(self) -> list[str]:
        """The members that have not acknowledged everything that was published."""
        if self.state is not State.OPEN:
            return []
        last = self.next_sequence - 1
        return [member for member, head in self._heads.items() if head < last]

    def furthest(self) -> list[str]:
        """The members, those that have acknowledged most first."""
        return sorted(self.members, key=lambda member: -self._heads[member])

    def fence(self) -> list[Unacknowledged]:
        """Another life sealed this segment: nothing more is taken; gives what was not committed."""
        self.state = State.FENCED
        left = list(self._window)
        self._window.clear()
        self.bytes = 0
        return left
