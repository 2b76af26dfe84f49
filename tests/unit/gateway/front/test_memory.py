"""What one connection holds of the budgets."""

from __future__ import annotations

import trio
from trio.testing import wait_all_tasks_blocked

from gateway.common.budget import Budget
from gateway.front.memory import Account


def test_what_is_held_is_what_was_taken_and_not_given_back() -> None:
    budget = Budget(100)
    first, second = Account(budget), Account(budget)
    assert first.try_take(60)
    assert second.try_take(30)
    assert not second.try_take(20)
    assert (first.held, second.held, budget.used) == (60, 30, 90)
    first.give_back(10)
    assert budget.try_reserve(15)
    second.take_over(15)
    assert (first.held, second.held, budget.used) == (50, 45, 95)
    second.give_back_all()
    second.give_back_all()
    assert (first.held, second.held, budget.used) == (50, 0, 50)


def test_who_has_to_wait_says_so_first_and_who_gives_up_holds_nothing() -> None:
    async def main() -> None:
        budget, said = Budget(100), list[str]()
        first, second = Account(budget), Account(budget)
        await first.take(1000, lambda: said.append("first"))  # more than there is: the whole
        assert (budget.used, said) == (100, [])
        scope = trio.CancelScope()

        async def wait() -> None:
            with scope:
                await second.take(10, lambda: said.append("second"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await wait_all_tasks_blocked()
            assert (said, second.held) == (["second"], 0)
            scope.cancel()
        assert (second.held, budget.waiting) == (0, 0)
        async with trio.open_nursery() as nursery:
            scope = trio.CancelScope()
            nursery.start_soon(wait)
            await wait_all_tasks_blocked()
            first.give_back_all()
        assert (first.held, second.held, budget.used) == (0, 10, 10)

    trio.run(main)


def test_who_moves_goes_on_with_the_other_share_when_all_is_given_back() -> None:
    one, other, third = Budget(100), Budget(100), Budget(100)
    account = Account(one)
    assert account.try_take(10)
    assert account.try_take(20)
    account.move(other)
    account.give_back(10)
    assert account.try_take(5)  # something is held: of the same share
    assert (account.held, one.used, other.used) == (25, 25, 0)
    account.move(third)
    account.give_back_all()
    assert account.try_take(7)
    assert (account.held, one.used, other.used, third.used) == (7, 0, 0, 7)
    account.give_back_all()
    account.move(other)
    assert account.try_take(8)
    assert (one.used, other.used, third.used) == (0, 8, 0)
