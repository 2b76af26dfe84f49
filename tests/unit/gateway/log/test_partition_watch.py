"""Who watches a partition is told once, of everything that a Fetch of it would show."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from gateway.log.partition import Partition
from gateway.log.segment import Segment
from tests.unit.gateway.log.fake_log import STORE, FakeLog, batch
from tests.unit.gateway.log.test_partition_appends import append, logged


class Watcher:
    def __init__(self) -> None:
        self.told: list[Partition] = []

    def advanced(self, partition: Partition, /) -> None:
        self.told.append(partition)


async def records_become_visible(log: FakeLog) -> None:
    await log.write(batch())


async def the_log_start_moves(log: FakeLog) -> None:
    log.partition.start_moved(1, ())


async def the_end_is_found_further_on(log: FakeLog) -> None:
    log.partition.begin_recovery([Segment("A" * 32, 0, 0, (STORE,), 1, 0).closed(5, 4, 0)], None)


async def it_fails(log: FakeLog) -> None:
    log.partition.fail("a test")


async def it_serves(log: FakeLog) -> None:
    log.partition.begin_serving(log.partition.producers.state)


async def it_is_deleted(log: FakeLog) -> None:
    log.partition.delete()


@pytest.mark.parametrize(
    "change",
    [
        records_become_visible, the_log_start_moves, the_end_is_found_further_on, it_fails, it_serves,
        it_is_deleted,
    ],
)  # fmt: skip
def test_who_watches_is_told_once(change: Callable[[FakeLog], Awaitable[None]]) -> None:
    async def body(log: FakeLog) -> None:
        first, second, third = Watcher(), Watcher(), Watcher()
        log.partition.listeners.watch(first)
        log.partition.listeners.watch(second)
        log.partition.listeners.watch(second)
        log.partition.listeners.watch(third)
        log.partition.listeners.unwatch(third)
        await change(log)
        assert (first.told, second.told, third.told) == ([log.partition], [log.partition], [])
        log.partition.delete()
        assert (len(first.told), len(second.told)) == (1, 1)
        log.partition.listeners.watch(first)
        log.partition.fail("once more")
        assert len(first.told) == 2

    logged(body)


def test_a_batch_that_is_not_durable_is_nobodys_business() -> None:
    async def body(log: FakeLog) -> None:
        watcher = Watcher()
        log.partition.listeners.watch(watcher)
        append(log.partition, batch())
        assert watcher.told == []

    logged(body)


def test_a_new_leader_epoch_is_told() -> None:
    """When the next segment is opened while too few of the last one's members are there."""

    async def body(log: FakeLog) -> None:
        await log.write(batch())
        watcher = Watcher()
        log.partition.listeners.watch(watcher)
        stores = log.stores
        enough = stores.enough
        assert log.partition.chain.current is not None
        opened_ms = log.partition.chain.current.segment.opened_ms
        log.now_ms = opened_ms + log.topic.settings.segment_ms
        stores.enough = lambda *_: False  # type: ignore[method-assign]
        before = log.partition.leader_epoch
        view = memoryview(bytearray(batch()))
        log.partition._segment_for(len(view), log.now_ms)
        stores.enough = enough  # type: ignore[method-assign]
        assert log.partition.leader_epoch == before + 1
        assert watcher.told == [log.partition]

    logged(body)
