"""The stores of the catalog: who is admitted, who may go, and who keeps which segment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from math import inf
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from gateway.catalog import keys
from gateway.catalog.interface import CompareFailed
from gateway.cluster.stores import (
    ADMITTED,
    MIN_FREE_BYTES,
    REMOVED,
    REMOVING,
    StoreRefused,
    Stores,
    first_entries,
)
from gateway.log.segment import Segment
from mesh.protocol.presence import Seen
from mesh.protocol.vouching import StoreLife, Vouching
from tests.unit.gateway.catalog.memory import MemoryCatalog

A, B, C, D, E = (letter * 32 for letter in "ABCDE")
TOPIC = bytes(range(16))
GIB = 1024**3


class FakePresence:
    """`free`: bytes of those that answered. `live_stores`: those that are there."""

    def __init__(self, free: dict[str, int | None], live: str | None = None) -> None:
        self.seen = {name: Seen(name[0].lower(), "", room, 0.0) for name, room in free.items()}
        self.live_stores = set(free) if live is None else {letter * 32 for letter in live}
        self.vouching = Vouching()

    def live(self, incarnation: str) -> bool:
        return incarnation in self.live_stores

    def counts_now(self, incarnation: str, life: StoreLife) -> None:
        self.vouching.count(incarnation, life.nonce)

    def silence(self, incarnation: str) -> float:
        return 0.0 if self.live(incarnation) else inf

    def free_bytes(self, incarnation: str) -> int | None:
        seen = self.seen.get(incarnation)
        return None if seen is None else seen.free_bytes


def run(body: Callable[[MemoryCatalog], Awaitable[None]]) -> None:
    async def main() -> None:
        await body(MemoryCatalog())

    trio.run(main, clock=MockClock(autojump_threshold=0))


async def stores_of(catalog: MemoryCatalog, letters: str, presence: Any = None) -> Stores:
    await catalog.transact([], first_entries([(letter * 32, letter.lower()) for letter in letters]))
    return Stores(catalog, cast(Any, presence))


# admitting and removing -----------------------------------------------------------------------------------


def test_ids_begin_at_1000_and_are_never_given_again() -> None:
    async def body(catalog: MemoryCatalog) -> None:
        stores = await stores_of(catalog, "AB")
        assert [(entry.id, entry.incarnation, entry.name) for entry in stores.admitted] == [
            (1000, A, "a"),
            (1001, B, "b"),
        ]
        await stores.remove(stores.find("b"))
        added = await stores.admit([(C, "c"), (D, "d")], {"/else": b"where"})
        assert [entry.id for entry in added] == [1002, 1003]
        again = Stores(catalog)
        assert [entry.id for entry in again.admitted] == [1000, 1002, 1003]
        assert [(entry.id, entry.state) for entry in again.entries][1] == (1001, REMOVED)
        assert again.replicas((D, A, B, E)).ids == (1003, 1000, 1001)
        other = catalog.get("/else")
        assert other is not None

    run(body)


def test_an_entry_without_a_state_is_an_admitted_one() -> None:
    async def body(catalog: MemoryCatalog) -> None:
        await catalog.transact(
            [], {f"{keys.STORES}1000": keys.pack({"incarnation": A, "name": "standalone"})}
        )
        assert [entry.incarnation for entry in Stores(catalog).admitted] == [A]

    run(body)


def test_a_store_is_admitted_once_and_only_of_this_cluster() -> None:
    async def body(catalog: MemoryCatalog) -> None:
        await catalog.transact([], {keys.CLUSTER: keys.pack({"id": "ours", "format": 1})})
        presence = FakePresence(dict.fromkeys((A, B, C, D)))
        presence.seen[B] = Seen("b", "theirs", None, 0.0)
        presence.seen[C] = Seen("c", "ours", None, 0.0)
        stores = await stores_of(catalog, "A", presence)
        with pytest.raises(StoreRefused, match="admitted already, as store 1000"):
            await stores.admit([(A, "a")])
        with pytest.raises(StoreRefused, match="belongs to cluster theirs, this one is ours"):
            await stores.admit([(D, "d"), (B, "b")])
        assert len(stores.admitted) == 1
        await stores.admit([(C, "c"), (D, "d")])
        assert len(stores.admitted) == 3

    run(body)


@pytest.mark.parametrize("closed", [True, False])
def test_a_store_that_segments_count_on_stays_and_the_refusal_names_them(closed: bool) -> None:
    async def body(catalog: MemoryCatalog) -> None:
        stores = await stores_of(catalog, "ABC")
        segment = Segment("F" * 32, 0, 0, (A, B), 2, 0)
        if closed:
            segment = segment.closed(5, 4, 0)
        key = keys.segment_key(TOPIC, 3, 0, segment.address)
        await catalog.transact(
            [], {keys.topic_key("orders"): keys.pack({"id": TOPIC.hex()}), key: segment.pack()}
        )
        with pytest.raises(StoreRefused, match="1 segments of orders-3 count on it"):
            await stores.remove(stores.find("1001"))
        assert stores.choose("log", 3) == (A, B, C)
        await stores.remove(stores.find(C))
        # What belongs to a deleted topic is only waiting to be forgotten.
        await catalog.transact([], {}, [keys.topic_key("orders")])
        await stores.remove(stores.find("b"))
        assert [entry.incarnation for entry in stores.admitted] == [A]
        with pytest.raises(StoreRefused, match="removed already"):
            await stores.remove(stores.find("1001"))

    run(body)


class LateCatalog(MemoryCatalog):
    """Shows segments that others have put only when it is asked for a fresh view."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden: dict[str, bytes] = {}

    async def fresh(self) -> None:
        hidden, self.hidden = self.hidden, {}
        if hidden:
            await self.transact([], hidden)
        await super().fresh()


