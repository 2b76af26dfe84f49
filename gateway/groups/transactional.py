"""Offsets that are committed within transactions (TxnOffsetCommit), and what the ends of these make of them.

They are written as a part of the producer's transaction, wait beside what is committed, and count when its
marker is in the partition of `__consumer_offsets` (`gateway.groups.pending_offsets`). Commits and markers of
a partition go to its log in one order; the marker is answered when readers see what it has decided.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from gateway.journal.lane import TransactionOf
from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from gateway.common.marker import Marker
    from gateway.groups.journal import Journal
    from gateway.groups.offsets import OffsetTable, TopicPartition
    from gateway.groups.records import CommittedOffset
    from gateway.groups.served import Group
    from gateway.journal.group_commit import Pending


class TransactionalOffsets:
    """Those of one coordinator's groups. `find` gives a group by its id, if it is served; `is_loaded` says
    whether the groups of a partition are.
    """

    def __init__(
        self,
        journal: Journal,
        find: Callable[[str], Group | None],
        is_loaded: Callable[[int], bool],
    ) -> None:
        self._journal = journal
        self._is_loaded = is_loaded
        self._find = find
        self._groups: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
        """(partition of the topic, producer id) -> the groups in which its open transaction has offsets."""

    def begin_commit(
        self, group: Group, part_of: TransactionOf, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> Pending:
        """Write offsets as a part of a transaction, without waiting; one at least. Raises KafkaError as
        `Journal`, and once it is over INVALID_PRODUCER_EPOCH.
        """
        effect = _PendingCommit(self, group, part_of.producer_id, offsets)
        return self._journal.begin_commit(
            group.group_id,
            group.offsets,
            offsets,
            group.partition,
            effect=effect,
            part_of=part_of,
            sender=part_of.client,
        )

    def begin_end(self, partition: int, marker: Marker) -> Pending:
        """Write the marker of a transaction, without waiting; when it is done readers see what was committed.
        Raises KafkaError as `Partition.append_marker`, and COORDINATOR_NOT_AVAILABLE; and
        COORDINATOR_LOAD_IN_PROGRESS: what is being read may lack the marker, and nobody would be told of it.
        """
        if not self._is_loaded(partition):
            raise KafkaError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"the groups of partition {partition} are not loaded"
            )
        return self._journal.begin_end(partition, marker, _End(self, partition, marker))

    def loaded(self, group: Group) -> None:
        """A group is served from now on, with what it has of open transactions."""
        for producer_id in group.offsets.producers:
            self._groups[group.partition, producer_id].add(group.group_id)

    def forget(self, partition: int | None = None) -> None:
        """The groups of a partition, or all, are not served any more."""
        for key in [one for one in self._groups if partition in {None, one[0]}]:
            del self._groups[key]

    def added(self, group: Group, producer_id: int) -> None:
        """An open transaction has offsets of the group."""
        self._groups[group.partition, producer_id].add(group.group_id)

    def ended(self, partition: int, marker: Marker) -> None:
        """The marker is durable."""
        for group_id in self._groups.pop((partition, marker.producer_id), ()):
            group = self._find(group_id)
            if group is not None:
                group.offsets.end_transaction(marker.producer_id, is_commit=marker.is_commit)


class _PendingCommit:
    """Offsets on their way to the log, as a part of a transaction."""

    __slots__ = ("_all", "_group", "_offsets", "_producer_id", "_table")

    def __init__(
        self,
        all_of_them: TransactionalOffsets,
        group: Group,
        producer_id: int,
        offsets: Mapping[TopicPartition, CommittedOffset],
    ) -> None:
        self._all = all_of_them
        self._group = group
        self._table: OffsetTable = group.offsets
        self._producer_id = producer_id
        self._offsets = offsets

    def start(self) -> None:
        self._table.start_in_transaction(self._offsets)

    def settled(self, durable: bool) -> None:
        self._table.add_in_transaction(self._producer_id, self._offsets, durable=durable)
        if durable:
            self._all.added(self._group, self._producer_id)


class _End:
    """A marker on its way to the log."""

    __slots__ = ("_all", "_marker", "_partition")

    def __init__(self, all_of_them: TransactionalOffsets, partition: int, marker: Marker) -> None:
        self._all = all_of_them
        self._partition = partition
        self._marker = marker

    def start(self) -> None: ...

    def settled(self, durable: bool) -> None:
        if durable:
            self._all.ended(self._partition, self._marker)


_AS_MARKER_ERRORS = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}


def as_marker_error(error: KafkaError) -> KafkaError:
    """What who sends a marker is told for an error of a group coordinator
    (`KafkaApis.handleWriteTxnMarkersRequest`).
    """
    return KafkaError(_AS_MARKER_ERRORS.get(error.code, error.code), error.message)
