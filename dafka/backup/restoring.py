"""Writes a backup into the empty stores of a new cluster, and makes its catalog.

Rules:

* a segment is noted in the catalog before the first store hears of it, and the note goes in the transaction
  that puts it into its chain: what a killed run had begun is deleted by the next one before it goes on;
* the next segment of a log is announced after w members have heard the end of the one before it, as in every
  gateway (`gateway.log.closer`);
* what is appended to a log that is cut apart (`dafka.backup.tails`) is a segment of its own;
* what is read is checked before it is written: the object by its SHA-256, its batches by their number and
  offsets.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import trio

from dafka.backup.content import Damaged, checked, digest
from dafka.backup.manifest import UNKNOWN, Manifest, Part, SavedSegment, SavedTopic, object_name
from dafka.backup.plan import CannotRestore, PlannedPartition, segment_epoch
from dafka.backup.tails import Tail, Tails
from dafka.backup.target import NotThere, Target
from gateway.catalog import keys
from gateway.catalog.interface import unchanged
from gateway.catalog.pieces import in_transactions
from gateway.cluster.rebuild import LOST_BLOCKS, SPARE_EPOCHS
from gateway.cluster.topics import pack_topic
from gateway.configs.effective import effective_topic_configs
from gateway.log.closer import Closer
from gateway.log.compaction.left_over import Noted, noted_outputs
from gateway.log.idempotence.producer_ids import BLOCK
from gateway.log.idempotence.snapshot import InvalidSnapshot, first_open
from gateway.log.segment import NO_TIMESTAMP, Segment
from mesh import crash_points
from mesh.protocol.opening import Opening
from mesh.protocol.writer import Writer
from wireproto.dafka.additions import STATUS_DONE, Announcement, DeleteEntry
from wireproto.records.header import read_header

if TYPE_CHECKING:
    from gateway.log.context import LogContext

LOGS_AT_ONCE: Final = 4
"""Partitions that are written at the same time: each has an object in memory."""

WINDOW_BYTES: Final = 8 * 1024 * 1024
"""Bytes of one segment that are written and not yet durable."""

WINDOW_RECORDS: Final = 1000
"""The same in batches: a small part of what the sockets hold."""

PATIENCE_SECONDS: Final = 60.0
"""A restore whose stores take nothing for so long ends."""

logger = logging.getLogger(__name__)


class Restoring:
    """One restore. `context` is that of a gateway's life whose catalog is not served; `say` is called with a
    line for people now and then.
    """

    def __init__(
        self,
        context: LogContext,
        target: Target,
        manifest: Manifest,
        planned: Sequence[PlannedPartition],
        say: Callable[[str], None],
        before_ms: int | None = None,
    ) -> None:
        self.context = context
        self._catalog = context.catalog
        self._target = target
        self._manifest = manifest
        self._planned = planned
        self._epoch = manifest.leader_epoch + SPARE_EPOCHS
        self._before_ms = before_ms
        self._tails: dict[PlannedPartition, Tail] = {}
        """What comes after what a log had."""
        self._say = say
        self._topics = {topic.name: topic for topic in manifest.topics}
        self._w: dict[str, int] = {}
        self._limit = trio.Semaphore(LOGS_AT_ONCE)
        self.segments = 0
        self.bytes = 0

    async def run(self) -> None:
        """Write everything. Raises CannotRestore, TargetFailed."""
        await self._forget_begun()
        await self._find_tails()
        await self._put_cluster()
        await self._put_missing(self._manifest.security_entries.items())
        await self._put_missing(map(topic_entry, self._manifest.topics))
        async with trio.open_nursery() as nursery:
            for each in self._planned:
                await self._limit.acquire()
                nursery.start_soon(self._partition, each)

    async def _forget_begun(self) -> None:
        """Have stores forget the segments that an earlier run had begun."""
        for noted in noted_outputs(self.context):
            key = keys.compacting_key(noted.address)
            entry = DeleteEntry(noted.address, noted.log, noted.epoch, self.context.place_of(key))
            for member in noted.members:
                (status,) = await self.context.producer.segments.delete(member, [entry])
                if status.status != STATUS_DONE:
                    raise CannotRestore(
                        f"store {self.context.stores.name(member)} does not delete what an earlier run had "
                        f"begun (status {status.status}): its log says why"
                    )
            await self.change(noted.log, {}, [key])

    async def _find_tails(self) -> None:
        manifest = self._manifest
        tails = Tails(
            self._planned,
            self._before_ms,
            manifest.taken_ms,
            self._epoch,
            self.read_part,
            self.read_snapshot,
            self._say,
        )
        self._tails = await tails.find()

    async def _put_cluster(self) -> None:
        """The counters, far enough above those of the backup, and broker configs."""
        if self._catalog.get(keys.LEADER_EPOCH) is not None:
            return
        manifest = self._manifest
        puts = {
            keys.LEADER_EPOCH: keys.pack(self._epoch),
            keys.PRODUCER_IDS: keys.pack(manifest.producer_ids + LOST_BLOCKS * BLOCK),
            **{key: keys.pack(value) for key, value in manifest.broker_configs.items()},
        }
        await self._catalog.transact(unchanged(self._catalog, puts), puts)

    async def _put_missing(self, entries: Iterable[tuple[str, bytes]]) -> None:
        """Those that an earlier run has put are there."""
        for piece in in_transactions(entries):
            new = {key: value for key, value in piece.items() if self._catalog.get(key) is None}
            if new:
                await self._catalog.transact(unchanged(self._catalog, new), new)

    # one log ----------------------------------------------------------------------------------------------

    async def _partition(self, planned: PlannedPartition) -> None:
        try:
            topic = self._topics[planned.saved.topic]
            topic_id, index = bytes.fromhex(topic.id), planned.saved.index
            key = keys.partition_key(topic_id, index)
            tail = self._tails.get(planned)
            if self._catalog.get(key) is None:
                record = planned.record()
                if tail is not None:
                    epochs = [*record["epochs"], [self._epoch, planned.end]]
                    record = {**record, "next_epoch": self._epoch + 1, "epochs": epochs}
                puts = {key: keys.pack(record)}
                if not planned.segments and planned.saved.producers:
                    puts[keys.producers_key(topic_id, index)] = base64.b64decode(planned.saved.producers)
                await self.change(keys.log_name(topic_id, index), puts)
            prefix = keys.partition_segments(topic_id, index)
            there = {Segment.unpack(entry.value).start_offset for entry in self._catalog.range(prefix)}
            for segment in planned.segments:
                if segment.start not in there:
                    await _Log(self, topic, planned).write(segment)
            if tail is not None and planned.end not in there:
                await _Log(self, topic, planned).write(self._tail_segment(planned, tail), tail)
        finally:
            self._limit.release()

    def _tail_segment(self, planned: PlannedPartition, tail: Tail) -> SavedSegment:
        end, now_ms = read_header(tail.batches[-1]).last_offset + 1, self._manifest.taken_ms
        last = len(tail.batches) - 1
        return SavedSegment("", self._epoch, planned.end, end, last, now_ms, 0, UNKNOWN, "", ())

    async def change(self, log: str, puts: Mapping[str, bytes], deletes: Sequence[str] = ()) -> None:
        """A transaction about one log."""
        topic_id, index = keys.of_log(log)
        name = next(topic.name for topic in self._manifest.topics if topic.id == topic_id.hex())
        compared = dict.fromkeys((keys.topic_key(name), keys.partition_key(topic_id, index), *puts, *deletes))
        await self._catalog.transact(unchanged(self._catalog, compared), puts, deletes)
        partition = self.context.fences.partition(log)
        if partition is not None and partition.fence.key in puts:
            # Else who takes the closed segment's note from the catalog takes this for another gateway's work.
            partition.fence.read(self._catalog.get(partition.fence.key))

    async def read_part(self, part: Part) -> list[memoryview]:
        """The batches of an object. Raises CannotRestore."""
        name = object_name(part.sha256)
        try:
            content = await trio.to_thread.run_sync(self._target.get, name)
            return [batch for _, batch in await trio.to_thread.run_sync(checked, content, part)]
        except (Damaged, NotThere) as error:
            raise CannotRestore(f"object {name}: {error}. {ANOTHER}") from None

    async def read_snapshot(self, sha256: str) -> bytes:
        """The producers that a segment began with. Raises CannotRestore."""
        if not sha256:
            return b""
        name = object_name(sha256)
        try:
            content = await trio.to_thread.run_sync(self._target.get, name)
        except NotThere as error:
            raise CannotRestore(f"object {name}: {error}. {ANOTHER}") from None
        if digest(content) != sha256:
            raise CannotRestore(f"object {name} is not what was put. {ANOTHER}")
        return content

    def w_for(self, topic: SavedTopic, members: Sequence[str]) -> int:
        """How many of these members must have what is written."""
        if topic.name not in self._w:
            self._w[topic.name] = effective_topic_configs(dict(topic.configs), None).min_insync_replicas
        return min(max(self._w[topic.name], len(members) // 2 + 1), len(members))

    def wrote(self, segment: SavedSegment) -> None:
        """A segment is there."""
        self.segments += 1
        before, self.bytes = self.bytes, self.bytes + segment.size
        if before // PROGRESS_BYTES != self.bytes // PROGRESS_BYTES:
            self._say(f"{self.bytes / 1e6:,.0f} of {self._manifest.size / 1e6:,.0f} MB restored")


PROGRESS_BYTES: Final = 256 * 1024 * 1024
"""Bytes restored between two lines about it."""

ANOTHER: Final = (
    "Restore another backup ('dafka backup list'), or see what 'dafka backup verify' says of this one"
)


def topic_entry(topic: SavedTopic) -> tuple[str, bytes]:
    """Of the catalog."""
    record = pack_topic(topic.id, topic.partitions, topic.replication_factor, topic.configs, topic.maker)
    return keys.topic_key(topic.name), record


class _Log:
    """Writes one segment (`mesh.producer.WriterOwner` of it)."""

    def __init__(self, restoring: Restoring, topic: SavedTopic, planned: PlannedPartition) -> None:
        self._restoring = restoring
        self._context = restoring.context
        self._topic = topic
        self._planned = planned
        self._log = keys.log_name(bytes.fromhex(topic.id), planned.saved.index)
        self._changed = trio.Event()
        self._failed = ""
        self._size = 0
        self._max_timestamp = NO_TIMESTAMP

    # what the mesh says -----------------------------------------------------------------------------------

    def progressed(self, _writer: Writer, /) -> None:
        """Some of it is durable."""
        self._change()

    def fenced(self, _writer: Writer, reason: str, /) -> None:
        """A store has sealed it."""
        self._failed = reason
        self._change()

    def _told(self, opening: Opening) -> None:
        if opening.hopeless:
            self._failed = f"its stores refuse segment {opening.address}"
        self._change()

    def _change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _wait(self) -> None:
        with trio.move_on_after(PATIENCE_SECONDS) as scope:
            await self._changed.wait()
        if scope.cancelled_caught:
            self._failed = f"its stores have taken nothing for {PATIENCE_SECONDS:g} s"
        if self._failed:
            raise CannotRestore(
                f"{self._planned.saved.name}: {self._failed}. See the stores' logs, and repeat it"
            )

    # writing ----------------------------------------------------------------------------------------------

    async def write(self, saved: SavedSegment, tail: Tail | None = None) -> None:
        """Write a segment, of the backup or of this tail, close it, and have w members hear its end.
        Raises CannotRestore.
        """
        context = self._context
        members = context.stores.choose(self._log, self._topic.replication_factor)
        w = self._restoring.w_for(self._topic, members)
        address = context.producer.requests.new_id()
        snapshot = tail.snapshot if tail else await self._restoring.read_snapshot(saved.producers)
        segment = Segment(
            address,
            segment_epoch(saved),
            saved.start,
            members,
            w,
            saved.opened_ms,
            first_unstable=UNKNOWN if saved.is_compacted else self._first_open(snapshot),
        )
        await self._restoring.change(self._log, Noted(address, members, w, self._log, segment.epoch).put())
        writer = context.producer.start(address, self._topic.name, members, w, self)
        at = context.place_of(keys.compacting_key(address))
        context.producer.segments.open(self._announcement(segment, saved, snapshot), self._told, at)
        if tail is not None:
            await self._append(writer, tail.batches)
        for part in saved.parts:
            await self._append(writer, await self._restoring.read_part(part))
            crash_points.reach("during-restore")
        while writer:
            await self._wait()
        await self._close(segment, saved)
        context.producer.forget(writer)
        self._restoring.wrote(saved)

    def _first_open(self, snapshot: bytes) -> int:
        """Where the oldest transaction begins that was open when a segment began: those who read what is
        committed look for its end from there on. Raises CannotRestore.
        """
        try:
            first = first_open(snapshot)
        except InvalidSnapshot as error:
            raise CannotRestore(
                f"{self._planned.saved.name}: its producers cannot be read: {error}"
            ) from None
        return UNKNOWN if first is None else first

    async def _append(self, writer: Writer, batches: Sequence[bytes | memoryview]) -> None:
        for batch in batches:
            while writer and (writer.bytes > WINDOW_BYTES or len(writer) >= WINDOW_RECORDS):
                await self._wait()
            self._context.producer.append(writer, batch)
            self._size += len(batch)
            self._max_timestamp = max(self._max_timestamp, read_header(batch).max_timestamp)

    async def _close(self, segment: Segment, saved: SavedSegment) -> None:
        now_ms = self._context.now_ms()
        closed = replace(segment, announced=True, cleaned_to=saved.cleaned_to).closed(
            saved.end,
            saved.last_sequence,
            self._max_timestamp,
            size=self._size,
            closed_ms=saved.closed_ms or now_ms,
        )
        topic_id, index = keys.of_log(self._log)
        puts = {keys.segment_key(topic_id, index, closed.start_offset, closed.address): closed.pack()}
        Closer.note(closed, self._log, puts)
        await self._restoring.change(self._log, puts, [keys.compacting_key(closed.address)])
        crash_points.reach("after-restored-segment")
        heard = trio.Event()
        self._context.closer.begin([closed], heard.set)
        with trio.move_on_after(PATIENCE_SECONDS):
            await heard.wait()
            return
        raise CannotRestore(f"{self._planned.saved.name}: its stores do not take the end of a segment")

    def _announcement(self, segment: Segment, saved: SavedSegment, snapshot: bytes) -> Announcement:
        """As `gateway.log.announcement`, of what the backup says."""
        topic, planned = self._topic, self._planned
        details: dict[str, Any] = {
            "topic_id": topic.id,
            "partition": planned.saved.index,
            "partitions": topic.partitions,
            "replication_factor": topic.replication_factor,
            "configs": topic.configs,
            "epochs": [[epoch, start] for epoch, start in planned.epochs if start < saved.end],
            "log_start": planned.log_start,
            "opened_ms": segment.opened_ms,
            "producer_id_floor": self._context.producer_ids.floor,
            "producers": base64.b64encode(snapshot).decode(),
        }
        if segment.first_unstable != UNKNOWN:
            details["first_unstable"] = segment.first_unstable
        if saved.is_compacted:
            details |= {"compaction": segment.address, "replaces": []}
        return Announcement(
            segment.address,
            topic.name,
            self._context.cluster_id,
            self._log,
            segment.epoch,
            segment.start_offset,
            segment.members,
            segment.w,
            json.dumps(details).encode(),
        )
