"""Fetch of very many partitions, or of one very many times: nobody else waits for it."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.answers import encoding
from gateway.api import fetch as fetch_module
from gateway.fetch import fetched_partition, full, incremental, job, reading, sessions
from gateway.fetch.session import FetchSession, SessionPartition
from gateway.log.listeners import Listeners
from gateway.log.partition import Partition
from tests.unit.gateway.fetch.consumer import Consumer
from tests.unit.gateway.fetch.test_full import COLD, SIZE, count_reads, fetched, fill
from tests.unit.gateway.log.fake_log import FakeLog, batch, fetch_request, make_request
from tests.unit.gateway.log.test_cold import lookups
from tests.unit.gateway.log.test_partition_appends import append, logged
from wireproto.kafka.fetch import FetchPartition, FetchRequest, FetchTopic, encode_fetch_response

BREATH = 4
MANY = 10 * BREATH

Entries = list[tuple[str, list[tuple[int, int]]]]


def asking(entries: Entries) -> Any:
    """A Fetch with these topic entries: (name, [(partition, offset)])."""
    topics = [
        FetchTopic(
            name, None, [FetchPartition(index, -1, offset, -1, -1, 9 * SIZE) for index, offset in asks]
        )
        for name, asks in entries
    ]
    return make_request(1, 12, FetchRequest(-1, 0, 1, 1 << 20, 0, 0, -1, topics), memoryview(b""))


# one partition, many times --------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, COLD], ids=["hot", "cold"])
@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([("orders", [(0, 0), (1, 0), (0, 3)])], [("orders", [(0, 0, 1), (1, 0, 4)])]),
        ([("orders", [(0, 3)]), ("orders", [(1, 1), (0, 2)])], [("orders", [(0, 0, 2), (1, 0, 3)])]),
        (
            [("orders", [(0, 3)]), ("no", [(0, 0), (0, 1)]), ("orders", [(1, 1), (0, 2)]), ("no", [(0, 2)])],
            [("orders", [(0, 0, 2), (1, 0, 3)]), ("no", [(0, 3, 0)])],
        ),
        ([("orders", [(0, 99), (0, 2)])], [("orders", [(0, 0, 2)])]),
        ([("orders", [(0, 2), (0, 99)])], [("orders", [(0, 1, 0)])]),
        ([("orders", [(7, 0), (7, 0)])], [("orders", [(7, 3, 0)])]),
    ],
)  # fmt: skip
def test_a_partition_named_twice_is_answered_once_and_as_it_was_named_last(
    options: dict[str, Any], entries: Entries, expected: Any
) -> None:
    """As Kafka, which keeps a Fetch in a LinkedHashMap (`FetchRequest.fetchData`) and puts the partitions of
    topics that follow each other into one (`FetchResponse.toMessage`).
    """

    async def body(log: FakeLog) -> None:
        lookups(log)
        await fill(log)
        results = await full.FetchJob(asking(entries), log.broker).run()
        assert [
            (name, [(one.index, one.error_code, sum(map(len, one.records)) // SIZE) for one in group])
            for name, _, group in results
        ] == expected

    logged(body, partitions=2, **options)


def test_a_parked_fetch_that_names_one_partition_very_often_reads_it_once_each_time() -> None:
    async def body(log: FakeLog) -> None:
        await fill(log, 1)
        looks: list[int] = []
        reads: list[int] = []
        count_reads(log.partition, looks, reads)
        results: list[Any] = []

        async def parked() -> None:
            asks = [(0, 1, 0)] * 5000
            results.extend(await fetched(log, *asks, min_bytes=9 * SIZE, max_wait_ms=60_000))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(parked)
            await wait_all_tasks_blocked()
            assert looks == [0]
            for _ in range(3):
                await log.write(batch(b"x" * 1000))
                await wait_all_tasks_blocked()
        assert looks == [0, 0, 0, 0]
        assert reads == [0]
        assert results == [(0, 0, 1)]

    logged(body)


# many partitions ------------------------------------------------------------------------------------------


class Steps(trio.abc.Instrument):
    """Counts how often a task had its turn: what happens in one step keeps all others waiting."""

    def __init__(self) -> None:
        self.step = 0
        self.calls: dict[str, Counter[int]] = {}

    def before_task_step(self, _task: trio.lowlevel.Task) -> None:
        self.step += 1

    def watch(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        """Note in which step `owner.name` is called."""
        real = getattr(owner, name)
        calls = self.calls[name] = Counter()

        def watched(*args: Any, **options: Any) -> Any:
            calls[self.step] += 1
            return real(*args, **options)

        monkeypatch.setattr(owner, name, watched)

    def assert_breathes(self, name: str, least: int) -> None:
        calls = self.calls[name]
        assert sum(calls.values()) >= least
        assert max(calls.values()) <= BREATH


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """Watches what a Fetch does for each partition, with a breath of a few of them."""
    for module in (full, incremental, job, reading, sessions):
        monkeypatch.setattr(module, "BREATH", BREATH)
    found = Steps()
    found.watch(monkeypatch, full, "FetchedPartition")
    found.watch(monkeypatch, Partition, "hot_bytes")
    found.watch(monkeypatch, Partition, "read_hot")
    found.watch(monkeypatch, Listeners, "add")
    found.watch(monkeypatch, fetched_partition, "FetchPartitionResult")
    return found


def test_others_have_their_turn_while_many_partitions_are_read(steps: Steps) -> None:
    async def body(log: FakeLog) -> None:
        await fill(log, 1)
        trio.lowlevel.add_instrument(steps)
        asks = [(index, 0, SIZE) for index in range(MANY)]
        assert await fetched(log, *asks) == [(index, 0, 1) for index in range(MANY)]
        for name in ("FetchedPartition", "hot_bytes", "read_hot", "FetchPartitionResult"):
            steps.assert_breathes(name, MANY)

    logged(body, partitions=MANY)


def test_others_have_their_turn_while_many_topics_are_looked_up(
    steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(log: FakeLog) -> None:
        steps.watch(monkeypatch, log.broker.topics, "get")
        trio.lowlevel.add_instrument(steps)
        assert await full.FetchJob(asking([("orders", [])] * MANY), log.broker).run() == []
        steps.assert_breathes("get", MANY)

    logged(body)


def test_others_have_their_turn_when_many_partitions_advance_at_once(steps: Steps) -> None:
    async def body(log: FakeLog) -> None:
        await fill(log, 1)
        trio.lowlevel.add_instrument(steps)
        asks = [(index, 1, SIZE) for index in range(MANY)]
        results: list[Any] = []

        async def parked() -> None:
            results.extend(await fetched(log, *asks, min_bytes=MANY * SIZE, max_wait_ms=60_000))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(parked)
            await wait_all_tasks_blocked()
            for partition in log.topic.partitions:
                append(partition, batch(b"x" * 1000))
                log.acknowledge(partition)
        assert results == [(index, 0, 1) for index in range(MANY)]
        steps.assert_breathes("add", MANY)
        steps.assert_breathes("read_hot", MANY)

    logged(body, partitions=MANY)


def test_a_large_answer_is_encoded_in_a_worker_thread_and_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def watched(*args: Any, **options: Any) -> Any:
        threads.append(threading.current_thread())
        return encode_fetch_response(*args, **options)

    async def body(log: FakeLog) -> None:
        await fill(log)
        asks = [(index, 0, SIZE) for index in range(MANY)]

        async def answer() -> bytes:
            response = await fetch_module.fetch(fetch_request(*asks), log.broker)
            assert response is not None
            return b"".join(response)

        small = await answer()
        monkeypatch.setattr(encoding, "MANY_ELEMENTS", MANY - 1)
        assert await answer() == small
        assert small.count(batch(b"x" * 1000)[61:]) == 4

    monkeypatch.setattr(fetch_module, "encode_fetch_response", watched)
    logged(body, partitions=4)
    first, second = threads
    assert first is threading.main_thread()
    assert second is not threading.main_thread()


# sessions of very many ------------------------------------------------------------------------------------


def test_others_have_their_turn_while_a_session_of_many_partitions_goes_on(
    steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(log: FakeLog) -> None:
        for owner, name in [
            (Listeners, "watch"),
            (Listeners, "unwatch"),
            (FetchSession, "name"),
            (FetchSession, "forget"),
            (SessionPartition, "tell"),
        ]:
            steps.watch(monkeypatch, owner, name)
        trio.lowlevel.add_instrument(steps)
        consumer = Consumer(log)
        await consumer.begin()
        everything = [(index, 0) for index in range(MANY)]
        assert (await consumer.ask(everything)).told == []
        for partition in log.topic.partitions:
            await log.write(batch(b"x" * 1000), partition=partition)
        assert (await consumer.ask()).told == [(index, 0, 1, 1) for index in range(MANY)]
        await consumer.ask([(index, 1) for index in range(MANY)])
        await consumer.ask(forget=list(range(MANY - BREATH)))
        await consumer.ask(everything)
        await consumer.ask([(0, 0)], epoch=-1)
        for name, least in [
            ("watch", 2 * MANY), ("unwatch", MANY), ("name", 4 * MANY), ("forget", MANY - BREATH),
            ("tell", 5 * MANY), ("hot_bytes", 4 * MANY),
        ]:  # fmt: skip
            steps.assert_breathes(name, least)

    logged(body, partitions=MANY)


def test_a_session_s_partitions_are_put_in_order_in_a_worker_thread_if_they_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body(log: FakeLog) -> None:
        consumer = Consumer(log)
        await consumer.begin()
        await fill(log, 1)
        monkeypatch.setattr(encoding, "MANY_ELEMENTS", MANY - 1)
        assert (await consumer.ask()).told == [(index, 0, 1, 1) for index in range(MANY)]

    logged(body, partitions=MANY)