def test_a_store_stays_on_which_another_gateway_has_opened_a_segment_in_this_moment() -> None:
    async def body() -> None:
        catalog = LateCatalog()
        stores = await stores_of(catalog, "AB")
        await catalog.transact([], {keys.topic_key("orders"): keys.pack({"id": TOPIC.hex()})})
        segment = Segment("F" * 32, 0, 0, (A, B), 2, 0)
        catalog.hidden = {keys.segment_key(TOPIC, 3, 0, segment.address): segment.pack()}
        with pytest.raises(StoreRefused, match="1 segments of orders-3 count on it"):
            await stores.remove(stores.find("a"))
        assert stores.find("a").state == ADMITTED
        assert stores.choose("log", 2) == (A, B)

    trio.run(body)


def test_a_store_that_is_being_removed_gets_no_segment_of_another_gateway_either() -> None:
    async def body(catalog: MemoryCatalog) -> None:
        stores = await stores_of(catalog, "ABC")
        other = Stores(catalog)
        compares = other.as_members([A, B])
        assert compares is not None
        await stores.remove(stores.find("b"))
        with pytest.raises(CompareFailed, match="/stores/1001"):
            await catalog.transact(compares, {"/its/segment": b""})
        other.load()
        assert other.as_members([A, B]) is None
        assert other.as_members([A, C]) is not None

    run(body)


def test_a_removal_that_was_begun_is_gone_on_with_by_the_same_order() -> None:
    async def body(catalog: MemoryCatalog) -> None:
        stores = await stores_of(catalog, "AB")
        begun = stores.find("b")._replace(state=REMOVING).put()  # and then its gateway died
        await catalog.transact([], begun)
        stores.load()
        assert stores.choose("log", 2) == (A,)
        await stores.remove(stores.find("b"))
        assert stores.find("1001").state == REMOVED

    run(body)


def test_while_a_store_is_being_removed_nothing_chooses_it() -> None:
    async def body(catalog: MemoryCatalog) -> None:
        stores = await stores_of(catalog, "ABC")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stores.remove, stores.find("b"))
            while not stores.leaving([B]):
                await trio.lowlevel.checkpoint()
            assert stores.choose("log", 3) == (A, C)
        assert stores.choose("log", 3) == (A, C)

    run(body)


