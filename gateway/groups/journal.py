"""Writes what groups must not forget to `__consumer_offsets`, and reads it back.

Rule: nobody is told that something was written before it is durable as with acks=all; nothing that is not
durable is shown. What reached the log and was not answered in time may still become durable, and takes effect
then, in the order of the log.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gateway.common.clients import NOBODY
from gateway.groups.internal_topic import OFFSETS_TOPIC
from gateway.groups.metadata import GroupMetadata
from gateway.groups.offsets import OffsetTable, TopicPartition
from gateway.groups.records import (
    CommittedOffset,
    group_key,
    group_value,
    offset_key,
    offset_value,
)
from gateway.groups.replay import LoadedGroup, Replay
from gateway.journal.fields import TooLong
from gateway.journal.group_commit import Effect, GroupCommit, NoEffect, Pending, Place
from gateway.journal.lane import MAX_BATCH_BYTES, RECORD_OVERHEAD_BYTES, KeyValue, TransactionOf, size_of
from gateway.journal.loading import load_partition
from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from gateway.cluster.cluster import Cluster
    from gateway.common.marker import Marker


class Journal:
    """The log of all groups. What is written is durable when a method returns.

    All raise KafkaError with a code that clients of groups know: COORDINATOR_NOT_AVAILABLE and
    NOT_COORDINATOR are to be tried again, UNKNOWN_SERVER_ERROR is too large to be written. Writes of one
    group are in the log in the order of the calls. A caller that is cancelled does not take its write back.
    """

    def __init__(self, cluster: Cluster, lost: Callable[[int], None]) -> None:
        """`lost` is called with a partition whose last writes may be kept or not: it has to be loaded again.
        It neither blocks nor raises.
        """
        self.group_commit = GroupCommit(cluster, OFFSETS_TOPIC, lost)
        self.unreadable_batches = 0
        """Batches that could not be read when partitions were loaded."""

    async def run(self) -> None:
        """Send what is written, for ever: without this nothing is."""
        await self.group_commit.run()

    async def commit(
        self, group_id: str, table: OffsetTable, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        """Write offsets, all of them or none; `table` has them when they are durable."""
        if offsets:
            await self.group_commit.durable(self.begin_commit(group_id, table, offsets))

    def begin_commit(
        self,
        group_id: str,
        table: OffsetTable,
        offsets: Mapping[TopicPartition, CommittedOffset],
        partition: int | None = None,
        *,
        effect: Effect | None = None,
        part_of: TransactionOf | None = None,
        sender: str = NOBODY,
    ) -> Pending:
        """As `commit`, without waiting; of one offset at least. `partition` is the group's, if known. With
        `part_of` it is a part of a transaction, and has another `effect` than to commit them. The client
        `sender` has sent it.
        """
        records = (_offset_record(group_id, key, offset) for key, offset in offsets.items())
        return self._enter(group_id, records, effect or _Offsets(table, offsets), partition, part_of, sender)

    def begin_end(self, partition: int, marker: Marker, effect: Effect) -> Pending:
        """Write the marker of a transaction, behind all that was written to the partition before."""
        commits = self.group_commit
        return commits.enter(commits.place_at(partition), (), effect, 0, marker)

    async def delete_offsets(
        self, group_id: str, table: OffsetTable, keys: Collection[TopicPartition]
    ) -> None:
        """Write tombstones of offsets, in several batches if they are more than one of `pieces`: commits may
        come between these. `table` has lost each when it is durable.
        """
        for piece in pieces(group_id, keys):
            tombstones = (_offset_record(group_id, key, None) for key in piece)
            await self._write(group_id, tombstones, _Offsets(table, dict.fromkeys(piece)))

    async def write_group(self, group_id: str, metadata: GroupMetadata) -> None:
        """Write a group's generation."""
        await self._write(group_id, ((group_key(group_id), group_value(m)) for m in (metadata,)))

    async def delete_group(self, group_id: str, table: OffsetTable) -> None:
        """Write tombstones of a group and its offsets: in one batch, or, if they are many, the group last.

        Nobody may commit to the group meanwhile. `table` has lost each offset when that is durable, also
        when this has raised an error by then: nothing is shown that a restart would not find.
        """
        *before, last = list(pieces(group_id, table.keys())) or [()]
        for piece in before:
            tombstones = (_offset_record(group_id, key, None) for key in piece)
            await self._write(group_id, tombstones, _Offsets(table, dict.fromkeys(piece)))
        await self._write(group_id, _tombstones(group_id, last), _Offsets(table, dict.fromkeys(last)))

    async def settle(self, group_id: str) -> None:
        """Return when everything that was written to the group's partition before is durable."""
        await self.group_commit.settle(self.group_commit.place(group_id))

    async def load(self, partition: int) -> dict[str, LoadedGroup]:
        """The groups of a partition, as its log has them up to its high watermark.

        Raises KafkaError if it cannot be read now: to be tried again.
        """
        # What is on its way would take effect in tables that nobody looks at any more.
        place = self.group_commit.place_at(partition)
        await self.group_commit.settle(place)
        replay = Replay(partition)
        await load_partition(place.partition, replay)
        self.unreadable_batches += replay.unreadable_batches
        return replay.groups

    async def _write(self, group_id: str, records: Iterable[KeyValue], effect: Effect | None = None) -> None:
        await self.group_commit.durable(self._enter(group_id, records, effect or NoEffect()))

    def _enter(
        self,
        group_id: str,
        records: Iterable[KeyValue],
        effect: Effect,
        partition: int | None = None,
        part_of: TransactionOf | None = None,
        sender: str = NOBODY,
    ) -> Pending:
        commits = self.group_commit
        place = commits.place(group_id) if partition is None else commits.place_at(partition)
        try:
            encoded, size = _encoded(records, place)
        except TooLong as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None
        return commits.enter(place, encoded, effect, size, part_of, sender=sender)


