"""Fetch of what is not in memory: what an answer may become is reserved before it is read, and partitions are
read at the same time.
"""

from __future__ import annotations

from typing import Any

import pytest
import trio

from gateway.common.budget import Budget
from gateway.common.costs import COLD_BATCH, COLD_READ, HOT_BATCH
from gateway.fetch.full import FetchJob
from gateway.fetch.reading import MAX_COLD_READS_AT_ONCE, RESULT_BYTES
from tests.unit.gateway.fetch.test_full import COLD, SIZE, fetched, fill
from tests.unit.gateway.log.fake_log import FakeLog, fetch_request
from tests.unit.gateway.log.test_cold import lookups
from tests.unit.gateway.log.test_partition_appends import logged
from wireproto.kafka.errors import ErrorCode, KafkaError

LARGEST = 5000
ONE_MIB = 1 << 20


@pytest.mark.parametrize(
    ("options", "limits", "max_bytes", "reserved"),
    [
        ({}, (1,), ONE_MIB, SIZE),
        ({}, (9 * SIZE,), 1, SIZE),
        ({}, (9 * SIZE, 9 * SIZE), 6 * SIZE, 6 * SIZE),
        (COLD, (1,), ONE_MIB, LARGEST),
        (COLD, (9 * SIZE,), 1, LARGEST),
        (COLD, (9 * SIZE,), 0, LARGEST),
        (COLD, (9 * SIZE,), ONE_MIB, 9 * SIZE),
        (COLD, (1, SIZE), ONE_MIB, LARGEST + SIZE),
    ],
)
def test_what_an_answer_may_hold_is_reserved_before_it_is_read(
    options: dict[str, Any], limits: tuple[int, ...], max_bytes: int, reserved: int
) -> None:
    async def body(log: FakeLog) -> None:
        await fill(log)
        request = fetch_request(
            *((index, 0, limit) for index, limit in enumerate(limits)), max_bytes=max_bytes
        )
        request.response_memory = Budget(1 << 30)
        read = log.reader.read

        async def watched(*arguments: Any) -> list[bytes]:
            assert request.reserved == reserved
            return await read(*arguments)

        log.reader.read = watched  # type: ignore[method-assign, assignment]
        await FetchJob(request, log.broker).run()
        assert request.reserved == request.response_memory.used == reserved

    logged(body, partitions=2, configs={"max.message.bytes": str(LARGEST)}, **options)


def test_an_answer_about_very_many_partitions_is_reserved_even_if_it_has_no_records() -> None:
    async def body(log: FakeLog) -> None:
        request = fetch_request(*((index, 0, 1) for index in range(1000)))
        request.frame = memoryview(bytes(30_000))
        request.response_memory = Budget(1 << 30)
        await FetchJob(request, log.broker).run()
        assert request.reserved == 30_000 + 1000 * RESULT_BYTES

    logged(body)


# at the same time -----------------------------------------------------------------------------------------


class SlowStore:
    """Answers the first that asks last, and counts who waits."""

    def __init__(self, log: FakeLog) -> None:
        self._read = log.reader.read
        self._asked = 0
        self._waiting = 0
        self.most = 0
        log.reader.read = self.read  # type: ignore[method-assign, assignment]

    async def read(self, *arguments: Any) -> list[bytes]:
        self._asked += 1
        self._waiting += 1
        self.most = max(self.most, self._waiting)
        await trio.sleep(1 / self._asked)
        self._waiting -= 1
        return await self._read(*arguments)


def test_cold_partitions_are_read_at_the_same_time_and_answered_in_order() -> None:
    count = 2 * MAX_COLD_READS_AT_ONCE

    async def body(log: FakeLog) -> None:
        await fill(log)
        lookups(log)
        store = SlowStore(log)
        asks = [(index, index % 3, (1 + index % 2) * SIZE) for index in reversed(range(count))]
        results = await fetched(log, *asks, max_bytes=100 * SIZE)
        assert results == [(index, 0, 1 + index % 2) for index in reversed(range(count))]
        assert store.most == MAX_COLD_READS_AT_ONCE

    logged(body, partitions=count, **COLD)


def test_cold_partitions_share_what_the_answer_may_hold() -> None:
    async def body(log: FakeLog) -> None:
        await fill(log)
        SlowStore(log)
        asks = [(index, 0, 2 * SIZE) for index in range(4)]
        assert await fetched(log, *asks, max_bytes=5 * SIZE) == [
            (0, 0, 2),
            (1, 0, 2),
            (2, 0, 1),
            (3, 0, 0),
        ]
        # The first one has more than its share, and the others what is left beside it.
        asks[0] = (0, 0, 1)
        assert await fetched(log, *asks, max_bytes=3 * SIZE + 1) == [
            (0, 0, 1),
            (1, 0, 2),
            (2, 0, 0),
            (3, 0, 0),
        ]

    logged(body, partitions=4, **COLD)


def test_what_stores_give_is_charged_by_the_batch() -> None:
    async def body(log: FakeLog) -> None:
        await fill(log)
        request = fetch_request((0, 0, 3 * SIZE))
        await FetchJob(request, log.broker).run()
        assert request.work.charged == COLD_READ + 3 * COLD_BATCH

    logged(body, **COLD)


def test_what_is_in_memory_is_charged_by_the_batch() -> None:
    async def body(log: FakeLog) -> None:
        await fill(log)
        request = fetch_request((0, 0, 3 * SIZE))
        await FetchJob(request, log.broker).run()
        assert request.work.charged == 3 * HOT_BATCH

    logged(body)


def test_a_cold_partition_that_cannot_be_read_fails_alone() -> None:
    async def body(log: FakeLog) -> None:
        await fill(log)
        SlowStore(log)

        async def fails(*_: Any) -> Any:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "gone")

        log.topic.partitions[1].read_cold = fails  # type: ignore[method-assign, assignment]
        asks = [(index, 0, SIZE) for index in range(3)]
        assert await fetched(log, *asks) == [(0, 0, 1), (1, int(ErrorCode.KAFKA_STORAGE_ERROR), 0), (2, 0, 1)]

    logged(body, partitions=3, **COLD)
