"""Kafka clients of the simulated cluster: idempotent producers that retry, others that do not, and consumers.

A producer keeps up to five batches of a partition in flight and sends again, in order, what was refused or
not answered in time, as the Java client does. Each batch's value names it, so that wrong content under a
right offset is seen. Consumers read what is below the high watermark, from memory and from stores.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import TYPE_CHECKING, Any, cast

import trio

from gateway.log.partition import PartitionState
from tests.sim.loop import BrokenPromise
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.batch import read_header
from wireproto.records.builder import RecordFields, build_batch

if TYPE_CHECKING:
    from gateway.log.appends import Append, Completion
    from gateway.log.partition import Partition
    from tests.sim.cluster import World
    from tests.sim.gateway_node import Life

MAX_IN_FLIGHT = 5
"""Batches of one producer and partition without an answer, as Kafka's clients have at most."""

REQUEST_SECONDS = 1.5
"""How long a client waits for an answer before it sends again."""

RETRY_SECONDS = 0.1

KEYS = 24
"""Of the records of compacted topics; the first ones are written often, the last ones seldom."""

TOMBSTONES = 0.2
"""Share of the records of compacted topics that delete their keys."""

COMES_AGAIN = 0.1
"""Share of acknowledged batches that come to the gateway once more: a client sent one again that was not
answered in time, and the first one was only late.
"""

REMEMBERED = 5
"""Batches of a producer that a log recognises when they come again."""

NOT_RECOGNISED = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)
"""Answers to a batch that came again, of a log that has forgotten its producer."""
NETWORK_SECONDS = 0.001

PASSERS = 1000
"""The first id of those that pass by."""

PartitionName = tuple[str, int]


class Batch:
    """One batch of one producer, until it is answered."""

    def __init__(self, number: int, name: bytes, content: bytes, acks: int) -> None:
        self.number = number
        self.name = name
        self.content = content
        self.acks = acks
        self.attempt = 0
        self.sent = False
        self.ready_at = 0.0
        self.passed = -1
        """How many producers had passed by when a log took it first."""


class AppendWaiter:
    """In the place of `Completion`: calls back once the append is done."""

    def __init__(self, append: Append, call: Any) -> None:
        self.waiting = 0
        self._append = append
        self._call = call

    def one_done(self) -> None:
        self._call(self._append)