def test_names_that_are_not_clear_are_refused() -> None:
    async def body(catalog: MemoryCatalog) -> None:
        stores = await stores_of(catalog, "AB")
        await stores.admit([(C, "a")])
        assert stores.find("1002").incarnation == C
        with pytest.raises(StoreRefused, match="several stores are called a"):
            stores.find("a")
        with pytest.raises(StoreRefused, match="no store is called z"):
            stores.find("z")

    run(body)


# choosing -------------------------------------------------------------------------------------------------


def shares(stores: Stores, r: int, logs: int = 3000) -> Counter[str]:
    """How many of so many logs each store keeps, by its letter."""
    return Counter(name[0] for number in range(logs) for name in stores.choose(f"log/{number}", r))


def test_all_stores_when_there_are_no_more_than_asked_for() -> None:
    async def body(catalog: MemoryCatalog) -> None:
        stores = await stores_of(catalog, "ABC", FakePresence({A: 1, B: 2}, live="A"))
        assert stores.choose("log", 3) == (A, B, C)
        assert stores.choose("log", 7) == (A, B, C)

    run(body)


def test_logs_are_spread_and_each_keeps_its_stores() -> None:
    async def body(catalog: MemoryCatalog) -> None:
        presence = FakePresence(dict.fromkeys((A, B, C, D, E), 50 * GIB))
        stores = await stores_of(catalog, "ABCDE", presence)
        assert all(1600 < count < 2000 for count in shares(stores, 3).values())
        before = [stores.choose(f"log/{number}", 3) for number in range(1000)]
        assert [stores.choose(f"log/{number}", 3) for number in range(1000)] == before
        for name in presence.seen:
            room = 49 * GIB if name == A else 50 * GIB
            presence.seen[name] = Seen("", "", room, 0.0)
        after = [stores.choose(f"log/{number}", 3) for number in range(1000)]
        assert sum(one != other for one, other in zip(before, after, strict=True)) < 30
        assert all(1600 < count < 2000 for count in shares(await stores_of(catalog, "ABCDE"), 3).values())

    run(body)


def test_more_room_takes_more_logs() -> None:
    async def body(catalog: MemoryCatalog) -> None:
        free: dict[str, int | None] = {A: 300 * GIB, B: 100 * GIB, C: 100 * GIB, D: None}
        counts = shares(await stores_of(catalog, "ABCD", FakePresence(free)), 1)
        assert 2.5 < counts["A"] / counts["B"] < 3.5
        assert 0.8 < counts["D"] / counts["B"] < 1.25

    run(body)


@pytest.mark.parametrize(
    ("live", "full", "expected"),
    [
        ("BC", "", "BC"),
        ("ABC", "A", "BC"),
        ("AB", "B", "AB"),
        ("A", "A", "A?"),
        ("", "", "??"),
    ],
)
def test_stores_that_are_there_come_first_then_those_with_room(live: str, full: str, expected: str) -> None:
    async def body(catalog: MemoryCatalog) -> None:
        free: dict[str, int | None] = {
            letter * 32: MIN_FREE_BYTES - 1 if letter in full else 9 * GIB for letter in "ABC"
        }
        stores = await stores_of(catalog, "ABC", FakePresence(free, live))
        for number in range(50):
            chosen = "".join(name[0] for name in stores.choose(f"log/{number}", 2))
            assert len(chosen) == 2
            assert set(expected) - {"?"} <= set(chosen)

    run(body)


def test_who_is_there() -> None:
    async def body(catalog: MemoryCatalog) -> None:
        stores = await stores_of(catalog, "ABC", FakePresence({A: 1, B: 1, C: 1}, live="AC"))
        assert [stores.enough((A, B, C), w) for w in (1, 2, 3)] == [True, True, False]
        assert list(stores.live_first((A, B, C), "log"))[2] == B
        assert stores.replicas((C, B, A)) == ((1002, 1001, 1000), (1002, 1000), (1001,))
        standalone = Stores(catalog)
        assert standalone.enough((A, B, C), 3)
        assert standalone.live_first((C, A), "log") == (C, A)
        assert (stores.name(A), stores.name(E)) == ("1000 (a)", E)

    run(body)
