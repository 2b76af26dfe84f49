"""The aborted transactions whose markers lie in one segment: who read_committed reads its range must know.

Rule: a consumer that reads [offset, end) is told of every aborted transaction whose marker lies at or above
`offset` and that began below `end` (`TransactionIndex.collectAbortedTxns`). It takes the batches of that
producer from the first offset on for aborted, up to the marker.

Pure. Entries come in the order of their markers. Each has, besides, below which offset no later one begins
(the first offset of the oldest transaction that was open when it ended): there a search stops.
"""

from array import array
from bisect import bisect_left
from typing import Final, NamedTuple

ENTRY_BYTES: Final = 32
"""Memory of an entry."""


class AbortedTransaction(NamedTuple):
    """One of a producer. `last_offset` is its marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    later_begin: int
    """No transaction that ends after this one begins below this offset."""


class AbortedTransactions:
    """Those of one segment."""

    __slots__ = ("_firsts", "_lasts", "_later_begin", "_producers", "lowest")

    def __init__(self) -> None:
        self._producers = array("q")
        self._firsts = array("q")
        self._lasts = array("q")
        self._later_begin = array("q")
        self.lowest = -1
        """The lowest first offset of all; -1 without any."""

    def __len__(self) -> int:
        return len(self._lasts)

    @property
    def bytes(self) -> int:
        """Memory, about."""
        return ENTRY_BYTES * len(self._lasts)

    def add(self, ended: AbortedTransaction) -> None:
        """One whose marker lies behind all others."""
        self._producers.append(ended.producer_id)
        self._firsts.append(ended.first_offset)
        self._lasts.append(ended.last_offset)
        self._later_begin.append(ended.later_begin)
        if self.lowest < 0 or ended.first_offset < self.lowest:
            self.lowest = ended.first_offset

    def collect(self, offset: int, end: int, found: list[tuple[int, int, int]]) -> bool:
        """Add (producer id, first offset, last offset) of those that who reads [offset, end) must know;
        whether there may be more in later segments.
        """
        for place in range(bisect_left(self._lasts, offset), len(self._lasts)):
            if self._firsts[place] < end:
                found.append((self._producers[place], self._firsts[place], self._lasts[place]))
            if self._later_begin[place] >= end:
                return False
        return True
