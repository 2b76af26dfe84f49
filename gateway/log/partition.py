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
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from gateway.log.appends import Append
from gateway.log.epochs import LeaderEpochs
from gateway.log.idempotence import ProducerState
from gateway.log.segment import NO_TIMESTAMP, Segment
from gateway.log.tail_cache import Batch, HotBatches
from mesh.protocol.writer import MAX_WINDOW_RECORDS, State, Writer
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.batch import BatchHeader, assign_offsets, set_log_append_time

if TYPE_CHECKING:
    from gateway.log.context import LogContext
    from gateway.log.topic import Topic

MAX_PARTITION_WINDOW_BYTES = 32 * 1024 * 1024
"""Appended and not yet durable, per partition. At the cap its producers get NOT_ENOUGH_REPLICAS, which they
retry."""


class PartitionState(Enum):
    """Only a READY partition takes appends."""

    RECOVERING = "recovering"
    READY = "ready"
    FAILED = "failed"


class FetchWaiter(Protocol):
    """A parked Fetch: told when records of a partition become visible, and when the partition goes away."""

    def advanced(self) -> None: ...


class OpenSegment:
    """The segment that appends go to."""

    __slots__ = ("bytes", "max_timestamp", "segment", "snapshot", "writer")

    def __init__(self, segment: Segment, writer: Writer) -> None:
        self.segment = segment
        self.writer = writer
        self.bytes = 0
        self.max_timestamp = NO_TIMESTAMP
        self.snapshot = b""
        """The idempotence state before its first batch, for its announcement."""


class InFlight:
    """A batch that is appended and not yet durable on w members."""

    __slots__ = ("append", "first_only", "last_offset", "sequence", "writer")

    def __init__(
        self, writer: Writer, sequence: int, last_offset: int, append: Append, first_only: bool
    ) -> None:
        self.writer = writer
        self.sequence = sequence
        self.last_offset = last_offset
        self.append = append
        self.first_only = first_only


