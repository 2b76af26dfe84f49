"""Deleting topics: nothing leaves the catalog before every member has confirmed."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from dafka.settings import Settings
from gateway.broker import Broker
from gateway.catalog import keys
from gateway.catalog.interface import Entry, HistoryLost
from gateway.cluster.deletion import LOOKED_AT_ONCE, RETRY_SECONDS, SEGMENTS_AT_ONCE, Deletion
from gateway.cluster.stores import REMOVED, StoreEntry
from gateway.log.closer import Closer
from gateway.log.neighbours import NoCopies
from gateway.log.segment import Segment
from tests.unit.gateway.catalog.memory import put_many
from tests.unit.gateway.log.fake_log import FakeLog, FakeRequests
from tests.unit.gateway.log.test_closer import ONE, THREE, TWO
from tests.unit.gateway.log.test_closer import Requests as ClosingStores
from wireproto.dafka.additions import (
    NO_EPOCH,
    STATUS_DONE,
    STATUS_OTHER_HISTORY,
    STATUS_STALE_EPOCH,
    STATUS_STORAGE_ERROR,
    AddressStatus,
    DeleteEntry,
)

BAD, GOOD = "bad-store", "good-store"
TOPIC, OTHER_TOPIC = bytes(16), bytes([1] * 16)
A, B, C, D = (letter * 32 for letter in "ABCD")


class Stores(FakeRequests):
    """Delete what they are asked to, but for what `BAD` has in places that it cannot read."""

    def __init__(self) -> None:
        super().__init__()
        self.unreadable: set[str] = set()
        self.refusing: dict[str, int] = {}
        """What `BAD` says of addresses that it does not delete on this catalog's word."""
        self.told: list[DeleteEntry] = []
        self.deleted: dict[str, list[str]] = {BAD: [], GOOD: []}
        """What each store was asked to delete, in order."""

    async def ask(self, store: str, make: Any) -> Any:
        await trio.lowlevel.checkpoint()
        told = [DeleteEntry.unpack(entry) for entry in make(self.new_id()).entries]
        addresses = [entry.address for entry in told]
        self.told += told
        self.deleted[store] += addresses
        return SimpleNamespace(
            statuses=[AddressStatus(address, self._status(store, address), -1) for address in addresses]
        )

    def _status(self, store: str, address: str) -> int:
        if store == BAD and address in self.refusing:
            return self.refusing[address]
        return STATUS_STORAGE_ERROR if store == BAD and address in self.unreadable else STATUS_DONE


class Setup:
    """A catalog with `TOPIC` (A and B) and `OTHER_TOPIC` (C) deleted, and the empty segment D dropped."""

    def __init__(self, delay_seconds: float = 0.0) -> None:
        self.stores = Stores()
        self.log = FakeLog(requests=self.stores)
        self.catalog = self.log.catalog
        self.deletion = Deletion(self.log.context, self.log.stores, delay_seconds)

    async def fill(self) -> None:
        puts = {
            keys.tombstone_key(TOPIC): keys.pack({"name": "orders"}),
            keys.tombstone_key(OTHER_TOPIC): keys.pack({"name": "payments"}),
            keys.partition_key(TOPIC, 0): keys.pack({}),
            keys.partition_key(OTHER_TOPIC, 0): keys.pack({}),
            keys.segment_tombstone_key(D): keys.pack({"members": [BAD, GOOD]}),
        }
        for topic, start, address in ((TOPIC, 0, A), (TOPIC, 9, B), (OTHER_TOPIC, 0, C)):
            segment = {"address": address, "members": [BAD, GOOD]}
            puts[keys.segment_key(topic, 0, start, address)] = keys.pack(segment)
            puts[keys.closing_key(address)] = keys.pack({"end": 8, "members": [GOOD]})
        await self.catalog.transact([], puts)

    def left(self) -> set[str]:
        return {entry.key for entry in self.catalog.range("/")}


def of_topic(topic: bytes, *segments: tuple[int, str]) -> set[str]:
    """The keys of a deleted topic that still has these segments."""
    kept = {keys.tombstone_key(topic), keys.partition_key(topic, 0)}
    for start, address in segments:
        kept |= {keys.segment_key(topic, 0, start, address), keys.closing_key(address)}
    return kept


