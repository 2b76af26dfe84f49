"""The task that has stores remember the catalog, over stores that exist only as their memory of it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.catalog import keys
from gateway.catalog.fenced import FencedCatalog
from gateway.cluster.lineage import Life, Lineage
from gateway.cluster.remembering import TOO_LARGE_SECONDS, Remembering, end_lives
from gateway.cluster.stores import REMOVED, StoreEntry, first_entries
from gateway.leadership.records import AliveRecord, pack_alive
from mesh.data_directory import DataDirectoryRefused
from mesh.protocol.catalog_memory import CatalogMemory, MemoryHead
from tests.unit.gateway.catalog.memory import MemoryCatalog, put_many
from wireproto.dafka.additions import (
    KEEP_CHANGES,
    KEEP_LAST_PIECE,
    KEEP_PIECE,
    KEEP_QUESTION,
    KEPT_DONE,
    KEPT_OTHER_HISTORY,
    KEPT_OUT_OF_TURN,
    NOTHING_REMEMBERED,
    Keep,
    Kept,
    Remembered,
)

PATH = Path("/data/gateway")
CLUSTER = "C1"


class Store:
    """One store's memory; it answers while it is `there`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.memory = CatalogMemory(name)
        self.cluster_id = ""
        self.entries: dict[str, bytes] = {}
        self.heard: list[Keep] = []
        self.there = trio.Event()
        self.there.set()

    def away(self) -> None:
        self.there = trio.Event()

    def remembers(self, lineage: str, life: str, sequence: int) -> None:
        self.memory.begin(MemoryHead(Remembered(lineage, life, sequence)))

    def take(self, keep: Keep) -> Kept:
        self.heard.append(keep)
        keeping = self.memory.keep(keep, self.cluster_id)
        self.cluster_id = self.cluster_id or keeping.answer.cluster_id
        if keeping.emptied[0] < keeping.emptied[1]:
            self.entries = {}
        self.entries |= keeping.puts
        for key in keeping.deletes:
            self.entries.pop(key, None)
        return keeping.answer

    @property
    def told(self) -> list[int]:
        return [keep.kind for keep in self.heard]


class World:
    """A catalog, its stores, and gateway lives one after the other. A question takes 10 ms."""

    def __init__(self, *names: str) -> None:
        self.catalog = MemoryCatalog()
        self.stores = {name: Store(name) for name in names}
        self.lives = 0
        self.vouched: dict[str, bytes] | None = None

    async def admit(self) -> None:
        await self.catalog.transact([], first_entries([(name, f"store-{name}") for name in self.stores]))

    async def ask(self, store: str, make: Callable[[str], Keep]) -> Kept:
        keep = make("R7")
        await trio.sleep(0.01)
        while self.vouched is not None and store not in self.vouched:  # noqa: ASYNC110 - a mock clock
            await trio.sleep(0.01)  # what it says is dropped, and asked again
        await self.stores[store].there.wait()
        return self.stores[store].take(keep)

    @asynccontextmanager
    async def life(
        self,
        catalog: MemoryCatalog | None = None,
        name: str = "",
        is_keeper: Callable[[], bool] | None = None,
    ) -> AsyncIterator[Remembering]:
        self.lives += 1
        requests = cast(Any, type("Requests", (), {"prefix": name or f"G{self.lives}", "ask": self.ask})())
        requests.ask = self.ask
        await end_lives(catalog or self.catalog)
        made = Remembering(FencedCatalog(catalog or self.catalog), requests, CLUSTER, is_keeper)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.run)
            yield made
            nursery.cancel_scope.cancel()

    def goes_on(self) -> set[str]:
        """The lives that the catalog does not know as ended."""
        lives = self.catalog.range(keys.LIVES)
        return {one.key.removeprefix(keys.LIVES) for one in lives if Life.unpack(one.value).last is None}

    async def lives_on(self, gateway: int, life: str) -> None:
        """One of several gateways is alive."""
        await put_many(self.catalog, {keys.alive_key(gateway): pack_alive(AliveRecord(life))})

    async def change(self, **values: bytes) -> None:
        await put_many(self.catalog, {keys.topic_key(name): value for name, value in values.items()})


Body = Callable[[World], Awaitable[None]]


