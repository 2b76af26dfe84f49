"""What every catalog does: the same cases for the one in a file and the one in memory."""

import math
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
from trio.abc import Instrument
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.catalog import interface
from gateway.catalog.interface import (
    Catalog,
    CatalogFailed,
    Change,
    Compare,
    CompareFailed,
    Entry,
    HistoryLost,
    LeaseNotFound,
)
from gateway.catalog.mirror import Plan
from gateway.catalog.sqlite import SqliteCatalog
from tests.unit.gateway.catalog.memory import MemoryCatalog

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


def test_an_empty_catalog(run: Callable[[Case], None]) -> None:
    async def case(catalog: Catalog) -> None:
        assert catalog.revision == 0
        assert catalog.get("a") is None
        assert catalog.range("") == []

    run(case)


def test_puts_and_deletes(run: Callable[[Case], None]) -> None:
    async def case(catalog: Catalog) -> None:
        assert await catalog.transact([], {"b": b"1", "a": b"2"}) == 1
        assert await catalog.transact([], {"b": b"3"}) == 2
        assert catalog.get("a") == Entry("a", b"2", 1, 1)
        assert catalog.get("b") == Entry("b", b"3", 1, 2)
        assert await catalog.transact([], {"c": b""}, ["b"]) == 3
        assert catalog.get("b") is None
        assert catalog.get("c") == Entry("c", b"", 3, 3)
        assert await catalog.transact([], {"b": b"new"}) == 4
        assert catalog.get("b") == Entry("b", b"new", 4, 4)
        assert catalog.revision == 4

    run(case)


def test_range_is_by_prefix_and_in_order(run: Callable[[Case], None]) -> None:
    async def case(catalog: Catalog) -> None:
        await catalog.transact(
            [], {key: key.encode() for key in ("t/b", "t/a", "t", "tt", "u", "s", "t/ä", "t/")}
        )
        await catalog.transact([], {"t/c": b"t/c"}, ["t/b"])
        assert [entry.key for entry in catalog.range("t/")] == ["t/", "t/a", "t/c", "t/ä"]
        assert [entry.key for entry in catalog.range("")] == sorted(entry.key for entry in catalog.range(""))
        assert len(catalog.range("")) == 8
        assert [entry.value for entry in catalog.range("t/c")] == [b"t/c"]
        assert catalog.range("t/d") == []

    run(case)


def test_all_compares_must_hold(run: Callable[[Case], None]) -> None:
    async def case(catalog: Catalog) -> None:
        await catalog.transact([Compare("a", 0)], {"a": b"1"})
        await catalog.transact([Compare("a", 1), Compare("b", 0)], {"b": b"1"})
        for compares, failed in (
            ([Compare("a", 0)], "a"),
            ([Compare("a", 2)], "a"),
            ([Compare("a", 1), Compare("b", 1)], "b"),
            ([Compare("missing", 1)], "missing"),
        ):
            with pytest.raises(CompareFailed) as caught:
                await catalog.transact(compares, {"a": b"wrong", "c": b"wrong"}, ["b"])
            assert caught.value.key == failed
        assert catalog.range("") == [Entry("a", b"1", 1, 1), Entry("b", b"1", 2, 2)]
        assert await catalog.transact([Compare("b", 2)], {}, ["b"]) == 3
        assert await catalog.transact([Compare("b", 0)], {"b": b"again"}) == 4

    run(case)


def test_no_change_is_no_revision(run: Callable[[Case], None]) -> None:
    async def case(catalog: Catalog) -> None:
        await catalog.transact([], {"a": b""})
        assert await catalog.transact([], {}) == 1
        assert await catalog.transact([Compare("a", 1)], {}) == 1
        assert await catalog.transact([], {}, ["missing"]) == 1
        assert await catalog.transact([], {"a": b""}) == 2  # the same value is a change all the same
        with pytest.raises(CompareFailed):
            await catalog.transact([Compare("a", 1)], {})

    run(case)


def test_what_no_caller_may_ask(run: Callable[[Case], None], monkeypatch: pytest.MonkeyPatch) -> None:
    async def case(catalog: Catalog) -> None:
        await catalog.transact([], {"k" * interface.MAX_KEY_BYTES: b"\0" * interface.MAX_VALUE_BYTES})
        refused: list[tuple[list[Compare], dict[str, bytes], list[str]]] = [
            ([], {"": b""}, []),
            ([], {"ä" * 513: b""}, []),
            ([Compare("k" * 1025, 0)], {}, []),
            ([], {}, ["k" * 1025]),
            ([], {"a": b"\0" * (interface.MAX_VALUE_BYTES + 1)}, []),
            ([], {"a": b""}, ["a"]),
            ([], {}, ["a", "a"]),
            ([], {}, [str(n) for n in range(interface.MAX_OPERATIONS + 1)]),
        ]
        for compares, puts, deletes in refused:
            with pytest.raises(ValueError, match=r"bytes|operations|twice"):
                await catalog.transact(compares, puts, deletes)
        assert catalog.revision == 1

    run(case)


