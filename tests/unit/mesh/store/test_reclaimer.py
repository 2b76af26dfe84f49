"""The reclaimer: one address at a time, rests between two, survives anything, and holds up no shutdown."""

import threading
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from mesh.store import reclaimer as module
from mesh.store.db import Database
from mesh.store.reclaimer import Reclaimer

PATIENCE_SECONDS = 20
"""Ends a test that would hang."""


class FakeDatabase:
    def __init__(self) -> None:
        self.reclaimed: list[tuple[str, float]] = []
        self.bad: set[str] = set()
        self.now: Any = lambda: 0.0

    def reclaim(self, address: str) -> None:
        self.reclaimed.append((address, self.now()))
        if address in self.bad:
            raise RuntimeError("the disk is on fire")


def test_one_at_a_time_with_a_rest_between_two_and_whatever_goes_wrong() -> None:
    database = FakeDatabase()
    database.bad = {"A1"}

    async def main() -> None:
        database.now = lambda: trio.from_thread.run_sync(trio.current_time)
        start = trio.current_time()
        reclaimer = Reclaimer(cast(Database, database))
        for number in range(4):
            reclaimer.add(f"A{number}")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reclaimer.run)
            await trio.sleep(10)
            nursery.cancel_scope.cancel()
        assert [address for address, _ in database.reclaimed] == ["A0", "A1", "A2", "A3"]
        times = [when - start for _, when in database.reclaimed]
        for number, when in enumerate(times):
            assert when >= number * module.REST_LEAST_SECONDS - 1e-9
        assert reclaimer.reclaimed == 3

    trio.run(main, clock=MockClock(autojump_threshold=0.05))


def test_the_queue_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_QUEUED_RECLAIMS", 2)
    reclaimer = Reclaimer(cast(Database, FakeDatabase()))
    for number in range(5):
        reclaimer.add(f"A{number}")
    assert reclaimer.dropped == 3


def test_a_shutdown_does_not_wait_for_it() -> None:
    started, release = threading.Event(), threading.Event()

    finished: list[str] = []

    class Slow(FakeDatabase):
        def reclaim(self, address: str) -> None:
            started.set()
            release.wait(PATIENCE_SECONDS)
            finished.append(address)

    async def main() -> None:
        reclaimer = Reclaimer(cast(Database, Slow()))
        reclaimer.add("A0")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reclaimer.run)
            await trio.to_thread.run_sync(started.wait)
            nursery.cancel_scope.cancel()
        assert finished == []

    try:
        trio.run(main)
    finally:
        release.set()