def run(body: Body, *names: str) -> None:
    async def main() -> None:
        world = World(*names)
        await world.admit()
        await body(world)

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_the_first_life_of_a_catalog_names_it_and_fills_its_stores() -> None:
    async def body(world: World) -> None:
        await world.change(orders=b"1")
        await world.catalog.transact([], {keys.SEGMENTS + "x": b"", keys.CLUSTER: b""})
        async with world.life() as life:
            await life.wait_compared()
            assert await life.keep(1.0)
            (lineage,) = world.catalog.range(keys.LINEAGE)
            for store in world.stores.values():
                assert store.memory.memory == Remembered(
                    Lineage.unpack(lineage.value).name, "G1", world.catalog.revision
                )
                assert store.cluster_id == CLUSTER
                assert store.told == [KEEP_QUESTION, KEEP_LAST_PIECE]
                assert store.entries[keys.topic_key("orders")] == b"1"
                assert sorted(store.entries) == [
                    "/lineage",
                    "/lives/G1",
                    "/stores/1000",
                    "/stores/1001",
                    "/topics/orders",
                ]

    run(body, "A", "B")


def test_what_changes_is_told_once_a_second_and_an_idle_catalog_not_at_all() -> None:
    async def body(world: World) -> None:
        async with world.life() as life:
            assert await life.keep(1.0)
            store = world.stores["A"]
            heard = len(store.heard)
            await trio.sleep(100)
            assert len(store.heard) == heard
            for number in range(50):
                await world.change(orders=b"%d" % number)
                await trio.sleep(0.1)
            await trio.sleep(2)
            assert 5 <= len(store.heard) - heard <= 6
            assert set(store.told[heard:]) == {KEEP_CHANGES}
            assert store.entries[keys.topic_key("orders")] == b"49"
            assert store.memory.memory.sequence == world.catalog.revision

    run(body, "A")


def test_of_several_gateways_the_keeper_alone_tells_the_stores() -> None:
    async def body(world: World) -> None:
        first, second = "A" * 16, "B" * 16
        await world.lives_on(1, first)
        await world.lives_on(2, second)
        keeper = first
        async with (
            world.life(name=first, is_keeper=lambda: keeper == first) as one,
            world.life(name=second, is_keeper=lambda: keeper == second) as two,
        ):
            await two.wait_compared()
            await world.change(orders=b"1")
            before = trio.current_time()
            assert await two.keep(1.0), "as soon as the keeper has told it"
            assert trio.current_time() - before < 0.5
            store = world.stores["S"]
            assert {keep.at.life for keep in store.heard if keep.kind != KEEP_QUESTION} == {first}
            assert world.goes_on() == {first, second}

            keeper = second
            await world.change(orders=b"2")
            heard = len(store.heard)
            assert await one.keep(1.0)
            told = [keep for keep in store.heard[heard:] if keep.kind != KEEP_QUESTION]
            assert {(keep.kind, keep.at.life) for keep in told} == {(KEEP_CHANGES, second)}
            assert store.entries[keys.topic_key("orders")] == b"2"
            heard = len(store.heard)
            await trio.sleep(100)
            assert len(store.heard) == heard, "nobody asks while nothing is different"

    run(body, "S")


def test_the_lives_of_gateways_that_are_alive_are_not_ended() -> None:
    async def body(world: World) -> None:
        first, second, third = "A" * 16, "B" * 16, "C" * 16
        for number, life in enumerate((first, second), 1):
            await world.lives_on(number, life)
            async with world.life(name=life) as made:
                await made.wait_compared()
        assert world.goes_on() == {first, second}
        await world.lives_on(1, third)
        async with world.life(name=third) as made:
            await made.wait_compared()
        assert world.goes_on() == {second, third}

    run(body, "S")


def test_what_is_noted_of_the_stores_themselves_is_no_news() -> None:
    """To remember is a commit of the store, and commits are noted: that must not go round and round."""

    async def body(world: World) -> None:
        async with world.life() as life:
            assert await life.keep(1.0)
            store = world.stores["A"]
            heard = len(store.heard)
            for number in range(10):
                await world.catalog.transact([], {keys.STORE_LIVES + "A": b"%d" % number})
                await trio.sleep(10)
            assert len(store.heard) == heard
            await world.change(orders=b"1")
            await trio.sleep(2)
            assert store.memory.memory.sequence == world.catalog.revision
            await world.catalog.transact([], {keys.STORE_LIVES + "A": b""})
            assert await life.keep(1.0)
            assert store.memory.memory.sequence == world.catalog.revision

    run(body, "A")


