"""The aborted transactions of segments, in memory, within a bound for the whole gateway. Pure.

A segment that is written now has its own, which no other place has in this form: they are counted here, and
where there are many the segment is closed. Those of closed segments are kept as long as there is room, and
made again from the rows of the segment when somebody asks (`aborted_reading`).
"""

from collections import OrderedDict
from typing import Final

from gateway.log.transactions.aborted import ENTRY_BYTES, AbortedTransaction, AbortedTransactions

MAX_CACHED_BYTES: Final = 32 * 1024 * 1024
"""Of closed segments: a million aborted transactions."""

SEGMENT_BYTES: Final = 400
"""Counted for a segment beside its entries."""

MAX_OF_SEGMENT: Final = 50_000
"""Aborted transactions of one segment; then the next one begins."""

MAX_OF_OPEN_SEGMENTS: Final = 2_000_000
"""Aborted transactions of all segments that are written now: 64 MB. Beyond it each segment ends that has
MANY."""

MANY: Final = 1_000


class AbortedCache:
    """Those of one gateway, by the addresses of segments."""

    def __init__(self, most_bytes: int = MAX_CACHED_BYTES) -> None:
        self.bytes = 0
        self.of_open_segments = 0
        """Entries of segments that are written now."""
        self._most_bytes = most_bytes
        self._closed: OrderedDict[str, AbortedTransactions] = OrderedDict()

    # segments that are written now --------------------------------------------------------------------------

    def add(self, of_segment: AbortedTransactions, aborted: AbortedTransaction) -> None:
        """One more of a segment that is written now."""
        of_segment.add(aborted)
        self.of_open_segments += 1

    def is_full(self, of_segment: AbortedTransactions) -> bool:
        """Whether a segment has so many that it is to end."""
        count = len(of_segment)
        return count >= MAX_OF_SEGMENT or (count >= MANY and self.of_open_segments > MAX_OF_OPEN_SEGMENTS)

    def no_longer_open(self, of_segment: AbortedTransactions) -> None:
        """Nothing is written to this segment any more."""
        self.of_open_segments -= len(of_segment)

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
