"""What clients can make the lists of aborted transactions cost, and what becomes of it at the bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from trio.testing import wait_all_tasks_blocked

from gateway.log import partition as partition_module
from gateway.log.partition import Partition
from gateway.log.recovery.producers_at_end import read_aborted
from gateway.log.transactions import aborted_reading
from gateway.log.transactions.aborted import ENTRY_BYTES
from gateway.log.transactions.aborted_cache import SEGMENT_BYTES, AbortedCache
from tests.unit.gateway.catalog.memory import MemoryCatalog
from tests.unit.gateway.log.fake_log import NOW_MS, FakeLog
from tests.unit.gateway.log.one_store import Life, OneStore
from tests.unit.gateway.log.script import Script
from tests.unit.gateway.log.test_log_start import run
from tests.unit.gateway.log.test_partition_appends import logged
from tests.unit.gateway.log.transactional import PID, append, marker, transactional
from tests.unit.gateway.log.transactions.test_aborted_reading import small_segments

__all__ = ["small_segments"]

MANY_LOADS = 20


@pytest.mark.parametrize("segments_kept", [0, 2])
def test_a_range_of_more_segments_than_memory_keeps_is_told_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, segments_kept: int
) -> None:
    """Each read pushed out what the range needed besides, and was begun anew for ever."""

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        script = Script()
        await script.write(life, "z y x b -b -z c -c -y d -d -x p p p")
        life.context.aborted.cache = AbortedCache(segments_kept * (SEGMENT_BYTES + 3 * ENTRY_BYTES))

        async def counted(*arguments: Any) -> Any:
            assert life.context.aborted.loads < MANY_LOADS, "it is read over and over"
            return await read_aborted(*arguments)

        monkeypatch.setattr(aborted_reading, "read_aborted", counted)
        assert await life.context.aborted.between(life.partition, 0, 3) == script.aborted(0, 3)

    run(tmp_path, body)


def test_what_is_deleted_counts_no_more() -> None:
    """Else every segment of the gateway ends with its thousandth aborted transaction, once enough topics
    were deleted.
    """

    async def body(log: FakeLog) -> None:
        cache = log.context.aborted.cache
        append(log.partition, transactional())
        log.partition.append_marker(marker(), NOW_MS)
        assert cache.of_open_segments == 1
        for _ in range(2):
            log.partition.delete()
            assert cache.of_open_segments == 0

    logged(body)


def test_the_segments_end_that_have_most_where_all_together_have_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Partitions that nobody writes to any more would keep theirs for ever."""

    monkeypatch.setattr(partition_module, "MAX_SEGMENT_BATCHES", 100)

    async def body(log: FakeLog) -> None:
        cache = log.context.aborted.cache = AbortedCache(most_open=8)
        idle, busy = log.topic.partitions[0], log.topic.partitions[1]
        for number in range(5):
            await abort_one(log, idle, number)
        for number in range(3):
            await abort_one(log, busy, number)
        assert (ends(idle), ends(busy), cache.of_open_segments) == ([None], [None], 8)
        await abort_one(log, busy, 3)
        assert (ends(idle), ends(busy), cache.of_open_segments) == ([10], [None], 4)
        assert log.context.aborted.known(idle, 0, 10) == [(PID, offset) for offset in range(0, 10, 2)]

    logged(body, partitions=2)


async def abort_one(log: FakeLog, partition: Partition, number: int) -> None:
    """One more transaction of a partition, whole and durable."""
    append(partition, transactional(sequence=number))
    partition.append_marker(marker(), NOW_MS)
    for _ in range(2):
        await wait_all_tasks_blocked()
        log.acknowledge(partition)
    await wait_all_tasks_blocked()


def ends(partition: Partition) -> list[int | None]:
    """The ends of its segments; None: it is open."""
    return [segment.end_offset for segment in partition.chain.segments()]