def test_who_waits_waits_for_one_round_that_serves_all() -> None:
    async def body(world: World) -> None:
        async with world.life() as life:
            assert await life.keep(1.0)
            store = world.stores["A"]
            heard = len(store.heard)
            began = trio.current_time()

            async def change(number: int) -> None:
                await world.change(**{f"t{number}": b""})
                assert await life.keep(1.0)

            async with trio.open_nursery() as nursery:
                for number in range(100):
                    nursery.start_soon(change, number)
            assert len(store.heard) - heard <= 2
            assert trio.current_time() - began < 0.1
            assert len(store.entries) == 103

    run(body, "A")


def test_who_is_in_a_hurry_and_does_not_wait_is_heard_at_once() -> None:
    async def body(world: World) -> None:
        async with world.life() as life:
            assert await life.keep(1.0)
            await world.change(orders=b"1")
            life.hurry()
            await trio.sleep(0.05)
            assert keys.topic_key("orders") in world.stores["A"].entries

    run(body, "A")


@pytest.mark.parametrize(
    ("stores", "away", "enough"), [("A", "A", 0), ("AB", "B", 0), ("ABC", "C", 1), ("ABC", "BC", 0)]
)
def test_a_majority_keeps_what_was_answered(stores: str, away: str, enough: int) -> None:
    async def body(world: World) -> None:
        async with world.life() as life:
            assert await life.keep(1.0)
            for name in away:
                world.stores[name].away()
            await world.change(orders=b"1")
            began = trio.current_time()
            assert await life.keep(1.0) is bool(enough)
            assert trio.current_time() - began == pytest.approx(0.01 if enough else 1.0, abs=0.05)
            for name in away:
                world.stores[name].there.set()
            assert await life.keep(5.0)

    run(body, *stores)


def test_nothing_is_compared_before_enough_stores_have_vouched() -> None:
    async def body(world: World) -> None:
        for name in "BC":
            world.stores[name].away()
        async with world.life() as life:
            await trio.sleep(10)
            assert not life.compared.is_set()
            assert not world.catalog.range(keys.LIVES)
            assert not await life.keep(1.0)
            world.stores["B"].there.set()
            await life.wait_compared()
            assert await life.keep(1.0)

    run(body, "A", "B", "C")


def test_a_later_life_goes_on_with_the_changes_if_it_has_them() -> None:
    async def body(world: World) -> None:
        async with world.life() as life:
            await world.change(orders=b"1")
            assert await life.keep(1.0)
        assert world.catalog.revision == world.stores["A"].memory.memory.sequence
        async with world.life() as life:
            await life.wait_compared()
            assert await life.keep(1.0)
            assert world.stores["A"].told[-2:] == [KEEP_QUESTION, KEEP_CHANGES]
            assert world.stores["A"].memory.memory.life == "G2"

    run(body, "A")


def test_a_store_that_was_away_for_long_gets_a_whole_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.cluster.kept_entries.MAX_LIST_ENTRIES", 40)

    async def body(world: World) -> None:
        async with world.life() as life:
            assert await life.keep(1.0)
            store = world.stores["C"]
            store.away()
            world.catalog._history._max_changes = 10
            for number in range(100):
                await world.change(**{f"t{number:02d}": b""})
            assert await life.keep(1.0)
            store.there.set()
            await trio.sleep(3)
            assert store.told[-3:] == [KEEP_PIECE, KEEP_PIECE, KEEP_LAST_PIECE]
            assert store.entries == world.stores["A"].entries
            assert store.memory.memory == world.stores["A"].memory.memory

    run(body, "A", "B", "C")


def test_a_whole_copy_is_of_one_moment_and_is_read_with_others_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.catalog.snapshot.ENTRIES_AT_ONCE", 10)

    async def body(world: World) -> None:
        await world.change(**{f"t{number:03d}": b"0" for number in range(200)})
        store = world.stores["A"]
        async with world.life() as life:
            await life.wait_compared()
            heard = len(store.heard)
            for number in range(8):
                await world.change(**{f"t{number:03d}": b"1", f"t{199 - number:03d}": b"1"})
            await trio.sleep(0.05)
            copy = store.heard[heard]
            ones = len([value for value in copy.puts.values() if value == b"1"])
            behind = world.catalog.revision - copy.at.sequence
            assert (copy.kind, ones) == (KEEP_LAST_PIECE, 2 * (8 - behind))
            assert ones > 0
            assert await life.keep(1.0)
            assert store.entries[keys.topic_key("t007")] == b"1"

    run(body, "A")


