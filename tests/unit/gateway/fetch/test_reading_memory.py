"""What a Fetch and a session hold on to: records only when their memory is reserved, requests never."""

from __future__ import annotations

import gc
import weakref
from typing import Any
from uuid import UUID

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.api.fetch import fetch
from gateway.common.budget import Budget
from gateway.fetch.full import FetchJob
from gateway.fetch.session import FetchSession
from tests.differential.wire import header
from tests.unit.gateway.fetch.consumer import BY_ID, BY_NAME, CONTENT, SIZE, Consumer, put
from tests.unit.gateway.fetch.test_full import count_reads, fill
from tests.unit.gateway.log.fake_log import FakeLog, batch, fetch_request, make_request
from tests.unit.gateway.log.test_cold import lookups
from tests.unit.gateway.log.test_partition_appends import logged
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.fetch import FetchPartitionResult, decode_fetch
from wireproto.kafka.schemas import REQUEST_CLASSES

NEVER_MS = 60_000


class Batches(bytearray):
    """A batch's bytes, of which it can be told whether anybody still has them."""


def tracked(log: FakeLog, index: int) -> weakref.ref[Batches]:
    """Put another batch in the place of the last one that the tail cache has of a partition."""
    hot = log.topic.partitions[index].hot
    content = Batches(hot._batches[-1] or b"")
    hot._batches[-1] = content
    return weakref.ref(content)


def forget_all(log: FakeLog) -> None:
    """The tail cache has none of it any more."""
    log.context.tail_cache.limit_bytes = 0
    log.context.tail_cache.evict()


async def results_of(job: Any, into: list[Any]) -> None:
    into.extend(await job.run())


def records(results: Any) -> list[tuple[int, int, bytes]]:
    return [
        (one.index, int(one.error_code), b"".join(map(bytes, one.records)))
        for _, _, group in results
        for one in group
    ]


def content_of(count: int) -> list[bytes]:
    return [batch(CONTENT)[61:]] * count


@pytest.mark.parametrize("waits_for", ["records", "memory"])
def test_a_fetch_that_waits_holds_no_records(waits_for: str) -> None:
    """The tail cache lets them go meanwhile: then they come from a store."""

    async def body(log: FakeLog) -> None:
        lookups(log)
        await put(log, 0, 1)
        known = [tracked(log, index) for index in (0, 1)]
        memory = Budget(10 * SIZE)
        await memory.reserve(10 * SIZE)
        by_records = waits_for == "records"
        asks = [(index, 0, SIZE) for index in range(3)]
        request = fetch_request(*asks, min_bytes=3 * SIZE if by_records else 1, max_wait_ms=NEVER_MS)
        request.response_memory = memory
        results: list[Any] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(results_of, FetchJob(request, log.broker), results)
            await wait_all_tasks_blocked()
            forget_all(log)
            gc.collect()
            assert [one() for one in known] == [None, None]
            assert memory.waiting == (0 if by_records else 1)
            if by_records:
                await put(log, 2)
                await wait_all_tasks_blocked()
                assert memory.waiting == 1
            memory.release(10 * SIZE)
        expected = [0, 1, 2] if by_records else [0, 1]
        found = [(index, error, content[61:]) for index, error, content in records(results) if content]
        assert found == [(index, 0, batch(CONTENT)[61:]) for index in expected]
        assert request.reserved == memory.used == len(expected) * SIZE

    logged(body, partitions=3)


def test_what_fails_while_memory_is_waited_for_is_told() -> None:
    async def body(log: FakeLog) -> None:
        await put(log, 0, 1)
        memory = Budget(10 * SIZE)
        await memory.reserve(10 * SIZE)
        request = fetch_request((0, 0, SIZE), (1, 0, SIZE))
        request.response_memory = memory
        results: list[Any] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(results_of, FetchJob(request, log.broker), results)
            await wait_all_tasks_blocked()
            log.topic.partitions[0].start_moved(1, ())
            memory.release(10 * SIZE)
        (first, second) = records(results)
        assert first == (0, int(ErrorCode.OFFSET_OUT_OF_RANGE), b"")
        assert second[:2] == (1, 0)
        assert second[2][61:] == batch(CONTENT)[61:]

    logged(body, partitions=2)