def run(body: Callable[[Setup], Awaitable[None]]) -> None:
    async def main() -> None:
        setup = Setup()
        await setup.fill()
        with trio.fail_after(100 * RETRY_SECONDS):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(setup.deletion.run)
                await body(setup)
                nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_what_every_member_deleted_leaves_the_catalog() -> None:
    async def body(setup: Setup) -> None:
        await trio.sleep(1)
        assert setup.left() == set()
        assert {store: sorted(asked) for store, asked in setup.stores.deleted.items()} == {
            BAD: [A, B, C, D],
            GOOD: [A, B, C, D],
        }

    run(body)


@pytest.mark.parametrize(
    ("unreadable", "left"),
    [
        ({B}, of_topic(TOPIC, (9, B))),
        ({A, B}, of_topic(TOPIC, (0, A), (9, B))),
        ({D}, {keys.segment_tombstone_key(D)}),
        (
            {A, C, D},
            of_topic(TOPIC, (0, A)) | of_topic(OTHER_TOPIC, (0, C)) | {keys.segment_tombstone_key(D)},
        ),
    ],
    ids=["a segment", "a topic", "an empty segment", "everywhere"],
)
def test_what_some_member_could_not_delete_stays_and_is_tried_again(
    unreadable: set[str], left: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    """And holds up nothing else."""
    caplog.set_level(logging.ERROR)

    async def body(setup: Setup) -> None:
        setup.stores.unreadable = unreadable
        await trio.sleep(1)
        for tries in range(1, 4):
            assert setup.left() == left
            asked = [address for address in setup.stores.deleted[BAD] if address in unreadable]
            assert sorted(asked) == sorted([*unreadable] * tries)
            await trio.sleep(RETRY_SECONDS)
        setup.stores.unreadable = set()
        await trio.sleep(RETRY_SECONDS)
        assert setup.left() == set()
        await trio.sleep(10 * RETRY_SECONDS)
        assert len(setup.stores.deleted[BAD]) == 4 + 4 * len(unreadable), "nothing is tried again after that"

    run(body)
    said = [record.getMessage() for record in caplog.records]
    steps = [unreadable & {D}, unreadable & {A, B}, unreadable & {C}]
    assert [line.partition(" among")[0] for line in said] == [
        f"store {BAD} could not delete {len(step)} segments, {min(step)}" for step in steps if step
    ]


def test_what_is_deleted_is_known_as_that_and_nothing_else_is() -> None:
    async def body(setup: Setup) -> None:
        deleted = setup.log.context.deleted
        setup.stores.unreadable = {D}
        await trio.sleep(1)
        assert D not in deleted, "a member still has it"
        setup.stores.unreadable = set()
        await trio.sleep(RETRY_SECONDS)
        assert D in deleted

    run(body)


def test_new_work_does_not_bring_the_pause_of_what_failed_to_an_end() -> None:
    async def body(setup: Setup) -> None:
        setup.stores.unreadable = {A}
        await trio.sleep(1)
        for number in range(10):
            dropped = f"{number:032X}"
            key = keys.segment_tombstone_key(dropped)
            await setup.catalog.transact([], {key: keys.pack({"members": [BAD]})})
            setup.log.context.segments_dropped()
            await trio.sleep(1)
            assert setup.stores.deleted[BAD][-1] == dropped
            assert setup.left() == of_topic(TOPIC, (0, A))
        assert setup.stores.deleted[BAD].count(A) == 1
        await trio.sleep(RETRY_SECONDS - 10)
        assert setup.stores.deleted[BAD].count(A) == 2

    run(body)


class Live:
    """A presence of which only the stores in `live_stores` are there."""

    def __init__(self, *live: str) -> None:
        self.live_stores = set(live)

    def live(self, store: str) -> bool:
        return store in self.live_stores


def test_a_store_that_is_away_holds_up_nothing_and_confirms_when_it_is_back() -> None:
    async def body(setup: Setup) -> None:
        presence = Live(GOOD)
        setup.log.stores.presence = presence  # type: ignore[assignment]
        await trio.sleep(1)
        assert setup.left() != set()
        assert setup.stores.deleted == {BAD: [], GOOD: [D, A, B, C]}
        only_good = f"{9:032X}"
        key = keys.segment_tombstone_key(only_good)
        await setup.catalog.transact([], {key: keys.pack({"members": [GOOD]})})
        setup.log.context.segments_dropped()
        await trio.sleep(1)
        assert setup.catalog.get(key) is None
        presence.live_stores.add(BAD)
        await trio.sleep(2 * RETRY_SECONDS)
        assert setup.left() == set()
        assert sorted(setup.stores.deleted[BAD]) == [A, B, C, D]

    run(body)


def test_many_tombstones_of_a_store_that_is_away_cost_a_look_at_each_and_ask_nobody_twice() -> None:
    """A store that is away for a week of retention leaves a hundred thousand of them."""
    count = 3 * SEGMENTS_AT_ONCE + 5

    async def main() -> None:
        setup = Setup()
        presence = Live(GOOD)
        setup.log.stores.presence = presence  # type: ignore[assignment]
        tombstone = keys.pack({"members": [BAD, GOOD]})
        dropped = [f"{number:032X}" for number in range(count)]
        await put_many(setup.catalog, {keys.segment_tombstone_key(one): tombstone for one in dropped})
        looks: list[int] = []
        look = setup.catalog.range

        def counted(prefix: str, **page: Any) -> list[Entry]:
            found = look(prefix, **page)
            looks.append(len(found))
            return found

        setup.catalog.range = counted  # type: ignore[method-assign]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(setup.deletion.run)
            await trio.sleep(1)
            assert setup.stores.deleted == {BAD: [], GOOD: dropped}
            assert sum(looks) <= 2 * count
            assert max(looks) <= LOOKED_AT_ONCE
            looks.clear()
            await trio.sleep(3 * RETRY_SECONDS)
            assert setup.stores.deleted == {BAD: [], GOOD: dropped}, "it has confirmed already"
            assert sum(looks) <= 4 * count
            presence.live_stores.add(BAD)
            await trio.sleep(2 * RETRY_SECONDS)
            assert setup.stores.deleted == {BAD: dropped, GOOD: dropped}
            assert setup.left() == set()
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize("of_topic", [False, True])
def test_new_work_looks_at_nothing_that_waits(of_topic: bool) -> None:
    """Retention drops something each second, while a store is away that a hundred thousand wait for."""
    count = 3 * SEGMENTS_AT_ONCE

    async def main() -> None:
        setup = Setup()
        setup.log.stores.presence = Live(GOOD)  # type: ignore[assignment]
        both = keys.pack({"members": [BAD, GOOD]})
        waiting = [f"{number:032X}" for number in range(count)]
        if of_topic:
            puts = {keys.segment_key(TOPIC, 0, start, address): both for start, address in enumerate(waiting)}
            puts[keys.tombstone_key(TOPIC)] = keys.pack({"name": "orders"})
        else:
            puts = {keys.segment_tombstone_key(address): both for address in waiting}
        await put_many(setup.catalog, puts)
        looked = 0

        def counted(look: Callable[..., Any]) -> Callable[..., Any]:
            def found(*asked: Any, **page: Any) -> Any:
                nonlocal looked
                entries = look(*asked, **page)
                looked += len(entries) if isinstance(entries, list) else 1
                return entries

            return found

        async with trio.open_nursery() as nursery:
            nursery.start_soon(setup.deletion.run)
            await trio.sleep(1)
            assert setup.stores.deleted[GOOD] == waiting
            for name in ("range", "get", "changes"):
                setattr(setup.catalog, name, counted(getattr(setup.catalog, name)))
            for number in range(count, count + 20):
                key = keys.segment_tombstone_key(f"{number:032X}")
                await setup.catalog.transact([], {key: keys.pack({"members": [GOOD]})})
                setup.log.context.segments_dropped()
                await trio.sleep(1)
                assert not setup.catalog.range(key)
            assert looked < 20 * 10
            assert len(setup.left()) == len(puts)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_changes_that_nobody_has_kept_are_found_by_looking_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(setup: Setup) -> None:
        await trio.sleep(1)
        assert setup.left() == set()
        lost = setup.catalog.changes

        def changes(from_revision: int) -> list[Any]:
            monkeypatch.setattr(setup.catalog, "changes", lost)
            raise HistoryLost(from_revision)

        monkeypatch.setattr(setup.catalog, "changes", changes)
        key = keys.segment_tombstone_key(f"{9:032X}")
        await setup.catalog.transact([], {key: keys.pack({"members": [GOOD]})})
        setup.log.context.segments_dropped()
        await trio.sleep(1)
        assert setup.left() == set()
        assert setup.stores.deleted[GOOD][-1] == f"{9:032X}"

    run(body)


def test_a_tombstone_with_another_member_is_asked_of_all_again() -> None:
    async def body(setup: Setup) -> None:
        presence = Live(GOOD)
        setup.log.stores.presence = presence  # type: ignore[assignment]
        key = keys.segment_tombstone_key(f"{9:032X}")
        await setup.catalog.transact([], {key: keys.pack({"members": [BAD]})})
        setup.log.context.segments_dropped()
        await trio.sleep(1)
        await setup.catalog.transact([], {key: keys.pack({"members": [BAD, GOOD]})})
        presence.live_stores.add(BAD)
        await trio.sleep(2 * RETRY_SECONDS)
        assert setup.stores.deleted[GOOD].count(f"{9:032X}") == 1
        assert setup.catalog.get(key) is None

    run(body)


def test_a_store_that_was_removed_is_not_asked() -> None:
    async def body(setup: Setup) -> None:
        await setup.catalog.transact([], StoreEntry(1000, BAD, "bad", REMOVED).put())
        setup.log.stores.load()
        await trio.sleep(1)
        asked = list(setup.stores.deleted[BAD])
        key = keys.segment_tombstone_key(f"{9:032X}")
        await setup.catalog.transact([], {key: keys.pack({"members": [BAD, GOOD]})})
        setup.log.context.segments_dropped()
        await trio.sleep(1)
        assert setup.left() == {f"{keys.STORES}1000"}
        assert setup.stores.deleted[BAD] == asked
        assert setup.stores.deleted[GOOD][-1] == f"{9:032X}"

    run(body)


def test_a_start_deletes_nothing_before_it_knows_whose_ends_are_to_be_heard() -> None:
    """What a compaction has left of a log goes after w members know where the new segments end: operators may
    be answered for a while between the begin of a gateway's tasks and that of its recovery.
    """

    async def main() -> None:
        stores = ClosingStores()
        log = FakeLog(stores=(ONE, TWO, THREE), requests=stores)
        catalog = log.catalog
        made = Segment(A, 0, 0, (ONE, TWO, THREE), 2, 0).closed(10, 9, 0)
        puts = {keys.segment_tombstone_key(B): keys.pack({"members": [ONE], "after": [A]})}
        Closer.note(made, keys.log_name(TOPIC, 0), puts)
        await catalog.transact([], puts)
        stores.away = {TWO, THREE}
        broker = Broker(log.context, log.stores, Settings(delete_delay_ms=0), lambda: None)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.context.producer.run)
            nursery.start_soon(broker.run)
            await trio.sleep(1)
            await broker.recover()
            await trio.sleep(1)
            assert catalog.get(keys.segment_tombstone_key(B)) is not None
            stores.back(TWO)
            await trio.sleep(1)
            assert catalog.get(keys.segment_tombstone_key(B)) is None
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_what_a_compaction_has_left_goes_with_its_topic_though_nobody_hears_the_new_segments_end() -> None:
    """The tombstone of a source waits for the new segment; with the topic that one is deleted, too."""

    class Deleting(ClosingStores):
        async def ask(self, store: str, make: Any) -> Any:
            if make(self.new_id()).id == b"C":
                await trio.sleep_forever()
            return await super().ask(store, make)

    async def main() -> None:
        log = FakeLog(stores=(ONE, TWO, THREE), requests=Deleting())
        catalog = log.catalog
        made = Segment(A, 0, 0, (ONE, TWO, THREE), 2, 0).closed(10, 9, 0)
        puts = {
            keys.tombstone_key(TOPIC): keys.pack({"name": "orders"}),
            keys.segment_key(TOPIC, 0, 0, A): made.pack(),
            keys.segment_tombstone_key(B): keys.pack({"members": [ONE], "after": [A]}),
        }
        Closer.note(made, keys.log_name(TOPIC, 0), puts)
        await catalog.transact([], puts)
        deletion = Deletion(log.context, log.stores)
        log.context.closer.load()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.context.producer.run)
            nursery.start_soon(deletion.run)
            await trio.sleep(10 * RETRY_SECONDS)
            assert [entry.key for entry in catalog.range("/")] == []
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


