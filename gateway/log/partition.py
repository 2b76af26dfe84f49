"""One partition's log: its one writer, its offsets, its segments, and who waits for it.

Rules: offsets are given in the order of appends and never again to anything else; nothing at or above the
high watermark is shown; a duplicate is as durable as its original before it is answered; the next segment is
announced only after the one before it is durable to its last record, so the chain never has a hole.

Theory of operation: `append` is synchronous: it checks the producer's sequence, gives offsets, and hands the
batch to the segment's `Writer` (through `mesh.producer`, which publishes it unless the segment is still being
opened). Acknowledgements come back as `progressed`: the high watermark moves to behind the last batch that w
members have, appends that waited are finished, and parked fetches are woken. Rolling to the next segment,
recovery and reads of what has left memory live in files of their own (`opener`, `recovery`, `cold`).
"""

from collections import deque
from collections.abc import Collection, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

import trio

from gateway.log.appends import Append
from gateway.log.epochs import LeaderEpochs
from gateway.log.idempotence.refused import RefusedProducers
from gateway.log.idempotence.state import ProducerState
from gateway.log.segment import NO_TIMESTAMP, Segment
from gateway.log.tail_cache import Batch, HotBatches
from mesh.protocol.writer import MAX_WINDOW_RECORDS, RECORD_OVERHEAD_BYTES, State, Writer
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.batch import BatchHeader, assign_offsets, set_log_append_time

if TYPE_CHECKING:
    from gateway.log.context import LogContext
    from gateway.log.topic import Topic

MAX_PARTITION_WINDOW_BYTES = 32 * 1024 * 1024
"""Appended and not yet durable, per partition, with `RECORD_OVERHEAD_BYTES` for each batch. At the cap its
producers get NOT_ENOUGH_REPLICAS, which they retry; those with acks=0 are not read."""

MAX_SEGMENT_BATCHES = 200_000
"""Batches in one segment; then the next one begins. A start reads a row of some 70 bytes for each batch of
the last segment: without this, a gigabyte of tiny batches would be ten million of them."""

DELETED: Final = "the topic was deleted"
"""Why a deleted partition serves nothing."""

NO_EPOCH: Final = -1
"""A client's leader epoch that is not given; anything else below 0 is an old one, as in Kafka."""


class PartitionState(Enum):
    """Only a READY partition takes appends."""

    RECOVERING = "recovering"
    READY = "ready"
    FAILED = "failed"


class FetchWaiter(Protocol):
    """A parked Fetch: told when records of a partition become visible, and when the partition goes away."""

    def advanced(self, partition: "Partition", /) -> None: ...


class OpenSegment:
    """The segment that appends go to."""

    __slots__ = ("bytes", "max_timestamp", "outdated", "segment", "snapshot", "writer")

    def __init__(self, segment: Segment, writer: Writer) -> None:
        self.segment = segment
        self.writer = writer
        self.bytes = 0
        self.max_timestamp = NO_TIMESTAMP
        self.outdated = False
        """The topic is another since it was opened: the next append opens another one."""
        self.snapshot = b""
        """The idempotence state before its first batch, for its announcement."""


class InFlight:
    """A batch that is appended and not yet durable on w members."""

    __slots__ = ("append", "first_only", "header", "sequence", "writer")

    def __init__(
        self, writer: Writer, sequence: int, header: BatchHeader, append: Append, first_only: bool
    ) -> None:
        self.writer = writer
        self.sequence = sequence
        self.header = header
        self.append = append
        self.first_only = first_only


