"""Which transactions of a partition are open, and up to where everything is decided: the last stable offset.

Rule: a transaction is undecided until its marker is durable. What was appended is not: after a crash the
marker may be gone, and its transaction open again. So the last stable offset is the high watermark, or the
first offset of the oldest transaction that is open or whose marker lies at or above the high watermark
(`ProducerStateManager.firstUnstableOffset`). It never goes back.

Pure. A transaction goes by its first offset, which no other one has.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Final

UNDECIDED: Final = -1
"""The last stable offset before the producers were read: nobody knows yet what is open (Kafka's
`INVALID_LAST_STABLE_OFFSET`)."""


class OpenTransactions:
    """Those of one partition. All methods take the time of a look-up, however many there are."""

    __slots__ = ("_ended", "_open", "_undecided")

    def __init__(self, first_offsets: Iterable[int] = ()) -> None:
        """Transactions with these first offsets are open."""
        # Both in the order of their offsets. A dict would walk past all that were taken from its front.
        self._open: OrderedDict[int, None] = OrderedDict.fromkeys(sorted(first_offsets))
        self._undecided = self._open.copy()
        """Those, and what is in `_ended`."""
        self._ended: deque[tuple[int, int]] = deque()
        """(offset of the marker, first offset) of those whose markers are not durable, as far as is known."""

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    def __bool__(self) -> bool:
        """Whether one is undecided."""
        return bool(self._undecided)

    def begin(self, first_offset: int) -> None:
        """A transaction begins behind all that is appended."""
        self._open[first_offset] = self._undecided[first_offset] = None

    def end(self, first_offset: int, marker_offset: int) -> None:
        """Its marker is appended."""
        del self._open[first_offset]
        self._ended.append((marker_offset, first_offset))

    def first_open(self) -> int | None:
        """The first offset of the oldest one that is open, whatever of the others is durable."""
        return next(iter(self._open), None)

    def last_stable_offset(self, high_watermark: int) -> int:
        """What lies below the high watermark is durable."""
        ended = self._ended
        while ended and ended[0][0] < high_watermark:
            del self._undecided[ended.popleft()[1]]
        return min(high_watermark, next(iter(self._undecided), high_watermark))
