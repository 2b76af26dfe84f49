"""Clients that share a budget: the greedy wait for themselves."""

from __future__ import annotations

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.common.shared_budget import HELD_PER_FREE, Share, SharedBudget
from tests.unit.gateway.kafka_wire import run


async def take(share: Share, size: int, name: str, log: list[str]) -> None:
    await share.reserve(size)
    log.append(name)


def fill(share: Share, size: int) -> int:
    """Take pieces of `size` until there are no more for this client; how many they were."""
    taken = 0
    while share.try_reserve(size):
        taken += 1
    return taken


def test_one_client_leaves_a_quarter_for_the_next_and_two_a_seventh() -> None:
    budget = SharedBudget(2800)
    first, second, third = (Share(budget, name) for name in "abc")
    assert fill(first, 1) == 2100
    assert fill(second, 1) == 525
    assert fill(third, 1) == 131
    assert budget.used == 2100 + 525 + 131
    first.release(2100)
    assert fill(second, 1) > 525


def test_who_holds_nothing_may_take_all_that_is_free() -> None:
    budget = SharedBudget(100)
    first, second = Share(budget, "a"), Share(budget, "b")
    assert first.try_reserve(1000)
    assert (first.held, budget.used) == (100, 100)
    assert not second.try_reserve(1)
    first.release(1000)
    assert first.try_reserve(40)
    assert second.try_reserve(60)


def test_the_greedy_wait_and_nobody_waits_for_them() -> None:
    async def main() -> None:
        budget, log = SharedBudget(400), list[str]()
        greedy, honest = Share(budget, "a"), Share(budget, "b")
        assert fill(greedy, 10) == 30
        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(take, greedy, 10, f"greedy {number}", log)
            await wait_all_tasks_blocked()
            assert (log, budget.waiting) == ([], 100)
            for _ in range(50):
                assert honest.try_reserve(40)
                honest.release(40)
            await wait_all_tasks_blocked()
            assert log == []
            for served in range(1, 101):
                greedy.release(10)
                await wait_all_tasks_blocked()
                assert len(log) == served
        assert (greedy.held, budget.used, budget.waiting) == (300, 300, 0)

    run(main)


def test_a_large_request_is_not_starved_by_clients_that_hold_as_much() -> None:
    async def main() -> None:
        budget, log = SharedBudget(100), list[str]()
        large, small, fresh = (Share(budget, name) for name in "abc")
        assert large.try_reserve(5)
        assert small.try_reserve(60)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(take, large, 50, "large", log)
            await wait_all_tasks_blocked()
            assert not small.try_reserve(1)
            assert fresh.try_reserve(4), "it holds less"
            nursery.start_soon(take, small, 1, "small", log)
            await wait_all_tasks_blocked()
            small.release(20)
            await wait_all_tasks_blocked()
            assert log == []
            small.release(20)
        assert sorted(log) == ["large", "small"]

    run(main)


def test_requests_of_one_client_are_served_in_order_also_where_later_ones_would_fit() -> None:
    async def main() -> None:
        budget, log = SharedBudget(100), list[str]()
        share = Share(budget, "a")
        assert share.try_reserve(70)
        async with trio.open_nursery() as nursery:
            for size, name in ((60, "large"), (1, "small"), (2, "last")):
                nursery.start_soon(take, share, size, name, log)
                await wait_all_tasks_blocked()
            assert (log, budget.waiting) == ([], 3)
            assert not share.try_reserve(1)
            share.release(70)
        assert sorted(log) == ["large", "last", "small"]

    run(main)


def test_who_gives_up_makes_way() -> None:
    async def main() -> None:
        budget, log = SharedBudget(100), list[str]()
        first, second = Share(budget, "a"), Share(budget, "b")
        assert first.try_reserve(60)
        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as impatient:
                async with trio.open_nursery() as inner:
                    inner.start_soon(take, second, 100, "large", log)
                    await wait_all_tasks_blocked()
                    nursery.start_soon(take, first, 4, "small", log)
                    await wait_all_tasks_blocked()
                    assert log == []
                    impatient.cancel()
        assert (log, budget.used, budget.waiting) == (["small"], 64, 0)

    run(main)