# the delay ------------------------------------------------------------------------------------------------

DELAY = 60.0


def run_delayed(body: Callable[[Setup], Awaitable[None]]) -> None:
    async def main() -> None:
        setup = Setup(DELAY)
        await setup.fill()
        with trio.fail_after(100 * RETRY_SECONDS):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(setup.deletion.run)
                await body(setup)
                nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_nothing_is_deleted_for_the_last_time_before_a_while() -> None:
    async def body(setup: Setup) -> None:
        before = setup.left()
        await trio.sleep(DELAY - 1)
        assert setup.stores.deleted == {BAD: [], GOOD: []}
        assert setup.left() == before
        await trio.sleep(2)
        assert {store: sorted(asked) for store, asked in setup.stores.deleted.items()} == {
            BAD: [A, B, C, D],
            GOOD: [A, B, C, D],
        }
        assert setup.left() == set()

    run_delayed(body)


def test_each_waits_from_when_it_was_dropped() -> None:
    async def body(setup: Setup) -> None:
        dropped = {}
        for number in range(5):
            await trio.sleep(DELAY / 4)
            address = f"{number:032X}"
            key = keys.segment_tombstone_key(address)
            await setup.catalog.transact([], {key: keys.pack({"members": [GOOD]})})
            setup.log.context.segments_dropped()
            dropped[address] = trio.current_time()
        gone: dict[str, float] = {}
        while dropped.keys() - gone.keys():
            await trio.sleep(0.5)
            for address in setup.stores.deleted[GOOD]:
                gone.setdefault(address, trio.current_time())
        for address, at in dropped.items():
            assert DELAY <= gone[address] - at < DELAY + 1

    run_delayed(body)