def test_of_many_at_once_one_wins(run: Callable[[Case], None]) -> None:
    """Each of ten tasks adds one to a number twenty times, reading anew whenever another was quicker."""

    async def case(catalog: Catalog) -> None:
        lost = 0

        async def count() -> None:
            nonlocal lost
            for _ in range(20):
                while True:
                    entry = catalog.get("n")
                    number, revision = (int(entry.value), entry.mod_revision) if entry else (0, 0)
                    try:
                        await catalog.transact([Compare("n", revision)], {"n": b"%d" % (number + 1)})
                        break
                    except CompareFailed:
                        lost += 1

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(count)
        entry = catalog.get("n")
        assert entry is not None
        assert (entry.value, entry.mod_revision) == (b"200", 200)
        assert lost > 0, "they never met"

    run(case)


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
                trio.lowlevel.add_instrument(turns)
        assert catalog.committed == [100]
        assert len(went_on) == 100
        # The one that committed is there a turn before those that it woke.
        assert went_on[-1] - went_on[0] <= 1

    trio.run(main)


class Turns(Instrument):
    """Counts the turns of the loop."""

    def __init__(self) -> None:
        self.count = 0

    def before_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - trio calls it
        self.count += 1


def test_a_watch_gives_every_change_once(run: Callable[[Case], None]) -> None:
    async def case(catalog: Catalog) -> None:
        seen: list[Change] = []

        async def watch() -> None:
            async for change in catalog.watch("t/", 2):
                seen.append(change)  # noqa: PERF401 (it never ends)

        await catalog.transact([], {"t/before": b""})
        async with trio.open_nursery() as nursery:
            await catalog.transact([], {"t/b": b"1", "t/a": b"2", "u": b""})
            nursery.start_soon(watch)
            await wait_all_tasks_blocked()
            await catalog.transact([], {"u": b""})
            await catalog.transact([], {"t/c": b"3"}, ["t/b", "u"])
            await catalog.transact([], {}, ["t/missing"])
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert seen == [
            Change(2, "t/b", b"1"),
            Change(2, "t/a", b"2"),
            Change(4, "t/c", b"3"),
            Change(4, "t/b", None),
        ]

    run(case)


def test_a_watch_from_the_future_waits_for_it(run: Callable[[Case], None]) -> None:
    async def case(catalog: Catalog) -> None:
        watch = catalog.watch("", 3)
        for number in range(4):
            await catalog.transact([], {"a": b"%d" % number})
        assert [await anext(watch), await anext(watch)] == [Change(3, "a", b"2"), Change(4, "a", b"3")]

    run(case)


def test_a_watch_too_far_behind_is_told(run: Callable[[Case], None]) -> None:
    async def case(catalog: Catalog) -> None:
        watch = catalog.watch("", 1)
        for start in range(0, interface.HISTORY_CHANGES + 2, 5_001):
            await catalog.transact([], {f"k{n}": b"" for n in range(start, start + 5_001)})
        with pytest.raises(HistoryLost) as lost:
            await anext(watch)
        assert lost.value.revision == 2
        assert (await anext(catalog.watch("k10001", 2))).revision == 2  # this one is still there, whole

    run(case)


def test_keys_of_a_lease_go_with_it(run: Callable[[Case], None]) -> None:
    async def case(catalog: Catalog) -> None:
        lease = await catalog.grant_lease(10)
        other = await catalog.grant_lease(10)
        assert lease != other
        await catalog.transact([], {"mine": b"1", "freed": b"1", "moved": b"1", "again": b"1"}, lease=lease)
        assert catalog.get("mine") == Entry("mine", b"1", 1, 1, lease)
        await catalog.transact([], {"freed": b"2"})
        await catalog.transact([], {"moved": b"2"}, lease=other)
        await catalog.transact([], {}, ["again"])
        await catalog.transact([], {"again": b"2"})
        watch = catalog.watch("", catalog.revision + 1)
        await catalog.revoke(lease)
        assert await anext(watch) == Change(6, "mine", None)
        assert {entry.key: entry.lease for entry in catalog.range("")} == {
            "again": 0,
            "freed": 0,
            "moved": other,
        }
        for lost in (catalog.revoke(lease), catalog.keep_alive(lease)):
            with pytest.raises(LeaseNotFound):
                await lost
        with pytest.raises(LeaseNotFound):
            await catalog.transact([], {"late": b""}, lease=lease)
        assert catalog.get("late") is None

    run(case)


def test_a_lease_without_keys_ends_without_a_revision(run: Callable[[Case], None]) -> None:
    async def case(catalog: Catalog) -> None:
        await catalog.revoke(await catalog.grant_lease(10))
        assert catalog.revision == 0

    run(case)


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


def test_a_closed_catalog_takes_nothing(run: Callable[[Case], None]) -> None:
    async def case(catalog: Catalog) -> None:
        await catalog.transact([], {"a": b""})
        watch = catalog.watch("", 2)
        await catalog.aclose()
        await catalog.aclose()
        with pytest.raises(trio.ClosedResourceError):
            await catalog.transact([], {"b": b""})
        with pytest.raises(trio.ClosedResourceError):
            await anext(watch)
        assert [entry.key for entry in catalog.range("")] == ["a"]

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