def test_who_waited_for_one_that_came_later_and_gave_up_is_served() -> None:
    async def main() -> None:
        budget, log = SharedBudget(100), list[str]()
        blocked, small, large = (Share(budget, name) for name in "abc")
        assert blocked.try_reserve(40)
        assert small.try_reserve(10)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(take, blocked, 55, "blocked", log)
            await wait_all_tasks_blocked()
            with trio.CancelScope() as impatient:
                async with trio.open_nursery() as inner:
                    inner.start_soon(take, large, 60, "large", log)
                    await wait_all_tasks_blocked()
                    nursery.start_soon(take, small, 20, "small", log)
                    await wait_all_tasks_blocked()
                    assert log == []
                    impatient.cancel()
            await wait_all_tasks_blocked()
            assert log == ["small"]
            small.release(30)
            blocked.release(40)

    run(main)


def test_thousands_of_clients_that_wait_are_not_looked_through_for_each_that_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """9,000 addresses of one IPv6 network, all cut off at the same time, took 3 s of the loop."""
    looked_through = 0

    def counted(self: SharedBudget) -> None:
        nonlocal looked_through
        looked_through += len(self._waiting)
        serve(self)

    serve = SharedBudget._serve_waiting
    monkeypatch.setattr(SharedBudget, "_serve_waiting", counted)

    async def main() -> None:
        budget, log = SharedBudget(1000), list[str]()
        hog, other = Share(budget, "hog"), Share(budget, "other")
        assert hog.try_reserve(600)
        assert other.try_reserve(400)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(take, Share(budget, "first"), 100, "first", log)
            await wait_all_tasks_blocked()
            with trio.CancelScope() as impatient:
                async with trio.open_nursery() as inner:
                    for number in range(500):
                        inner.start_soon(take, Share(budget, str(number)), 10, "many", log)
                    await wait_all_tasks_blocked()
                    for _ in range(99):
                        other.release(1)
                    impatient.cancel()
            assert (log, budget.waiting) == ([], 1)
            assert looked_through < 1000
            other.release(1)

    run(main)


def test_who_has_waited_for_how_long_and_for_whom() -> None:
    clock = MockClock()

    async def main() -> None:
        budget, log = SharedBudget(400), list[str]()
        greedy, other = Share(budget, "greedy"), Share(budget, "other")
        assert greedy.try_reserve(300)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(take, greedy, 10, "first", log)
            nursery.start_soon(take, other, 200, "other", log)
            await wait_all_tasks_blocked()
            clock.jump(5)
            nursery.start_soon(take, greedy, 20, "second", log)
            await wait_all_tasks_blocked()
            clock.jump(2)
            now = trio.current_time()
            assert set(budget.waiting_for(7, now)) == {greedy, other}
            assert set(budget.waiting_for(8, now)) == set()
            assert (greedy.wanted(7, now), greedy.wanted(2, now), other.wanted(1, now)) == (10, 30, 200)
            assert greedy.waits_for_itself
            assert not other.waits_for_itself
            greedy.release(300)
        assert sorted(log) == ["first", "other", "second"]

    run(main, clock=clock)


def test_to_give_back_more_than_was_taken_is_an_error_of_ours() -> None:
    share = Share(SharedBudget(10), "a")
    assert share.try_reserve(3)
    with pytest.raises(RuntimeError, match="1 bytes more"):
        share.release(4)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 120), st.booleans()), max_size=60))
def test_nobody_waits_for_ever_and_nothing_is_lost(steps: list[tuple[int, int, bool]]) -> None:
    """Whatever clients take, wait for and give back: in the end all have had their turn."""

    async def main() -> None:
        budget = SharedBudget(100)
        shares = [Share(budget, str(number)) for number in range(4)]
        held: list[tuple[Share, int]] = []

        async def hold(share: Share, size: int) -> None:
            await share.reserve(size)
            held.append((share, size))

        async with trio.open_nursery() as nursery:
            for client, size, give_back in steps:
                if give_back and held:
                    share, taken = held.pop(size % len(held))
                    share.release(taken)
                else:
                    nursery.start_soon(hold, shares[client], size)
                await wait_all_tasks_blocked()
                assert budget.used == sum(share.held for share in shares) <= budget.total
                for share in shares:
                    assert sum(min(100, size) for one, size in held if one is share) == share.held
            while held:
                share, taken = held.pop(0)
                share.release(taken)
                await wait_all_tasks_blocked()
        assert (budget.used, budget.waiting, HELD_PER_FREE) == (0, 0, 3)

    run(main)