class Partition:
    """A partition as handlers see it. All methods but the `async` ones return at once."""

    def __init__(self, context: "LogContext", topic: "Topic", index: int) -> None:
        self.topic = topic
        self.index = index
        self.available = False
        """Recovered: latest offsets are known and produces are taken. As `state` says it; asked for at every
        look-up of every partition."""
        self.state = PartitionState.RECOVERING
        self.reason = "the partition is being recovered"
        """Why it does not serve produces, while it does not."""
        self.withheld = False
        """The stores refute the catalog's chain: nothing of it is shown."""
        self.deleted = False
        self._log_start_offset = 0
        self.next_log_start = 0
        """What the catalog has been told, or is being told: shown once it is durable there."""
        self.high_watermark = 0
        self.next_offset = 0
        self.leader_epoch = 0
        self.epochs = LeaderEpochs()
        self.closed: list[Segment] = []
        self.current: OpenSegment | None = None
        self.rolling: list[OpenSegment] = []
        """Segments that take no more appends and are not yet durable to their end, oldest first."""
        self.producers = ProducerState()
        self.hot = HotBatches(context.tail_cache)
        self._context = context
        self._in_flight: deque[InFlight] = deque()
        self._duplicates: list[tuple[int, Append]] = []
        self._refused = RefusedProducers()
        self._waiters: set[FetchWaiter] = set()
        self._watchers: set[FetchWaiter] | None = None
        """Those that want to be told once. Most partitions have none."""
        self._first_members: tuple[int, tuple[str, ...]] = -1, ()
        """Of the list of stores in this version."""
        self._room: trio.lowlevel.ParkingLot | None = None
        """Who waits for room in the window, if somebody ever did."""

    # what handlers ask -------------------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        """The first offset that is there."""
        return self._log_start_offset

    @log_start_offset.setter
    def log_start_offset(self, offset: int) -> None:
        self._log_start_offset = offset
        self._tell_watchers()

    @property
    def state(self) -> PartitionState:
        return self._state

    @state.setter
    def state(self, state: PartitionState) -> None:
        self._state = state
        self.available = state is PartitionState.READY

    @property
    def members(self) -> tuple[str, ...]:
        """The stores that keep its newest segment, or would keep the first one."""
        if self.current is not None:
            return self.current.segment.members
        if self.closed:
            return self.closed[-1].members
        version = self._context.stores.version
        if self._first_members[0] != version:
            self._first_members = version, self._context.members_for(self)
        return self._first_members[1]

    def check_leader_epoch(self, current_leader_epoch: int) -> ErrorCode:
        """Kafka's check of the epoch that a client believes in; -1 is not given
        (`Partition.checkCurrentLeaderEpoch`).
        """
        if current_leader_epoch in (NO_EPOCH, self.leader_epoch):
            return ErrorCode.NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) as OffsetForLeaderEpoch answers; (-1, -1) when the epoch is not known."""
        if epoch == self.leader_epoch:
            return epoch, self.high_watermark
        if epoch > self.leader_epoch or epoch == NO_EPOCH:
            return -1, -1
        if self.epochs.latest < 0:
            # Nothing was ever written. For Kafka the present epoch begins here, and those before it end here.
            return epoch, self.high_watermark
        if epoch >= self.epochs.latest >= 0:
            # The last epoch that wrote, in a life that has not written yet: it ends where the log does.
            return self.epochs.latest, self.high_watermark
        return self.epochs.end_offset_for(epoch, self.high_watermark)

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the record at `offset`, -1 when unknown."""
        return self.epochs.epoch_at(offset)

    async def offset_for_timestamp(self, timestamp: int) -> tuple[int, int, int] | None:
        """(offset, timestamp, leader epoch) of the first visible record at or after `timestamp` ms, or None.

        Raises KafkaError when the store cannot be asked.
        """
        return await self._context.cold.offset_for_timestamp(self, timestamp)

    async def max_timestamp(self) -> tuple[int, int, int] | None:
        """(offset, timestamp, leader epoch) of the visible record with the highest timestamp, or None."""
        return await self._context.cold.max_timestamp(self)

    # appending ---------------------------------------------------------------------------------------------

    def append(
        self, header: BatchHeader, view: memoryview, acks: int, now_ms: int, *, gateway_has_room: bool = True
    ) -> Append:
        """Append one validated batch; its bytes are changed in place and kept.

        `gateway_has_room`: whether the windows of all partitions together have. It is judged once for all
        batches of a request, so that a gate that closes between two of them does not reorder a producer.

        Raises KafkaError: the producer's sequence is wrong, the partition does not serve, there are fewer
        stores than `min.insync.replicas` (for acks=all), or no room.
        """
        size = len(view)
        duplicate = self._admit(header, size, acks, gateway_has_room)
        if duplicate is not None:
            return duplicate
        context = self._context
        current = self._segment_for(size, now_ms)
        base_offset = self.next_offset
        append = Append(base_offset, base_offset + header.last_offset_delta, self.log_start_offset)
        assign_offsets(view, base_offset, current.segment.epoch)
        if self.topic.settings.log_append_time:
            header = set_log_append_time(view, now_ms)
            append.log_append_time_ms = now_ms
        self.next_offset = append.last_offset + 1
        current.bytes += size
        current.max_timestamp = max(current.max_timestamp, header.max_timestamp)
        self.hot.append(base_offset, append.last_offset, view)
        if header.producer_id >= 0:
            self._applied(header, append.last_offset, now_ms)
        append.writer = current.writer
        sequence = context.producer.append(current.writer, view)
        context.window_changed()
        self._in_flight.append(InFlight(current.writer, sequence, header, append, acks == 1))
        if acks == 0:
            append.done = True
        return append

    def _admit(self, header: BatchHeader, size: int, acks: int, gateway_has_room: bool) -> Append | None:
        """Whether a batch may be appended now: None if so, its original's append if it is a duplicate.

        Raises KafkaError as `append`.
        """
        if not self.available:
            raise self._refusal(header, ErrorCode.NOT_LEADER_OR_FOLLOWER, self.reason)
        if self._context.stores.presence is not None and not self._stores_are_there():
            raise self._refusal(header, ErrorCode.NOT_ENOUGH_REPLICAS, self._who_is_away())
        if acks == -1 and self.topic.settings.min_insync_replicas > 1:
            self._check_members(header)
        if header.producer_id >= 0:
            duplicate = self._check_sequence(header)
            if duplicate is not None:
                return duplicate
        if not gateway_has_room:
            raise self._refusal(
                header,
                ErrorCode.NOT_ENOUGH_REPLICAS,
                "the stores take records more slowly than producers send them",
            )
        if not self._has_room(size):
            raise self._refusal(
                header,
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self._held()} bytes in {len(self._in_flight)} batches wait for the stores already",
            )
        return None

    def _check_sequence(self, header: BatchHeader) -> Append | None:
        """An idempotent producer's batch: as `_admit`."""
        producer_id, epoch, sequence = header.producer_id, header.producer_epoch, header.base_sequence
        duplicate = self.producers.check(producer_id, epoch, sequence, header.count)
        if duplicate is None:
            if self._refused and producer_id not in self.producers:
                self._refused.check(producer_id, epoch, sequence)
            return None
        append = Append(duplicate.base_offset, duplicate.last_offset, self.log_start_offset)
        append.log_append_time_ms = duplicate.timestamp  # as Kafka answers it, under CreateTime too
        append.writer = None if self.current is None else self.current.writer
        return self._duplicate(append)

    def _applied(self, header: BatchHeader, last_offset: int, now_ms: int) -> None:
        self.producers.applied(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            last_offset,
            header.count,
            header.max_timestamp,
            now_ms,
        )
        if self._refused:
            self._refused.accepted(header.producer_id)

    def _duplicate(self, append: Append) -> Append:
        if append.last_offset < self.high_watermark:
            append.done = True
        else:
            self._duplicates.append((append.last_offset, append))
        return append

    def _refusal(self, header: BatchHeader, code: ErrorCode, message: str) -> KafkaError:
        """The error for a batch that will be sent again: no later one of its producer may overtake it."""
        self._remember_refused(header)
        return KafkaError(code, message)

    def _remember_refused(self, header: BatchHeader) -> None:
        if header.producer_id >= 0 and header.producer_id not in self.producers:
            self._refused.add(header.producer_id, header.producer_epoch, header.base_sequence)

    def _check_members(self, header: BatchHeader) -> None:
        """As Kafka checks it before it appends (`Partition.appendRecordsToLeader`)."""
        wanted = self.topic.settings.min_insync_replicas
        if wanted > len(members := self._context.members_for(self)):
            raise self._refusal(
                header,
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(members)} stores keep this partition, and min.insync.replicas asks for {wanted}",
            )

    def _stores_are_there(self) -> bool:
        """Whether so many members are there of the segment that the next batch goes to that it can become
        durable: the open one, or the one that would follow it.
        """
        stores, current = self._context.stores, self.current
        if current is not None and stores.enough(current.segment.members, current.segment.w):
            return not current.outdated or self._next_has_stores()
        return (current is None or not self._in_flight) and self._next_has_stores()

    def _next_has_stores(self) -> bool:
        """Whether a new segment could be written to now."""
        context = self._context
        members = context.members_for(self)
        return bool(members) and context.stores.enough(members, context.w_for(self, members))

    def _who_is_away(self) -> str:
        """For an error's message."""
        context = self._context
        members = context.members_for(self) if self.current is None else self.current.segment.members
        away = ", ".join(context.stores.name(member) for member in members if not context.stores.live(member))
        w = context.w_for(self, members)
        return f"{w} stores must keep each record, and of {len(members)} these are not there: {away}"

    def _held(self) -> int:
        """Bytes in the windows, with the overhead of each batch."""
        held = sum(opened.writer.bytes for opened in self.open_segments())
        return held + len(self._in_flight) * RECORD_OVERHEAD_BYTES

    def _has_room(self, size: int) -> bool:
        batches = len(self._in_flight)
        # As `_held`, written out: this is on the way of every batch.
        held = batches * RECORD_OVERHEAD_BYTES
        if self.current is not None:
            held += self.current.writer.bytes
        for opened in self.rolling:
            held += opened.writer.bytes
        if held + size + RECORD_OVERHEAD_BYTES > MAX_PARTITION_WINDOW_BYTES:
            return not batches  # one that is larger than the window goes alone
        return batches < MAX_WINDOW_RECORDS

    def room_for(self, size: int) -> bool:
        """Whether `append` would take a batch of `size` bytes, or refuse it for another reason than room."""
        return not self.available or self._has_room(size)

    async def wait_for_room(self, size: int) -> None:
        """Return when there is `room_for` a batch of `size` bytes."""
        while not self.room_for(size):
            if self._room is None:
                self._room = trio.lowlevel.ParkingLot()
            await self._room.park()

    def open_segments(self) -> list[OpenSegment]:
        """Those with a window, oldest first."""
        return [*self.rolling, self.current] if self.current else self.rolling

    def _segment_for(self, size: int, now_ms: int) -> OpenSegment:
        """The segment that a batch of `size` bytes goes to; a new one if there is none, or that one is full
        or old.

        One that is still being opened is never left: it grows beyond its size by a window at most.
        """
        current = self.current
        settings = self.topic.settings
        if current is not None:
            full = (
                current.bytes + size > settings.segment_bytes
                or current.writer.next_sequence >= MAX_SEGMENT_BATCHES
            )
            old = now_ms - current.segment.opened_ms >= settings.max_segment_ms
            opening = current.writer.state is State.OPENING
            if opening or not (full or old or current.outdated or self._should_move(current.segment)):
                return current
            self.rolling.append(current)
        before = current.segment if current is not None else self._end_to_be_heard()
        if before is not None and not self._context.stores.enough(before.members, before.w):
            # Too few of its members can hear where it ends, and nobody waits for them: a new epoch tells an
            # older catalog, too (`gateway.log.recovery.verification`).
            self.leader_epoch += 1
            self._tell_watchers()
        self.current = self._context.opener.start(self, now_ms)
        return self.current

    def _end_to_be_heard(self) -> Segment | None:
        """The last closed segment, if the next one would wait until its members have heard where it ends."""
        last = self.closed[-1] if self.closed else None
        if last is None or last.epoch != self.leader_epoch:
            return None
        return last if self._context.closer.is_waited_for(last.address) else None

    def _should_move(self, segment: Segment) -> bool:
        """Whether another segment would have better members: one of these leaves, or too many are away."""
        stores = self._context.stores
        if stores.leaving(segment.members):
            return True
        if stores.enough(segment.members, len(segment.members)):
            return False
        if not stores.enough(segment.members, segment.w):
            return not self._in_flight and self._next_has_stores()
        return stores.away_for_long(segment.members) and stores.enough(
            self._context.members_for(self), len(segment.members)
        )

    def settings_changed(self, *, announce: bool) -> None:
        """The topic, or what it goes by, is another: the next append opens another segment, if that one would
        have another w, which is fixed for each segment; or if the topic is to be announced as it is now, so
        that this can be read back from the stores.
        """
        if self.current is not None:
            segment = self.current.segment
            other_w = segment.w != self._context.w_for(self, segment.members)
            self.current.outdated = self.current.outdated or announce or other_w

    # progress (called by mesh.producer) --------------------------------------------------------------------

    def progressed(self, writer: Writer) -> None:
        """Acknowledgements moved `writer.first` or `writer.committed`."""
        in_flight = self._in_flight
        high_watermark = self.high_watermark
        while in_flight and in_flight[0].writer is writer and in_flight[0].sequence <= writer.committed:
            entry = in_flight.popleft()
            high_watermark = entry.append.last_offset + 1
            if not entry.append.done:
                entry.append.finish()
        if writer.first > writer.committed:
            self._finish_first(writer)
        self._context.window_changed()
        if high_watermark > self.high_watermark:
            self.high_watermark = high_watermark
            if self._duplicates:
                self._finish_duplicates()
            self._tell_waiters()
            if self._room is not None:
                self._room.unpark_all()
            if self.rolling:
                self._context.opener.drained(self)

    def _finish_first(self, writer: Writer) -> None:
        for entry in self._in_flight:
            if entry.writer is not writer or entry.sequence > writer.first:
                return
            if entry.first_only and not entry.append.done:
                entry.append.finish()

    def _finish_duplicates(self) -> None:
        waiting = self._duplicates
        self._duplicates = [entry for entry in waiting if entry[0] >= self.high_watermark]
        for last_offset, append in waiting:
            if last_offset < self.high_watermark:
                append.finish()

    def fenced(self, writer: Writer, reason: str) -> None:
        """A segment was lost: nothing more is appended until the partition was recovered again.

        What concerns a segment of an earlier attempt, or comes after a failure, changes nothing.
        """
        if self.state is not PartitionState.READY:
            return
        if any(opened.writer is writer for opened in self.open_segments()):
            self.fail(reason)
            self._context.recover_again(self)

    def fail(self, reason: str) -> None:
        """Stop serving produces; what waited is told to ask for the leader again. A deleted partition stays
        deleted.
        """
        reason = DELETED if self.deleted else reason
        self.state = PartitionState.FAILED
        self.reason = reason
        self._context.opener.forget(self)
        for opened in self.open_segments():
            self._context.producer.forget(opened.writer)
        in_flight, duplicates = list(self._in_flight), self._duplicates
        self._in_flight.clear()
        self._duplicates = []
        self._context.window_changed()
        for entry in in_flight:
            if entry.header.producer_id >= 0:
                # Kept or not, recovery will tell. If not, it must come before what its producer sent later.
                self._refused.add(
                    entry.header.producer_id, entry.header.producer_epoch, entry.header.base_sequence
                )
        for append in [*(entry.append for entry in in_flight), *(append for _, append in duplicates)]:
            if not append.done:
                append.finish(ErrorCode.NOT_LEADER_OR_FOLLOWER, reason)
        self._tell_waiters()
        if self._room is not None:
            self._room.unpark_all()

    def raise_ends(self, end: int) -> None:
        """The log is known to reach up to the offset `end`, if it is not known to reach further already."""
        self.next_offset = max(self.next_offset, end)
        self.high_watermark = max(self.high_watermark, end)
        self._tell_watchers()

    def serve(self, producers: ProducerState) -> None:
        """Recovered: take appends. Who waits looks again: the end may have moved meanwhile."""
        self.producers = producers
        self.state = PartitionState.READY
        self._tell_waiters()

    def delete(self) -> None:
        """The topic is being deleted: it serves nothing any more, and never will."""
        self.deleted = True
        self.fail(DELETED)

    def start_moved(self, offset: int, dropped: Collection[str]) -> None:
        """The catalog has a new log start, and these segments (by address) are in the chain no more."""
        self.log_start_offset = max(self.log_start_offset, offset)
        self.epochs.truncate_front(self.log_start_offset)
        if dropped:
            self.closed = [segment for segment in self.closed if segment.address not in dropped]
        for waiter in tuple(self._waiters):
            waiter.advanced(self)

    def compacted(self, sources: Sequence[str], made: Sequence[Segment]) -> None:
        """The catalog has these segments in the place of `sources` (by address), a run of its closed ones."""
        addresses = [segment.address for segment in self.closed]
        if sources[0] in addresses:
            first = addresses.index(sources[0])
            end = first + len(sources)
            assert addresses[first:end] == list(sources), "a chain loses segments at its front only"
            self.closed = [*self.closed[:first], *made, *self.closed[end:]]
        # Else a recovery has loaded the new chain already. Memory still has what compaction took out:
        self.hot.drop_below(made[-1].end_offset or 0)

    # reading -----------------------------------------------------------------------------------------------

    def check_fetch_offset(self, offset: int) -> ErrorCode:
        """OFFSET_OUT_OF_RANGE outside of the log; between high watermark and end there is nothing yet.

        Until the end of the log is known no offset is behind it: a client that was told so would reset its
        position, or report lost data. NOT_LEADER_OR_FOLLOWER makes every client ask again, also those that
        do not know OFFSET_NOT_AVAILABLE in a Fetch.
        """
        if self.withheld or (self.state is not PartitionState.READY and offset >= self.high_watermark):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.log_start_offset <= offset <= self.next_offset:
            return ErrorCode.NONE
        return ErrorCode.OFFSET_OUT_OF_RANGE

    def read_hot(self, offset: int, max_bytes: int, *, whole: bool) -> list[Batch] | None:
        """Visible batches from memory, from the one that holds `offset`; None if they have to come from a
        store.
        """
        if offset >= self.high_watermark:
            return []
        return self.hot.read(offset, self.high_watermark, max_bytes, whole=whole)

    async def read_cold(self, offset: int, max_bytes: int) -> Sequence[Batch]:
        """Visible batches from a store, at least one. Raises KafkaError."""
        return await self._context.cold.read(self, offset, max_bytes)

    def add_waiter(self, waiter: FetchWaiter) -> None:
        self._waiters.add(waiter)

    def remove_waiter(self, waiter: FetchWaiter) -> None:
        self._waiters.discard(waiter)

    def watch(self, watcher: FetchWaiter) -> None:
        """Have `watcher` told once, when anything is not as it is now that a Fetch of the partition shows."""
        if self._watchers is None:
            self._watchers = {watcher}
        else:
            self._watchers.add(watcher)

    def unwatch(self, watcher: FetchWaiter) -> None:
        if self._watchers is not None:
            self._watchers.discard(watcher)

    def _tell_waiters(self) -> None:
        """Records became visible, or the partition serves in another way."""
        if self._waiters:
            for waiter in tuple(self._waiters):
                waiter.advanced(self)
        self._tell_watchers()

    def _tell_watchers(self) -> None:
        if self._watchers is not None:
            watchers, self._watchers = self._watchers, None
            for watcher in watchers:
                watcher.advanced(self)

    # the chain ---------------------------------------------------------------------------------------------

    def chain(self) -> list[Segment]:
        """All segments, oldest first."""
        return self.closed + [opened.segment for opened in self.open_segments()]

    def __repr__(self) -> str:
        return f"<Partition {self.topic.name}-{self.index}>"
