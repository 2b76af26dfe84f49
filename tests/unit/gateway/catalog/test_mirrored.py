"""What catalogs within one process do besides what all do: they share commits, and end leases themselves."""

import math
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.catalog.interface import (
    Catalog,
    CatalogFailed,
    Change,
    Compare,
    CompareFailed,
    Entry,
    LeaseNotFound,
)
from gateway.catalog.mirror import Plan
from gateway.catalog.sqlite import SqliteCatalog
from tests.unit.gateway.catalog.memory import MemoryCatalog
from tests.unit.gateway.turns import Turns

Case = Callable[[Catalog], Awaitable[None]]


@pytest.fixture(params=["memory", "sqlite"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Case], None]:
    """Runs a case on a new catalog, on a clock that only the case moves."""
    clock = MockClock()

    def run_case(case: Case) -> None:
        async def main() -> None:
            catalog = (
                MemoryCatalog() if request.param == "memory" else SqliteCatalog(tmp_path / "catalog.sqlite")
            )
            with trio.move_on_at(math.inf):
                await case(catalog)
            await catalog.aclose()

        trio.run(main, clock=clock)

    run_case.clock = clock  # type: ignore[attr-defined]
    return run_case


def test_those_of_one_commit_see_those_before_them(run: Callable[[Case], None]) -> None:
    async def case(catalog: Catalog) -> None:
        outcomes: list[tuple[int, int | str]] = []

        async def transact(
            number: int, compares: list[Compare], puts: dict[str, bytes], deletes: list[str]
        ) -> None:
            try:
                outcomes.append((number, await catalog.transact(compares, puts, deletes)))
            except CompareFailed as failed:
                outcomes.append((number, failed.key))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(transact, 0, [], {"first": b""}, [])
            await wait_all_tasks_blocked_or_in_thread()
            for number, (compares, puts, deletes) in enumerate(
                [
                    ([Compare("a", 0)], {"a": b"1"}, []),
                    ([Compare("a", 0)], {"a": b"lost"}, []),
                    ([Compare("a", 2)], {"b": b"2"}, ["a"]),
                    ([Compare("a", 0)], {}, ["first"]),
                    ([Compare("first", 0), Compare("b", 3)], {"a": b"3"}, []),
                ],
                start=1,
            ):
                nursery.start_soon(transact, number, compares, puts, deletes)
                await wait_all_tasks_blocked_or_in_thread()
        assert sorted(outcomes, key=lambda outcome: outcome[0]) == [
            (0, 1),
            (1, 2),
            (2, "a"),
            (3, 3),
            (4, 4),
            (5, 5),
        ]
        assert catalog.range("") == [Entry("a", b"3", 5, 5), Entry("b", b"2", 3, 3)]

    run(case)


async def wait_all_tasks_blocked_or_in_thread() -> None:
    for _ in range(3):  # enough for a task to get to the commit lock
        await trio.lowlevel.checkpoint()


def test_all_of_one_commit_go_on_in_one_turn() -> None:
    """What they do next goes out together: recovery closes thousands of segments this way."""

    async def main() -> None:
        catalog = MemoryCatalog()
        turns = Turns()
        went_on: list[int] = []

        async def put(key: str) -> None:
            await catalog.transact([], {key: b""})
            went_on.append(turns.count)

        async with trio.open_nursery() as nursery:
            with catalog.held():
                for number in range(100):
                    nursery.start_soon(put, f"{number}")
                await wait_all_tasks_blocked()
        assert catalog.committed == [100]
        assert len(went_on) == 100
        # The one that committed is there a turn before those that it woke.
        assert went_on[-1] - went_on[0] <= 1

    trio.run(main)


