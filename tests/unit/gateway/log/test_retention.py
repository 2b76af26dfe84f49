"""Retention at work on real logs, under a clock that the test sets."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from gateway.catalog import keys
from gateway.cluster.stores import StoreEntry
from gateway.configs.effective import effective_topic_configs
from gateway.log import partition as partition_module
from gateway.log.partition import Partition
from gateway.log.retention import SECOND_LOOK_SECONDS, Retention
from gateway.log.segment import UNKNOWN, Segment
from gateway.log.segment_sizes import count_sizes
from tests.unit.gateway.catalog.memory import MemoryCatalog
from tests.unit.gateway.log.fake_log import NOW_MS, TOPIC_ID, batch, header_of
from tests.unit.gateway.log.one_store import STORE, Life, OneStore, copy_of
from tests.unit.gateway.log.test_log_start import BATCHES, forgotten, in_life, run, starts, write
from tests.unit.gateway.log.test_opener import ONE, Setup
from wireproto.dafka.messages import Head, Record

SIZE = len(batch())


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_module, "MAX_SEGMENT_BATCHES", BATCHES)


class Clock:
    """What `now_ms` says."""

    def __init__(self, life: Life) -> None:
        self.now = NOW_MS
        life.context.now_ms = lambda: self.now  # type: ignore[method-assign]


def retention_of(life: Life) -> Retention:
    topics: Any = SimpleNamespace(all=lambda: [life.topic])
    return Retention(life.context, topics, 1000)


async def append(life: Life, timestamp: int, partition: Partition | None = None) -> None:
    """One batch with a record of that time; a segment of its own if it is the `BATCHES`th."""
    partition = partition or life.partition
    view = memoryview(bytearray(batch(timestamp=timestamp)))
    partition.append(header_of(view), view, -1, life.context.now_ms())
    await life.settle()


async def check(life: Life, retention: Retention) -> None:
    """One check, with what it sends delivered as it goes."""
    async with trio.open_nursery() as nursery:

        async def deliver() -> None:
            while True:
                await life.settle()
                await trio.sleep(SECOND_LOOK_SECONDS / 4)

        nursery.start_soon(deliver)
        await retention.check()
        nursery.cancel_scope.cancel()
    await life.settle()


def configure(life: Life, **configs: str) -> None:
    """As after AlterConfigs: what is in force at the next check."""
    named = {name.replace("_", "."): value for name, value in configs.items()}
    life.topic.settings = effective_topic_configs(named)


def test_what_is_too_old_goes_and_a_change_of_the_config_counts_at_the_next_check(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        clock, retention = Clock(life), retention_of(life)
        configure(life, retention_ms="5000")
        for second in range(10):
            clock.now = NOW_MS + second * 1000
            await append(life, clock.now)
        first = life.partition.chain.closed[0].address
        await check(life, retention)
        assert starts(life.partition) == [3, 6, 9], "its newest record is 7 s old"
        assert life.partition.log_start_offset == 3
        assert forgotten(store, first)
        configure(life, retention_ms="-1")
        clock.now += 1_000_000
        await check(life, retention)
        assert starts(life.partition) == [3, 6, 9]
        configure(life, retention_ms="5000", cleanup_policy="compact")
        await check(life, retention)
        assert life.partition.log_start_offset == 3, "nothing goes by age without the policy"

    run(tmp_path, body)


def test_an_idle_partition_keeps_nothing_for_ever(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        clock, retention = Clock(life), retention_of(life)
        configure(life, retention_ms="5000")
        await write(life, 4)
        addresses = [segment.address for segment in life.partition.chain.segments()]
        clock.now += 5001
        await check(life, retention)
        assert (life.partition.log_start_offset, life.partition.chain.segments()) == (4, [])
        assert all(forgotten(store, address) for address in addresses)
        await write(life, 1)
        assert life.partition.high_watermark == 5

    run(tmp_path, body)


def test_an_idle_open_segment_is_closed_when_it_is_old_though_nothing_expires(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        clock, retention = Clock(life), retention_of(life)
        configure(life, segment_ms="5000", retention_ms="-1")
        await write(life, 2)
        clock.now += 4999
        await check(life, retention)
        assert life.partition.chain.current is not None
        clock.now += 1
        await check(life, retention)
        assert life.partition.chain.current is None
        assert [segment.end_offset for segment in life.partition.chain.closed] == [2]

    run(tmp_path, body)


def test_one_that_is_being_written_to_is_not_closed(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        clock, retention = Clock(life), retention_of(life)
        configure(life, retention_ms="5000", segment_ms="100000")
        await write(life, 1)
        store.deaf = {Record, Head}
        await append(life, NOW_MS)
        clock.now += 6000
        await check(life, retention)
        assert life.partition.chain.current is not None
        store.deaf = set()

    run(tmp_path, body)


def test_the_size_of_a_partition_is_kept(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        retention = retention_of(life)
        await write(life, 10)
        for limit, first in ((10 * SIZE, 0), (8 * SIZE, 0), (7 * SIZE, 3), (4 * SIZE, 6)):
            configure(life, retention_bytes=str(limit))
            await check(life, retention)
            assert life.partition.log_start_offset == first, limit
        configure(life, retention_bytes="0")
        await check(life, retention)
        assert (life.partition.log_start_offset, life.partition.chain.segments()) == (10, [])
        assert life.context.log_starts.bytes_removed == 10 * SIZE

    run(tmp_path, body)


def test_sizes_that_nobody_noted_are_counted_once(tmp_path: Path) -> None:
    """As after a crash: the segment that was open then has no size in the catalog."""

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        await write(life, 2)

        async def after(later: Life) -> None:
            assert [segment.size for segment in later.partition.chain.closed] == [UNKNOWN]
            await check(later, retention_of(later))
            assert [segment.size for segment in later.partition.chain.closed] == [2 * SIZE]
            (entry,) = later.catalog.range(keys.segments_prefix(TOPIC_ID))
            assert Segment.unpack(entry.value) == later.partition.chain.closed[0]

        await in_life(store, await copy_of(catalog), after)

    run(tmp_path, body)


@pytest.mark.parametrize(("percent", "left"), [(100, [0, 0]), (50, [0, 0]), (30, [3, 0]), (20, [3, 3])])
def test_a_topics_share_of_the_disk(tmp_path: Path, percent: int, left: list[int]) -> None:
    """Two partitions of two closed segments each: the oldest of both go first."""

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        clock, retention = Clock(life), retention_of(life)
        stores = life.stores
        stores._take([StoreEntry(1000, STORE, "store")])
        stores.own_disk_bytes = 40 * SIZE
        for _ in range(7):
            for partition in life.topic.partitions:
                clock.now += 1
                await append(life, clock.now, partition)
        configure(life, retention_disk_percent=str(percent))
        await check(life, retention)
        assert [partition.log_start_offset for partition in life.topic.partitions] == left

    run(tmp_path, body, partitions=2)


def test_it_looks_again_and_again(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        retention = retention_of(life)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(retention.run)
            await trio.sleep(10.5)
            assert retention.checks == 10
            nursery.cancel_scope.cancel()

    run(tmp_path, body)


def test_sizes_that_no_store_is_there_to_tell_are_not_waited_for() -> None:
    """Thousands of segments of a store that is away would hold up all others' retention for hours."""

    async def main() -> None:
        setup = Setup((ONE,))
        presence = setup.watch(ONE)
        presence.silent = {ONE: 100.0}
        log = setup.log
        log.partition.chain.load([Segment("A" * 32, 0, 0, (ONE,), 1, 0).closed(10, 9, 0)])

        async def never(*_: Any) -> bytes:
            await trio.sleep_forever()
            raise AssertionError

        log.reader.rows = never  # type: ignore[attr-defined]
        with trio.fail_after(1):
            await count_sizes(log.context, log.partition)
        assert [segment.size for segment in log.partition.chain.closed] == [UNKNOWN]

    trio.run(main, clock=MockClock(autojump_threshold=0))
