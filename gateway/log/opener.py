"""Opening segments, many at a time: one catalog transaction and one round of OPENs for all that wait.

A partition that appends to a new segment holds its batches in the window meanwhile. A segment that follows
another of the same life waits until that one is durable to its last record; closing the one and inserting the
other is then one transaction. The order is fixed: catalog first, then CLOSE of the one before and OPEN on the
members' disks, then the first RECORD, so that a crash leaves either nothing, or a segment that recovery can
seal; and so that the stores never know more of a log than the catalog (`gateway.log.verification`). That the
members have confirmed is noted in the catalog behind that, off the producers' path.

A refusal is final: the store knows a newer epoch, or belongs to another cluster, so this catalog is not the
one that the store has served. The partition serves nothing and says so; what the transaction had put is taken
back, so that trying again does not climb over the store's epoch.
"""

import base64
import json
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import trio

from gateway.log import catalog_keys as keys
from gateway.log.closer import Closer
from gateway.log.partition import OpenSegment, Partition, PartitionState
from gateway.log.segment import Segment
from wireproto.dafka.additions import Announcement

if TYPE_CHECKING:
    from gateway.log.context import LogContext

MAX_OPENS_AT_ONCE = 256
"""Segments in one transaction and one OPEN."""

MAX_SNAPSHOT_BYTES_AT_ONCE = 8 * 1024 * 1024
"""Idempotence snapshots in one OPEN: they are encoded on the loop."""

NEXT_STEP = "restore the catalog that belongs to this store, or start once with --rebuild-catalog"

logger = logging.getLogger(__name__)


