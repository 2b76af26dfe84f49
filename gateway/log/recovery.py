"""Recovery of partitions when a gateway life begins (architecture: start and recovery of a partition).

1. SEAL goes to the members of every open segment; n-w+1 of them decide where it ends.
2. One catalog transaction closes all decided segments (an empty one is dropped), then CLOSE is repeated to
   members.
3. The idempotence state is what the last segment's announcement held plus that segment's rows.

So a start reads neither the log nor anything that grows with it. Until 2 is done a partition takes no
produces and knows no latest offset; until 3 is done it takes no produces.
"""

import base64
import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import trio

from gateway.log import catalog_keys as keys
from gateway.log.epochs import LeaderEpochs
from gateway.log.idempotence import ProducerState
from gateway.log.idempotence_snapshot import InvalidSnapshot
from gateway.log.opener import partition_record
from gateway.log.partition import Partition, PartitionState
from gateway.log.segment import NO_TIMESTAMP, Segment
from gateway.log.tail_cache import HotBatches
from mesh import crash_points
from mesh.protocol.recovery import Seal
from mesh.reader import NotServed
from wireproto.kafka.errors import KafkaError
from wireproto.records.row import ROW_BYTES, Row

if TYPE_CHECKING:
    from gateway.log.context import LogContext

PARTITIONS_AT_ONCE = 256
"""Partitions whose seals are one round, and whose closes are one transaction."""

REBUILDS_AT_ONCE = 16
"""Partitions whose idempotence state is read at the same time."""

WAITING_LOGGED_SECONDS = 5.0
"""How often it is said for which stores a recovery waits."""

AGAIN_SECONDS = 1.0
"""Pause before a partition that lost its segment is recovered again."""

logger = logging.getLogger(__name__)