def test_what_waits_is_not_forgotten_by_the_next_life() -> None:
    async def body(setup: Setup) -> None:
        await trio.sleep(DELAY - 1)
        again = Deletion(setup.log.context, setup.log.stores, DELAY)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(again.run)
            await trio.sleep(DELAY - 1)
            assert setup.stores.deleted == {BAD: [], GOOD: []}
            await trio.sleep(2)
            assert setup.left() == set()
            nursery.cancel_scope.cancel()

    async def main() -> None:
        setup = Setup()
        await setup.fill()
        setup.log.context._segments_dropped = None
        with trio.fail_after(10 * DELAY):
            await body(setup)

    trio.run(main, clock=MockClock(autojump_threshold=0))


# what the stores remember of the catalog ------------------------------------------------------------------


class Copies(NoCopies):
    """What stores remember of the catalog, as a test says."""

    def __init__(self) -> None:
        self.compared = trio.Event()
        self.remember = True

    is_compared = True

    async def wait_compared(self) -> None:
        await self.compared.wait()

    async def keep(self, _seconds: float) -> bool:
        await trio.lowlevel.checkpoint()
        return self.remember

    def hurry(self) -> None:
        pass


def test_nothing_is_deleted_before_the_stores_have_vouched_for_the_catalog() -> None:
    async def main() -> None:
        setup = Setup()
        setup.log.context.copies = copies = Copies()
        await setup.fill()
        async with setup.log.running(), trio.open_nursery() as nursery:
            nursery.start_soon(setup.deletion.run)
            await trio.sleep(1000)
            assert setup.stores.deleted == {BAD: [], GOOD: []}
            copies.compared.set()
            await trio.sleep(1)
            assert not setup.left()
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_a_topic_of_the_same_name_is_there_meanwhile() -> None:
    """Its segments and its id are its own."""

    async def body(setup: Setup) -> None:
        key = keys.topic_key("orders")
        other = keys.segment_key(bytes([9] * 16), 0, 0, "E" * 32)
        await setup.catalog.transact([], {key: keys.pack({}), other: keys.pack({"address": "E" * 32})})
        await trio.sleep(2 * DELAY)
        assert setup.left() == {key, other}

    run_delayed(body)