def refuted(match: str) -> Any:
    return pytest.RaisesGroup(pytest.RaisesExc(DataDirectoryRefused, match=match), flatten_subgroups=True)


def test_a_catalog_that_went_back_is_refused() -> None:
    async def body(world: World) -> None:
        async with world.life() as life:
            assert await life.keep(1.0)
            older = MemoryCatalog()
            await older.transact([], {one.key: one.value for one in world.catalog.range("")})
            await world.change(a=b"")
            assert await life.keep(1.0)
        with refuted(r"the catalog is older than store 1000 \(store-A\).* remembers sequence"):
            async with world.life(older):
                await trio.sleep(10)
        assert not older.range(keys.LIVES + "G2")

    run(body, "A")


@pytest.mark.parametrize("kind", [KEEP_QUESTION, KEEP_CHANGES])
def test_one_answer_alone_ends_no_gateway(kind: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reaches the mesh may send one, and so may a store that mixes something up."""

    async def body(world: World) -> None:
        store = world.stores["A"]
        forged: list[Kept] = []
        take = store.take

        def forge(keep: Keep) -> Kept:
            answer = take(keep)
            if keep.kind == kind and not forged:
                forged.append(answer)
                status = KEPT_DONE if kind == KEEP_QUESTION else KEPT_OTHER_HISTORY
                return answer._replace(status=status, memory=Remembered("other", "G9", 1 << 60))
            return answer

        monkeypatch.setattr(store, "take", forge)
        async with world.life() as life:
            await life.wait_compared()
            assert await life.keep(1.0)
            await world.change(orders=b"1")
            assert await life.keep(5.0)
            assert len(forged) == 1
            assert store.entries[keys.topic_key("orders")] == b"1"

    run(body, "A")


@pytest.mark.parametrize("status", [KEPT_DONE, KEPT_OUT_OF_TURN])
def test_a_store_that_never_gets_on_is_not_told_without_a_pause(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(world: World) -> None:
        store = world.stores["C"]

        def stay(keep: Keep) -> Kept:
            store.heard.append(keep)
            done = KEPT_DONE if keep.kind == KEEP_QUESTION else status
            return Kept(keep.requester, "C", done, CLUSTER, NOTHING_REMEMBERED)

        monkeypatch.setattr(store, "take", stay)
        async with world.life() as life:
            assert await life.keep(1.0)
            await trio.sleep(10)
            assert 5 < len(store.heard) < 15

    run(body, "A", "B", "C")


def test_a_store_that_does_not_count_vouches_for_nothing() -> None:
    """It was set back to an older copy: what it remembers is as old, and may fit a catalog that is older."""

    async def body(world: World) -> None:
        world.stores["B"].away()
        world.stores["C"].away()
        world.vouched = {}
        async with world.life() as life:
            world.stores["B"].there.set()
            await trio.sleep(10)
            assert not life.compared.is_set()
            world.vouched["A"] = b"nonce A"
            await trio.sleep(1)
            assert not life.compared.is_set(), "one of three"
            world.vouched["B"] = b"nonce B"
            assert await life.keep(1.0)

    run(body, "A", "B", "C")


def test_a_store_that_does_not_count_refutes_nothing_until_it_does() -> None:
    async def body(world: World) -> None:
        async with world.life() as life:
            assert await life.keep(1.0)
        world.stores["A"].remembers("other", "G9", 5)
        world.vouched = {"B": b"nonce B"}
        with refuted("store-A.*does not come from it"):
            async with world.life():
                await trio.sleep(10)
                world.vouched["A"] = b"nonce A"
                await trio.sleep(10)

    run(body, "A", "B", "C")


def test_a_store_that_is_heard_later_refutes_it_too() -> None:
    async def body(world: World) -> None:
        async with world.life() as life:
            assert await life.keep(1.0)
        world.stores["C"].remembers("other", "G9", 5)
        world.stores["C"].away()
        with refuted("store-C.*does not come from it"):
            async with world.life() as life:
                assert await life.keep(1.0)
                world.stores["C"].there.set()
                await trio.sleep(10)

    run(body, "A", "B", "C")


async def set_back(catalog: MemoryCatalog) -> MemoryCatalog:
    """A copy of a catalog as it is now, at the same sequence."""
    copy = MemoryCatalog()
    while copy.revision < catalog.revision - 1:
        await copy.transact([], {keys.CLUSTER: b""})
    await copy.transact([], {one.key: one.value for one in catalog.range("")})
    return copy


def test_what_is_written_before_the_comparison_hides_nothing_that_was_lost() -> None:
    """A catalog that went back grows again before it is compared: by the lives of the stores, and by logs
    that need no other store than the one that is here.
    """

    async def body(world: World) -> None:
        async with world.life() as life:
            assert await life.keep(1.0)
            older = await set_back(world.catalog)
            await world.change(a=b"lost")
            assert await life.keep(1.0)
        world.stores["B"].away()
        world.stores["C"].away()
        world.stores["A"].remembers("", "", 0)
        async with world.life(older) as life:  # and is killed before it is compared
            await older.transact([], {keys.topic_key("b"): b""})
            await trio.sleep(1)
            assert not life.compared.is_set()
        with refuted(r"the catalog is older than store 1001 \(store-B\).* remembers sequence"):
            async with world.life(older):
                await older.transact([], {keys.topic_key("c"): b""})
                await trio.sleep(1)
                world.stores["B"].there.set()
                await trio.sleep(10)

    run(body, "A", "B", "C")


def test_a_store_of_another_cluster_is_neither_believed_nor_told(caplog: pytest.LogCaptureFixture) -> None:
    async def body(world: World) -> None:
        store = world.stores["C"]
        store.remembers("other", "G9", 5)
        store.cluster_id = "C2"
        async with world.life() as life:
            assert await life.keep(1.0)
            await trio.sleep(5)
        assert store.memory.memory == Remembered("other", "G9", 5)

    run(body, "A", "B", "C")
    (said,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert said.startswith(
        "store 1002 (store-C) keeps nothing of the catalog: it belongs to another cluster."
    )
    assert "Start it with an empty data directory" in said


@pytest.mark.parametrize(
    ("stores", "first", "serving"),
    [
        ("AB", "A", []),
        ("ABC", "A", ["C2"]),
        ("ABC", "AB", ["C1"]),
        ("ABCD", "AB", []),
        ("ABCD", "ABC", ["C1"]),
    ],
)
def test_of_two_gateways_that_begin_with_the_same_stores_one_serves_at_most(
    stores: str, first: str, serving: list[str]
) -> None:
    """Each has heard of all of them and made its own cluster; the stores in `first` hear gateway C1 first."""
    refused: dict[str, str] = {}
    compared: list[str] = []

    async def begin(world: World, cluster_id: str) -> None:
        catalog = MemoryCatalog()
        names = [(name, f"store-{name}") for name in stores]
        await catalog.transact([], {keys.CLUSTER: b"{}"} | first_entries(names))

        async def ask(store: str, make: Callable[[str], Keep]) -> Kept:
            await trio.sleep(0.01 if (store in first) == (cluster_id == "C1") else 0.02)
            return world.stores[store].take(make("R7"))

        requests = SimpleNamespace(prefix=f"G{cluster_id}", ask=ask, vouched=None)
        made = Remembering(FencedCatalog(catalog), cast("Any", requests), cluster_id)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(made.run)
                with trio.fail_after(10):
                    await made.wait_compared()
                compared.append(cluster_id)
                assert await made.keep(1.0)
                nursery.cancel_scope.cancel()
        except* DataDirectoryRefused as group:
            error: BaseException = group
            while isinstance(error, BaseExceptionGroup):
                (error,) = error.exceptions
            refused[cluster_id] = str(error)

    async def main() -> None:
        world = World(*stores)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(begin, world, "C1")
            nursery.start_soon(begin, world, "C2")

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert compared == serving
    assert sorted(refused) == sorted({"C1", "C2"} - set(serving))
    for cluster_id, why in refused.items():
        other = "C1" if cluster_id == "C2" else "C2"
        assert f"stores belong to another cluster ({other}): another gateway began one with them" in why
        assert f"this cluster, {cluster_id}, has never served. Stop this gateway and remove its data" in why


def test_a_gateway_that_has_topics_goes_on_though_stores_belong_to_another_cluster() -> None:
    async def body(world: World) -> None:
        await world.change(orders=b"{}")
        for name in "CD":
            world.stores[name].cluster_id = "C2"
        async with world.life() as life:
            with trio.fail_after(10):
                await life.wait_compared()
            assert not await life.keep(1.0)

    run(body, "A", "B", "C", "D")


def test_a_store_that_cannot_read_its_memory_does_not_vouch_and_is_filled_anew() -> None:
    async def body(world: World) -> None:
        for name, store in world.stores.items():
            if name == "C":
                store.memory.begin(None)
        async with world.life() as life:
            assert await life.keep(1.0)
            await trio.sleep(5)
            assert world.stores["C"].entries == world.stores["A"].entries

    run(body, "A", "B", "C")


def test_where_all_stores_cannot_tell_nothing_is_served() -> None:
    async def body(world: World) -> None:
        world.stores["A"].memory.begin(None)
        with refuted("store 1000 .* cannot read what it remembers"):
            async with world.life():
                await trio.sleep(10)

    run(body, "A")


def test_a_new_lineage_is_taken_from_its_parent_and_settled() -> None:
    async def body(world: World) -> None:
        parent = Lineage("P")
        world.stores["A"].remembers("P", "G0", 10)
        world.stores["C"].remembers("P", "G0", 12)  # not acknowledged: only one store has it
        world.stores["C"].away()
        made = parent.child(10, settled=False)
        await world.catalog.transact([], {keys.LINEAGE: made.pack()})
        async with world.life() as life:
            assert await life.keep(1.0)
            world.stores["C"].there.set()
            await trio.sleep(5)
        assert {store.memory.memory.lineage for store in world.stores.values()} == {made.name}

    run(body, "A", "B", "C")


def test_stores_come_and_go() -> None:
    async def body(world: World) -> None:
        async with world.life() as life:
            assert await life.keep(1.0)
            world.stores["B"] = Store("B")
            await world.catalog.transact([], StoreEntry(1001, "B", "store-B").put())
            assert await life.keep(5.0)
            assert world.stores["B"].entries == world.stores["A"].entries
            world.stores["A"].away()
            await world.catalog.transact([], StoreEntry(1000, "A", "store-A", REMOVED).put())
            assert await life.keep(5.0)
            await wait_all_tasks_blocked()
            assert world.stores["B"].memory.memory.sequence == world.catalog.revision

    run(body, "A")


@pytest.mark.parametrize("whose", ["mesh.protocol.catalog_memory", "gateway.cluster.remembering"])
def test_a_catalog_that_is_too_large_for_a_store_is_not_sent_again_until_it_is_smaller(
    whose: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether the store says it, or the gateway knows it."""
    monkeypatch.setattr(f"{whose}.MAX_COPY_BYTES", 700)
    monkeypatch.setattr("gateway.cluster.kept_entries.PIECE_BYTES", 150)

    async def body(world: World) -> None:
        store = world.stores["A"]
        await world.change(a=b"0" * 400, b=b"0" * 400)
        async with world.life() as life:
            assert not await life.keep(1000.0)
            sent = store.told
            assert sent.count(KEEP_PIECE) < 10
            assert KEEP_LAST_PIECE not in sent
            assert life.too_large["A"] > 800
            assert life.is_full
            await world.change(c=b"0")
            await trio.sleep(1000)
            assert store.told == sent
            await world.catalog.transact([], {}, [keys.topic_key("a")])
            assert await life.keep(TOO_LARGE_SECONDS + 1)
            assert (life.too_large, life.is_full) == ({}, False)
            assert store.memory.memory.sequence == world.catalog.revision

    run(body, "A")
    assert caplog.text.count("store 1000 (store-A) keeps no newer copy of the catalog: its entries have") == 1


def test_a_store_that_is_filled_by_changes_and_refuses_the_whole_copy_is_asked_no_more_than_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.cluster.remembering.MAX_COPY_BYTES", 700)
    monkeypatch.setattr("mesh.protocol.catalog_memory.MAX_CHANGED_BYTES", 700)

    async def body(world: World) -> None:
        store = world.stores["A"]
        async with world.life() as life:
            assert await life.keep(1.0)
            for number in range(3):
                await world.change(**{f"t{number}": b"0" * 300})
                assert await life.keep(1.0)
            await world.change(t3=b"0" * 300)
            assert not await life.keep(1.0)
            told = len(store.heard)
            await trio.sleep(600)
            assert len(store.heard) - told <= 600 / TOO_LARGE_SECONDS
            assert all(keep.kind == KEEP_CHANGES for keep in store.heard[told:])

    run(body, "A")