def test_no_more_is_read_than_was_reserved() -> None:
    """What came while memory was waited for is for the next Fetch."""

    async def body(log: FakeLog) -> None:
        await fill(log, 2)
        memory = Budget(4 * SIZE)
        await memory.reserve(4 * SIZE)
        request = fetch_request((0, 0, 99 * SIZE))
        request.response_memory = memory
        results: list[Any] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(results_of, FetchJob(request, log.broker), results)
            await wait_all_tasks_blocked()
            await put(log, 0, 0)
            memory.release(4 * SIZE)
        (((_, _, (result,))),) = results
        assert isinstance(result, FetchPartitionResult)
        assert sum(map(len, result.records)) == 2 * SIZE == request.reserved
        assert result.high_watermark == 4

    logged(body)


@pytest.mark.parametrize("waits_for", ["records", "memory"])
def test_nothing_is_read_for_a_client_that_has_gone(waits_for: str) -> None:
    async def body(log: FakeLog) -> None:
        await put(log, 0)
        reads: list[int] = []
        count_reads(log.partition, [], reads)
        memory = Budget(10 * SIZE)
        await memory.reserve(10 * SIZE)
        by_records = waits_for == "records"
        request = fetch_request(
            (0, 0, 9 * SIZE), min_bytes=3 * SIZE if by_records else 1, max_wait_ms=NEVER_MS
        )
        request.response_memory = memory
        answers: list[Any] = []

        async def ask() -> None:
            answers.append(await fetch(request, log.broker))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            request.client_left()
            memory.release(10 * SIZE)
        assert answers == [None]
        assert not reads

    logged(body)


def test_who_has_sent_all_and_need_not_wait_is_answered() -> None:
    async def body(log: FakeLog) -> None:
        await put(log, 0)
        request = fetch_request((0, 0, 9 * SIZE), max_wait_ms=NEVER_MS)
        request.client_left()
        assert await fetch(request, log.broker) is not None

    logged(body)


# sessions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [7, BY_NAME, BY_ID])
def test_a_session_holds_nothing_of_the_requests_that_made_it(version: int) -> None:
    async def body(log: FakeLog) -> None:
        consumer = Consumer(log, version)
        wire = REQUEST_CLASSES[1]
        for partitions in ([0, 1], [2], [1]):
            which = {"topic": "orders"} if version < BY_ID else {"topic_id": UUID(bytes=log.topic.id)}
            asks = [
                wire.FetchTopic.FetchPartition(
                    partition=index, current_leader_epoch=-1, fetch_offset=0, last_fetched_epoch=-1,
                    log_start_offset=-1, partition_max_bytes=9 * SIZE,
                )
                for index in partitions
            ]  # fmt: skip
            encoded = wire(
                version=version, replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20,
                isolation_level=0, rack_id="a rack",
                session_id=consumer.session_id, session_epoch=consumer.epoch,
                topics=[wire.FetchTopic(partitions=asks, **which)],
                forgotten_topics_data=[wire.ForgottenTopic(partitions=[7], **which)],
            ).encode()  # fmt: skip
            head = header(1, version)
            frame = bytearray(head + bytes(encoded))
            view = memoryview(frame)
            request = make_request(1, version, decode_fetch(version, view, len(head)), view)
            await consumer.send(request)
            del request, view
            gc.collect()
            frame += b"more"  # a BufferError if anything refers to it
        (session,) = log.broker.fetch_sessions.cache._sessions.values()
        assert sorted(one.ask.index for one in session) == [0, 1, 2]

    logged(body, partitions=3)


def sessions_alive() -> int:
    gc.collect()
    return sum(isinstance(one, FetchSession) for one in gc.get_objects())


def test_a_session_that_went_is_forgotten_by_the_log() -> None:
    async def body(log: FakeLog) -> None:
        before = sessions_alive()
        consumer = Consumer(log)
        await consumer.begin()
        await consumer.ask()
        assert sessions_alive() == before + 1
        await consumer.ask([(0, 0)], epoch=-1)
        assert sessions_alive() == before

    logged(body, partitions=3)
