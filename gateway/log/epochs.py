"""The leader epochs of one partition: which epoch wrote which offsets.

A client that knows "my position came from epoch e" asks where e ended (OffsetForLeaderEpoch, KIP-320) and
so learns whether the log before its position is still the one that it read. The answers are those of
Kafka's ``LeaderEpochFileCache``. Here a log is never truncated at its end, so an epoch that was begun
keeps its start; only an epoch that began and ended without a record, at the start offset of the next one,
is forgotten.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Self

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1


class LeaderEpochs:
    """Epochs and their start offsets, both strictly increasing.

    The latest one is the partition's current leader epoch: it goes on to the end of the log.
    """

    __slots__ = ("_epochs", "_starts")

    def __init__(self, epochs: Iterable[Sequence[int]] = ()) -> None:
        """`epochs`: pairs of epoch and start offset, as `to_list` gives them.

        Raises:
            ValueError: They are not pairs that increase strictly, or one is negative.
        """
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, start in epochs:
            if self._epochs and (epoch <= self._epochs[-1] or start <= self._starts[-1]):
                raise ValueError(f"epoch {epoch} from offset {start} after {self._latest()}")
            self.assign(epoch, start)

    @classmethod
    def from_list(cls, epochs: Iterable[Sequence[int]]) -> Self:
        """As the constructor, for what was stored as JSON."""
        return cls(epochs)

    def to_list(self) -> list[list[int]]:
        """Pairs of epoch and start offset, oldest first, for JSON."""
        return [[epoch, start] for epoch, start in zip(self._epochs, self._starts, strict=True)]

    @property
    def latest(self) -> int:
        """The newest epoch, `UNDEFINED_EPOCH` when there is none."""
        return self._epochs[-1] if self._epochs else UNDEFINED_EPOCH

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Begins `epoch` at `start_offset`; False when it has begun already and nothing changed.

        An epoch that began at the same offset wrote nothing and gives way.

        Raises:
            ValueError: The epoch or the offset goes back. Kafka would cut its list; here one of the two
                is a mistake of the caller, and cutting would make clients believe that records were
                truncated.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} from offset {start_offset}")
        if self._epochs:
            if epoch == self._epochs[-1] and start_offset >= self._starts[-1]:
                return False
            if epoch <= self._epochs[-1] or start_offset < self._starts[-1]:
                raise ValueError(f"epoch {epoch} from offset {start_offset} after {self._latest()}")
            if start_offset == self._starts[-1]:
                self._epochs.pop()
                self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        return True

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote `offset`, or would; `UNDEFINED_EPOCH` before the first."""
        at = bisect_right(self._starts, offset)
        return self._epochs[at - 1] if at else UNDEFINED_EPOCH

    def end_offset_for(self, epoch: int, end_offset: int) -> tuple[int, int]:
        """The largest epoch up to `epoch`, and the offset where it ended
        (``LeaderEpochFileCache.endOffsetFor``).

        `end_offset` is the high watermark: no answer goes beyond it. It is the answer for the latest
        epoch; an epoch after that is not known: (-1, -1). Of an epoch before the first known one only
        this is certain, that it ended by the start of that one.
        """
        if not self._epochs or epoch > self._epochs[-1] or epoch == UNDEFINED_EPOCH:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self._epochs[-1]:
            return epoch, end_offset
        after = bisect_right(self._epochs, epoch)
        floor = self._epochs[after - 1] if after else epoch
        return floor, min(self._starts[after], end_offset)

    def end_offset_as_leader(self, epoch: int, leader_epoch: int, end_offset: int) -> tuple[int, int]:
        """As `end_offset_for`, of a partition whose leader epoch is `leader_epoch`, in which it may not have
        written yet.
        """
        if epoch == leader_epoch:
            return epoch, end_offset
        if epoch > leader_epoch or epoch == UNDEFINED_EPOCH:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if self.latest < 0:
            # Nothing was ever written. For Kafka the present epoch begins here, and those before it end here.
            return epoch, end_offset
        if epoch >= self.latest:
            # The last epoch that wrote, in a life that has not written yet: it ends where the log does.
            return self.latest, end_offset
        return self.end_offset_for(epoch, end_offset)

    def truncate_front(self, log_start_offset: int) -> None:
        """Forgets epochs that ended before the log's new start; the one that holds it begins there.

        (``LeaderEpochFileCache.truncateFromStartAsyncFlush``.)
        """
        at = bisect_right(self._starts, log_start_offset)
        if at:
            del self._epochs[: at - 1], self._starts[: at - 1]
            self._starts[0] = log_start_offset

    def forget_unwritten(self, begun: Mapping[int, int]) -> None:
        """Forgets epochs that turned out to have written nothing from the given offset on (epoch -> offset),
        and nothing before it either.
        """
        kept = [
            (epoch, start)
            for epoch, start in zip(self._epochs, self._starts, strict=True)
            if epoch not in begun or start < begun[epoch]
        ]
        self._epochs = [epoch for epoch, _ in kept]
        self._starts = [start for _, start in kept]

    def _latest(self) -> str:
        return f"epoch {self._epochs[-1]} from offset {self._starts[-1]}"