def test_the_last_segment_of_a_log_goes_when_enough_stores_remember_where_it_ends() -> None:
    async def main() -> None:
        setup = Setup()
        setup.log.context.copies = copies = Copies()
        copies.compared.set()
        copies.remember = False
        dropped = {
            keys.segment_tombstone_key(A): keys.pack({"members": [GOOD], "last": True}),
            keys.segment_tombstone_key(B): keys.pack({"members": [GOOD]}),
        }
        await setup.catalog.transact([], dropped)
        async with setup.log.running(), trio.open_nursery() as nursery:
            nursery.start_soon(setup.deletion.run)
            await trio.sleep(3 * RETRY_SECONDS)
            assert setup.stores.deleted[GOOD] == [B]
            copies.remember = True
            await trio.sleep(RETRY_SECONDS)
            assert setup.stores.deleted[GOOD] == [B, A]
            assert not setup.left()
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


# what a store does not delete on this catalog's word -------------------------------------------------------


def test_a_store_is_told_where_it_was_decided_which_log_and_which_epoch() -> None:
    async def main() -> None:
        setup = Setup()
        lineage = {keys.LINEAGE: keys.pack({"lineage": "H1"})}
        await setup.catalog.transact([], lineage)
        await setup.fill()
        entry = setup.catalog.get(keys.segment_tombstone_key(D))
        assert entry is not None
        await setup.catalog.transact(
            [],
            {
                keys.segment_tombstone_key(A): keys.pack(
                    {"members": [GOOD], "log": f"{TOPIC.hex()}/1", "epoch": 7}
                )
            },
        )
        await setup.catalog.transact([], {"/other": b""})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(setup.deletion.run)
            await trio.sleep(1)
            nursery.cancel_scope.cancel()
        told = {
            (one.address, one.log, one.epoch, one.at.lineage, one.at.sequence) for one in setup.stores.told
        }
        filled = entry.mod_revision
        assert (D, "", NO_EPOCH, "H1", filled) in told, "an older version noted neither log nor epoch"
        assert (A, f"{TOPIC.hex()}/1", 7, "H1", filled + 1) in told
        assert (B, f"{TOPIC.hex()}/0", NO_EPOCH, "H1", filled) in told
        assert {one.at.life for one in setup.stores.told} == {setup.stores.prefix}

    trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize("status", [STATUS_OTHER_HISTORY, STATUS_STALE_EPOCH])
def test_what_a_newer_catalog_has_told_of_stays_in_the_list_and_is_said_once(
    caplog: pytest.LogCaptureFixture, status: int
) -> None:
    async def body(setup: Setup) -> None:
        setup.stores.refusing = {A: status, D: status}
        await trio.sleep(5.5 * RETRY_SECONDS)
        assert keys.segment_tombstone_key(D) in setup.left()
        assert keys.segment_key(TOPIC, 0, 0, A) in setup.left()
        assert keys.segment_key(OTHER_TOPIC, 0, 0, C) not in setup.left()
        assert setup.stores.deleted[BAD].count(D) == 6, "after a pause each"
        assert setup.stores.deleted[GOOD].count(D) == 1
        assert setup.deletion.refused == 2
        setup.stores.refusing = {}
        await trio.sleep(RETRY_SECONDS)
        assert setup.left() == set()

    run(body)
    (said,) = [one.getMessage() for one in caplog.records if "does not delete" in one.getMessage()]
    assert BAD in said
    assert "--rebuild-catalog" in said
