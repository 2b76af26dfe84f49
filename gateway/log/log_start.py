"""Moving log starts: the catalog first, then whole closed segments go from the chains and from the stores.

Rule: the new log start is durable in the catalog before any DELETE is sent. One transaction moves it, takes
the closed segments that end at or below it out of the chain, and puts a tombstone for each, which stays until
every member has confirmed (`gateway.cluster.deletion`). A log start within a segment is kept as an offset;
that segment goes when it lies below a later one, the open segment once it is closed.

Rule: a segment whose end the members have yet to hear, because the next one waits for that
(`gateway.log.closer`), is dropped only after they have.

Rule: a segment is dropped from memory only with its entry in the catalog. One that the catalog has no more
was replaced by a compaction, which is about to say so to the chain: it stays, and the next move looks again.

What waits in the transaction may be overtaken by others who write the same keys: an opening segment, a
replaced member, another move. Each is compared, and then everything is looked at anew. What an opening
segment puts after this one has `Partition.next_log_start` in it, so it never takes a log start back.
"""

import logging
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from gateway.catalog import keys
from gateway.catalog.interface import Compare, CompareFailed, Entry
from gateway.log.epochs import LeaderEpochs
from gateway.log.fences import Overtaken
from gateway.log.notes import tombstone
from gateway.log.partition import Partition, PartitionState
from gateway.log.segment import Segment
from mesh import crash_points
from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from gateway.log.context import LogContext

PARTITIONS_AT_ONCE = 16
"""Log starts that move in one transaction: each is two of its puts, and two of its compares."""

SEGMENTS_AT_ONCE = 24
"""Segments that leave their chains in one transaction: each is three of its puts and deletes."""

SNAPSHOT_BYTES = 256 * 1024
"""Bytes of puts in one transaction above which no other partition's come: those of the producers of a log
that is empty are the large ones.
"""

KEPT_SECONDS = 2.0
"""How long a DeleteRecords waits for the stores to remember what it has moved; then it is to ask again."""

HIGH_WATERMARK = -1
"""As the offset of a DeleteRecords: everything that is visible (`DeleteRecordsRequest.HIGH_WATERMARK`)."""

TOO_FEW = ErrorCode.REQUEST_TIMED_OUT
"""What is answered of a log start that has moved, and that too few stores remember: retriable."""

logger = logging.getLogger(__name__)


class _Move(NamedTuple):
    """What one partition has in the transaction."""

    partition: Partition
    start: int
    dropped: list[Segment]


