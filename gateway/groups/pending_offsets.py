"""Offsets that a group commits within transactions: what they become when these end. Pure.

Rule: of one partition the record that is last in the log has the last word, whatever order transactions end
in (`OffsetMetadataManager.replayEndTransactionMarker`): an offset that was committed later, plainly or in
another transaction, stays. So each commit has a place in the order of the log; of plain ones it is kept as
long as a transaction is open that has the partition, too.

A partition is unstable from when such a commit is on its way to the log until its transaction's end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gateway.groups.offsets import TopicPartition
    from gateway.groups.records import CommittedOffset


class _Placed(NamedTuple):
    """An offset with its place in the order of the log."""

    place: int
    offset: CommittedOffset


class PendingOffsets:
    """Those of one group."""

    __slots__ = ("_latest", "_of_producer", "_places", "_unstable")

    def __init__(self) -> None:
        self._of_producer: dict[int, dict[TopicPartition, _Placed]] = {}
        self._unstable: dict[TopicPartition, int] = {}
        """How many open transactions, and writes on their way, have a partition."""
        self._latest: dict[TopicPartition, int] = {}
        """The place of what is committed, of unstable partitions."""
        self._places = count(1)

    def __bool__(self) -> bool:
        """Whether there are any, or some on their way."""
        return bool(self._unstable)

    def is_unstable(self, key: TopicPartition) -> bool:
        """Whether an open transaction has this partition."""
        return key in self._unstable

    def keys(self) -> Iterable[TopicPartition]:
        """All partitions that open transactions have."""
        return self._unstable.keys()

    @property
    def producers(self) -> Iterable[int]:
        """The ids of those whose transactions have offsets here."""
        return self._of_producer.keys()

    # what is written ----------------------------------------------------------------------------------------

    def start(self, keys: Iterable[TopicPartition]) -> None:
        """A write of these goes to the log."""
        for key in keys:
            self._unstable[key] = self._unstable.get(key, 0) + 1

    def add(
        self, producer_id: int, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> list[CommittedOffset]:
        """A write is durable: these wait for the end of the producer's transaction. Gives those that they
        replace.
        """
        pending = self._of_producer.setdefault(producer_id, {})
        replaced = []
        for key, offset in offsets.items():
            if (known := pending.get(key)) is not None:
                self._release(key)
                replaced.append(known.offset)
            pending[key] = _Placed(next(self._places), offset)
        return replaced

    def give_up(self, keys: Iterable[TopicPartition]) -> None:
        """A write does not become durable, as far as is known."""
        for key in keys:
            self._release(key)

    def committed(self, key: TopicPartition) -> None:
        """Another offset of this partition is committed, or deleted, without a transaction."""
        if key in self._unstable:
            self._latest[key] = next(self._places)

    def deleted(self, key: TopicPartition) -> list[CommittedOffset]:
        """The offset of this partition is deleted, and with it what transactions have of it
        (`OffsetMetadataManager.replay` of a tombstone). Gives what that was.
        """
        self.committed(key)
        found = []
        for pending in self._of_producer.values():
            if (known := pending.pop(key, None)) is not None:
                found.append(known.offset)
                self._release(key)
        return found

    # the end ------------------------------------------------------------------------------------------------

    def end(
        self, producer_id: int, *, is_commit: bool
    ) -> tuple[dict[TopicPartition, CommittedOffset], list[CommittedOffset]]:
        """The producer's transaction is over. Gives what is committed by that, and all that was pending."""
        pending = self._of_producer.pop(producer_id, {})
        found: dict[TopicPartition, CommittedOffset] = {}
        for key, (place, offset) in pending.items():
            if is_commit and place > self._latest.get(key, 0):
                found[key] = offset
                self._latest[key] = place
            self._release(key)
        return found, [offset for _, offset in pending.values()]

    def _release(self, key: TopicPartition) -> None:
        left = self._unstable[key] - 1
        if left:
            self._unstable[key] = left
        else:
            del self._unstable[key]
            self._latest.pop(key, None)
