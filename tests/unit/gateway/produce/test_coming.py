"""A Produce waits a moment for partitions that are about to serve."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.log.idempotence.state import ProducerState
from gateway.log.partition import Partition
from gateway.produce.coming import COMING_SECONDS
from tests.unit.gateway.log.fake_log import FakeLog, batch, produce_request
from tests.unit.gateway.log.test_partition_appends import logged
from tests.unit.gateway.produce.test_appending import answered, began, errors

NOT_LEADER = 6
LONG_MS = 30_000


def recover(*partitions: Partition) -> None:
    """They have served, and are recovered."""
    for partition in partitions:
        partition.fail("it lost its segment")
        partition.begin_recovery([], None)


def serve(partition: Partition) -> None:
    partition.begin_serving(ProducerState())


async def seconds_until_refused(log: FakeLog, *indexes: int, timeout_ms: int = LONG_MS) -> float:
    request = produce_request({index: batch(b"value") for index in indexes or (0,)}, timeout_ms=timeout_ms)
    started = trio.current_time()
    begun, _ = await began(log, request)
    took = trio.current_time() - started
    assert NOT_LEADER in await errors(begun)
    return took


def test_a_batch_waits_until_its_partition_serves() -> None:
    async def body(log: FakeLog) -> None:
        recover(log.partition)

        async def serve_soon() -> None:
            await trio.sleep(COMING_SECONDS / 2)
            assert log.partition.next_offset == 0
            serve(log.partition)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_soon)
            request = produce_request({0: batch(b"value")}, timeout_ms=LONG_MS)
            begun, waits = await began(log, request)
        assert waits
        await wait_all_tasks_blocked()
        log.acknowledge()
        (topic,) = (await answered(begun)).responses
        (part,) = topic.partition_responses
        assert (part.error_code, part.base_offset) == (0, 0)

    logged(body)


@pytest.mark.parametrize(
    ("timeout_ms", "seconds"), [(LONG_MS, COMING_SECONDS), (500, 0.25), (0, 0.0), (-1, 0.0)]
)
def test_it_waits_a_second_at_most_and_half_of_the_requests_timeout(timeout_ms: int, seconds: float) -> None:
    async def body(log: FakeLog) -> None:
        recover(log.partition)
        assert await seconds_until_refused(log, timeout_ms=timeout_ms) == pytest.approx(seconds, abs=0.001)

    logged(body)


def test_several_partitions_share_the_second_and_those_that_serve_are_appended_to() -> None:
    async def body(log: FakeLog) -> None:
        recover(*log.topic.partitions[:2])
        request = produce_request({index: batch(b"value") for index in range(3)}, timeout_ms=LONG_MS)
        started = trio.current_time()
        begun, _ = await began(log, request)
        assert trio.current_time() - started == pytest.approx(COMING_SECONDS, abs=0.001)
        await wait_all_tasks_blocked()
        log.acknowledge(log.topic.partitions[2])
        assert await errors(begun) == [NOT_LEADER, NOT_LEADER, 0]

    logged(body, partitions=3)


def test_all_that_a_request_waits_for_is_asked_for_first() -> None:
    async def body(log: FakeLog) -> None:
        asked: list[int] = []
        log.context.on_recovery(lambda _: None, lambda one: asked.append(one.index))
        recover(*log.topic.partitions[:3])
        log.topic.partitions[1].recovery_waits("stores are away")

        async def serve_what_was_asked_for() -> None:
            await wait_all_tasks_blocked()
            assert asked == [0, 2]
            serve(log.topic.partitions[0])
            serve(log.topic.partitions[2])

        # 9 is no partition of the topic.
        request = produce_request({index: batch(b"value") for index in (0, 1, 2, 3, 9)}, timeout_ms=LONG_MS)
        started = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_what_was_asked_for)
            await began(log, request)
        assert trio.current_time() - started < COMING_SECONDS

    logged(body, partitions=4)


def test_one_that_waits_for_stores_is_not_waited_for() -> None:
    async def body(log: FakeLog) -> None:
        recover(log.partition)
        log.partition.recovery_waits("its recovery waits for the stores s1")
        request = produce_request({0: batch(b"value")}, timeout_ms=LONG_MS)
        begun, waits = await began(log, request)
        assert (waits, await errors(begun)) == (0, [NOT_LEADER])
        serve(log.partition)  # it has come back: a later recovery may be a short one
        recover(log.partition)
        assert await seconds_until_refused(log) == pytest.approx(COMING_SECONDS, abs=0.001)

    logged(body)


@pytest.mark.parametrize("leaves", ["for stores", "failed", "elsewhere", "deleted"])
def test_the_wait_ends_when_it_is_not_about_to_serve_any_more(leaves: str) -> None:
    async def body(log: FakeLog) -> None:
        partition = log.partition
        recover(partition)
        how: dict[str, Callable[[], None]] = {
            "for stores": partial(partition.recovery_waits, "its recovery waits for the stores s1"),
            "failed": partial(partition.fail, "its end is not known"),
            "elsewhere": partial(partition.led_elsewhere, 7),
            "deleted": partition.delete,
        }

        async def leave() -> None:
            await trio.sleep(COMING_SECONDS / 4)
            how[leaves]()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(leave)
            assert await seconds_until_refused(log) == pytest.approx(COMING_SECONDS / 4, abs=0.001)

    logged(body)


def test_what_is_gained_again_is_waited_for_again() -> None:
    async def body(log: FakeLog) -> None:
        partition = log.partition
        recover(partition)
        partition.recovery_waits("its recovery waits for the stores s1")
        partition.led_elsewhere(5)
        assert not partition.is_coming
        partition.gained(6)
        assert partition.is_coming

    logged(body)


def test_a_partition_that_was_never_recovered_is_waited_for() -> None:
    async def body(log: FakeLog) -> None:
        log.topic.partitions.append(Partition(log.context, log.topic, 1))
        assert await seconds_until_refused(log, 1) == pytest.approx(COMING_SECONDS, abs=0.001)

    logged(body)