class Partition:
    """A partition as handlers see it. All methods but the `async` ones return at once."""

    def __init__(self, context: "LogContext", topic: "Topic", index: int) -> None:
        self.topic = topic
        self.index = index
        self.state = PartitionState.RECOVERING
        self.reason = "the partition is being recovered"
        """Why it does not serve produces, while it does not."""
        self.deleted = False
        self.log_start_offset = 0
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
        self._waiters: set[FetchWaiter] = set()

    # what handlers ask -------------------------------------------------------------------------------------

    @property
    def available(self) -> bool:
        """Recovered: latest offsets are known and produces are taken."""
        return self.state is PartitionState.READY

    def check_leader_epoch(self, current_leader_epoch: int) -> ErrorCode:
        """Kafka's check of the epoch that a client believes in; -1 is not given
        (`Partition.checkCurrentLeaderEpoch`).
        """
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return ErrorCode.NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) as OffsetForLeaderEpoch answers; (-1, -1) when the epoch is not known."""
        if epoch == self.leader_epoch:
            return epoch, self.high_watermark
        if epoch > self.leader_epoch:
            return -1, -1
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

    def append(self, header: BatchHeader, view: memoryview, acks: int) -> Append:
        """Append one validated batch; its bytes are changed in place and kept.

        Raises KafkaError: the producer's sequence is wrong, the partition does not serve, or its window is
        full.
        """
        if self.state is not PartitionState.READY:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, self.reason)
        if header.producer_id >= 0:
            duplicate = self.producers.check(
                header.producer_id, header.producer_epoch, header.base_sequence, header.count
            )
            if duplicate is not None:
                append = Append(duplicate.base_offset, duplicate.last_offset, self.log_start_offset)
                # As Kafka answers it, under CreateTime too.
                append.log_append_time_ms = duplicate.timestamp
                return self._duplicate(append)
        self._check_window(len(view))
        now_ms = self._context.now_ms()
        current = self._segment_for(len(view), now_ms)
        base_offset = self.next_offset
        append = Append(base_offset, base_offset + header.last_offset_delta, self.log_start_offset)
        assign_offsets(view, base_offset, current.segment.epoch)
        if self.topic.settings.log_append_time:
            header = set_log_append_time(view, now_ms)
            append.log_append_time_ms = now_ms
        self.next_offset = append.last_offset + 1
        current.bytes += len(view)
        current.max_timestamp = max(current.max_timestamp, header.max_timestamp)
        self.hot.append(base_offset, append.last_offset, view)
        if header.producer_id >= 0:
            self.producers.applied(
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                append.last_offset,
                header.count,
                header.max_timestamp,
                now_ms,
            )
        sequence = self._context.producer.append(current.writer, view)
        self._context.window_changed()
        self._in_flight.append(InFlight(current.writer, sequence, append.last_offset, append, acks == 1))
        if acks == 0:
            append.done = True
        return append

    def _duplicate(self, append: Append) -> Append:
        if append.last_offset < self.high_watermark:
            append.done = True
        else:
            self._duplicates.append((append.last_offset, append))
        return append

    def _check_window(self, size: int) -> None:
        segments = [*self.rolling, self.current] if self.current else self.rolling
        held = sum(segment.writer.bytes for segment in segments)
        if not self._context.window_gate.is_open:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS, "the stores take records more slowly than producers send them"
            )
        if held + size > MAX_PARTITION_WINDOW_BYTES or len(self._in_flight) >= MAX_WINDOW_RECORDS:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{held} bytes in {len(self._in_flight)} batches wait for the stores already",
            )

    def _segment_for(self, size: int, now_ms: int) -> OpenSegment:
        """The segment that a batch of `size` bytes goes to; a new one if there is none, or that one is full
        or old.

        One that is still being opened is never left: it grows beyond its size by a window at most.
        """
        current = self.current
        settings = self.topic.settings
        if current is not None:
            full = current.bytes + size > settings.segment_bytes
            old = now_ms - current.segment.opened_ms >= settings.segment_ms
            if current.writer.state is State.OPENING or not (full or old):
                return current
            self.rolling.append(current)
        self.current = self._context.opener.start(self, now_ms)
        return self.current

    # progress (called by mesh.producer) --------------------------------------------------------------------

    def progressed(self, writer: Writer) -> None:
        """Acknowledgements moved `writer.first` or `writer.committed`."""
        in_flight = self._in_flight
        high_watermark = self.high_watermark
        while in_flight and in_flight[0].writer is writer and in_flight[0].sequence <= writer.committed:
            entry = in_flight.popleft()
            high_watermark = entry.last_offset + 1
            if not entry.append.done:
                entry.append.finish()
        if writer.first > writer.committed:
            self._finish_first(writer)
        self._context.window_changed()
        if high_watermark > self.high_watermark:
            self.high_watermark = high_watermark
            if self._duplicates:
                self._finish_duplicates()
            for waiter in tuple(self._waiters):
                waiter.advanced()
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

    def fenced(self, _writer: Writer, reason: str) -> None:
        """A segment was lost: nothing more is appended until the partition was recovered again."""
        self.fail(reason)
        self._context.recover_again(self)

    def fail(self, reason: str) -> None:
        """Stop serving produces; what waited is told to ask for the leader again."""
        self.state = PartitionState.FAILED
        self.reason = reason
        self._context.opener.forget(self)
        for segment in [*self.rolling, self.current] if self.current else self.rolling:
            self._context.producer.forget(segment.writer)
        waiting = [entry.append for entry in self._in_flight] + [append for _, append in self._duplicates]
        self._in_flight.clear()
        self._duplicates.clear()
        self._context.window_changed()
        for append in waiting:
            if not append.done:
                append.finish(ErrorCode.NOT_LEADER_OR_FOLLOWER, reason)
        for waiter in tuple(self._waiters):
            waiter.advanced()

    def delete(self) -> None:
        """The topic is being deleted: it serves nothing any more, and never will."""
        self.deleted = True
        self.fail("the topic was deleted")

    # reading -----------------------------------------------------------------------------------------------

    def check_fetch_offset(self, offset: int) -> ErrorCode:
        """OFFSET_OUT_OF_RANGE outside of the log; between high watermark and end there is nothing yet."""
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

    async def read_cold(self, offset: int, max_bytes: int) -> list[Batch]:
        """Visible batches from a store, at least one. Raises KafkaError."""
        return await self._context.cold.read(self, offset, max_bytes)

    def add_waiter(self, waiter: FetchWaiter) -> None:
        self._waiters.add(waiter)

    def remove_waiter(self, waiter: FetchWaiter) -> None:
        self._waiters.discard(waiter)

    # the chain ---------------------------------------------------------------------------------------------

    def chain(self) -> list[Segment]:
        """All segments, oldest first."""
        open_ones = [*self.rolling, self.current] if self.current else self.rolling
        return self.closed + [segment.segment for segment in open_ones]

    def __repr__(self) -> str:
        return f"<Partition {self.topic.name}-{self.index}>"