class _Offsets:
    """A group's offsets on their way to its table; None is a tombstone."""

    __slots__ = ("_offsets", "_table")

    def __init__(self, table: OffsetTable, offsets: Mapping[TopicPartition, CommittedOffset | None]) -> None:
        self._table = table
        self._offsets = offsets

    def start(self) -> None:
        self._table.start(self._offsets)

    def settled(self, durable: bool) -> None:
        if durable:
            self._table.commit(self._offsets)
        else:
            self._table.give_up(self._offsets)


def _encoded(records: Iterable[KeyValue], place: Place) -> tuple[Sequence[KeyValue], int]:
    """The records and their size; no more than fit into one batch are made. Raises TooLong."""
    encoded: list[KeyValue] = []
    size, largest = 0, place.largest
    for record in records:
        size += size_of(record)
        if size > largest:
            raise TooLong(f"more than {largest} bytes are to be written at once")
        encoded.append(record)
    return encoded, size


def _offset_record(group_id: str, key: TopicPartition, offset: CommittedOffset | None) -> KeyValue:
    topic, partition = key
    value = None if offset is None else offset_value(offset)
    return offset_key(group_id, topic, partition), value


def _tombstones(group_id: str, offsets: Collection[TopicPartition]) -> Iterator[KeyValue]:
    """The tombstones of offsets and of their group, which comes last."""
    for key in offsets:
        yield _offset_record(group_id, key, None)
    yield group_key(group_id), None


def pieces(
    group_id: str, keys: Iterable[TopicPartition], most: float = math.inf
) -> Iterator[Sequence[TopicPartition]]:
    """Offsets, as many at a time as have tombstones in one batch that others can share, and `most`."""
    piece: list[TopicPartition] = []
    size = 0
    for topic, partition in keys:
        of_this = len(group_id) + len(topic) + RECORD_OVERHEAD_BYTES
        if piece and (size + of_this > MAX_BATCH_BYTES // 4 or len(piece) >= most):
            yield piece
            piece, size = [], 0
        piece.append((topic, partition))
        size += of_this
    if piece:
        yield piece
