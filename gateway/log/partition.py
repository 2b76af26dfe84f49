"""One partition's log: its one writer, its offsets, its segments, and who waits for it.

Rules:

* offsets are given in the order of appends, and never again to anything else;
* nothing at or above the high watermark is shown; nor, to readers of what is committed, at or above the last
  stable offset, and what lies below that comes with the aborted transactions that it is part of;
* a duplicate is as durable as its original before it is answered;
* the next segment is announced only after the one before it is durable to its last record, so the chain never
  has a hole.

Theory of operation: `append` is synchronous: it asks whether the batch may be appended, gives offsets, and
hands it to the segment's `Writer` (through `mesh.producer`, which publishes it unless the segment is still
being opened). Acknowledgements come back as `progressed`: the high watermark moves past the last batch that w
members have, appends that waited are finished, and parked fetches are woken.

Here are the offsets and whether the partition serves. Everything else that a partition is made of has an
owner, a module here:

* `admission`: whether a batch may be appended now;
* `chain`: the segments;
* `pending`: what is appended and not durable yet;
* `placement`: the stores of its segments;
* `idempotence.producers`: producers with ids, and which of their transactions are open;
* `transactions.aborted_reading`: which transactions were aborted;
* `epochs`: where each leader epoch begins;
* `fences`: what its transactions in the catalog compare;
* `tail_cache`: the newest batches, in memory;
* `listeners`: who waits for news.

Opening segments, recovery, and reads of what has left memory are work for all partitions of the gateway
(`opener`, `recovery`, `cold`); they tell a partition by its methods what has happened.
"""

from collections.abc import Awaitable, Collection, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from gateway.catalog import keys
from gateway.common.clients import NOBODY
from gateway.common.marker import Marker
from gateway.log.admission import ACKS_ALL, Admission
from gateway.log.appends import Append
from gateway.log.chain import OpenSegment, SegmentChain
from gateway.log.epochs import LeaderEpochs
from gateway.log.idempotence.guards import Guard
from gateway.log.idempotence.producers import PartitionProducers
from gateway.log.idempotence.sequences import Duplicate
from gateway.log.idempotence.state import ProducerState
from gateway.log.listeners import Listeners
from gateway.log.pending import InFlight, PendingAppends
from gateway.log.placement import Placement
from gateway.log.segment import Segment
from gateway.log.tail_cache import Batch, HotBatches
from gateway.log.transactions.aborted_reading import Aborted
from gateway.log.transactions.open_transactions import UNDECIDED
from mesh.protocol.writer import State, Writer
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.batch import BatchHeader, assign_offsets, read_header, set_log_append_time
from wireproto.records.control import MAX_MARKER_BYTES, EndMarker, marker_batch

if TYPE_CHECKING:
    from gateway.log.context import LogContext
    from gateway.log.topic import Topic

MAX_SEGMENT_BATCHES = 200_000
"""Batches in one segment; then the next one begins. A start reads a row of some 70 bytes for each batch of
the last segment: without this, a gigabyte of tiny batches would be ten million of them."""

DELETED: Final = "the topic was deleted"
"""Why a deleted partition serves nothing."""

LED_ELSEWHERE: Final = "another gateway leads it"
"""Why a partition serves nothing here that another gateway serves."""

LED_ANEW: Final = "this gateway leads it anew"

UNSHARED: Final = 1 << 31
"""Above every leader epoch: no other gateway tells clients of the partition."""

NO_EPOCH: Final = -1
"""A client's leader epoch that is not given; anything else below 0 is an old one, as in Kafka."""


class PartitionState(Enum):
    """Only a READY partition takes appends."""

    RECOVERING = "recovering"
    READY = "ready"
    FAILED = "failed"
    ELSEWHERE = "elsewhere"
    """Another gateway leads it, or nobody does: nothing is known of it here but what the table says."""