class Producer:
    """One client's stream of batches to one partition. `producer_id` -1: not idempotent."""

    def __init__(
        self, world: World, number: int, partition: PartitionName, producer_id: int, acks: int
    ) -> None:
        self.world = world
        self.partition = partition
        self.producer_id = producer_id
        self.acks = acks
        self.unanswered: list[Batch] = []
        self.answered: deque[Batch] = deque(maxlen=REMEMBERED - 1)
        """The last ones that were acknowledged."""
        self.life: Life | None = None
        self._number = number
        self._made = 0
        self._next_sequence = 0
        self.stopped = False
        """Its topic is gone."""
        self.remembered_at = -1
        """How many had passed by at least when its last batch came that was acknowledged, or would be; -1
        before its first."""

    def begin(self) -> None:
        self.world.loop.after(self._pause(), self._tick)

    def _pause(self) -> float:
        return self.world.plan.pace * self.world.random.uniform(0.2, 1.8)

    def _tick(self) -> None:
        if self.stopped:
            return
        # Answers come in the order of requests: no more than these can be behind the oldest one without.
        oldest = self.unanswered[0].number if self.unanswered else self._made
        writing = self.world.working and self.world.loop.now >= self.world.lull_until
        if writing and self._made - oldest < MAX_IN_FLIGHT - 1:
            self.make()
        self._send_due()
        if self.world.working or self.unanswered:
            self.world.loop.after(self._pause(), self._tick)

    def make(self) -> Batch:
        """The next batch."""
        if not self._made:
            self.remembered_at = self.world.passed[self.partition]
        count = self.world.random.choice((1, 1, 2, 5))
        self._made += 1
        name = b"<%d %s-%d %d>" % (self._number, self.partition[0].encode(), self.partition[1], self._made)
        records = self._records(name, count)
        idempotent = self.producer_id >= 0
        content = build_batch(
            records,
            producer_id=self.producer_id,
            producer_epoch=0 if idempotent else -1,
            base_sequence=self._next_sequence if idempotent else -1,
        )
        batch = Batch(self._made, name, content, self.acks)
        self._next_sequence += count
        self.unanswered.append(batch)
        return batch

    def _records(self, name: bytes, count: int) -> list[RecordFields]:
        """Records that bear this name: of a compacted topic with keys, some of them tombstones."""
        timestamp = 1_700_000_000_000 + self._made
        if not self.world.is_compacted(self.partition):
            return [(None, name, [], timestamp)] * count
        return [self._keyed(name, timestamp) for _ in range(count)]

    def _keyed(self, name: bytes, timestamp: int) -> RecordFields:
        draw = self.world.random
        key, deletes = b"%d" % (KEYS * draw.random() ** 3), draw.random() < TOMBSTONES
        return key, None if deletes else name, [("name", name)], timestamp

    def _choose_gateway(self) -> None:
        """Stay with a gateway as long as batches are on their way to it: else a later one could be first at
        the next gateway. A broken connection ends the wait for all of them.
        """
        if self.life is not None and self.life.over:
            for batch in self.unanswered:
                batch.sent = False
        if not any(batch.sent for batch in self.unanswered):
            self.life = self.world.gateway_of(self.life, self.partition)

    def _send_due(self) -> None:
        """Send what was not, in order: nothing overtakes a batch that waits for its retry."""
        self._choose_gateway()
        for batch in self.unanswered:
            if batch.sent:
                continue
            if batch.ready_at > self.world.loop.now:
                return
            batch.sent = True
            batch.attempt += 1
            self.world.loop.after(NETWORK_SECONDS, self._arrive, batch, batch.attempt, self.life)
            self.world.loop.after(REQUEST_SECONDS, self._answered, batch, batch.attempt, None)

    def _arrive(self, batch: Batch, attempt: int, life: Life | None) -> None:
        """The batch is at the gateway: as the Produce handler takes it."""
        partition = None if life is None or not life.answers else life.partition(*self.partition)
        if life is None or partition is None:
            if life is not None and life.answers and self.partition[0] in self.world.deleted_topics:
                self.stopped = True
                return
            self._answer(batch, attempt, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        self.world.asked.batch_came(self.partition, batch.name)
        view = memoryview(bytearray(batch.content))
        try:
            append = partition.append(read_header(view), view, batch.acks, life.broker.context.now_ms())
        except KafkaError as error:
            self._answer(batch, attempt, error.code)
            return
        if batch.passed < 0:
            batch.passed = self.world.passed[self.partition]
        if append.done:
            self._done(batch, attempt, life, partition, append)
        else:
            waiter = AppendWaiter(append, lambda done: self._done(batch, attempt, life, partition, done))
            append.wait_with(cast("Completion", waiter))

    def _done(self, batch: Batch, attempt: int, life: Life, partition: Partition, append: Append) -> None:
        if not life.answers:
            return  # it is gone, or has hung up
        if append.error is ErrorCode.NONE and batch.acks == -1:
            # The gateway says so: whether the answer arrives or not, the promise is given.
            self.world.history.on_acknowledged(partition, batch.name, append.base_offset)
            self.world.asked.batch_acknowledged(self.partition, batch.name, append.base_offset)
        self._answer(batch, attempt, append.error)

    def _answer(self, batch: Batch, attempt: int, error: ErrorCode) -> None:
        if self.world.working and self.world.random.random() < self.world.plan.lost:
            self.world.reached["answers to clients lost"] += 1
            return
        self.world.loop.after(NETWORK_SECONDS, self._answered, batch, attempt, error)

    def _answered(self, batch: Batch, attempt: int, error: ErrorCode | None) -> None:
        """An answer, or (error None) none in time."""
        if batch not in self.unanswered or attempt != batch.attempt or not batch.sent:
            return
        if error is ErrorCode.NONE:
            self.unanswered.remove(batch)
            self.answered.append(batch)
            if batch.acks == -1:
                self.remembered_at = max(self.remembered_at, batch.passed)
            self.world.reached["batches acknowledged"] += 1
            if self.world.plan.cleans and self.producer_id >= 0 and self.world.random.random() < COMES_AGAIN:
                self.world.loop.after(self.world.random.uniform(0.01, 2.0), self._come_again, batch)
            return
        if error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and batch is self.unanswered[0]:
            raise BrokenPromise(f"{batch.name!r}: all before it was acknowledged, and it is out of order")
        batch.sent = False
        batch.ready_at = self.world.loop.now + RETRY_SECONDS
        if self.producer_id < 0:
            # It cannot know: whoever retries without an id may double.
            self.unanswered.remove(batch)

    def begins_anew(self) -> None:
        """As another producer: nothing is on its way."""
        self.unanswered.clear()
        self._next_sequence = 0

    def repeat(self) -> None:
        """Requests that were answered long ago arrive once more."""
        for batch in self.answered if self.producer_id >= 0 else ():
            self._come_again(batch)

    def _come_again(self, batch: Batch) -> None:
        """A request for a batch that was acknowledged long ago arrives. No log takes it a second time: that
        is seen by its ledger.
        """
        life = self.world.leader_of(self.partition)
        partition = None if life is None or not life.serving else life.partition(*self.partition)
        if life is None or partition is None or self._made - batch.number >= REMEMBERED:
            return
        view = memoryview(bytearray(batch.content))
        try:
            partition.append(read_header(view), view, batch.acks, life.broker.context.now_ms())
            self.world.reached["batches that came again"] += 1
        except KafkaError as error:
            if error.code in NOT_RECOGNISED:
                raise BrokenPromise(
                    f"{batch.name!r} came again, and is not known any more: {error}"
                ) from None


class Passers:
    """Idempotent producers that write one batch to a partition, once, and are never heard of again."""

    def __init__(self, world: World, partition: PartitionName) -> None:
        self._world = world
        self._partition = partition
        self._makes = Producer(world, PASSERS, partition, PASSERS, -1)

    def begin(self) -> None:
        self._world.loop.after(self._world.plan.pace * self._world.random.uniform(0.5, 3.0), self._tick)

    def _tick(self) -> None:
        world = self._world
        if world.working:
            self.begin()
            if world.loop.now >= world.lull_until and self._may_pass():
                self._pass()

    def _may_pass(self) -> bool:
        """Nobody who may send again is pushed out by one more."""
        writing = [
            producer.remembered_at
            for producer in self._world.producers
            if producer.partition == self._partition and producer.producer_id >= 0 <= producer.remembered_at
        ]
        least = self._world.passed[self._partition] - min(writing, default=0)
        room = self._world.plan.producers_kept - self._world.plan.transactions
        return least < room - len(writing) if writing else True

    def _pass(self) -> None:
        world, makes = self._world, self._makes
        life = world.leader_of(self._partition)
        partition = None if life is None or not life.serving else life.partition(*self._partition)
        if life is None or partition is None:
            return
        makes.producer_id = PASSERS + world.passed[self._partition]
        batch = makes.make()
        makes.begins_anew()
        view = memoryview(bytearray(batch.content))
        with contextlib.suppress(KafkaError):
            world.passed[self._partition] += 1
            partition.append(read_header(view), view, batch.acks, life.broker.context.now_ms())
            world.reached["producers that passed by"] += 1


class Consumer:
    """Reads random places below the high watermark, through one gateway life."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._world = life.world

    async def run(self) -> None:
        """Read for ever."""
        while True:
            await trio.sleep(0.05 + 0.2 * self._world.random.random())
            partitions = [p for p in self._life.partitions() if p.high_watermark > p.log_start_offset]
            if partitions:
                await self._read(self._world.random.choice(partitions))

    async def _read(self, partition: Partition) -> None:
        offset = self._world.random.randrange(partition.log_start_offset, partition.high_watermark)
        began = self._world.loop.now
        batches = partition.read_hot(offset, 1500, whole=True)
        if batches is None or self._world.random.random() < 0.3:
            try:
                with trio.move_on_after(20):
                    batches = list(await partition.read_cold(offset, 1500))
                    self._world.reached["ranges read from stores"] += 1
            except KafkaError:
                self._world.reached["reads refused"] += 1
                return
        if batches and partition.state is not PartitionState.RECOVERING and not partition.deleted:
            self._world.history.on_read(
                (partition.topic.name, partition.index),
                offset,
                batches,
                partition.log_start_offset,
                began,
                stale=self._life not in self._world.current_lives(),
            )
