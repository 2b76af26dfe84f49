"""The aborted transactions of segments, in memory, within bounds for the whole gateway. Pure.

A segment that is written now has its own, which no other place has in this form. They are counted here: where
all segments together have too many, those end that have most, until the others have half of what there may
be; so the work at the bound stays small beside what it takes to get there. Nobody is refused for it. Those of
closed segments are kept as long as there is room, and made again from the rows of the segment when somebody
asks (`aborted_reading`).
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from gateway.log.transactions.aborted import ENTRY_BYTES, AbortedTransaction, AbortedTransactions

MAX_CACHED_BYTES: Final = 32 * 1024 * 1024
"""Of closed segments: a million aborted transactions."""

SEGMENT_BYTES: Final = 400
"""Counted for a segment beside its entries."""

MAX_OF_SEGMENT: Final = 50_000
"""Aborted transactions of one segment; then the next one begins."""

MAX_OF_OPEN_SEGMENTS: Final = 1_000_000
"""Aborted transactions of all segments that are written now, whoever's they are: 32 MB. Beyond it those
segments end that have most."""

AGAIN_PART: Final = 16
"""Segments that are to end and cannot yet, since not all of them is durable, are told so again when there is
such a part of the bound more."""


class AbortedCache:
    """Those of one gateway, by the addresses of segments."""

    def __init__(self, most_bytes: int = MAX_CACHED_BYTES, most_open: int = MAX_OF_OPEN_SEGMENTS) -> None:
        self.bytes = 0
        self.of_open_segments = 0
        """Entries of segments that are written now."""
        self._most_bytes = most_bytes
        self._most_open = most_open
        self._next_look = most_open
        """Beyond so many entries of segments that are written now some of these are to end."""
        self._open: dict[AbortedTransactions, Callable[[], None]] = {}
        """Those of segments that are written now, and how to end each."""
        self._to_end: set[AbortedTransactions] = set()
        self._closed: OrderedDict[str, AbortedTransactions] = OrderedDict()

    # segments that are written now --------------------------------------------------------------------------

    def add(
        self, of_segment: AbortedTransactions, aborted: AbortedTransaction, end: Callable[[], None]
    ) -> None:
        """One more of a segment that is written now. `end` is called where the segment is to be closed, once
        all of it is durable; it returns at once, and may be called again.
        """
        of_segment.add(aborted)
        self._open[of_segment] = end
        self.of_open_segments += 1
        if self.of_open_segments > self._next_look:
            self._end_largest()

    def _end_largest(self) -> None:
        left = self.of_open_segments
        self._next_look = left + self._most_open // AGAIN_PART
        for of_segment in sorted(self._open, key=len, reverse=True):
            if left <= self._most_open // 2:
                break
            left -= len(of_segment)
            self._to_end.add(of_segment)
            self._open[of_segment]()

    def is_full(self, of_segment: AbortedTransactions) -> bool:
        """Whether the next batch is to go to another segment than this one."""
        return len(of_segment) >= MAX_OF_SEGMENT or of_segment in self._to_end

    def no_longer_open(self, of_segment: AbortedTransactions) -> None:
        """Nothing is written to this segment any more; nothing happens if that was said before."""
        if self._open.pop(of_segment, None) is not None:
            self._to_end.discard(of_segment)
            self.of_open_segments -= len(of_segment)
            if self.of_open_segments <= self._most_open:
                self._next_look = self._most_open

    # closed segments ----------------------------------------------------------------------------------------

    def put(self, address: str, of_segment: AbortedTransactions) -> None:
        """All of a closed segment."""
        if not of_segment or address in self._closed:
            return
        self._closed[address] = of_segment
        self.bytes += _bytes_of(of_segment)
        while self.bytes > self._most_bytes:
            _, gone = self._closed.popitem(last=False)
            self.bytes -= _bytes_of(gone)

    def get(self, address: str) -> AbortedTransactions | None:
        """All of a closed segment, if they are here."""
        found = self._closed.get(address)
        if found is not None:
            self._closed.move_to_end(address)
        return found


def _bytes_of(of_segment: AbortedTransactions) -> int:
    return SEGMENT_BYTES + ENTRY_BYTES * len(of_segment)
