"""Clients have turns, however many connections each has."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.common.costs import ELEMENT, REQUEST
from gateway.common.turns import (
    LEAST_TURN,
    MOST_CALLED,
    MOST_OWED,
    REMEMBERED_TURNS,
    SHARED_TURN,
    TURN,
    Attendance,
    Turns,
)
from gateway.common.work import BREATH, FREE, Work
from gateway.front.limits import SMALL_REQUESTS_OWE

MILLISECOND = 1_000_000


class Steps(trio.abc.Instrument):
    """Counts the steps of all tasks, and the passes of the loop."""

    def __init__(self) -> None:
        self.steps = self.passes = 0

    def before_task_step(self, _task: trio.lowlevel.Task) -> None:
        self.steps += 1

    def after_io_wait(self, _timeout: float) -> None:
        self.passes += 1


class Connection:
    """One that works off requests: `done` nanoseconds so far, as charged to the turns of its client."""

    def __init__(self, turns: Turns) -> None:
        self.work = Work(turns)
        self.requests = 0

    @property
    def done(self) -> int:
        return self.work.charged

    async def request(self, steps: int, cost: int) -> None:
        """As `gateway.front.connection` does it."""
        turns = self.work.turns
        turns.attend()
        if turns.left < SMALL_REQUESTS_OWE:
            await turns.wait(SMALL_REQUESTS_OWE)
        turns.left -= REQUEST
        self.work.free, self.work.has_turn = FREE, False
        for _ in range(steps):
            await self.work.before(cost)
        self.requests += 1

    async def requests_of(self, steps: int, cost: int, count: float = math.inf) -> None:
        while self.requests < count:
            await self.request(steps, cost)
            await trio.lowlevel.checkpoint()  # its client sends the next one


@pytest.mark.parametrize(("connections", "greedy_clients"), [(1_000, 1), (100, 3), (3, 40)])
def test_a_client_with_many_busy_connections_keeps_others_waiting_as_one_with_one(
    connections: int, greedy_clients: int
) -> None:
    """Everybody is in the same place: endless requests of 40 ms of names, and a victim of one name."""
    attendance = Attendance()
    accounts = [Turns(attendance) for _ in range(greedy_clients)]
    greedy = [[Connection(turns) for _ in range(connections)] for turns in accounts]
    waited = []

    async def victim() -> None:
        one = Connection(Turns(attendance))
        while one.requests < 200:
            before = sum(each.done for of_one in greedy for each in of_one)
            await one.request(1, ELEMENT)
            await trio.lowlevel.checkpoint()
            after = sum(each.done for of_one in greedy for each in of_one)
            if one.requests > 10:
                waited.append(after - before)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for each in [one for of_one in greedy for one in of_one]:
                nursery.start_soon(each.requests_of, 5_000, ELEMENT)
            await victim()
            nursery.cancel_scope.cancel()

    trio.run(main)
    a_pass = max(SHARED_TURN, greedy_clients * LEAST_TURN)
    # Two passes of the loop: a turn in each, and what requests that begin are served of before they wait.
    assert max(waited) <= 2 * (2 * a_pass + greedy_clients * TURN)
    for of_one in greedy:
        assert sum(each.done for each in of_one) >= 100 * a_pass // greedy_clients


def test_who_waits_at_the_same_time_shares_a_turn_and_who_seldom_does_gets_no_less() -> None:
    attendance = Attendance()
    greedy, seldom = [Connection(Turns(attendance)) for _ in range(2)], Turns(attendance)
    sizes = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for one in greedy:
                nursery.start_soon(one.requests_of, 100_000, ELEMENT)
            for _ in range(20):
                await wait_for_passes(10)
                seldom.attend()
                seldom.left = 0
                await seldom.wait(1)
                sizes.append(seldom.size)
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert min(sizes[1:]) >= SHARED_TURN // 3
    assert attendance.waiting <= 2


async def wait_for_passes(count: int) -> None:
    for _ in range(count):
        await trio.lowlevel.checkpoint()


def test_a_client_counts_as_alone_again_once_others_have_been_quiet_for_some_turns() -> None:
    attendance = Attendance()
    one, other = Turns(attendance), Turns(attendance)
    sizes = []

    async def main() -> None:
        for number in range(4 * REMEMBERED_TURNS):
            one.attend()
            if number == 2 * REMEMBERED_TURNS:
                other.attend()
            one.left = 0
            await one.wait(1)
            sizes.append(one.left)

    trio.run(main)
    alone = [number for number, size in enumerate(sizes) if size == TURN]
    met = 2 * REMEMBERED_TURNS
    assert alone == [*range(met), *range(met + REMEMBERED_TURNS, 4 * REMEMBERED_TURNS)]
    assert set(sizes) == {TURN, SHARED_TURN}


def test_connections_of_one_client_have_turns_among_themselves() -> None:
    turns = Turns()
    busy = [Connection(turns) for _ in range(20)]

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for each in busy:
                nursery.start_soon(each.requests_of, 100_000, ELEMENT)
            while sum(each.done for each in busy) < 100 * 20 * TURN:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()

    trio.run(main)
    done = [each.done for each in busy]
    assert max(done) - min(done) <= 4 * TURN


@pytest.mark.parametrize("cost", [MILLISECOND // 2, 3 * MILLISECOND, 5 * MILLISECOND, 20 * MILLISECOND])
def test_a_client_alone_uses_its_turns_up(cost: int) -> None:
    """Twenty connections with requests of one step each: nearly as few passes as there are turns of work."""
    turns, counted = Turns(), Steps()
    busy = [Connection(turns) for _ in range(20)]

    async def main() -> None:
        trio.lowlevel.add_instrument(counted)
        async with trio.open_nursery() as nursery:
            for each in busy:
                nursery.start_soon(each.requests_of, 1, cost, 100)

    trio.run(main)
    requests = 20 * 100
    turns_of_work = requests / (TURN // cost) if cost <= TURN else requests * cost / TURN
    assert counted.passes <= 1.5 * turns_of_work + 100
    # One of them in vain, at most one to begin, and one to go on; and of the first one a step in each pass.
    assert counted.steps <= 5 * requests + counted.passes + 100


@pytest.mark.parametrize("others", [0, 8])
def test_what_asks_for_little_waits_for_no_turn_though_its_client_has_spent_it(others: int) -> None:
    attendance = Attendance()
    turns = Turns(attendance)
    crowd = [Connection(Turns(attendance)) for _ in range(others)]
    heavy, light = [Connection(turns) for _ in range(100)], Connection(turns)
    waited = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for each in heavy + crowd:
                nursery.start_soon(each.requests_of, 100_000, ELEMENT)
            await wait_for(lambda: sum(each.done for each in heavy) > 20 * TURN)
            for _ in range(50):
                before = sum(each.done for each in heavy)
                await light.request(FREE // ELEMENT, ELEMENT)
                await trio.lowlevel.checkpoint()
                waited.append(sum(each.done for each in heavy) - before)
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert max(waited) <= 4 * TURN + FREE


async def wait_for(condition: Callable[[], bool]) -> None:
    while not condition():
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("cost", [10 * MILLISECOND, 1_000 * MILLISECOND])
def test_what_was_found_to_cost_more_is_taken_off_the_next_turns_up_to_a_bound(cost: int) -> None:
    """Three clients at once: what each does only shows what it costs when it is done."""
    attendance, passes = Attendance(), Steps()
    greedy = [Work(Turns(attendance)) for _ in range(3)]
    rounds = 5

    async def overdraw(work: Work) -> None:
        for _ in range(rounds):
            work.turns.attend()
            await work.settle()
            work.owes(cost)
            await trio.lowlevel.checkpoint()

    async def main() -> None:
        trio.lowlevel.add_instrument(passes)
        async with trio.open_nursery() as nursery:
            for work in greedy:
                nursery.start_soon(overdraw, work)

    trio.run(main)
    owed = min(cost, MOST_OWED)
    waits = rounds - 1 if cost > TURN else rounds - 2  # the first round has a whole turn
    assert passes.passes >= (waits * owed - TURN) / SHARED_TURN
    assert passes.passes <= rounds * (owed / LEAST_TURN + 10)


def test_who_asks_for_little_goes_before_all_who_wait_for_what_is_owed() -> None:
    """A client owes much, and a hundred of its connections want more; one begins a request."""
    attendance = Attendance()
    turns, other = Turns(attendance), Turns(attendance)
    heavy = [Connection(turns) for _ in range(100)]
    done: list[int] = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for each in heavy:
                nursery.start_soon(each.requests_of, 100, MILLISECOND)
            await wait_for(lambda: len(turns.waiting) > 90)
            turns.left = SMALL_REQUESTS_OWE - 4 * MILLISECOND
            other.attend()
            before = sum(each.done for each in heavy)
            await turns.wait(SMALL_REQUESTS_OWE)
            done.append(sum(each.done for each in heavy) - before)
            assert turns.left >= SMALL_REQUESTS_OWE
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert done == [0]


def test_what_asks_for_much_comes_to_its_turn_beside_what_asks_for_little_without_end() -> None:
    """Of one client, while others are served: more small requests than its turns suffice for."""
    attendance, passes = Attendance(), Steps()
    turns, other = Turns(attendance), Turns(attendance)
    light, heavy = [Connection(turns) for _ in range(60)], Connection(turns)
    took = []

    async def another() -> None:
        for _ in range(20_000):
            other.attend()
            await trio.lowlevel.checkpoint()
        raise AssertionError("it never came to its turn")

    async def main() -> None:
        trio.lowlevel.add_instrument(passes)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(another)
            for each in light:
                nursery.start_soon(each.requests_of, 1, ELEMENT)
            await wait_for(lambda: turns.left < SMALL_REQUESTS_OWE)
            for _ in range(10):
                before = passes.passes
                await heavy.request(3, MILLISECOND)
                took.append(passes.passes - before)
            nursery.cancel_scope.cancel()

    trio.run(main)
    # What is owed when it begins to wait, and each of its steps, at half a turn in each pass.
    assert max(took) <= 4 * (MOST_OWED + 3 * MILLISECOND) / SHARED_TURN
    assert min(each.requests for each in light) > 10


def test_who_gives_up_waiting_keeps_nobody_from_a_turn() -> None:
    turns = Turns()
    turns.left = 0
    ran: list[int] = []

    async def one(number: int, scope: trio.CancelScope) -> None:
        with scope:
            await turns.wait(TURN)
            ran.append(number)

    async def main() -> None:
        scopes = [trio.CancelScope() for _ in range(6)]
        async with trio.open_nursery() as nursery:
            for number, scope in enumerate(scopes):
                nursery.start_soon(one, number, scope)
            await trio.lowlevel.checkpoint()
            for scope in (scopes[0], scopes[3]):
                scope.cancel()
            await wait_all_tasks_blocked()
        assert not turns.waiting

    trio.run(main)
    assert set(ran) >= {1, 2, 4, 5}


def test_who_is_cancelled_before_waiting_takes_no_place() -> None:
    turns = Turns()

    async def main() -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            await turns.wait(1)
        assert scope.cancelled_caught
        assert not turns.waiting
        await turns.wait(1)
        assert turns.left == TURN

    trio.run(main)


def test_turns_come_in_the_order_of_waiting() -> None:
    turns = Turns()
    turns.left = 0
    ran: list[int] = []

    async def one(number: int) -> None:
        await turns.wait(TURN)
        turns.left -= TURN
        ran.append(number)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(one, number)
                await trio.lowlevel.checkpoint()
                turns.left = 0

    trio.run(main)
    assert ran == sorted(ran)


def test_breaths_are_charged_and_are_checkpoints() -> None:
    turns, counted = Turns(), Counter[str]()

    async def counting(name: str) -> None:
        work = Work(turns)
        for _ in range(100):
            await work.breath()
            counted[name] += 1

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(counting, "a")
            nursery.start_soon(counting, "b")
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
            assert counted["a"] <= 2

    trio.run(main)
    assert counted == {"a": 100, "b": 100}


def test_constants_fit_each_other() -> None:
    assert REQUEST < FREE < TURN
    assert BREATH > MOST_CALLED
