"""Memory budgets and the gate."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.common.budget import Budget, Gate
from tests.unit.gateway.kafka_wire import run


async def take(budget: Budget, size: int, name: str, log: list[str]) -> None:
    await budget.reserve(size)
    log.append(name)


def test_bytes_are_taken_and_given_back() -> None:
    budget = Budget(10)
    assert budget.try_reserve(7)
    assert not budget.try_reserve(4)
    assert budget.try_reserve(3)
    assert budget.used == 10
    budget.release(7)
    assert budget.used == 3


def test_who_comes_first_is_served_first_also_when_later_ones_would_fit() -> None:
    async def main() -> None:
        budget, log = Budget(10), list[str]()
        assert budget.try_reserve(8)
        async with trio.open_nursery() as nursery:
            for size, name in ((5, "large"), (1, "small"), (10, "last")):
                nursery.start_soon(take, budget, size, name, log)
                await wait_all_tasks_blocked()
            assert (log, budget.waiting) == ([], 3)
            assert not budget.try_reserve(1)  # there are bytes, but others were before
            budget.release(8)
            await wait_all_tasks_blocked()
            assert sorted(log) == ["large", "small"]
            budget.release(5)
            await wait_all_tasks_blocked()
            assert sorted(log) == ["large", "small"]
            budget.release(1)
        assert log[2:] == ["last"]
        assert (budget.used, budget.waiting) == (10, 0)

    run(main)


def test_more_than_the_whole_budget_goes_ahead_alone() -> None:
    async def main() -> None:
        budget, log = Budget(10), list[str]()
        assert budget.try_reserve(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(take, budget, 1000, "huge", log)
            await wait_all_tasks_blocked()
            assert log == []
            budget.release(1)
        assert (log, budget.used) == (["huge"], 10)
        budget.release(1000)
        assert budget.used == 0

    run(main)


def test_who_gives_up_makes_way_for_those_behind() -> None:
    async def main() -> None:
        budget, log = Budget(10), list[str]()
        assert budget.try_reserve(6)
        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as impatient:
                async with trio.open_nursery() as inner:
                    inner.start_soon(take, budget, 10, "large", log)
                    await wait_all_tasks_blocked()
                    nursery.start_soon(take, budget, 4, "small", log)
                    await wait_all_tasks_blocked()
                    impatient.cancel()
        assert (log, budget.used, budget.waiting) == (["small"], 10, 0)

    run(main)


def test_to_give_back_more_than_was_taken_is_an_error_of_ours() -> None:
    budget = Budget(10)
    assert budget.try_reserve(3)
    with pytest.raises(RuntimeError, match="1 bytes more"):
        budget.release(4)


def test_a_closed_gate_holds_until_it_opens() -> None:
    async def main() -> None:
        gate, log = Gate(), list[str]()

        async def pass_through() -> None:
            await gate.wait(1000)
            log.append("through")

        await gate.wait(0)
        gate.close()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pass_through)
            await wait_all_tasks_blocked()
            assert log == []
            gate.open()
        assert log == ["through"]

    run(main, clock=MockClock())


def test_nobody_waits_at_the_gate_longer_than_asked() -> None:
    async def main() -> None:
        gate = Gate()
        gate.close()
        await gate.wait(3)
        assert trio.current_time() - began >= 3
        assert not gate.is_open

    clock = MockClock(autojump_threshold=0)
    began = clock.current_time()
    run(main, clock=clock)