class Opener:
    """Owns the task that opens segments for all partitions."""

    def __init__(self, context: "LogContext") -> None:
        self.opened = 0
        self._context = context
        self._waiting: dict[Partition, OpenSegment] = {}
        self._work = trio.Event()

    def start(self, partition: Partition, now_ms: int) -> OpenSegment:
        """A new open segment at the partition's end, to be announced as soon as may be."""
        context = self._context
        members = context.members_for(partition)
        w = max(partition.topic.settings.min_insync_replicas, len(members) // 2 + 1)
        address = context.producer.requests.new_id()
        segment = Segment(
            address, partition.leader_epoch, partition.next_offset, members, min(w, len(members)), now_ms
        )
        writer = context.producer.start(address, partition.topic.name, members, segment.w, partition)
        opening = OpenSegment(segment, writer)
        # Taken before the segment's first batch: what is not durable must not be remembered as appended.
        opening.snapshot = partition.producers.snapshot(now_ms) if partition.producers.count else b""
        self._waiting[partition] = opening
        self.drained(partition)
        return opening

    def drained(self, partition: Partition) -> None:
        """Open the partition's next segment now if everything before it is durable."""
        opening = self._waiting.get(partition)
        if opening is not None and partition.high_watermark >= opening.segment.start_offset:
            self._work.set()

    def forget(self, partition: Partition) -> None:
        """The partition failed: what it waited for will not be opened."""
        self._waiting.pop(partition, None)

    async def run(self) -> None:
        """Open what waits, for ever. A failure of the catalog ends the process."""
        while True:
            await self._work.wait()
            self._work = trio.Event()
            ready = self._take_ready()
            if ready:
                await self._open(ready)

    def _take_ready(self) -> dict[Partition, OpenSegment]:
        """The openings whose predecessors are durable, as many as go into one round."""
        ready: dict[Partition, OpenSegment] = {}
        room = MAX_SNAPSHOT_BYTES_AT_ONCE
        for partition, opening in self._waiting.items():
            if (
                partition.state is not PartitionState.READY
                or partition.high_watermark < opening.segment.start_offset
            ):
                continue
            if len(ready) == MAX_OPENS_AT_ONCE or (ready and len(opening.snapshot) > room):
                self._work.set()
                break
            room -= len(opening.snapshot)
            ready[partition] = opening
        for partition in ready:
            del self._waiting[partition]
        return ready

    async def _open(self, ready: dict[Partition, OpenSegment]) -> None:
        puts: dict[str, bytes] = {}
        closed: list[Segment] = []
        for partition, opening in ready.items():
            closed += self._close_rolled(partition, puts)
            self._insert(partition, opening, puts)
        await self._context.catalog.transact([], puts)
        await self._context.closer.begin_with_enough(closed)
        # One that was deleted or failed meanwhile is announced to nobody.
        ready = {p: opening for p, opening in ready.items() if _goes_on(p, opening)}
        announcements = [self._announcement(partition, opening) for partition, opening in ready.items()]
        if not announcements:
            return
        refused = await self._context.producer.open(announcements)
        self.opened += len(ready) - len(refused)
        for partition, opening in ready.items():
            reason = refused.get(opening.segment.address)
            if reason is not None:
                await self._refused(partition, opening, reason)
        await self._note_announced(
            [entry for entry in ready.items() if entry[1].segment.address not in refused]
        )

    async def _note_announced(self, opened: list[tuple[Partition, OpenSegment]]) -> None:
        puts = {}
        for partition, opening in opened:
            if _goes_on(partition, opening):
                opening.segment = replace(opening.segment, announced=True)
                puts[_segment_key(partition, opening.segment)] = opening.segment.pack()
        if puts:
            await self._context.catalog.transact([], puts)

    async def _refused(self, partition: Partition, opening: OpenSegment, reason: str) -> None:
        if partition.current is not opening or partition.deleted:
            return
        reason = f"{reason}; {NEXT_STEP}"
        logger.error("%s-%d serves no produces: %s", partition.topic.name, partition.index, reason)
        partition.fail(reason)
        record = keys.unpack(partition_record(partition))
        record["next_epoch"] = partition.leader_epoch
        record["epochs"] = [pair for pair in record["epochs"] if pair[0] != opening.segment.epoch]
        await self._context.catalog.transact(
            [],
            {keys.partition_key(partition.topic.id, partition.index): keys.pack(record)},
            [_segment_key(partition, opening.segment)],
        )

    def _close_rolled(self, partition: Partition, puts: dict[str, bytes]) -> list[Segment]:
        """The segments before this one are durable to their end: close them in the same transaction."""
        closed = []
        for rolled in partition.rolling:
            follower = self._start_after(partition, rolled)
            segment = rolled.segment.closed(follower, rolled.writer.next_sequence - 1, rolled.max_timestamp)
            puts[_segment_key(partition, segment)] = segment.pack()
            Closer.note(segment, puts)
            closed.append(segment)
            self._context.producer.forget(rolled.writer)
        partition.closed += closed
        partition.rolling = []
        return closed

    @staticmethod
    def _start_after(partition: Partition, rolled: OpenSegment) -> int:
        later = partition.rolling[partition.rolling.index(rolled) + 1 :]
        following = later[0] if later else partition.current
        return following.segment.start_offset if following else partition.next_offset

    @staticmethod
    def _insert(partition: Partition, opening: OpenSegment, puts: dict[str, bytes]) -> None:
        segment = opening.segment
        partition.epochs.assign(segment.epoch, segment.start_offset)
        puts[_segment_key(partition, segment)] = segment.pack()
        puts[keys.partition_key(partition.topic.id, partition.index)] = partition_record(partition)

    def _announcement(self, partition: Partition, opening: OpenSegment) -> Announcement:
        topic = partition.topic
        segment = opening.segment
        details = json.dumps(
            {
                "topic_id": topic.id.hex(),
                "partition": partition.index,
                "partitions": len(topic.partitions),
                "replication_factor": topic.replication_factor,
                "configs": topic.configs,
                "epochs": partition.epochs.to_list(),
                "log_start": partition.log_start_offset,
                "opened_ms": segment.opened_ms,
                "producer_id_floor": self._context.producer_ids.floor,
                "producers": base64.b64encode(opening.snapshot).decode(),
            }
        ).encode()
        return Announcement(
            segment.address,
            topic.name,
            self._context.cluster_id,
            log_name(topic.id, partition.index),
            segment.epoch,
            segment.start_offset,
            segment.members,
            segment.w,
            details,
        )


def log_name(topic_id: bytes, index: int) -> str:
    """A partition's name for good, as the stores keep its highest epoch."""
    return f"{topic_id.hex()}/{index}"


def _goes_on(partition: Partition, opening: OpenSegment) -> bool:
    """Whether the partition still appends to this segment; one that failed keeps it, to be read."""
    return partition.state is PartitionState.READY and partition.current is opening and not partition.deleted


def partition_record(partition: Partition) -> bytes:
    """The catalog's value of a partition that was written to."""
    return keys.pack(
        {
            "next_epoch": partition.leader_epoch + 1,
            "epochs": partition.epochs.to_list(),
            "log_start": partition.log_start_offset,
        }
    )


def _segment_key(partition: Partition, segment: Segment) -> str:
    return keys.segment_key(partition.topic.id, partition.index, segment.start_offset, segment.address)
