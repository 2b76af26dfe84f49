"""The segments that a compaction writes: new addresses, through the ordinary write path.

Each is noted in the catalog (`/compacting/<address>`) before its members hear of it, so that a life that
finds it there has the members forget it. The epoch that it is announced with is used up in the catalog by the
same transaction: stores never know an epoch that the catalog does not (`gateway.log.recovery.verification`).
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import trio

from gateway.catalog import keys
from gateway.catalog.interface import Compare, CompareFailed
from gateway.log import partition as partition_module
from gateway.log.announcement import announcement_of
from gateway.log.compaction.left_over import Noted
from gateway.log.epoch_counter import EPOCH_TAKEN
from gateway.log.fences import Overtaken
from gateway.log.other_lives import what_is_unknown
from gateway.log.partition import Partition, PartitionState
from gateway.log.segment import NO_TIMESTAMP, Segment
from gateway.log.tail_cache import Batch
from mesh.protocol.opening import Opening
from mesh.protocol.writer import Writer
from wireproto.dafka.additions import Announcement
from wireproto.records.header import BatchHeader

if TYPE_CHECKING:
    from gateway.log.context import LogContext

WINDOW_BYTES = 4 * 1024 * 1024
"""Written and not yet durable: a small part of the gateway's window, so that producers always have theirs."""

WINDOW_RECORDS = 1000
"""The same in batches: a small part of what the sockets hold, or messages of others would be dropped."""

MAX_OUTPUTS = 10
"""New segments of one compaction: each is three of the 120 puts and deletes of the transaction that swaps
them in. Where there would be more, as ``segment.bytes`` is much smaller than when the log was written, the
last one is larger than that.
"""

PATIENCE_SECONDS = 60.0
"""A compaction whose stores take nothing for so long is given up, and tried again later."""


logger = logging.getLogger(__name__)


class Abandoned(Exception):
    """The compaction cannot go on; nothing of the log has changed. The text says why."""


class Output:
    """One new segment. `end` is the offset behind the last batch written to it."""

    def __init__(self, segment: Segment, writer: Writer) -> None:
        self.segment = segment
        self.writer = writer
        self.size = 0
        self.end = segment.start_offset
        self.max_timestamp = NO_TIMESTAMP

    def closed(self, cleaned_to: int, now_ms: int) -> Segment:
        """As the catalog is to have it."""
        segment = replace(self.segment, announced=True, cleaned_to=cleaned_to)
        last = self.writer.next_sequence - 1
        # Of aborted transactions no records are left: nobody needs to know of them.
        return segment.closed(self.end, last, self.max_timestamp, size=self.size, closed_ms=now_ms, aborted=0)


