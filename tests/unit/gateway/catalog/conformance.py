"""What every catalog does, case by case. Each runs on an empty catalog, whose `run` runs, and on a second
handle of the same one: where only one process can have it that is the first one again.

Revisions are not counted here: in etcd others raise them, too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import pytest
import trio

from gateway.catalog import interface
from gateway.catalog.interface import (
    Catalog,
    Change,
    Compare,
    CompareFailed,
    Entry,
    HistoryLost,
    LeaseNotFound,
)

LONG: Final = 3600
"""Seconds of a lease that nobody waits for."""


class Handles(NamedTuple):
    """`other` may be `catalog` itself."""

    catalog: Catalog
    other: Catalog


Case = Callable[[Handles], Awaitable[None]]


async def an_empty_catalog(handles: Handles) -> None:
    for catalog in handles:
        assert catalog.get("a") is None
        assert catalog.range("") == []
        assert catalog.sequence <= catalog.revision
        assert catalog.trouble == ""
        assert catalog.where


async def puts_and_deletes(handles: Handles) -> None:
    catalog = handles.catalog
    first = await catalog.transact([], {"b": b"1", "a": b"2"})
    second = await catalog.transact([], {"b": b"3"})
    assert 0 < first < second == catalog.revision == catalog.sequence
    assert catalog.get("a") == Entry("a", b"2", first, first)
    assert catalog.get("b") == Entry("b", b"3", first, second)
    third = await catalog.transact([], {"c": b""}, ["b"])
    assert catalog.get("b") is None
    assert catalog.get("c") == Entry("c", b"", third, third)
    fourth = await catalog.transact([], {"b": b"new"})
    assert catalog.get("b") == Entry("b", b"new", fourth, fourth)
    await handles.other.fresh()
    assert handles.other.range("") == catalog.range("")
    assert handles.other.sequence == catalog.sequence == fourth


async def any_bytes_are_a_value_and_any_text_is_a_key(handles: Handles) -> None:
    catalog = handles.catalog
    values = {"/ä/\N{SNOWMAN}\0 \n": bytes(range(256)), "/": b"", "history": b"{}", "attempts/x/0": b"\xff"}
    await catalog.transact([], values)
    await handles.other.fresh()
    for each in handles:
        assert {entry.key: entry.value for entry in each.range("")} == values


async def range_is_by_prefix_and_in_order(handles: Handles) -> None:
    catalog = handles.catalog
    names = ("t/b", "t/a", "t", "tt", "u", "s", "t/ä", "t/")
    await catalog.transact([], {key: key.encode() for key in names})
    await catalog.transact([], {"t/c": b"t/c"}, ["t/b"])
    await handles.other.fresh()
    for each in handles:
        assert [entry.key for entry in each.range("t/")] == ["t/", "t/a", "t/c", "t/ä"]
        assert [entry.key for entry in each.range("")] == ["s", "t", "t/", "t/a", "t/c", "t/ä", "tt", "u"]
        assert [entry.value for entry in each.range("t/c")] == [b"t/c"]
        assert each.range("t/d") == []
        assert [entry.key for entry in each.range("t/", after="t/", limit=2)] == ["t/a", "t/c"]
        assert each.range("t/", after="t/ä") == []


async def all_compares_must_hold(handles: Handles) -> None:
    catalog = handles.catalog
    a = await catalog.transact([Compare("a", 0)], {"a": b"1"})
    b = await catalog.transact([Compare("a", a), Compare("b", 0)], {"b": b"1"})
    for compares, failed in (
        ([Compare("a", 0)], "a"),
        ([Compare("a", a - 1)], "a"),
        ([Compare("a", b)], "a"),
        ([Compare("a", a), Compare("b", a)], "b"),
        ([Compare("a", a), Compare("b", b), Compare("missing", a)], "missing"),
    ):
        with pytest.raises(CompareFailed) as caught:
            await catalog.transact(compares, {"a": b"wrong", "c": b"wrong"}, ["b"])
        assert caught.value.key == failed
    assert catalog.range("") == [Entry("a", b"1", a, a), Entry("b", b"1", b, b)]
    gone = await catalog.transact([Compare("b", b)], {}, ["b"])
    with pytest.raises(CompareFailed):
        await catalog.transact([Compare("b", b)], {"b": b"wrong"})
    with pytest.raises(CompareFailed):
        await catalog.transact([Compare("b", gone)], {"b": b"wrong"})
    again = await catalog.transact([Compare("b", 0)], {"b": b"again"})
    assert catalog.get("b") == Entry("b", b"again", again, again)


async def what_is_only_compared_is_compared(handles: Handles) -> None:
    catalog = handles.catalog
    at = await catalog.transact([], {"a": b""})
    assert await catalog.transact([Compare("a", at)], {}) >= at
    for compares in ([Compare("a", at - 1)], [Compare("a", 0)], [Compare("b", at)]):
        with pytest.raises(CompareFailed):
            await catalog.transact(compares, {})
    assert catalog.range("") == [Entry("a", b"", at, at)]
    assert catalog.sequence == at


async def a_failed_compare_shows_why(handles: Handles) -> None:
    """Who was slower reads what has changed: it would try the same for ever otherwise."""
    catalog, other = handles
    at = await catalog.transact([], {"a": b"0"})
    await other.fresh()
    for number in range(20):
        newer = await catalog.transact([Compare("a", at)], {"a": b"%d" % number})
        with pytest.raises(CompareFailed):
            await other.transact([Compare("a", at)], {"a": b"late"})
        entry = other.get("a")
        assert entry is not None
        assert (entry.mod_revision, entry.value) == (newer, b"%d" % number)
        at = newer


async def to_delete_nothing_is_no_change(handles: Handles) -> None:
    catalog = handles.catalog
    at = await catalog.transact([], {"a": b""})
    assert await catalog.transact([], {}, ["missing"]) >= at
    assert catalog.range("") == [Entry("a", b"", at, at)]
    again = await catalog.transact([], {"a": b""})  # the same value is a change all the same
    assert catalog.range("") == [Entry("a", b"", at, again)]
    assert again > at


async def what_no_caller_may_ask(handles: Handles) -> None:
    catalog, most = handles.catalog, interface.MAX_OPERATIONS
    await catalog.transact([], {"k" * interface.MAX_KEY_BYTES: b"\0" * interface.MAX_VALUE_BYTES})
    before = catalog.range("")
    half = b"\0" * (interface.MAX_TRANSACTION_BYTES // 2)
    refused: list[tuple[list[Compare], dict[str, bytes], list[str]]] = [
        ([], {"": b""}, []),
        ([], {"ä" * 513: b""}, []),
        ([Compare("k" * 1025, 0)], {}, []),
        ([], {}, ["k" * 1025]),
        ([], {"a": b"\0" * (interface.MAX_VALUE_BYTES + 1)}, []),
        ([], {"a": half, "b": half}, []),
        ([], {"a": b""}, ["a"]),
        ([], {}, ["a", "a"]),
        ([], {}, [str(n) for n in range(most + 1)]),
        ([], {"x": b""}, [str(n) for n in range(most)]),
        ([Compare(str(n), 0) for n in range(most + 1)], {"x": b""}, []),
    ]
    for compares, puts, deletes in refused:
        with pytest.raises(ValueError, match=r"bytes|operations|twice"):
            await catalog.transact(compares, puts, deletes)
    assert catalog.range("") == before


async def the_largest_transaction(handles: Handles) -> None:
    catalog, most = handles.catalog, interface.MAX_OPERATIONS
    compares = [Compare(f"{n:0{interface.MAX_KEY_BYTES}}", 0) for n in range(most)]
    at = await catalog.transact(compares, {compare.key: b"x" * 7000 for compare in compares})
    assert [entry.mod_revision for entry in catalog.range("0")] == [at] * most
    with pytest.raises(CompareFailed) as failed:
        await catalog.transact([Compare(key, at) for key, _ in compares[:-1]] + compares[-1:], {"a": b""})
    assert failed.value.key == compares[-1].key
    await catalog.transact([Compare(key, at) for key, _ in compares], {}, [key for key, _ in compares])
    assert catalog.range("") == []


async def of_many_at_once_one_wins(handles: Handles) -> None:
    """Each of ten tasks adds one to a number twenty times, reading anew whenever another was quicker."""
    lost = 0

    async def count(catalog: Catalog) -> None:
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
        for number in range(10):
            nursery.start_soon(count, handles[number % 2])
    for catalog in handles:
        await catalog.fresh()
        entry = catalog.get("n")
        assert entry is not None
        assert entry.value == b"200"
    assert lost > 0, "they never met"


async def a_watch_gives_every_change_once_and_in_order(handles: Handles) -> None:
    catalog = handles.catalog
    before = await catalog.transact([], {"t/before": b""})
    watches = [each.watch("t/", before + 1) for each in handles]
    first = await catalog.transact([], {"t/b": b"1", "t/a": b"2", "u": b""})
    await catalog.transact([], {"u": b""})
    second = await catalog.transact([], {"t/c": b"3"}, ["t/b", "u"])
    await catalog.transact([], {}, ["t/missing"])
    last = await catalog.transact([], {"t/last": b""})
    expected = [
        Change(first, "t/b", b"1"),
        Change(first, "t/a", b"2"),
        Change(second, "t/c", b"3"),
        Change(second, "t/b", None),
        Change(last, "t/last", b""),
    ]
    for each, watch in zip(handles, watches, strict=True):
        assert [await anext(watch) for _ in expected] == expected
        assert [one for one in each.changes(first) if one.key.startswith("t/")] == expected
        assert each.changes(last + 1) == []


async def a_watch_from_the_future_waits_for_it(handles: Handles) -> None:
    catalog = handles.catalog
    last = at = await catalog.transact([], {"a": b"0"})
    watch = handles.other.watch("", at + 1)
    for number in range(1, 3):
        last = await catalog.transact([], {"a": b"%d" % number})
    assert [(await anext(watch)).value for _ in range(2)] == [b"1", b"2"]
    assert catalog.revision >= last


async def a_watch_too_far_behind_is_told(handles: Handles) -> None:
    catalog = handles.catalog
    last = at = await catalog.transact([], {"first": b""})
    watch = catalog.watch("", at)
    most = interface.MAX_OPERATIONS
    for start in range(0, interface.HISTORY_CHANGES + most, most):
        last = await catalog.transact([], {f"k{n}": b"" for n in range(start, start + most)})
    with pytest.raises(HistoryLost) as lost:
        await anext(watch)
    assert lost.value.revision == last
    with pytest.raises(HistoryLost):
        catalog.changes(at)
    assert [change.revision for change in catalog.changes(last)] == [last] * most


async def keys_of_a_lease_go_with_it(handles: Handles) -> None:
    catalog, other = handles
    lease, kept = await catalog.grant_lease(LONG), await catalog.grant_lease(LONG)
    assert lease != kept
    at = await catalog.transact([], {"mine": b"1", "freed": b"1", "moved": b"1", "again": b"1"}, lease=lease)
    assert catalog.get("mine") == Entry("mine", b"1", at, at, lease)
    await catalog.transact([], {"freed": b"2"})
    await catalog.transact([], {"moved": b"2"}, lease=kept)
    await catalog.transact([], {}, ["again"])
    last = await catalog.transact([], {"again": b"2"})
    await other.fresh()
    watches = [each.watch("", last + 1) for each in handles]
    await catalog.revoke(lease)
    assert [entry.key for entry in catalog.range("")] == ["again", "freed", "moved"]
    for each, watch in zip(handles, watches, strict=True):
        change = await anext(watch)
        assert change.revision > last
        assert change[1:] == ("mine", None)
        assert {entry.key: entry.lease for entry in each.range("")} == {"again": 0, "freed": 0, "moved": kept}
    for lost in (catalog.revoke(lease), catalog.keep_alive(lease)):
        with pytest.raises(LeaseNotFound) as not_found:
            await lost
        assert not_found.value.lease == lease
    with pytest.raises(LeaseNotFound):
        await catalog.transact([], {"late": b""}, lease=lease)
    with pytest.raises(CompareFailed):
        await catalog.transact([Compare("mine", at)], {"mine": b"late"})
    assert catalog.get("late") is None
    await catalog.keep_alive(kept)
    await catalog.revoke(kept)


async def a_lease_without_keys_ends_without_a_change(handles: Handles) -> None:
    catalog = handles.catalog
    at = await catalog.transact([], {"a": b""})
    await catalog.revoke(await catalog.grant_lease(LONG))
    assert catalog.changes(at + 1) == []


async def what_was_cancelled_happened_or_not(handles: Handles) -> None:
    """Whichever: what is written after it is written on what it has left."""
    catalog = handles.catalog
    happened = 0
    for turns in range(12):
        entry = catalog.get("n")
        at = entry.mod_revision if entry else 0
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(catalog.transact, [Compare("n", at)], {"n": b"%d" % turns})
                for _ in range(turns):
                    await trio.lowlevel.checkpoint()
                scope.cancel()
        await catalog.transact([], {"after": b"%d" % turns})
        await catalog.fresh()
        entry = catalog.get("n")
        if entry is not None and entry.mod_revision != at:
            assert entry.value == b"%d" % turns
            happened += 1
            at = entry.mod_revision
        await catalog.transact([Compare("n", at)], {"n": b"again"})
    assert happened < 12


async def a_closed_catalog_takes_nothing(handles: Handles) -> None:
    catalog = handles.catalog
    at = await catalog.transact([], {"a": b""})
    watch = catalog.watch("", at + 1)
    await catalog.aclose()
    await catalog.aclose()
    with pytest.raises(trio.ClosedResourceError):
        await catalog.transact([], {"b": b""})
    with pytest.raises(trio.ClosedResourceError):
        await anext(watch)
    assert [entry.key for entry in catalog.range("")] == ["a"]


CASES: Final[tuple[Case, ...]] = (
    an_empty_catalog,
    puts_and_deletes,
    any_bytes_are_a_value_and_any_text_is_a_key,
    range_is_by_prefix_and_in_order,
    all_compares_must_hold,
    what_is_only_compared_is_compared,
    a_failed_compare_shows_why,
    to_delete_nothing_is_no_change,
    what_no_caller_may_ask,
    the_largest_transaction,
    of_many_at_once_one_wins,
    a_watch_gives_every_change_once_and_in_order,
    a_watch_from_the_future_waits_for_it,
    a_watch_too_far_behind_is_told,
    keys_of_a_lease_go_with_it,
    a_lease_without_keys_ends_without_a_change,
    what_was_cancelled_happened_or_not,
    a_closed_catalog_takes_nothing,
)


def named(case: Case) -> str:
    """For pytest."""
    return case.__name__