def test_a_lease_ends_when_it_is_not_kept_alive(run: Callable[[Case], None]) -> None:
    async def case(catalog: Catalog) -> None:
        clock: MockClock = run.clock  # type: ignore[attr-defined]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(catalog.run)
            short, long = await catalog.grant_lease(10), await catalog.grant_lease(25)
            await catalog.transact([], {"short": b""}, lease=short)
            await catalog.transact([], {"long": b""}, lease=long)
            watch = catalog.watch("", catalog.revision + 1)
            clock.jump(9)
            await catalog.keep_alive(short)
            await wait_all_tasks_blocked()
            clock.jump(9)
            await wait_all_tasks_blocked()
            assert [entry.key for entry in catalog.range("")] == ["long", "short"]
            clock.jump(1)
            assert await anext(watch) == Change(3, "short", None)
            with pytest.raises(LeaseNotFound):
                await catalog.keep_alive(short)
            clock.jump(6)
            assert await anext(watch) == Change(4, "long", None)
            nursery.cancel_scope.cancel()
        assert catalog.range("") == []

    run(case)


def test_a_lease_that_is_kept_alive_while_another_one_ends_goes_on() -> None:
    """Both were due, and the end of the first one takes a while: whoever was told that the second one goes on
    has it.
    """
    clock = MockClock()

    async def main() -> None:
        catalog = MemoryCatalog()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(catalog.run)
            ending, kept = await catalog.grant_lease(6.0), await catalog.grant_lease(6.0)
            await catalog.transact([], {"ending": b""}, lease=ending)
            await catalog.transact([], {"kept": b""}, lease=kept)
            with catalog.held():
                clock.jump(6)
                await wait_all_tasks_blocked()
                await catalog.keep_alive(kept)
            await wait_all_tasks_blocked()
            assert [entry.key for entry in catalog.range("")] == ["kept"]
            clock.jump(6)
            await wait_all_tasks_blocked()
            assert catalog.range("") == [], "from then on it lasts as long as ever"
            nursery.cancel_scope.cancel()

    trio.run(main, clock=clock)


def test_cancelled_before_it_began_it_never_happens(run: Callable[[Case], None]) -> None:
    async def case(catalog: Catalog) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(catalog.transact, [], {"first": b""})
            await wait_all_tasks_blocked_or_in_thread()
            with trio.CancelScope() as scope:
                scope.cancel()
                await catalog.transact([], {"cancelled": b""})
            assert scope.cancelled_caught
        await catalog.transact([], {"last": b""})
        assert [entry.key for entry in catalog.range("")] == ["first", "last"]

    run(case)


def test_who_shares_a_commit_that_ends_unexpectedly_hears_of_it() -> None:
    """Nobody knows what has become of it, and nothing may follow."""

    class Broken(MemoryCatalog):
        async def _commit(self, plan: Plan) -> None:
            await super()._commit(plan)
            raise RuntimeError("the disk is on fire")

    raised: list[str] = []

    async def put(catalog: MemoryCatalog, key: str) -> None:
        try:
            await catalog.transact([], {key: b""})
        except (RuntimeError, CatalogFailed) as error:
            raised.append(f"{type(error).__name__}: {error}")

    async def main() -> None:
        catalog = Broken()
        async with trio.open_nursery() as nursery:
            with catalog.held():
                for key in ("/a", "/b"):
                    nursery.start_soon(put, catalog, key)
                await wait_all_tasks_blocked()
        await put(catalog, "/c")

    trio.run(main)
    unknown = "CatalogFailed: a commit of the catalog ended with RuntimeError('the disk is on fire')"
    assert sorted(raised) == [unknown, unknown, "RuntimeError: the disk is on fire"]


@pytest.mark.parametrize("seconds", [6.5, 60.0])
def test_the_end_of_a_stop_loses_no_lease(seconds: float) -> None:
    """Whoever has the catalog was stopped for longer than a lease lasts: nobody could renew it meanwhile. One
    that is over by a moment is over.
    """
    clock = MockClock()

    async def main() -> None:
        catalog = MemoryCatalog()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(catalog.run)
            lease = await catalog.grant_lease(6.0)
            await catalog.transact([], {"alive": b""}, lease=lease)
            await wait_all_tasks_blocked()
            clock.jump(seconds)
            await wait_all_tasks_blocked()
            if seconds < 7:
                assert catalog.get("alive") is None
            else:
                await catalog.keep_alive(lease)
                clock.jump(6.5)
                await wait_all_tasks_blocked()
                assert catalog.get("alive") is None, "from then on it lasts as long as ever"
            nursery.cancel_scope.cancel()

    trio.run(main, clock=clock)
