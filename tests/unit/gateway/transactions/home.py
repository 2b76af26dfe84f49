"""A transaction coordinator on a broker of a few lists, with a log that does what a test says."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.common.clients import NOBODY
from gateway.common.marker import Marker
from gateway.journal.group_commit import Effect
from gateway.journal.internal_topic import partition_for
from gateway.log.partition import PartitionState
from gateway.security.producer_ids import Whom
from gateway.transactions.adding import AddPartitions
from gateway.transactions.coordinator import TransactionCoordinator
from gateway.transactions.ending import EndTxn
from gateway.transactions.initialising import InitProducerId
from gateway.transactions.internal_topic import TRANSACTION_TOPIC
from gateway.transactions.metadata import TopicPartition, TransactionMetadata
from gateway.transactions.outcomes import Answer
from gateway.transactions.records import decode_record, transaction_key, transaction_value
from gateway.transactions.replay import LoadedTransaction
from wireproto.kafka.errors import ErrorCode, KafkaError

START_MS = 1_795_301_596_000
TIMEOUT_MS = 60_000
LEADER_EPOCH = 7
ORDERS: frozenset[TopicPartition] = frozenset((("orders", 0), ("orders", 1)))


class Topics(dict[str, Any]):
    """Topics by their names."""

    def all(self) -> list[Any]:
        return list(self.values())


class FakePending:
    """A write on its way."""

    def __init__(self, index: int, record: tuple[bytes, bytes | None], effect: Effect) -> None:
        self.index = index
        self.record = record
        self.effect = effect
        self.error: ErrorCode | None = None
        self.done = trio.Event()


class FakeJournal:
    """Keeps what is written, as bytes. `refuses`: nothing is taken, or nothing of `refused_client`. `held`:
    what was taken stays on its way until `settle` says what becomes of it.
    """

    def __init__(self) -> None:
        self.log: list[tuple[int, bytes, bytes | None]] = []
        self.entered: list[tuple[str, TransactionMetadata | None]] = []
        self.clients: list[str] = []
        """Whose writes these are."""
        self.on_its_way: list[FakePending] = []
        self.has_some = trio.Event()
        self.held = False
        self.refuses: ErrorCode | None = None
        self.refused_client: str | None = None
        self.loads: list[int] = []
        self.load_fails: set[int] = set()
        self.may_load = trio.Event()
        self.may_load.set()

    async def run(self) -> None:
        while True:
            await self.has_some.wait()
            self.has_some = trio.Event()
            await trio.lowlevel.checkpoint()
            if not self.held:
                self.settle()

    def enter(
        self,
        index: int,
        transactional_id: str,
        metadata: TransactionMetadata | None,
        effect: Effect,
        client: str = NOBODY,
    ) -> FakePending:
        if self.refuses is not None and self.refused_client in {None, client}:
            raise KafkaError(self.refuses, "the log is away")
        value = None if metadata is None else transaction_value(metadata)
        pending = FakePending(index, (transaction_key(transactional_id), value), effect)
        self.entered.append((transactional_id, metadata))
        self.clients.append(client)
        effect.start()
        self.on_its_way.append(pending)
        self.has_some.set()
        return pending

    async def durable(self, pending: FakePending) -> None:
        if not self.held:
            await trio.lowlevel.checkpoint()
            self.settle()
        with trio.move_on_after(5) as waited:
            await pending.done.wait()
        if waited.cancelled_caught:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "too late")
        if pending.error is not None:
            raise KafkaError(pending.error)

    def settle(self, error: ErrorCode | None = None) -> None:
        """All that is on its way is durable, or is not and never will be."""
        settled, self.on_its_way = self.on_its_way, []
        for pending in settled:
            if error is None:
                self.log.append((pending.index, *pending.record))
            pending.error = error
            pending.effect.settled(error is None)
            pending.done.set()

    async def load(self, partition: int) -> dict[str, LoadedTransaction]:
        self.loads.append(partition)
        await self.may_load.wait()
        if partition in self.load_fails:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "its stores are away")
        found: dict[str, LoadedTransaction] = {}
        for offset, (index, key, value) in enumerate(self.log):
            if index == partition:
                record = decode_record(key, value)
                found.pop(record.transactional_id, None)
                if record.metadata is not None:
                    found[record.transactional_id] = LoadedTransaction(record.metadata, offset)
        return found


class FakeTarget:
    """Has markers written: answers what is planned for a partition, one by one, and then no error."""

    def __init__(self) -> None:
        self.written: list[tuple[TopicPartition, Marker]] = []
        self.tried: list[tuple[TopicPartition, Marker]] = []
        self.plan: defaultdict[TopicPartition, list[ErrorCode]] = defaultdict(list)
        self.gone: set[TopicPartition] = set()
        self.go = trio.Event()
        self.go.set()

    def exists(self, partition: TopicPartition) -> bool:
        return partition not in self.gone

    async def write(self, partition: TopicPartition, marker: Marker) -> ErrorCode:
        self.tried.append((partition, marker))
        await self.go.wait()
        await trio.lowlevel.checkpoint()
        if self.plan[partition]:
            return self.plan[partition].pop(0)
        self.written.append((partition, marker))
        return ErrorCode.NONE


class Home:
    """The coordinator, and what a test does to it."""

    def __init__(self, *, topic: bool = True) -> None:
        self.topics = Topics()
        self.created = 0
        self.elsewhere: set[int] = set()
        """Partitions that another gateway leads."""
        self.version = 0
        """The level of `transaction.version`."""
        self.producer_ids = 1000
        self.producer_ids_of: dict[int, Whom] = {}
        """For whom each was asked for."""
        self.anybodys: set[int] = set()
        """Producer ids that do not say for whom they are."""
        self.somebody_elses: set[int] = set()
        """Producer ids that do not fit the transactional id that has them."""
        self.began = 0.0
        if topic:
            self.make_topic()
        self.broker = SimpleNamespace(
            topics=self.topics,
            stores=SimpleNamespace(default_replication_factor=1),
            create_topic=self._create_topic,
            allocate_producer_id=self._allocate,
            producer_id_owners=SimpleNamespace(
                is_of=lambda pid, _name: pid not in self.somebody_elses,
                is_bound_to=lambda pid, _name: pid not in self.somebody_elses | self.anybodys,
            ),
            context=SimpleNamespace(now_ms=self.now_ms),
            node_id=1,
            features=SimpleNamespace(level=lambda _feature: self.version),
            gateways=SimpleNamespace(
                leads=lambda partition: partition.index not in self.elsewhere,
                leader=lambda _topic_id, index: 2 if index in self.elsewhere else 1,
            ),
        )
        self.journal = FakeJournal()
        self.target = FakeTarget()
        self.coordinator = TransactionCoordinator(cast("Any", self.broker), self.target)
        self.coordinator.journal = cast("Any", self.journal)
        self.nursery: trio.Nursery
        self.answers: dict[str, Answer | ErrorCode] = {}
        """What `begin` was told."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self.began = trio.current_time()
        async with trio.open_nursery() as self.nursery:
            self.nursery.start_soon(self.coordinator.run)
            await wait_all_tasks_blocked()
            yield
            self.nursery.cancel_scope.cancel()

    def now_ms(self) -> int:
        return START_MS + round((trio.current_time() - self.began) * 1000)

    def make_topic(self) -> None:
        topic = SimpleNamespace(name=TRANSACTION_TOPIC, id=uuid.uuid4().bytes)
        topic.partitions = [
            SimpleNamespace(
                topic=topic,
                index=index,
                leader_epoch=LEADER_EPOCH,
                next_offset=0,
                available=False,
                state=PartitionState.READY,
            )
            for index in range(50)
        ]
        self.topics[TRANSACTION_TOPIC] = topic

    def partition(self, transactional_id: str) -> Any:
        return self.topics[TRANSACTION_TOPIC].partitions[partition_for(transactional_id, 50)]

    def move(self, transactional_id: str, *, here: bool) -> None:
        """The gateways' table gives an id's partition to this gateway, or to gateway 2."""
        partition = self.partition(transactional_id)
        self.elsewhere.discard(partition.index) if here else self.elsewhere.add(partition.index)
        self.coordinator.moved([partition] if here else [], [] if here else [partition])

    async def reload(self, transactional_id: str) -> None:
        """Its partition is led by another gateway, and by this one again, under a later epoch."""
        self.move(transactional_id, here=False)
        self.partition(transactional_id).leader_epoch += 1
        self.move(transactional_id, here=True)
        await wait_all_tasks_blocked()

    async def _create_topic(
        self,
        name: str,
        partitions: int,
        configs: dict[str, str],
        copies: int,
        *,
        feature: str,  # noqa: ARG002
    ) -> Any:
        assert (name, partitions, copies) == (TRANSACTION_TOPIC, 50, 1)
        assert configs == {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "segment.bytes": "104857600",
        }
        await trio.lowlevel.checkpoint()
        if self.created < 0:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "no room")
        self.created += 1
        self.make_topic()

    async def _allocate(self, whom: Whom) -> int:
        await trio.lowlevel.checkpoint()
        self.producer_ids += 1
        self.producer_ids_of[self.producer_ids] = whom
        return self.producer_ids

    # requests ----------------------------------------------------------------------------------------------

    async def init(self, name: str = "t", *, client: str = NOBODY, **fields: int) -> Answer:
        request = InitProducerId(**({"timeout_ms": TIMEOUT_MS} | fields))
        return await self.coordinator.init_producer_id(name, request, client)

    async def add(
        self, pid: int, epoch: int, partitions: frozenset[TopicPartition] = ORDERS, name: str = "t"
    ) -> ErrorCode:
        entered = self.coordinator.begin_to_add(name, AddPartitions(pid, epoch, partitions))
        return (await self.coordinator.answer(entered)).error

    async def end(
        self, pid: int, epoch: int, name: str = "t", *, commit: bool = True, version: int = 0
    ) -> Answer:
        return await self.coordinator.end(name, EndTxn(pid, epoch, commit, version))

    async def begin(self, label: str, ask: Coroutine[Any, Any, Answer | ErrorCode]) -> None:
        """Ask in a task of its own."""

        async def run() -> None:
            try:
                self.answers[label] = await ask
            except KafkaError as error:
                self.answers[label] = error.code

        self.nursery.start_soon(run)
        await wait_all_tasks_blocked()

    async def open(self, name: str = "t", partitions: frozenset[TopicPartition] = ORDERS) -> tuple[int, int]:
        """Its producer has a transaction with these partitions."""
        answer = await self.init(name)
        assert await self.add(answer.producer_id, answer.producer_epoch, partitions, name) is ErrorCode.NONE
        return answer.producer_id, answer.producer_epoch

    def state(self, name: str = "t") -> str:
        """The name of its state; "" if it is not there."""
        one = self.coordinator.transactions.get(name)
        return "" if one is None or one.machine.metadata is None else one.machine.metadata.state.label


def run(main: Any) -> None:
    """With a clock that jumps: what waits for a time costs none."""
    trio.run(main, clock=MockClock(autojump_threshold=0))