class Partition:
    """A partition as handlers see it. All methods but the `async` ones return at once."""

    def __init__(self, context: "LogContext", topic: "Topic", index: int) -> None:
        self.topic = topic
        self.index = index
        self.log = keys.log_name(topic.id, index)
        """Its name for good, which no other one ever has."""
        self.available = False
        """Recovered: latest offsets are known and produces are taken. As `state` says it; asked for at every
        look-up of every partition."""
        self.reason = "the partition is being recovered"
        """Why it does not serve produces, while it does not."""
        self.withheld = True
        """Nothing of it is shown: it was not read from the catalog yet, or the stores have not said yet
        whether that is true; or they refute the catalog's chain, or it contradicts itself."""
        self.deleted = False
        self.log_start_offset = 0
        """The first offset that is there."""
        self.next_log_start = 0
        """What the catalog has been told, or is being told: shown once it is durable there."""
        self.high_watermark = 0
        self.last_stable_offset = UNDECIDED
        """Below it no transaction is open; it never goes back while this gateway leads the partition."""
        self.next_offset = 0
        self.leader_epoch = context.first_epoch(topic.id, index)
        """Where this gateway is alone it is drawn (`epoch_counter`) by the first transaction that uses it."""
        self.next_epoch = 0
        """Every epoch that a segment of this log had is below this; as the catalog has it, or is about to."""
        self.epochs = LeaderEpochs()
        self.chain = SegmentChain()
        self.producers = PartitionProducers(context.producers)
        self.hot = HotBatches(context.tail_cache)
        self.listeners = Listeners(context.wake_ups)
        self.fence = context.fences.add(self)
        self._state = PartitionState.RECOVERING
        self.takes_long = False
        """Its recovery does, as far as is known."""
        self._has_led = False
        """Whether it has served under its leader epoch."""
        self.led_since = UNSHARED
        """The leader epoch since which this gateway leads it, where others tell clients of that."""
        self.is_leaving = False
        """It takes no batches, since it is about to be led elsewhere; it is read until it is `given`."""
        self.leaderships = 0
        """How often it was gained, or lost to another gateway: what was begun before the last time is old."""
        self._context = context
        self._pending = PendingAppends(self.chain)
        self._placement = Placement(context, self, self._pending)
        self._admission = Admission(context, self, self._pending, self._placement)

    # what handlers ask -------------------------------------------------------------------------------------

    @property
    def state(self) -> PartitionState:
        return self._state

    def _set_state(self, state: PartitionState) -> None:
        self._state = state
        self.available = state is PartitionState.READY
        self._pending.make_room()

    @property
    def members(self) -> tuple[str, ...]:
        """The stores that keep its newest segment, or would keep the first one."""
        return self._placement.members

    def kept_elsewhere(self, key: str, value: bytes) -> None:
        """The catalog has this segment of it, put by another gateway: for who asks where it is kept."""
        if self._state is PartitionState.ELSEWHERE:
            self._placement.elsewhere(key, Segment.unpack(value).members)

    @property
    def is_coming(self) -> bool:
        """Whether it is about to serve."""
        return self._state is PartitionState.RECOVERING and not self.takes_long

    async def wait_until_it_comes(self) -> None:
        """Return when it serves, or is not `is_coming` for another reason."""
        while self.is_coming:
            await self._pending.wait_for_progress()

    def asked_for(self) -> None:
        """A client waits for it to be available: where it waits to be recovered, its turn comes first."""
        self._context.recover_first(self)

    def check_leader_epoch(self, current_leader_epoch: int) -> ErrorCode:
        """Kafka's check of the epoch that a client believes in; -1 is not given
        (`Partition.checkCurrentLeaderEpoch`), and before it that this gateway leads it at all: who asks the
        wrong one is to look the leader up again, whatever is wrong besides.
        """
        if self._state is PartitionState.ELSEWHERE:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if current_leader_epoch in (NO_EPOCH, self.leader_epoch):
            return ErrorCode.NONE
        if current_leader_epoch > self.leader_epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        # Other gateways tell the epoch since which this one leads, also while it has recovered again since:
        # who goes by that is at the right leader, and would be told the same once more.
        if self.led_since <= current_leader_epoch:
            return ErrorCode.NONE
        return ErrorCode.FENCED_LEADER_EPOCH

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) as OffsetForLeaderEpoch answers; (-1, -1) when the epoch is not known."""
        return self.epochs.end_offset_as_leader(epoch, self.leader_epoch, self.high_watermark)

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the record at `offset`, -1 when unknown."""
        return self.epochs.epoch_at(offset)

    async def offset_for_timestamp(self, timestamp: int) -> tuple[int, int, int] | None:
        """(offset, timestamp, leader epoch) of the first visible record at or after `timestamp` ms, or None.

        Raises KafkaError when the store cannot be asked.
        """
        return await self._found(self._context.cold.offset_for_timestamp(self, timestamp))

    async def max_timestamp(self) -> tuple[int, int, int] | None:
        """(offset, timestamp, leader epoch) of the visible record with the highest timestamp, or None."""
        return await self._found(self._context.cold.max_timestamp(self))

    async def _found(self, look: Awaitable[tuple[int, int, int] | None]) -> tuple[int, int, int] | None:
        """What was found, if this gateway has led it all the time: the chain of one that is led elsewhere is
        empty. Raises KafkaError.
        """
        leaderships = self.leaderships
        found = await look
        if self.withheld or leaderships != self.leaderships:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, self.reason)
        return found

    # appending ---------------------------------------------------------------------------------------------

    def append(
        self,
        header: BatchHeader,
        view: memoryview,
        acks: int,
        now_ms: int,
        *,
        gateway_has_room: bool = True,
        client: str = NOBODY,
    ) -> Append:
        """Append one validated batch; its bytes are changed in place and kept.

        `gateway_has_room`: whether the windows of all partitions together have. It is judged once for all
        batches of a request, so that a gate that closes between two of them does not reorder a producer.
        `client`: who sends it (`gateway.common.clients`).

        Raises KafkaError: the producer's sequence is wrong, the partition does not serve, there are fewer
        stores than `min.insync.replicas` (for acks=all), or no room.
        """
        if self.is_leaving:
            return self._hold(header, acks, client)
        duplicate = self._admission.admit(header, len(view), acks, gateway_has_room, now_ms, client)
        if duplicate is not None:
            return self._append_again(duplicate)
        append, header = self._write(header, view, acks, now_ms)
        if header.producer_id >= 0:
            self.producers.appended(header, append.last_offset, now_ms, client)
        if acks == 0:
            append.finish()
        return append

    def append_for_producer(
        self, header: BatchHeader, view: memoryview, now_ms: int, guard: Guard, client: str
    ) -> Append:
        """Append a transactional batch that a coordinator writes for a client's producer, whose epoch counts
        and whose sequence does not (Kafka's `AppendOrigin.COORDINATOR`); with acks=all. If the transaction is
        not open here `guard` has to hold, which was taken before its coordinator was asked.

        Raises KafkaError: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, which may pass;
        INVALID_PRODUCER_EPOCH.
        """
        self._admission.admit_of_coordinator(len(view))
        self.producers.check_epoch(header, now_ms, guard, client)
        append, header = self._write(header, view, ACKS_ALL, now_ms)
        self.producers.appended(header, append.last_offset, now_ms, client)
        return append

    def append_native(self, header: BatchHeader, view: memoryview, now_ms: int, client: str) -> Append:
        """Append a batch of native records, as `gateway.native` makes them; with acks=all.

        Raises KafkaError: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, which may pass;
        DUPLICATE_SEQUENCE_NUMBER, a record of the batch, or a later one, is in the log.
        """
        self._admission.admit_of_coordinator(len(view))
        self.producers.check_is_new(header)
        if full := self.producers.why_no_room(header, now_ms, client):
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, full)
        append, header = self._write(header, view, ACKS_ALL, now_ms)
        self.producers.appended(header, append.last_offset, now_ms, client)
        return append

    def append_marker(self, marker: Marker, now_ms: int, leader_epoch: int = NO_EPOCH) -> Append:
        """Append the end of a transaction, if it has one of the producer, or none; with acks=all.

        One that repeats another waits for that. `leader_epoch` is the one under which its sender knows this
        leader; what was sent under an earlier one may be old, and is refused.

        Raises KafkaError: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS (there are fewer stores than
        `min.insync.replicas`, or no room), which may pass; and as `markers.check_marker`.
        """
        if self.is_leaving or self.check_leader_epoch(leader_epoch) is not ErrorCode.NONE:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the marker was sent to an earlier leader")
        self._admission.admit_of_coordinator(MAX_MARKER_BYTES)
        repeated = self.producers.check_marker(marker)
        if repeated is not None:
            return self._append_again(Duplicate(repeated, repeated, -1))
        ended = EndMarker(marker.is_commit, marker.coordinator_epoch)
        batch = bytearray(marker_batch(marker.producer_id, marker.producer_epoch, ended, now_ms))
        append, _ = self._write(read_header(batch), memoryview(batch), ACKS_ALL, now_ms)
        aborted = self.producers.ended(marker, append.last_offset, now_ms)
        current = self.chain.current
        if aborted is not None and current is not None:
            self._context.aborted.cache.add(current.aborted, aborted, partial(self._context.opener.end, self))
        return append

    def _write(
        self, header: BatchHeader, view: memoryview, acks: int, now_ms: int
    ) -> tuple[Append, BatchHeader]:
        """Give a batch that may be appended its offsets, and have it published; its header as it is now."""
        size = len(view)
        context = self._context
        current = self._segment_for(size, now_ms)
        writer = current.writer
        base_offset = self.next_offset
        last_offset = base_offset + header.last_offset_delta
        append = Append(base_offset, last_offset, self.log_start_offset, writer)
        assign_offsets(view, base_offset, current.segment.epoch)
        topic = self.topic
        if topic.settings.log_append_time:
            header = set_log_append_time(view, now_ms)
            append.stamped(now_ms)
        self.next_offset = last_offset + 1
        current.add(size, header.max_timestamp)
        topic.appended_records += header.last_offset_delta + 1
        topic.appended_bytes += size
        self.hot.append(base_offset, last_offset, view)
        sequence = context.producer.append(writer, view)
        context.window_changed()
        self._pending.in_flight.append(InFlight(writer, sequence, header, append, acks == 1))
        return append, header

    def _hold(self, header: BatchHeader, acks: int, client: str) -> Append:
        """A batch that comes while the partition is about to be led elsewhere: it is refused, but only when
        its producer can be told by whom. Raises KafkaError: that one wants no answer.
        """
        self.producers.refused(header, client)
        if not acks:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition is about to be led elsewhere")
        append = Append(-1, -1, self.log_start_offset, None)
        self._pending.hold(append)
        return append

    def _append_again(self, duplicate: Duplicate) -> Append:
        """The answer for a batch that is in the log already: its original's."""
        current = self.chain.current
        append = Append(
            duplicate.base_offset,
            duplicate.last_offset,
            self.log_start_offset,
            None if current is None else current.writer,
        )
        append.stamped(duplicate.timestamp)  # as Kafka answers it, under CreateTime too
        if duplicate.last_offset < self.high_watermark:
            append.finish()
        else:
            self._pending.add_duplicate(append)
        return append

    def room_for(self, size: int) -> bool:
        """Whether `append` would take a batch of `size` bytes, or refuse it for another reason than room."""
        return not self.is_leaving and (not self.available or self._pending.has_room(size))

    async def wait_for_room(self, size: int) -> None:
        """Return when there is `room_for` a batch of `size` bytes."""
        while not self.room_for(size):
            await self._pending.wait_for_progress()

    def _segment_for(self, size: int, now_ms: int) -> OpenSegment:
        """The segment that a batch of `size` bytes goes to; a new one if there is none, or that one is full
        or old.

        One that is still being opened is never left: it grows beyond its size by a window at most.
        """
        chain = self.chain
        current = chain.current
        settings = self.topic.settings
        if current is not None:
            full = (
                current.bytes + size > settings.segment_bytes
                or current.writer.next_sequence >= MAX_SEGMENT_BATCHES
                or self._context.aborted.cache.is_full(current.aborted)
            )
            old = now_ms - current.segment.opened_ms >= settings.max_segment_ms
            opening = current.writer.state is State.OPENING
            if opening or not (
                full or old or current.outdated or self._placement.should_move(current.segment)
            ):
                return current
            chain.roll()
        before = current.segment if current is not None else self._end_to_be_heard()
        if before is not None and not self._context.stores.enough(before.members, before.w):
            # Too few of its members can hear where it ends, and nobody waits for them: a new epoch tells an
            # older catalog, too (`gateway.log.recovery.verification`).
            self.leader_epoch = self._context.epoch_counter.next
            self.listeners.tell_watchers(self)
        opened = self._context.opener.start(self, now_ms)
        chain.begin(opened)
        return opened

    def _end_to_be_heard(self) -> Segment | None:
        """The last closed segment, if the next one would wait until its members have heard where it ends."""
        last = self.chain.last_closed
        if last is None or last.epoch != self.leader_epoch:
            return None
        return last if self._context.closer.is_waited_for(last.address) else None

    def settings_changed(self, *, announce: bool) -> None:
        """The topic, or what it goes by, is another: the next append opens another segment, if that one would
        have another w, which is fixed for each segment; or if the topic is to be announced as it is now, so
        that this can be read back from the stores.
        """
        current = self.chain.current
        if current is not None and (
            announce or current.segment.w != self._context.w_for(self, current.segment.members)
        ):
            current.outdate()

    # progress (called by mesh.producer) --------------------------------------------------------------------

    def progressed(self, writer: Writer) -> None:
        """Acknowledgements moved `writer.first` or `writer.committed`."""
        pending = self._pending
        high_watermark = pending.acknowledged(writer, self.high_watermark)
        self._context.window_changed()
        if high_watermark > self.high_watermark:
            self.high_watermark = high_watermark
            if self.producers.has_transactions:
                self._settle_transactions()
            else:
                self.last_stable_offset = high_watermark
            pending.finish_duplicates(high_watermark)
            self.listeners.tell_all(self)
            pending.make_room()
            if self.chain.rolling:
                self._context.opener.drained(self)

    def _settle_transactions(self) -> None:
        """What lies below the high watermark is durable: see what is decided by that."""
        stable = self.producers.last_stable_offset(self.high_watermark)
        # A log start may have moved into an open transaction.
        self.last_stable_offset = max(self.last_stable_offset, stable, self.log_start_offset)

    def fenced(self, writer: Writer, reason: str) -> None:
        """A segment was lost: nothing more is appended until the partition was recovered again.

        What concerns a segment of an earlier attempt, or comes after a failure, changes nothing.
        """
        if self.available and self.chain.is_written_by(writer):
            self.fail(reason)
            self._context.recover_again(self)

    # whether it serves (told by recovery, the opener, and who deletes topics) ------------------------------

    def begin_recovery(
        self, segments: Sequence[Segment], record: Mapping[str, Any] | None, *, withheld: bool = False
    ) -> None:
        """This is what the catalog says: `segments`, and the partition's `record` (as `partition_record` of
        the opener makes it; None: nothing was ever written). Nothing of an earlier attempt is kept but what
        was shown. With `withheld` none of it is shown before `show` or `begin_serving`. One that has served
        before gets another leader epoch, and so does one whose number another gateway has drawn.
        """
        self._set_state(PartitionState.RECOVERING)
        self.withheld = withheld
        self._load_chain(segments)
        self.hot = HotBatches(self._context.tail_cache)
        counter = self._context.epoch_counter
        if self._has_led or counter.is_taken(self.leader_epoch):
            # What it was about to put into the catalog counts as used, whatever became of that.
            self.leader_epoch = max(counter.following(self.leader_epoch), self.next_epoch)
            self._has_led = False
        self.next_epoch = 0 if record is None else record["next_epoch"]
        # Never back: clients ignore what is told of a lower epoch than they have seen.
        self.leader_epoch = max(self.leader_epoch, self.next_epoch)
        if record is not None:
            self.epochs = LeaderEpochs.from_list(record["epochs"])
            self.log_start_offset = record["log_start"]
            self.listeners.tell_watchers(self)
            # One that moves right now goes on moving: what is put from here on must not take it back.
            self.log_start_moves(self.log_start_offset)
            self.epochs.truncate_front(self.log_start_offset)
        end = max(self.log_start_offset, self.chain.highest_end())
        # The log is known to reach up to here, if it is not known to reach further already.
        self.next_offset = max(self.next_offset, end)
        self.high_watermark = max(self.high_watermark, end)
        self.listeners.tell_watchers(self)

    def _load_chain(self, segments: Sequence[Segment]) -> None:
        """These are its segments, and nothing has a window."""
        self._count_no_longer()
        self.chain.load(segments)

    def _count_no_longer(self) -> None:
        """Nothing is written to any of its segments any more."""
        for opened in self.chain.open_segments():
            self._context.aborted.cache.no_longer_open(opened.aborted)

    def show(self) -> None:
        """What the catalog says of it may be shown."""
        self.withheld = False

    def recovery_waits(self, reason: str) -> None:
        """Its recovery takes long, and why."""
        self.reason = reason
        self.recovery_takes_long()

    def recovery_takes_long(self) -> None:
        """Nobody waits for it from now on, until it serves or is gained anew."""
        self.takes_long = True
        self._pending.make_room()

    def set_end(self, end: int) -> None:
        """Recovery knows where the log ends; `begin_serving` follows, and tells who listens."""
        self.next_offset = self.high_watermark = end
        # It ends below what was shown only where a loss was accepted.
        self.last_stable_offset = min(self.last_stable_offset, end)

    def begin_serving(self, producers: ProducerState) -> None:
        """Recovered: take appends. Who waits looks again: the end may have moved meanwhile."""
        self._has_led = True
        self.withheld = self.takes_long = False
        self.producers.begin(producers, self.next_offset)
        self._settle_transactions()
        self._set_state(PartitionState.READY)
        self.listeners.tell_all(self)

    def withhold(self, reason: str) -> None:
        """What the catalog says is refuted: show nothing of it."""
        self.withheld = True
        self.fail(reason)

    def fail(self, reason: str) -> None:
        """Stop serving produces; what waited is told to ask for the leader again. A deleted partition stays
        deleted.
        """
        reason = DELETED if self.deleted else reason
        self._set_state(PartitionState.FAILED)
        self.reason = reason
        self._context.opener.forget(self)
        for opened in self.chain.open_segments():
            self._context.producer.forget(opened.writer)
        in_flight, waiting = self._pending.take_all()
        self.is_leaving = False
        self._refuse_held(reason)
        self._context.window_changed()
        for entry in in_flight:
            self.producers.undecided(entry.header)
        for append in waiting:
            if not append.done:
                append.finish(ErrorCode.NOT_LEADER_OR_FOLLOWER, reason)
        self.listeners.tell_all(self)

    def leave(self) -> None:
        """It is about to be led elsewhere: what is appended becomes durable, and nothing more is."""
        self.is_leaving = self.available

    @property
    def is_durable(self) -> bool:
        """Whether everything that is appended is durable, or the partition does not serve."""
        return not self.available or not self._pending.in_flight

    async def wait_durable(self) -> None:
        """Return when that `is_durable`."""
        while not self.is_durable:
            await self._pending.wait_for_progress()

    def stay(self) -> None:
        """It is not led elsewhere after all: it takes batches again, and those that came meanwhile come
        again.
        """
        self.is_leaving = False
        self._refuse_held("its records are not yet durable, so that another gateway cannot lead it yet")
        self._pending.make_room()

    def _refuse_held(self, reason: str) -> None:
        for append in self._pending.take_held():
            append.finish(ErrorCode.NOT_LEADER_OR_FOLLOWER, reason)

    def given(self) -> None:
        """It is being given to another gateway: nothing of it is served from now on. Who waits goes on to do
        so until `led_elsewhere`, when it is known where to ask.
        """
        self.is_leaving = True
        self._set_state(PartitionState.ELSEWHERE)
        self.reason = LED_ELSEWHERE

    def gained(self, leader_epoch: int) -> None:
        """This gateway leads it from now on, under this leader epoch; recovery follows. Where it could not be
        given away clients may have been told of a later epoch: there is no way back from that.
        """
        self.leaderships += 1
        if self.available or self.is_leaving:
            self.fail(LED_ANEW)
        if leader_epoch != self.led_since:
            self.producers.led_anew()
        self._lead_anew(max(leader_epoch, self.leader_epoch))
        self._placement.here()
        self.led_since = leader_epoch
        # Notes about its segments may leave the catalog before it is recovered.
        self.fence.read(self._context.catalog.get(self.fence.key))
        self._set_state(PartitionState.RECOVERING)
        self.takes_long = False
        self.reason = "the partition is being recovered"

    def led_elsewhere(self, leader_epoch: int) -> None:
        """Another gateway leads it, under this leader epoch: nothing of it is served here, or kept in memory,
        but what was shown.
        """
        self.leaderships += 1
        if self._state is not PartitionState.ELSEWHERE or self.is_leaving:
            self.fail(LED_ELSEWHERE)
            self._set_state(PartitionState.ELSEWHERE)
            self._show_newest()
            self._load_chain([])
            self.hot = HotBatches(self._context.tail_cache)
            self.producers.led_elsewhere()
        self._lead_anew(leader_epoch)

    def _show_newest(self) -> None:
        catalog, prefix = self._context.catalog, keys.partition_segments(self.topic.id, self.index)
        if entries := catalog.range(prefix):
            self.kept_elsewhere(entries[-1].key, entries[-1].value)

    def _lead_anew(self, leader_epoch: int) -> None:
        self.withheld = True
        self._has_led = False
        # Another leader may have lost something, with which it was accepted that this goes back.
        self.last_stable_offset = UNDECIDED
        # What was about to be put and was not is the next leader's to decide; the record has what was.
        self.next_log_start = self.log_start_offset
        if leader_epoch != self.leader_epoch:
            self.leader_epoch = leader_epoch
            self.listeners.tell_watchers(self)

    def delete(self) -> None:
        """The topic is being deleted: it serves nothing any more, and never will."""
        self.deleted = True
        self.producers.end()
        self.fail(DELETED)
        self._count_no_longer()

    # what changes in the catalog (told by who has written it there) ----------------------------------------

    def log_start_moves(self, offset: int) -> None:
        """The catalog is being told of this log start: nothing that is put there may take it back."""
        self.next_log_start = max(self.next_log_start, offset)

    def start_moved(self, offset: int, dropped: Collection[str]) -> None:
        """The catalog has a new log start, and these segments (by address) are in the chain no more."""
        self.log_start_offset = max(self.log_start_offset, offset)
        if self.available:
            self._settle_transactions()
        self.listeners.tell_watchers(self)
        self.epochs.truncate_front(self.log_start_offset)
        if dropped:
            self.chain.drop(dropped)
        self.listeners.tell_waiters(self)

    def compacted(self, sources: Sequence[str], made: Sequence[Segment]) -> None:
        """The catalog has these segments in the place of `sources` (by address), a run of its closed ones."""
        self.chain.swap(sources, made)
        # Memory still has what compaction took out:
        self.hot.drop_below(made[-1].end_offset or 0)

    # reading -----------------------------------------------------------------------------------------------

    def check_fetch_offset(self, offset: int, *, committed: bool = False) -> ErrorCode:
        """OFFSET_OUT_OF_RANGE outside of the log; between high watermark and end there is nothing yet.

        Until the end of the log is known no offset is beyond it: a client that was told so would reset its
        position, or report lost data. NOT_LEADER_OR_FOLLOWER makes every client ask again, also those that
        do not know OFFSET_NOT_AVAILABLE in a Fetch. Who reads what is `committed` is told the same until it
        is known which transactions are open.
        """
        if self.withheld or (not self.available and offset >= self.visible_end(committed)):
            self.asked_for()
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.log_start_offset <= offset <= self.next_offset:
            return ErrorCode.NONE
        return ErrorCode.OFFSET_OUT_OF_RANGE

    def visible_end(self, committed: bool) -> int:
        """The offset behind what is shown to who reads what is `committed`, or everything."""
        return self.last_stable_offset if committed else self.high_watermark

    def read_hot(
        self, offset: int, max_bytes: int, *, whole: bool, committed: bool = False
    ) -> list[Batch] | None:
        """Visible batches from memory, from the one that holds `offset`; None if they have to come from a
        store.
        """
        end = self.visible_end(committed)
        if offset >= end:
            return []
        return self.hot.read(offset, end, max_bytes, whole=whole)

    def hot_bytes(self, offset: int, max_bytes: int, *, whole: bool, committed: bool = False) -> int | None:
        """Bytes that `read_hot` would give, without a look at each batch."""
        end = self.visible_end(committed)
        if offset >= end:
            return 0
        return self.hot.size(offset, end, max_bytes, whole=whole)

    def known_aborted(self, offset: int, batches: Sequence[Batch]) -> Aborted | None:
        """Which aborted transactions must be known of who reads these batches, which were just read, from
        `offset` on; None if that has to be read from a store.
        """
        if not batches:
            return []
        return self._context.aborted.known(self, offset, read_header(batches[-1]).last_offset + 1)

    async def read_cold(self, offset: int, max_bytes: int) -> Sequence[Batch]:
        """Visible batches from a store, at least one. Raises KafkaError."""
        return await self._context.cold.read(self, offset, max_bytes)

    async def read_committed(self, offset: int, max_bytes: int) -> tuple[Sequence[Batch], Aborted]:
        """As `read_cold`, of what lies below the last stable offset, with the aborted transactions that must
        be known; nothing if `offset` does not. Raises KafkaError.
        """
        return await self._context.cold.read_committed(self, offset, max_bytes)

    async def look(self, offset: int, max_bytes: int) -> Sequence[Batch]:
        """Visible batches from the one that holds `offset`, up to `max_bytes` or one at least; none at the
        high watermark. For who looks at a log and is no consumer: whatever is kept in memory for consumers
        stays as it is. Raises KafkaError.
        """
        error = self.check_fetch_offset(offset)
        if error is not ErrorCode.NONE:
            raise KafkaError(error, self.reason if not self.available else f"offset {offset}")
        hot = self.read_hot(offset, max_bytes, whole=True)
        return await self._context.cold.look(self, offset, max_bytes) if hot is None else hot

    def __repr__(self) -> str:
        return f"<Partition {self.topic.name}-{self.index}>"