class OutputWriter:
    """Writes the segments of one compaction, one after the other (`mesh.producer.WriterOwner` of them)."""

    def __init__(
        self, context: "LogContext", partition: Partition, sources: Sequence[Segment], snapshot: bytes
    ) -> None:
        self.outputs: list[Output] = []
        self.noted: list[Noted] = []
        """What the catalog was told, or may have been."""
        self.notes: list[Compare] = []
        """What it was told, as the swap compares it."""
        self._context = context
        self._partition = partition
        self._sources = tuple(segment.address for segment in sources)
        self._start = sources[0].start_offset
        self._snapshot = snapshot
        self._changed = trio.Event()
        self._failed = ""

    # what the mesh says -----------------------------------------------------------------------------------

    def progressed(self, _writer: Writer, /) -> None:
        """Some of it is durable."""
        self._context.window_changed()
        self._change()

    def fenced(self, _writer: Writer, reason: str, /) -> None:
        """A store has sealed it, or its window was given up."""
        self._failed = reason
        self._change()

    def _told(self, opening: Opening) -> None:
        unknown = what_is_unknown(self._context, self._partition, opening)
        if unknown and self._partition.available:
            name = f"{self._partition.topic.name}-{self._partition.index}"
            logger.error("%s serves nothing: %s", name, unknown)
            self._partition.withhold(unknown)
        if opening.hopeless:
            self._failed = f"its stores refuse segment {opening.address}"
        self._change()

    def _change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    # writing ----------------------------------------------------------------------------------------------

    async def append(self, header: BatchHeader, batch: Batch) -> None:
        """Write one batch. Raises Abandoned."""
        output = self.outputs[-1] if self.outputs else None
        if output is None or self._is_full(output, len(batch)):
            output = await self._begin()
        while output.writer and (
            output.writer.bytes + len(batch) > WINDOW_BYTES or len(output.writer) >= WINDOW_RECORDS
        ):
            await self._wait()
        self.check()
        self._context.producer.append(output.writer, batch)
        self._context.window_changed()
        output.size += len(batch)
        output.end = header.last_offset + 1
        output.max_timestamp = max(output.max_timestamp, header.max_timestamp)

    def _is_full(self, output: Output, size: int) -> bool:
        settings = self._partition.topic.settings
        most = partition_module.MAX_SEGMENT_BATCHES
        if output.writer.next_sequence >= most:
            return True
        return output.size + size > settings.segment_bytes and len(self.outputs) < MAX_OUTPUTS

    async def finish(self) -> None:
        """Return when all of it is durable on w members. Raises Abandoned."""
        for output in self.outputs:
            while output.writer:
                await self._wait()
        self.check()

    def forget(self) -> None:
        """No acknowledgement is expected any more."""
        for output in self.outputs:
            self._context.producer.forget(output.writer)
        self._context.window_changed()

    def check(self) -> None:
        """Raises Abandoned when going on is of no use."""
        if self._failed:
            raise Abandoned(self._failed)
        if self._partition.deleted or self._partition.state is not PartitionState.READY:
            raise Abandoned(self._partition.reason)

    async def _wait(self) -> None:
        self.check()
        with trio.move_on_after(PATIENCE_SECONDS) as scope:
            await self._changed.wait()
        if scope.cancelled_caught:
            raise Abandoned(f"its stores have taken nothing for {PATIENCE_SECONDS:g} s")
        self.check()

    # opening ----------------------------------------------------------------------------------------------

    async def _begin(self) -> Output:
        """The next new segment: noted, then announced."""
        context, partition = self._context, self._partition
        members = context.members_for(partition)
        w = context.w_for(partition, members)
        if not members or not context.stores.enough(members, w):
            raise Abandoned("too few stores are there for a new segment")
        start = self.outputs[-1].end if self.outputs else self._start
        address = context.producer.requests.new_id()
        segment = Segment(address, partition.leader_epoch, start, members, w, context.now_ms())
        await self._note(segment)
        writer = context.producer.start(address, partition.topic.name, members, w, self)
        output = Output(segment, writer)
        self.outputs.append(output)
        at = context.place_of(keys.compacting_key(address))
        context.producer.segments.open(self._announcement(segment), self._told, at)
        return output

    async def _note(self, segment: Segment) -> None:
        """Put the address, and its epoch as used, into the catalog. Raises Abandoned."""
        partition, catalog, fences = self._partition, self._context.catalog, self._context.fences
        key = partition.fence.key
        noted = Noted(segment.address, segment.members, segment.w, partition.log, segment.epoch)
        self.noted.append(noted)
        while True:
            await fences.free([partition])
            self.check()
            entry = catalog.get(key)
            if entry is None:
                raise Abandoned("the topic is being deleted")
            record = keys.unpack(entry.value)
            record["next_epoch"] = max(record["next_epoch"], segment.epoch + 1)
            partition.next_epoch = max(partition.next_epoch, record["next_epoch"])
            note = noted.put()
            compares = [Compare(one, 0) for one in note]
            puts = {key: keys.pack(record), **note}
            try:
                revision = await fences.transact([partition], puts, (), compares, epochs=[segment.epoch])
            except CompareFailed as failed:
                if failed.key == keys.LEADER_EPOCH:
                    raise Abandoned(EPOCH_TAKEN) from None
                raise
            except Overtaken:
                continue
            self.notes += [Compare(one, revision) for one in note]
            self.check()
            if partition.leader_epoch == segment.epoch and self._is_used_up(key, segment.epoch):
                return
            raise Abandoned("the partition was recovered meanwhile")

    def _is_used_up(self, key: str, epoch: int) -> bool:
        entry = self._context.catalog.get(key)
        return entry is not None and keys.unpack(entry.value)["next_epoch"] > epoch

    def _announcement(self, segment: Segment) -> Announcement:
        compaction = self.outputs[0].segment.address
        return announcement_of(
            self._context,
            self._partition,
            segment,
            self._snapshot,
            compaction=compaction,
            replaces=self._sources,
        )
