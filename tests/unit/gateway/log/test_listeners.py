"""Who waits for news of partitions: told in order, a few in each turn of the loop, and none is forgotten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, cast

import trio

from gateway.log.listeners import Listeners
from gateway.log.partition import Partition
from gateway.log.wake_ups import CALLED_A_TURN, WakeUps

MANY = 10 * CALLED_A_TURN + 5

MOST_SEEN = 2 * CALLED_A_TURN
"""What the test sees at most between two of its own turns: tasks that are ready run in any order."""


class Scene:
    """Partitions and the turns of the loop in which their waiters were told."""

    def __init__(self, partitions: int = 1) -> None:
        self.wake_ups = WakeUps()
        self.listeners = [Listeners(self.wake_ups) for _ in range(partitions)]
        self.told: list[tuple[int, int]] = []
        """(partition, waiter)"""
        self.turns: Counter[int] = Counter()
        self.turn = 0

    def park(self, partition: int, number: int) -> Waiter:
        waiter = Waiter(self, partition, number)
        self.listeners[partition].add(waiter)
        return waiter

    def tell(self, partition: int = 0) -> None:
        self.listeners[partition].tell_all(cast(Partition, None))

    async def turns_pass(self) -> None:
        """Until nothing happens any more."""
        quiet = 0
        while quiet < 5:
            before = len(self.told)
            self.turn += 1
            await trio.lowlevel.checkpoint()
            quiet = quiet + 1 if len(self.told) == before else 0


class Waiter:
    def __init__(self, scene: Scene, partition: int, number: int) -> None:
        self._scene = scene
        self._partition = partition
        self._number = number

    def advanced(self, _partition: Any, /) -> None:
        self._scene.told.append((self._partition, self._number))
        self._scene.turns[self._scene.turn] += 1


def in_a_loop(body: Callable[[Scene], Awaitable[None]], partitions: int = 1) -> None:
    async def main() -> None:
        scene = Scene(partitions)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scene.wake_ups.run)
            await body(scene)
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_few_are_told_at_once() -> None:
    async def body(scene: Scene) -> None:
        for number in range(3):
            scene.park(0, number)
        for times in range(5):
            scene.tell()
            assert scene.told == [(0, number) for number in range(3)] * (times + 1)

    in_a_loop(body)


def test_many_are_told_in_order_and_some_in_each_turn() -> None:
    async def body(scene: Scene) -> None:
        for number in range(MANY):
            scene.park(0, number)
        scene.tell()
        await scene.turns_pass()
        assert scene.told == [(0, number) for number in range(MANY)]
        assert max(scene.turns.values()) <= MOST_SEEN
        scene.told.clear()
        scene.tell()
        await scene.turns_pass()
        assert len(scene.told) == MANY, "they are parked for as long as they like"

    in_a_loop(body)


def test_what_happens_meanwhile_is_told_once_more_to_all() -> None:
    async def body(scene: Scene) -> None:
        for number in range(MANY):
            scene.park(0, number)
        scene.tell()
        while not scene.told:
            await trio.lowlevel.checkpoint()
        assert len(scene.told) < MANY
        for _ in range(20):
            scene.tell()
        scene.park(0, MANY)
        await scene.turns_pass()
        once = [(0, number) for number in range(MANY)]
        assert scene.told == [*once, *once, (0, MANY)]

    in_a_loop(body)


def test_partitions_take_turns() -> None:
    async def body(scene: Scene) -> None:
        for number in range(MANY):
            scene.park(0, number)
            scene.park(1, number)
        scene.park(2, 0)
        for partition in range(3):
            scene.tell(partition)
        while (2, 0) not in scene.told:
            await trio.lowlevel.checkpoint()
        assert len(scene.told) < MANY, "one that waits elsewhere does not wait for all of these"
        await scene.turns_pass()
        assert Counter(scene.told) == Counter(
            [(partition, number) for partition in range(2) for number in range(MANY)] + [(2, 0)]
        )
        assert max(scene.turns.values()) <= MOST_SEEN

    in_a_loop(body, partitions=3)


def test_who_was_removed_is_not_told() -> None:
    async def body(scene: Scene) -> None:
        waiters = [scene.park(0, number) for number in range(MANY)]
        scene.tell()
        for waiter in waiters[1:]:
            scene.listeners[0].remove(waiter)
        await scene.turns_pass()
        assert scene.told == [(0, 0)]
        scene.tell()
        await scene.turns_pass()
        assert scene.told == [(0, 0)] * 2

    in_a_loop(body)


def test_watchers_are_told_once_and_not_if_they_were_removed() -> None:
    async def body(scene: Scene) -> None:
        listeners = scene.listeners[0]
        watchers = [Waiter(scene, 0, number) for number in range(MANY)]
        for watcher in watchers:
            listeners.watch(watcher)
        scene.tell()
        assert listeners.watching + len(scene.told) == MANY
        listeners.unwatch(watchers[-1])
        scene.tell()
        await scene.turns_pass()
        assert sorted(scene.told) == [(0, number) for number in range(MANY - 1)]
        assert max(scene.turns.values()) <= MOST_SEEN
        assert listeners.watching == 0
        scene.tell()
        await scene.turns_pass()
        assert len(scene.told) == MANY - 1

    in_a_loop(body)
