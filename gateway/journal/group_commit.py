"""Appends writes to the partitions of an internal topic, many in one batch, and tells when they are durable.

Theory of operation: each partition has a lane (`gateway.journal.lane`) while something is written to it. A
write goes out in the next turn of the loop if nothing of its lane is on its way; by then all requests that
had come were read, so what they write shares a batch, and the batches of all partitions go to the stores
together. Otherwise it waits for what is on its way, and then goes out with all others that wait: the more is
written, the larger the batches, at one fsync each. When a partition fails, what was on its way may be kept or
not: `lost` is called, and what that partition keeps is to be loaded again.

Internal topics do not wait at the gate that holds back producers (`gateway.log.context.MAX_WINDOW_BYTES`):
what they may have on their way besides is bounded here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import trio

from gateway.common.clients import NOBODY
from gateway.common.marker import Marker
from gateway.common.shares import Shares
from gateway.common.waiting import Waiter
from gateway.journal.internal_topic import partition_for
from gateway.journal.lane import KeyValue, Lane, TransactionOf, Write, runs
from gateway.log.appends import Append, Completion, Completions
from gateway.log.partition import Partition
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.builder import build_batch
from wireproto.records.header import HEADER_BYTES, TRANSACTIONAL_FLAG, read_header

if TYPE_CHECKING:
    from gateway.cluster.cluster import Cluster

WRITE_TIMEOUT_SECONDS: Final = 5.0
"""Kafka's `offsets.commit.timeout.ms`: how long a write may take until it is durable; then its client is
told to try again."""

MAX_LARGE_BYTES: Final = 8 * 1024 * 1024
"""Writes too large to share a batch with others, of all partitions of a topic together, waiting or on their
way; one client has half of what others leave. Beyond it they are refused with COORDINATOR_NOT_AVAILABLE,
which clients retry."""

_ACKS_ALL: Final = -1

_AS_COORDINATOR_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}


def as_coordinator_error(code: ErrorCode, message: str | None) -> KafkaError:
    """What clients of a coordinator are told for an error of the log
    (`CoordinatorOperationExceptionHelper.handleOperationException`).
    """
    return KafkaError(_AS_COORDINATOR_ERRORS.get(code, code), message or "")


class Effect(Protocol):
    """What a write changes in memory."""

    def start(self) -> None:
        """The records are on their way to the log from now on."""

    def settled(self, durable: bool) -> None:
        """They are in the log, durably; or it is not known that they are."""


class NoEffect:
    """The effect of a write whose caller takes care of memory itself."""

    def start(self) -> None: ...

    def settled(self, durable: bool) -> None: ...


class Place(NamedTuple):
    """A partition, and the order of what is written to it."""

    partition: Partition
    lane: Lane

    @property
    def largest(self) -> int:
        """Bytes of the records of one write at most."""
        return self.partition.topic.settings.max_message_bytes - HEADER_BYTES


class Pending:
    """A write on its way. `error` says, once it is `done`, whether it failed."""

    __slots__ = ("_completion", "_entered", "_lane", "done", "effect", "error", "write")

    def __init__(
        self,
        lane: Lane,
        records: Sequence[KeyValue],
        effect: Effect,
        size: int | None = None,
        part_of: TransactionOf | Marker | None = None,
        client: str = NOBODY,
        sender: str | None = None,
    ) -> None:
        self.write = Write(records, self._settled, size, part_of, client, sender)
        self.effect = effect
        self.done = False
        self.error: KafkaError | None = None
        self._lane = lane
        self._entered = trio.current_time()
        self._completion: Completion | None = None

    def _settled(self, error: KafkaError | None) -> None:
        self.error = error
        # What a marker that repeats another would end may be the producer's next transaction.
        self.effect.settled(error is None and not self.write.repeats)
        self.done = True
        if self._completion is not None:
            self._completion.one_done()

    def completion(self, completions: Completions) -> Completion:
        """What is over when the write is done, or has taken too long since it was entered, so that who waits
        for many, one after the other, waits no longer than for one: then `outcome` says how it went. Asked
        for once.
        """
        made = Completion(completions, self._entered + WRITE_TIMEOUT_SECONDS)
        if not self.done:
            made.waiting = 1
            self._completion = made
        return made

    def outcome(self) -> ErrorCode:
        """How the write went. What is not done by now has taken too long: it is not sent any more, if it has
        not been.
        """
        if not self.done:
            late = KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"not durable on enough stores within {WRITE_TIMEOUT_SECONDS:.0f} s",
            )
            self._lane.withdraw(self.write, late)
            return late.code
        return ErrorCode.NONE if self.error is None else self.error.code

    async def durable(self, completions: Completions) -> None:
        """Return when the write is durable. Raises KafkaError if it failed, or takes too long."""
        completion = self.completion(completions)
        if not completion.over:
            over = trio.Event()
            completion.when_over(over.set)
            try:
                # Who watches the deadlines may have ended: deletions outlast a gateway that stops.
                with trio.move_on_at(completion.deadline):
                    await over.wait()
            finally:
                completion.forget()
        error = self.outcome()
        if error is not ErrorCode.NONE:
            raise KafkaError(error, "" if self.error is None else self.error.message)


class GroupCommit:
    """The writes to all partitions of one topic."""

    def __init__(self, cluster: Cluster, topic: str, lost: Callable[[int], None]) -> None:
        """`lost` is called with a partition whose last writes may be kept or not: it has to be loaded again.
        It neither blocks nor raises.
        """
        self.batches = 0
        self.records = 0
        """Appended in this life."""
        self._cluster = cluster
        self._topic = topic
        self._lost = lost
        self._places: dict[Partition, Place] = {}
        self._next: dict[Partition, Place] = {}
        """Where something was entered in this turn, to a lane of which nothing was on its way."""
        self._work = Waiter()

    @property
    def waiting_bytes(self) -> int:
        """The bytes of writes that are not on their way yet."""
        return sum(place.lane.waiting_bytes for place in self._places.values())

    async def run(self) -> None:
        """Send what is entered, for ever: without this nothing is."""
        while True:
            if not self._next:  # something may have been entered before there was anybody to be woken
                await self._work.wait()
            places, self._next = self._next, {}
            for place in places.values():
                self._go_on(place)
            self._cluster.deliver()
            # What was refused is over as well.
            self._cluster.completions.settle()

    def place(self, key: str) -> Place:
        """Where the records of a group, or transactional id, go. Raises KafkaError: COORDINATOR_NOT_AVAILABLE
        without the topic.
        """
        return self.place_at(partition_for(key, len(self._partitions())))

    def place_at(self, index: int) -> Place:
        """A partition of the topic. Raises KafkaError: COORDINATOR_NOT_AVAILABLE without the topic."""
        partition = self._partitions()[index]
        return self._places.get(partition) or Place(partition, Lane())

    def _partitions(self) -> Sequence[Partition]:
        topic = self._cluster.topics.get(self._topic)
        if topic is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"there is no topic {self._topic} yet")
        return topic.partitions

    async def settle(self, place: Place) -> None:
        """Return when all that was entered before is settled. Raises KafkaError if that takes too long."""
        if place.partition in self._places:
            await self.durable(self.enter(place, (), NoEffect()))

    async def durable(self, pending: Pending) -> None:
        """Return when the write is durable. Raises KafkaError if it failed, or takes too long."""
        await pending.durable(self._cluster.completions)

    def enter(
        self,
        place: Place,
        records: Sequence[KeyValue],
        effect: Effect,
        size: int | None = None,
        part_of: TransactionOf | Marker | None = None,
        client: str = NOBODY,
        sender: str | None = None,
    ) -> Pending:
        """Have records written, in one batch and behind all that were entered before for this `client`, from
        the next turn on; in a transaction, if they are `part_of` one; or the marker that ends one. `size` is
        what `size_of` gives for all of them, if that is known. `sender` is the client whose share of what may
        wait they take, if not this one.

        Raises KafkaError, and nothing is written: COORDINATOR_NOT_AVAILABLE if too much waits,
        UNKNOWN_SERVER_ERROR if this is too much for one batch.
        """
        place = self._places.get(place.partition, place)
        pending = Pending(place.lane, records, effect, size, part_of, client, sender)
        self._admit(place, pending.write)
        self._places[place.partition] = place
        effect.start()
        if place.lane.add(pending.write):
            self._next[place.partition] = place
            self._work.wake()
        return pending

    def _admit(self, place: Place, write: Write) -> None:
        """Raises KafkaError if there is no room for a write."""
        if write.size > (largest := place.largest):
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"{write.size} bytes are to be written at once, {largest} may be",
            )
        if write.is_large:
            full = not self._has_room_for_large(write)
        elif isinstance(write.part_of, Marker):
            full = not place.lane.has_room_for_marker
        else:
            full = not place.lane.has_room(write.sender, write.size)
        if full:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"too much waits to be written to {self._topic}"
            )

    def _has_room_for_large(self, write: Write) -> bool:
        large = Shares(MAX_LARGE_BYTES)
        lanes = [place.lane for place in self._places.values()]
        of_sender = 0 if write.sender == NOBODY else sum(lane.large_bytes(write.sender) for lane in lanes)
        large.charge(write.sender, of_sender)
        large.charge(NOBODY, sum(lane.large_bytes() for lane in lanes) - of_sender)
        return large.has_room(write.sender, write.size)

    def _go_on(self, place: Place) -> None:
        """Send the next batch, unless one is on its way or nothing waits."""
        lane = place.lane
        while writes := lane.take():
            refused: dict[Write, KafkaError] = {}
            waiting = []
            for run in runs(writes) if len(writes) > 1 else (writes,):
                append = self._append(place.partition, run, refused)
                if append is not None and not append.done:
                    waiting.append(append)
            if waiting:
                completion = Completion(self._cluster.completions, math.inf)
                for append in waiting:
                    append.wait_with(completion)
                completion.when_over(partial(self._arrived, place, waiting, refused))
                return
            lane.settle(refused)
        if lane.is_idle:
            del self._places[place.partition]

    def _append(
        self, partition: Partition, run: Sequence[Write], refused: dict[Write, KafkaError]
    ) -> Append | None:
        """Append what a run of writes has, if anything. Those that the partition does not take are noted, and
        nothing of them is written.
        """
        part_of = run[0].part_of
        records = [record for write in run for record in write.records]
        now_ms = self._cluster.context.now_ms()
        try:
            if isinstance(part_of, Marker):
                end = partition.next_offset
                append = partition.append_marker(part_of, now_ms)
                run[0].repeats = append.base_offset < end
                return append
            return self._append_batch(partition, records, part_of, now_ms) if records else None
        except KafkaError as error:
            refused.update(dict.fromkeys(run, as_coordinator_error(error.code, error.message)))
            return None

    def _append_batch(
        self,
        partition: Partition,
        records: Sequence[KeyValue],
        part_of: TransactionOf | None,
        now_ms: int,
    ) -> Append:
        """Raises KafkaError: the partition does not take it, and nothing was written."""
        fields = [(key, value, (), now_ms) for key, value in records]
        if part_of is None:
            view = memoryview(bytearray(build_batch(fields)))
            append = partition.append(read_header(view), view, _ACKS_ALL, now_ms)
        else:
            # As a group coordinator of Kafka writes it: the sequence means nothing.
            batch = build_batch(
                fields,
                producer_id=part_of.producer_id,
                producer_epoch=part_of.producer_epoch,
                base_sequence=0,
                attributes=TRANSACTIONAL_FLAG,
            )
            view = memoryview(bytearray(batch))
            append = partition.append_for_producer(
                read_header(view), view, now_ms, part_of.guard, part_of.client
            )
        self.batches += 1
        self.records += len(records)
        return append

    def _arrived(self, place: Place, appends: Sequence[Append], refused: Mapping[Write, KafkaError]) -> None:
        """Called from the log: batches are durable, or their partition has failed. Never blocks or raises."""
        failed = next((append for append in appends if append.error is not ErrorCode.NONE), None)
        if failed is None:
            place.lane.settle(refused)
            self._go_on(place)
        else:
            del self._places[place.partition]
            place.lane.drop(as_coordinator_error(failed.error, failed.message))
            self._lost(place.partition.index)
