"""The reclaimer: one address at a time, rests between two, survives anything, and holds up no shutdown."""

import threading
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from mesh.protocol.disk import StoreCorrupt
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

        self.found = (0, 0)
        """Garbage, and bytes of the blob files."""
        self.kept: list[str] = []
        self.checked: list[str] = []
        self.rewritten: list[str] = []

    def reclaim(self, address: str) -> None:
        self.reclaimed.append((address, self.now()))
        if address in self.bad:
            raise RuntimeError("the disk is on fire")

    def garbage(self) -> tuple[int, int]:
        return self.found

    def names_from(self, _letter: bytes, start: bytes) -> tuple[str, bytes] | None:
        left = [address for address in self.kept if address.encode() > start]
        return (left[0], left[0].encode()) if left else None

    def check_contents(self, address: str) -> None:
        self.checked.append(address)
        if address in self.bad:
            raise StoreCorrupt(f"address {address} cannot be read")

    def rewrite(self, address: str) -> None:
        assert self.checked == self.kept
        self.rewritten.append(address)


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


MEGABYTE = 1 << 20


class Collecting:
    """A reclaimer over a store that keeps two addresses. A `deletion` leaves so many MB of garbage, of so
    many in its files.
    """

    def __init__(self) -> None:
        self.database = FakeDatabase()
        self.database.kept = ["m1", "m2"]
        self.reclaimer = Reclaimer(cast(Database, self.database))

    async def deletion(self, garbage: int, size: int) -> list[str]:
        """What is rewritten behind it."""
        self.database.found = garbage * MEGABYTE, size * MEGABYTE
        self.database.checked.clear()
        self.database.rewritten.clear()
        self.reclaimer.add("A0")
        await trio.sleep(10)
        return list(self.database.rewritten)


async def on_the_loop(function: Callable[..., Any], *arguments: Any) -> Any:
    await trio.lowlevel.checkpoint()
    return function(*arguments)


def collecting(body: Callable[[Collecting], Awaitable[None]]) -> None:
    """Without threads: the clock would not wait for them."""

    async def main() -> None:
        setup = Collecting()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(setup.reclaimer.run)
            await body(setup)
            nursery.cancel_scope.cancel()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "_in_thread", on_the_loop)
        trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize(
    ("garbage", "size", "worth_it"),
    [(0, 0, False), (50, 50, False), (399, 1000, False), (400, 1000, True), (10_000, 20_000, True)],
)
def test_what_is_kept_is_written_anew_once_enough_is_garbage(garbage: int, size: int, worth_it: bool) -> None:
    async def body(setup: Collecting) -> None:
        assert await setup.deletion(garbage, size) == (["m1", "m2"] if worth_it else [])
        assert setup.reclaimer.garbage_bytes == garbage * MEGABYTE

    collecting(body)


def test_garbage_that_cannot_be_freed_is_not_tried_again_and_again() -> None:
    async def body(setup: Collecting) -> None:
        assert await setup.deletion(400, 1000) == ["m1", "m2"]
        assert await setup.deletion(700, 1000) == []
        assert await setup.deletion(900, 1000) == ["m1", "m2"]

    collecting(body)


def test_nothing_is_moved_while_something_cannot_be_read() -> None:
    async def body(setup: Collecting) -> None:
        setup.database.bad = {"m2"}
        assert await setup.deletion(400, 1000) == []
        assert (setup.database.checked, setup.reclaimer.collections) == (["m1", "m2"], 0)
        setup.database.bad = set()
        assert await setup.deletion(800, 1000) == ["m1", "m2"]
        assert setup.reclaimer.collections == 1

    collecting(body)


def test_a_store_that_cannot_tell_goes_on() -> None:
    async def body(setup: Collecting) -> None:
        def broken() -> tuple[int, int]:
            raise RuntimeError("the disk is on fire")

        setup.database.garbage = broken  # type: ignore[method-assign]
        assert await setup.deletion(400, 1000) == []
        del setup.database.garbage
        assert await setup.deletion(400, 1000) == ["m1", "m2"]

    collecting(body)