class LogStarts:
    """Moves the log starts of one gateway. Counts what was dropped since it began."""

    def __init__(self, context: "LogContext") -> None:
        self.segments_removed = 0
        self.bytes_removed = 0
        """The bytes of removed segments whose size is known."""
        self._context = context

    async def delete_records(self, wanted: Mapping[Partition, int]) -> dict[Partition, int | KafkaError]:
        """As DeleteRecords (`ReplicaManager.deleteRecordsOnLocalLog`): delete what lies below these offsets.

        -1 is the high watermark. Gives for each partition its log start then, which stays where it is when
        it is higher already, or why it is refused: OFFSET_OUT_OF_RANGE, POLICY_VIOLATION,
        INVALID_TOPIC_EXCEPTION, NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION; or REQUEST_TIMED_OUT:
        too few stores remember it yet.
        """
        answers: dict[Partition, int | KafkaError] = {}
        starts: dict[Partition, int] = {}
        for partition, offset in wanted.items():
            answers[partition] = outcome = _target(partition, offset)
            if isinstance(outcome, int):
                starts[partition] = outcome
        await self.move(starts)
        remembered = not starts or await self._context.copies.keep(KEPT_SECONDS)
        for partition, start in starts.items():
            if partition.log_start_offset >= start:
                answers[partition] = partition.log_start_offset if remembered else KafkaError(TOO_FEW)
            elif partition.deleted:
                answers[partition] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                answers[partition] = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, partition.reason)
        return answers

    async def move(self, starts: Mapping[Partition, int]) -> None:
        """Move log starts up to these offsets, and drop the closed segments below; durable when it returns.

        None may lie above its partition's high watermark. One that is higher already stays, and what lies
        below it is dropped. Partitions that do not serve are left alone.
        """
        waiting = iter(starts.items())
        while piece := dict(islice(waiting, PARTITIONS_AT_ONCE)):
            # A caller that goes away in the middle must not leave memory and catalog apart.
            with trio.CancelScope(shield=True):
                while await self._move_some(piece):
                    pass

    async def _move_some(self, starts: Mapping[Partition, int]) -> bool:
        """One transaction; whether something may be left to do."""
        await self._context.fences.free(starts)
        compares: list[Compare] = []
        puts: dict[str, bytes] = {}
        deletes: list[str] = []
        moves: list[_Move] = []
        room = SEGMENTS_AT_ONCE
        for partition, offset in starts.items():
            move = self._plan(partition, offset, room)
            if move is None:
                continue
            room -= len(move.dropped)
            moves.append(move)
            self._put_start(move, puts)
            for segment in move.dropped:
                self._put_drop(move, segment, compares, puts, deletes)
            if sum(map(len, puts.values())) > SNAPSHOT_BYTES:
                break
        if not moves:
            return False
        try:
            await self._context.fences.transact([move.partition for move in moves], puts, deletes, compares)
        except (CompareFailed, Overtaken):
            return True
        crash_points.reach("after-log-start")
        for move in moves:
            self._moved(move)
        self._context.segments_dropped()
        return True

    def _plan(self, partition: Partition, offset: int, room: int) -> _Move | None:
        if partition.deleted or partition.state is not PartitionState.READY:
            return None
        if self._record(partition) is None:
            return None  # another gateway has deleted the topic, and this one has not heard of it yet
        start = max(offset, partition.log_start_offset)
        dropped: list[Segment] = []
        for segment in partition.chain.closed[:room]:
            end = segment.end_offset
            if end is None or end > start or self._context.closer.is_waited_for(segment.address):
                break
            if self._entry(partition, segment) is None:
                break
            dropped.append(segment)
        if start == partition.log_start_offset and not dropped:
            return None
        if self._context.catalog.get(partition.fence.key) is None:
            return None  # another gateway has deleted the topic
        return _Move(partition, start, dropped)

    def _record(self, partition: Partition) -> Entry | None:
        """The record of a partition that was written to, as the catalog has it."""
        return self._context.catalog.get(keys.partition_key(partition.topic.id, partition.index))

    def _entry(self, partition: Partition, segment: Segment) -> Entry | None:
        """A segment as the catalog has it."""
        topic_id, start = partition.topic.id, segment.start_offset
        return self._context.catalog.get(keys.segment_key(topic_id, partition.index, start, segment.address))

    def _put_start(self, move: _Move, puts: dict[str, bytes]) -> None:
        partition, start, dropped = move
        entry = self._record(partition)
        assert entry is not None, "a log of which the catalog has nothing is not planned for"
        key = entry.key
        record = keys.unpack(entry.value)
        epochs = LeaderEpochs.from_list(record["epochs"])
        epochs.truncate_front(start)
        record |= {"log_start": max(start, record["log_start"]), "epochs": epochs.to_list()}
        partition.log_start_moves(start)
        puts[key] = keys.pack(record)
        if dropped and len(dropped) == len(partition.chain.closed):
            puts[keys.producers_key(partition.topic.id, partition.index)] = self._producers(partition)

    def _producers(self, partition: Partition) -> bytes:
        """The idempotence state behind the last closed segment, for a log that may be without any."""
        opened = partition.chain.open_segments()
        if opened:
            return opened[0].snapshot
        return partition.producers.snapshot(self._context.now_ms())

    def _put_drop(
        self,
        move: _Move,
        segment: Segment,
        compares: list[Compare],
        puts: dict[str, bytes],
        deletes: list[str],
    ) -> None:
        entry = self._entry(move.partition, segment)
        assert entry is not None, "what the catalog has no more is not dropped"
        compares.append(Compare(entry.key, entry.mod_revision))
        # Who keeps it is what the catalog says: one of them may have been replaced a moment ago.
        members = Segment.unpack(entry.value).keepers
        more: dict[str, Any] = {}
        if segment is move.dropped[-1] and len(move.dropped) == len(move.partition.chain.segments()):
            more["last"] = True  # nothing else tells the stores where the log ends
        puts |= tombstone(segment.address, move.partition.log, segment.epoch, members, **more)
        deletes += [entry.key, keys.closing_key(segment.address)]

    def _moved(self, move: _Move) -> None:
        partition, start, dropped = move
        partition.start_moved(start, {segment.address for segment in dropped})
        self.segments_removed += len(dropped)
        self.bytes_removed += sum(max(0, segment.size) for segment in dropped)
        logger.info(
            "%s-%d begins at offset %d now: %d segments dropped",
            partition.topic.name, partition.index, partition.log_start_offset, len(dropped),
        )  # fmt: skip


def _target(partition: Partition, offset: int) -> int | KafkaError:
    """Where a DeleteRecords moves the log start to, in Kafka's order of checks."""
    name = f"{partition.topic.name}-{partition.index}"
    if partition.topic.internal:
        return KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Cannot delete records of internal topic {partition.topic.name}",
        )
    if partition.deleted:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not partition.available:
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, partition.reason)
    if not partition.topic.settings.cleanup_delete:
        return KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"Records of partition {name} can not be deleted due to the configured policy",
        )
    target = partition.high_watermark if offset == HIGH_WATERMARK else offset
    if target < 0 or target > partition.high_watermark:
        return KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"The offset {offset} for partition {name} is not valid",
        )
    return target
