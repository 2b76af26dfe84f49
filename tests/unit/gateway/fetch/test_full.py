"""Fetch: byte limits with batches from memory and from stores, and parked requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.log.partition import Partition
from gateway.log.wake_ups import WakeUps
from tests.unit.gateway.log.fake_log import NOW_MS, FakeLog, batch, fetch_request, header_of
from tests.unit.gateway.log.test_partition_appends import logged

SIZE = len(batch(b"x" * 1000))
COLD = {"tail_cache_bytes": 1}


def job(log: FakeLog, *asks: tuple[int, int, int], **options: int) -> Any:
    from gateway.fetch.full import FetchJob

    return FetchJob(fetch_request(*asks, **options), log.broker)


async def fetched(log: FakeLog, *asks: tuple[int, int, int], **options: int) -> list[tuple[int, int, int]]:
    """(partition, error, batches) of each."""
    ((_, _, results),) = await job(log, *asks, **options).run()
    return [(result.index, int(result.error_code), _batches(result.records)) for result in results]


def _batches(records: Any) -> int:
    size = sum(map(len, records))
    assert size % SIZE == 0
    return size // SIZE


async def fill(log: FakeLog, batches: int = 4) -> None:
    for partition in log.topic.partitions:
        await log.write(*[batch(b"x" * 1000)] * batches, partition=partition)


@pytest.mark.parametrize("options", [{}, COLD], ids=["hot", "cold"])
@pytest.mark.parametrize(
    ("limits", "max_bytes", "expected"),
    [
        ((10 * SIZE, 10 * SIZE), 100 * SIZE, [4, 4]),
        ((2 * SIZE, 3 * SIZE), 100 * SIZE, [2, 3]),
        ((2 * SIZE + 1, 10 * SIZE), 3 * SIZE + 1, [2, 1]),
        ((3 * SIZE, 10 * SIZE), 3 * SIZE, [3, 0]),
        ((1, 10 * SIZE), 100 * SIZE, [1, 4]),  # the first batch of all comes, however large
        ((1, 1), 100 * SIZE, [1, 0]),
        ((10 * SIZE, SIZE - 1), 100 * SIZE, [4, 0]),
        ((10 * SIZE, 10 * SIZE), 1, [1, 0]),
        ((0, 0), 100 * SIZE, [1, 0]),
    ],
)
def test_no_partition_gets_more_than_its_limit_and_what_is_left(
    options: dict[str, Any], limits: tuple[int, int], max_bytes: int, expected: list[int]
) -> None:
    async def body(log: FakeLog) -> None:
        await fill(log)
        asks = [(index, 0, limit) for index, limit in enumerate(limits)]
        results = await fetched(log, *asks, max_bytes=max_bytes)
        assert results == [(0, 0, expected[0]), (1, 0, expected[1])]

    logged(body, partitions=2, **options)


def test_a_cold_partition_behind_a_hot_one_keeps_within_what_is_left() -> None:
    async def body(log: FakeLog) -> None:
        await log.write(*[batch(b"x" * 1000)] * 3, partition=log.topic.partitions[1])
        await log.write(*[batch(b"x" * 1000)] * 2, partition=log.topic.partitions[0])
        assert log.topic.partitions[1].read_hot(0, 1, whole=True) is None
        assert await fetched(log, (0, 0, 9 * SIZE), (1, 0, 9 * SIZE), max_bytes=3 * SIZE) == [
            (0, 0, 2),
            (1, 0, 1),
        ]
        assert await fetched(log, (0, 0, 9 * SIZE), (1, 0, SIZE - 1), max_bytes=9 * SIZE) == [
            (0, 0, 2),
            (1, 0, 0),
        ]

    logged(body, partitions=2, tail_cache_bytes=2 * (SIZE + 400))


# parked ---------------------------------------------------------------------------------------------------


def count_reads(partition: Partition, looks: list[int], reads: list[int]) -> None:
    """Have each look at how much there is noted, and each read."""
    partition.hot_bytes = counting(partition.hot_bytes, partition.index, looks)  # type: ignore[method-assign]
    partition.read_hot = counting(partition.read_hot, partition.index, reads)  # type: ignore[method-assign]


def counting(real: Callable[..., Any], index: int, calls: list[int]) -> Callable[..., Any]:
    """The same function, which notes its calls."""

    def counted(*args: Any, **options: Any) -> Any:
        calls.append(index)
        return real(*args, **options)

    return counted


def test_a_parked_fetch_reads_again_only_what_advanced() -> None:
    async def body(log: FakeLog) -> None:
        await fill(log, 1)
        looks: list[int] = []
        reads: list[int] = []
        for partition in log.topic.partitions:
            count_reads(partition, looks, reads)
        asks = [(index, 1, 9 * SIZE) for index in range(4)]
        results: list[Any] = []

        async def parked() -> None:
            results.extend(await fetched(log, *asks, min_bytes=3 * SIZE, max_wait_ms=60_000))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(parked)
            await wait_all_tasks_blocked()
            assert len(log.broker.parked) == 1
            looks.clear()
            for index in (2, 0):
                await log.write(batch(b"x" * 1000), partition=log.topic.partitions[index])
                await wait_all_tasks_blocked()
            assert looks == [2, 0]
            assert not reads
            assert not results
            await log.write(batch(b"x" * 1000), partition=log.topic.partitions[2])
        assert results == [(0, 0, 1), (1, 0, 0), (2, 0, 2), (3, 0, 0)]
        assert looks == [2, 0, 2]
        assert reads == [0, 2]
        assert not log.broker.parked

    logged(body, partitions=4)


def test_what_advances_while_a_large_fetch_is_read_wakes_it() -> None:
    async def body(log: FakeLog) -> None:
        await fill(log, 1)
        first, last = log.topic.partitions[0], log.topic.partitions[-1]
        real = last.hot_bytes

        def read_late(*args: Any, **options: Any) -> Any:
            # Partition 0 was read before, and nobody waits at it yet.
            view = memoryview(bytearray(batch(b"x" * 1000)))
            first.append(header_of(view), view, -1, NOW_MS)
            log.acknowledge(first)
            return real(*args, **options)

        last.hot_bytes = read_late  # type: ignore[method-assign]
        began = trio.current_time()
        asks = [(partition.index, 1, 9 * SIZE) for partition in log.topic.partitions]
        assert await fetched(log, *asks, max_wait_ms=60_000) == [
            (partition.index, 0, 1 if partition is first else 0) for partition in log.topic.partitions
        ]
        assert trio.current_time() == began

    logged(body, partitions=3)


def test_a_fetch_of_very_many_partitions_lets_others_run() -> None:
    async def body(log: FakeLog) -> None:
        await fill(log, 1)
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                await trio.lowlevel.checkpoint()
                turns += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            await trio.lowlevel.checkpoint()
            before = turns
            await fetched(log, *[(0, 1, 1)] * 2560)
            assert turns - before >= 9
            nursery.cancel_scope.cancel()

    logged(body)


def test_more_than_the_answer_may_hold_is_not_waited_for() -> None:
    async def body(log: FakeLog) -> None:
        await fill(log, 3)
        began = trio.current_time()
        assert await fetched(
            log, (0, 0, 99 * SIZE), max_bytes=2 * SIZE, min_bytes=5 * SIZE, max_wait_ms=60_000
        ) == [(0, 0, 2)]
        assert trio.current_time() == began

    logged(body)


def test_a_deleted_topic_ends_the_wait_as_unknown() -> None:
    async def body(log: FakeLog) -> None:
        await fill(log, 1)
        results: list[Any] = []

        async def parked() -> None:
            results.extend(await fetched(log, (0, 1, SIZE), max_wait_ms=60_000))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(parked)
            await wait_all_tasks_blocked()
            log.partition.delete()
        assert results == [(0, 3, 0)]

    logged(body)


def test_a_parked_fetch_that_is_hurried_answers_with_what_there_is() -> None:
    async def body(log: FakeLog) -> None:
        await fill(log, 1)
        results: list[Any] = []

        async def parked() -> None:
            results.extend(await fetched(log, (0, 0, SIZE), min_bytes=1 << 20, max_wait_ms=60_000))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(parked)
            await wait_all_tasks_blocked()
            began = trio.current_time()
            (waiter,) = log.broker.parked
            waiter.hurry()
        assert trio.current_time() == began
        assert results == [(0, 0, 1)]

    logged(body)


def test_who_wants_more_than_there_is_sleeps_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log's own call shows that it is still too little: no task is woken for that."""
    monkeypatch.setattr(WakeUps, "may_call", lambda _self, _many: True)
    steps = Counter[str]()

    class Watch(trio.abc.Instrument):
        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            steps[task.name] += 1

    async def wants_three(log: FakeLog) -> None:
        assert await fetched(log, (0, 0, 9 * SIZE), min_bytes=3 * SIZE, max_wait_ms=60_000) == [(0, 0, 3)]

    async def body(log: FakeLog) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: wants_three(log), name="parked")
            await wait_all_tasks_blocked()
            trio.lowlevel.add_instrument(Watch())
            for count in (0, 0, 1):
                await log.write(batch(b"x" * 1000))
                await wait_all_tasks_blocked()
                assert steps["parked"] == count

    logged(body)