class Recovery:
    """Recovers partitions: all of them at the start of a life, single ones when they lose their segment."""

    def __init__(self, context: "LogContext") -> None:
        self.waiting_for: tuple[str, ...] = ()
        """Stores whose answers recovery waits for now."""
        self._context = context
        self._again: set[Partition] = set()
        self._work = trio.Event()
        self._rebuilds = trio.CapacityLimiter(REBUILDS_AT_ONCE)
        context.recover_again = self._enqueue

    def _enqueue(self, partition: Partition) -> None:
        self._again.add(partition)
        self._work.set()

    async def run(self) -> None:
        """Recover again whatever lost its segment, for ever."""
        while True:
            await self._work.wait()
            self._work = trio.Event()
            await trio.sleep(AGAIN_SECONDS)
            partitions, self._again = list(self._again), set()
            await self.recover(partitions)

    async def recover(self, partitions: Sequence[Partition]) -> None:
        """Bring partitions to READY (or FAILED, with the reason), in rounds."""
        for start in range(0, len(partitions), PARTITIONS_AT_ONCE):
            await self._recover_round(partitions[start : start + PARTITIONS_AT_ONCE])

    async def _recover_round(self, partitions: Sequence[Partition]) -> None:
        seals: dict[str, Seal] = {}
        for partition in partitions:
            self._load(partition)
            for segment in partition.closed:
                if segment.is_open:
                    seals[segment.address] = Seal(segment.address, segment.members, segment.w)
        if seals:
            await self._seal(list(seals.values()))
            crash_points.reach("between-copy-and-catalog")
            await self._close(partitions, seals)
        async with trio.open_nursery() as nursery:
            for partition in partitions:
                self._set_ends(partition)
                nursery.start_soon(self._rebuild, partition)

    def _load(self, partition: Partition) -> None:
        """Everything that the catalog says of a partition; nothing of an earlier attempt is kept."""
        catalog, topic_id = self._context.catalog, partition.topic.id
        prefix = f"{keys.segments_prefix(topic_id)}{partition.index:06d}/"
        partition.state = PartitionState.RECOVERING
        partition.closed = [Segment.unpack(entry.value) for entry in catalog.range(prefix)]
        partition.current, partition.rolling = None, []
        partition.hot = HotBatches(self._context.tail_cache)
        entry = catalog.get(keys.partition_key(topic_id, partition.index))
        if entry is not None:
            record = keys.unpack(entry.value)
            partition.epochs = LeaderEpochs.from_list(record["epochs"])
            partition.leader_epoch = record["next_epoch"]
            partition.log_start_offset = record["log_start"]

    async def _seal(self, seals: list[Seal]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._say_what_is_missing, seals)
            await self._context.producer.seal(seals)
            nursery.cancel_scope.cancel()
        self.waiting_for = ()

    async def _say_what_is_missing(self, seals: list[Seal]) -> None:
        while True:
            await trio.sleep(WAITING_LOGGED_SECONDS)
            missing = {member for seal in seals if not seal.decidable for member in seal.missing()}
            self.waiting_for = tuple(sorted(missing))
            logger.warning("recovery waits for the stores %s: start them", ", ".join(self.waiting_for))

    async def _close(self, partitions: Sequence[Partition], seals: dict[str, Seal]) -> None:
        puts: dict[str, bytes] = {}
        deletes: list[str] = []
        for partition in partitions:
            changed = False
            for index, segment in enumerate(partition.closed):
                if segment.is_open:
                    partition.closed[index] = self._close_one(partition, segment, seals[segment.address])
                    changed = True
            if changed:
                self._record(partition, puts, deletes)
        await self._context.catalog.transact([], puts, deletes)

    @staticmethod
    def _close_one(partition: Partition, segment: Segment, seal: Seal) -> Segment:
        end, row_bytes = seal.end()
        if end < 0:
            return segment.closed(segment.start_offset, -1, NO_TIMESTAMP)
        row = Row.unpack(row_bytes)
        logger.info(
            "segment %s of %s-%d closed at offset %d",
            segment.address,
            partition.topic.name,
            partition.index,
            row.last_offset + 1,
        )
        return segment.closed(row.last_offset + 1, end, row.running_max_timestamp)

    def _record(self, partition: Partition, puts: dict[str, bytes], deletes: list[str]) -> None:
        """The closed segments for the catalog; an empty one leaves the chain, and its epoch with it."""
        topic_id, kept = partition.topic.id, []
        for segment in partition.closed:
            key = keys.segment_key(topic_id, partition.index, segment.start_offset, segment.address)
            self._context.closer.add(segment, puts)
            if segment.last_sequence == -1:
                deletes.append(key)
            else:
                puts[key] = segment.pack()
                kept.append(segment)
        partition.closed = kept
        live = {segment.epoch for segment in kept}
        partition.epochs = LeaderEpochs(pair for pair in partition.epochs.to_list() if pair[0] in live)
        record = keys.unpack(partition_record(partition))
        record["next_epoch"] = partition.leader_epoch
        puts[keys.partition_key(topic_id, partition.index)] = keys.pack(record)

    @staticmethod
    def _set_ends(partition: Partition) -> None:
        end = partition.closed[-1].end_offset if partition.closed else None
        if end is None:
            end = partition.log_start_offset
        partition.next_offset = partition.high_watermark = end

    # idempotence ------------------------------------------------------------------------------------------

    async def _rebuild(self, partition: Partition) -> None:
        async with self._rebuilds:
            try:
                partition.producers = await self._producers(partition)
            except (NotServed, KafkaError, ValueError, KeyError) as error:
                partition.fail(f"its idempotence state cannot be read: {error}")
                logger.error("partition %s-%d: %s", partition.topic.name, partition.index, partition.reason)
                self._enqueue(partition)
                return
        partition.state = PartitionState.READY

    async def _producers(self, partition: Partition) -> ProducerState:
        """The snapshot in the last segment's announcement, and that segment's rows. Raises NotServed."""
        if not partition.closed:
            return ProducerState()
        segment = partition.closed[-1]
        now_ms = self._context.now_ms()
        reader = self._context.reader
        announcement = await reader.announcement(segment.members, segment.address)
        snapshot = base64.b64decode(json.loads(announcement.details)["producers"])
        try:
            state = ProducerState.from_snapshot(snapshot, now_ms) if snapshot else ProducerState()
        except InvalidSnapshot as error:
            raise ValueError(str(error)) from None
        rows = await reader.rows(segment.members, segment.address, 0, segment.last_sequence or 0)
        for start in range(0, len(rows), ROW_BYTES):
            state.apply_row(Row.unpack(rows[start : start + ROW_BYTES]), now_ms)
        return state
