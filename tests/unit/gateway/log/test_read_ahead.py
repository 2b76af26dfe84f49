"""What is read ahead reaches only a read of the same range, and never holds more than its bounds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.log import read_ahead
from gateway.log.read_ahead import MAX_AHEAD_BYTES, Range, ReadAhead
from tests.unit.gateway.log.fake_log import FakeLog, batch
from tests.unit.gateway.log.test_partition_appends import logged
from wireproto.kafka.errors import ErrorCode, KafkaError

Body = Callable[[ReadAhead], Awaitable[None]]


def running(body: Body) -> None:
    async def main() -> None:
        ahead = ReadAhead()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ahead.run)
            await wait_all_tasks_blocked()
            await body(ahead)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0.1))


def giving(*contents: bytes) -> Callable[[], Awaitable[tuple[bytes, ...]]]:
    async def read() -> tuple[bytes, ...]:
        await trio.lowlevel.checkpoint()
        return contents

    return read


def test_a_range_is_given_once_and_only_as_it_was_asked_for() -> None:
    async def body(ahead: ReadAhead) -> None:
        wanted = Range("A", 10, 100)
        ahead.start(wanted, 1, giving(b"one", b"two"))
        for other in (Range("B", 10, 100), Range("A", 11, 100), Range("A", 10, 99)):
            assert await ahead.take(other) is None
        assert ahead.bytes == 100
        assert await ahead.take(wanted) == (b"one", b"two")
        assert await ahead.take(wanted) is None
        assert (ahead.bytes, ahead.started, ahead.used) == (0, 1, 1)

    running(body)


@pytest.mark.parametrize(("max_bytes", "largest_batch", "expected"), [(1000, 9, 1000), (1, 5000, 5000)])
def test_what_is_here_counts_with_its_size_and_what_is_on_its_way_with_what_it_may_become(
    max_bytes: int, largest_batch: int, expected: int
) -> None:
    async def body(ahead: ReadAhead) -> None:
        ahead.start(Range("A", 10, max_bytes), largest_batch, giving(b"abc"))
        assert ahead.bytes == expected
        await wait_all_tasks_blocked()
        assert ahead.bytes == 3

    running(body)


def test_ranges_of_a_byte_are_as_many_as_whole_batches_have_room() -> None:
    async def body(ahead: ReadAhead) -> None:
        for number in range(10):
            ahead.start(Range("A", number, 1), MAX_AHEAD_BYTES // 4, giving(b"x"))
        assert (ahead.started, ahead.bytes) == (4, MAX_AHEAD_BYTES)

    running(body)


def test_a_failed_read_is_left_to_who_asks() -> None:
    async def fails() -> Any:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "gone")

    async def body(ahead: ReadAhead) -> None:
        ahead.start(Range("A", 10, 100), 1, fails)
        await wait_all_tasks_blocked()
        assert await ahead.take(Range("A", 10, 100)) is None
        assert (ahead.bytes, ahead.used) == (0, 0)

    running(body)


def test_a_full_read_ahead_takes_no_more_until_something_is_old() -> None:
    async def body(ahead: ReadAhead) -> None:
        size = read_ahead.MAX_AHEAD_RANGE_BYTES
        count = MAX_AHEAD_BYTES // size
        for number in range(count):
            ahead.start(Range("A", number, size), 1, giving(bytes(size)))
        ahead.start(Range("A", count, size), 1, giving(b"no room"))
        await wait_all_tasks_blocked()
        assert ahead.bytes == MAX_AHEAD_BYTES
        assert await ahead.take(Range("A", count, size)) is None
        await trio.sleep(read_ahead.AHEAD_SECONDS)
        ahead.start(Range("A", count, size), 1, giving(b"room"))
        assert await ahead.take(Range("A", count, size)) == (b"room",)
        assert ahead.bytes == 0

    running(body)


@pytest.mark.parametrize("limit", [1, 3])
def test_many_small_ranges_are_bounded_too(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ahead, "MAX_AHEAD_ENTRIES", limit)

    async def body(ahead: ReadAhead) -> None:
        for number in range(limit + 1):
            ahead.start(Range("A", number, 1), 1, giving(b"x"))
        assert ahead.started == limit

    running(body)


def test_who_asks_for_very_much_and_a_reader_that_does_not_run_read_nothing_ahead() -> None:
    async def body(ahead: ReadAhead) -> None:
        ahead.start(Range("A", 0, read_ahead.MAX_AHEAD_RANGE_BYTES + 1), 1, giving(b"x"))
        assert ahead.started == 0

    running(body)
    stopped = ReadAhead()
    stopped.start(Range("A", 0, 1), 1, giving(b"x"))
    assert stopped.started == 0


def test_who_goes_through_the_log_is_read_ahead_for_and_gets_the_same_batches() -> None:
    async def body(log: FakeLog) -> None:
        sent = [batch(b"%d" % number) for number in range(6)]
        for one in sent:
            await log.write(one)
        cold, partition = log.context.cold, log.partition
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cold.ahead.run)
            await wait_all_tasks_blocked()
            plain = [bytes((await cold.read(partition, offset, 1))[0]) for offset in range(5)]
            await wait_all_tasks_blocked()
            # The first read went on from nowhere; nobody has asked for the last range yet.
            assert (cold.ahead.started, cold.ahead.used) == (4, 3)
            assert plain == [
                bytes(content) for content in log.producer.kept[partition.chain.segments()[0].address][:5]
            ]
            nursery.cancel_scope.cancel()

    logged(body, tail_cache_bytes=1)


def test_a_range_read_ahead_counts_as_the_largest_batch_that_its_topic_takes() -> None:
    async def body(log: FakeLog) -> None:
        for number in range(3):
            await log.write(batch(b"%d" % number))
        cold, partition = log.context.cold, log.partition
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cold.ahead.run)
            await wait_all_tasks_blocked()
            await cold.read(partition, 0, 1)
            await cold.read(partition, 1, 1)
            assert (cold.ahead.started, cold.ahead.bytes) == (1, 5000)
            nursery.cancel_scope.cancel()

    logged(body, tail_cache_bytes=1, configs={"max.message.bytes": "5000"})
