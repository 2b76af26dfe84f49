"""Garbage that refers to itself is found: soon where it is new, later where it was put aside."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Callable, Iterator

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from dafka.processes.garbage import (
    LEAST_OBJECTS,
    OLD_OBJECTS,
    YOUNG_OBJECTS,
    Garbage,
    look_for_garbage,
)

LOOKS_TO_A_WHOLE = LEAST_OBJECTS // OLD_OBJECTS


class Knot:
    """Refers to itself: only the collector frees it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    """What the tests put aside is what other tests of this process look at."""
    left, frozen = gc.get_threshold(), gc.get_freeze_count()
    threshold = (700, 10, 10)  # and not what others have left
    gc.set_threshold(*threshold)
    yield
    assert gc.get_threshold() == threshold
    gc.set_threshold(*left)
    gc.unfreeze()
    if frozen:
        gc.freeze()


@pytest.fixture
def took(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds of processor time that each reading of it is later than the one before; 0 at first."""
    times = [0.0]
    now = [0.0]

    def thread_time() -> float:
        now[0] += times[0]
        return now[0]

    monkeypatch.setattr(time, "thread_time", thread_time)
    return times


def run(body: Callable[[MockClock], None]) -> None:
    clock = MockClock()

    async def main() -> None:
        body(clock)

    trio.run(main, clock=clock)


def test_what_is_in_use_is_looked_at_once_and_again_when_all_is(took: list[float]) -> None:
    def body(clock: MockClock) -> None:
        looks, knot = Garbage(), Knot()
        seen = weakref.ref(knot)
        looks.look()
        del knot
        for _ in range(LOOKS_TO_A_WHOLE - 2):
            looks.look()
        assert seen() is not None
        looks.look()
        looks.look()
        assert seen() is None

    run(body)


def test_what_is_new_and_garbage_is_found_each_time(took: list[float]) -> None:
    def body(clock: MockClock) -> None:
        looks = Garbage()
        for _ in range(3):
            seen = weakref.ref(Knot())
            looks.look()
            assert seen() is None

    run(body)


def test_all_is_looked_at_the_more_seldom_the_longer_that_takes(took: list[float]) -> None:
    def body(clock: MockClock) -> None:
        looks = Garbage()
        took[0] = 0.25
        for _ in range(LOOKS_TO_A_WHOLE + 1):
            looks.look()  # at all, which took a quarter of a second
        knot = Knot()
        seen = weakref.ref(knot)
        looks.look()
        del knot
        for _ in range(3 * LOOKS_TO_A_WHOLE):
            looks.look()
        assert seen() is not None
        clock.jump(0.25 * 1000)
        looks.look()
        assert seen() is None

    run(body)


def test_what_a_start_has_put_aside_is_looked_at_the_later_the_more_it_is(took: list[float]) -> None:
    def body(clock: MockClock) -> None:
        looks, knot = Garbage(), Knot()
        seen = weakref.ref(knot)
        for _ in range(2 * LEAST_OBJECTS // YOUNG_OBJECTS):
            looks.put_aside()
        del knot
        clock.jump(10)
        looks.look()
        clock.jump(75)
        looks.look()
        assert seen() is not None
        clock.jump(10)
        looks.look()
        assert seen() is None

    run(body)


def test_what_a_start_makes_is_put_aside_by_the_first_look_at_it() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(look_for_garbage)
            await wait_all_tasks_blocked()
            seen, frozen = weakref.ref(Knot()), gc.get_freeze_count()
            kept = [Knot() for _ in range(YOUNG_OBJECTS + 1)]
            assert seen() is None
            assert gc.get_freeze_count() >= frozen + YOUNG_OBJECTS / 2
            assert len(kept) > gc.get_count()[0]
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_a_process_that_serves_looks_when_enough_has_come_and_sets_back_what_it_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dafka.processes.garbage.START_SECONDS", 0.0)

    async def main() -> None:
        before = gc.get_threshold()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(look_for_garbage)
            await wait_all_tasks_blocked()
            assert gc.get_threshold() != before
            frozen = gc.get_freeze_count()
            kept = [Knot() for _ in range(2 * OLD_OBJECTS)]
            seen = weakref.ref(kept[0])
            with trio.fail_after(30):
                while gc.get_freeze_count() < frozen + OLD_OBJECTS:
                    await trio.lowlevel.checkpoint()
            assert seen() is kept[0]
            nursery.cancel_scope.cancel()
        assert gc.get_threshold() == before

    trio.run(main)
