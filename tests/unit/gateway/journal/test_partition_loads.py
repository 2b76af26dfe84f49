"""A partition whose groups cannot be read yet is tried again, and named when that goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.groups.replay import LoadedGroup
from gateway.journal.partition_loads import CONCURRENT_LOADS, SAID_AFTER, PartitionLoads
from wireproto.kafka.errors import ErrorCode, KafkaError


@pytest.mark.parametrize(("failures", "said"), [(SAID_AFTER - 1, 0), (SAID_AFTER, 1), (20, 1)])
def test_one_that_cannot_be_read_is_named_once_when_that_goes_on(
    caplog: pytest.LogCaptureFixture, failures: int, said: int
) -> None:
    left = failures
    loaded: list[int] = []

    async def load(_partition: int) -> dict[str, LoadedGroup]:
        nonlocal left
        await trio.lowlevel.checkpoint()
        if left:
            left -= 1
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "it is being recovered")
        return {}

    async def take(partition: int, _groups: dict[str, LoadedGroup], _is_old: Callable[[], bool]) -> None:
        await trio.lowlevel.checkpoint()
        loaded.append(partition)

    loads = PartitionLoads(1, "groups", load, take)
    loads.came(0)
    trio.run(loads.run, 0, clock=MockClock(autojump_threshold=0))
    assert loaded == [0]
    assert loads.is_loaded(0)
    assert caplog.text.count("the groups of partition 0 cannot be read yet") == said


async def take(_partition: int, _groups: dict[str, LoadedGroup], _is_old: Callable[[], bool]) -> None:
    """Takes over what was loaded, of which nothing is of interest."""
    await trio.lowlevel.checkpoint()


def test_who_is_asked_for_is_loaded_first() -> None:
    begun: list[int] = []
    go = [trio.Event() for _ in range(20)]

    async def load(partition: int) -> dict[str, LoadedGroup]:
        begun.append(partition)
        await go[partition].wait()
        return {}

    async def main() -> None:
        loads = PartitionLoads(20, "groups", load, take)
        async with trio.open_nursery() as nursery:
            for partition in range(20):
                loads.came(partition)
                nursery.start_soon(loads.run, partition)
                await wait_all_tasks_blocked()  # so that they wait in this order
            at_once = list(begun)
            assert len(at_once) == CONCURRENT_LOADS
            left = [partition for partition in range(20) if partition not in at_once]
            wanted = {left[-1], left[3]}
            for partition in (*wanted, at_once[0]):
                loads.asked(partition)
            for partition in at_once[:3]:
                go[partition].set()
                await wait_all_tasks_blocked()
            # Each second turn is for the one that has waited longest.
            first, second, third = begun[CONCURRENT_LOADS:]
            assert {first, third} == wanted
            assert second == left[0]
            for one in go:
                one.set()
            await wait_all_tasks_blocked()
            assert sorted(begun) == list(range(20))
            assert loads.all_loaded

    trio.run(main)


def test_one_that_is_cancelled_while_it_waits_gives_its_turn_away() -> None:
    go = trio.Event()

    async def load(_partition: int) -> dict[str, LoadedGroup]:
        await go.wait()
        return {}

    async def main() -> None:
        loads = PartitionLoads(20, "groups", load, take)
        async with trio.open_nursery() as nursery:
            for partition in range(CONCURRENT_LOADS):
                loads.came(partition)
                nursery.start_soon(loads.run, partition)
            await wait_all_tasks_blocked()
            scopes = []
            for partition in (17, 18, 19):
                scopes.append(trio.CancelScope())
                loads.came(partition)

                async def run(scope: trio.CancelScope, partition: int) -> None:
                    with scope:
                        await loads.run(partition)

                nursery.start_soon(run, scopes[-1], partition)
            await wait_all_tasks_blocked()
            go.set()
            scopes[0].cancel()
            scopes[1].cancel()
            await wait_all_tasks_blocked()
            assert loads.is_loaded(19)
            assert loads.left == 2

    trio.run(main)


def test_those_that_are_asked_for_and_fail_slowly_do_not_keep_others_away() -> None:
    read: list[int] = []

    async def load(partition: int) -> dict[str, LoadedGroup]:
        if partition < 20:
            await trio.sleep(5)
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "slow")
        read.append(partition)
        return {}

    async def main() -> None:
        loads = PartitionLoads(50, "groups", load, take)
        async with trio.open_nursery() as nursery:
            for partition in range(50):
                loads.came(partition)
                nursery.start_soon(loads.run, partition)
            for _ in range(600):
                for partition in range(20):
                    loads.asked(partition)
                await trio.sleep(0.1)
            nursery.cancel_scope.cancel()
        assert sorted(read) == list(range(20, 50))

    trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize("_again", range(10))
def test_one_that_ends_before_the_next_one_begins_counts_once(_again: int) -> None:
    """Trio chooses by chance which task goes on first: one time in two the one that matters."""
    may_end = trio.Event()

    async def load(_partition: int) -> dict[str, LoadedGroup]:
        await may_end.wait()
        return {}

    async def take_at_once(_partition: int, _groups: object, _is_old: object) -> None:
        """Gives the next one no time to begin."""

    async def main() -> None:
        loads = PartitionLoads(1, "groups", load, take_at_once)
        loads.came(0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(loads.run, 0)
            await wait_all_tasks_blocked()
            may_end.set()
            loads.came(0)
            nursery.start_soon(loads.run, 0)
            await wait_all_tasks_blocked()
        assert (loads.left, loads.all_loaded) == (0, True)

    trio.run(main)
