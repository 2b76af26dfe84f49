"""Native producers, stores and consumers: nodes of ours in one process, frames over real sockets."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from dafka.processes.store_metrics import register_store
from gateway.common.metrics import Metrics
from mesh.node import Node
from mesh.protocol.address_state import Phase
from mesh.protocol.native_keeping import Kept
from mesh.store import keys
from mesh.store.db import Database
from mesh.store.ranges import read_records
from mesh.store.store import Store, StoreSettings
from mesh.store.verify import verify_database
from tests.mesh.native_mesh import NativeMesh, contents, produce, receive, run, until
from tests.unit.mesh.store.sample import batch
from wireproto.dafka import ids
from wireproto.dafka.additions import (
    STATUS_BEGINS_LATER,
    AddressStatus,
    Announcement,
    Answer,
    DirectRecords,
    End,
    NativeTopic,
    OpenEntry,
    Ping,
    Request,
    TakenAddress,
    TakenUp,
)
from wireproto.dafka.messages import (
    Ack,
    ConsumerHello,
    DirectHead,
    DirectRecord,
    Fetch,
    GetHeads,
    Record,
    StoreHello,
)

BIG = b"x" * 64 * 1024
LIFE = "0123456789ABCDEF"


class Peer:
    """A node of another make: it keeps what it hears."""

    def __init__(self, mesh: NativeMesh, *types: type[Any]) -> None:
        self.node = Node(mesh.context)
        self.heard: list[Any] = []
        for heard in types:
            self.node.route({heard: self.heard.append})
        self.node.subscribe(b"")

    async def join(self, mesh: NativeMesh) -> None:
        await mesh.nursery.start(self.node.run)
        mesh.join(self.node)

    async def until(self, condition: Callable[[list[Any]], bool], *asks: Any) -> list[Any]:
        """Say `asks` again and again until it holds."""
        while not condition(self.heard):
            for asked in asks:
                self.node.send(asked)
            await trio.sleep(0.01)
        return self.heard


def test_a_late_consumer_reads_from_a_store_what_a_producer_that_is_gone_wrote(tmp_path: Path) -> None:
    records = contents(3000)

    async def test(mesh: NativeMesh) -> None:
        await mesh.store("one")
        producer = await mesh.producer()
        await produce(producer, records)
        mesh.leave(producer.node)
        consumer = await mesh.consumer()
        assert await receive(consumer, 3000) == {producer.address: records}
        assert consumer.order.skipped == 0

    run(tmp_path, test)


def test_a_live_consumer_hears_a_producer_without_any_store(tmp_path: Path) -> None:
    records = contents(500)

    async def test(mesh: NativeMesh) -> None:
        producer, consumer = await mesh.producer(), await mesh.consumer()
        for record in records:
            await producer.produce(record)
        assert await receive(consumer, 500) == {producer.address: records}
        assert len(producer.writer) == 500, "nobody has acknowledged"

    run(tmp_path, test)


def test_what_was_produced_before_any_link_is_kept_and_delivered(tmp_path: Path) -> None:
    records = contents(2000)

    async def test(mesh: NativeMesh) -> None:
        producer = await mesh.producer()
        for record in records:
            await producer.produce(record)
        store = await mesh.store("one")
        await producer.drained()
        assert store.ingest.heads() == {producer.address: 1999}
        assert await receive(await mesh.consumer(), 2000) == {producer.address: records}

    run(tmp_path, test)


def test_a_late_store_gets_everything_from_another_store(tmp_path: Path) -> None:
    records = contents(5000)

    async def test(mesh: NativeMesh) -> None:
        await mesh.store("one")
        producer = await mesh.producer()
        await produce(producer, records)
        late = await mesh.store("two")
        await produce(producer, [b"one more"])
        await until(lambda: late.ingest.heads() == {producer.address: 5000})
        found: list[bytes] = []
        while len(found) <= 5000:
            found += read_records(late.database, producer.address, len(found), 5000, 1 << 30)
        assert found == [*records, b"one more"]

    run(tmp_path, test)


def test_a_producer_that_needs_two_stores_keeps_everything_until_the_second_has_it(tmp_path: Path) -> None:
    records = contents(300)

    async def test(mesh: NativeMesh) -> None:
        first = await mesh.store("one")
        producer = await mesh.producer(stores=2)
        for record in records:
            await producer.produce(record)
        await until(lambda: first.ingest.heads().get(producer.address) == 299)
        assert len(producer.writer) == 300
        second = await mesh.store("two")
        await producer.drained()
        assert second.ingest.heads() == {producer.address: 299}

    run(tmp_path, test)


def test_a_full_window_holds_the_producer_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mesh.protocol.native_writer.MAX_WINDOW_RECORDS", 10)

    async def test(mesh: NativeMesh) -> None:
        producer = await mesh.producer()
        with trio.move_on_after(0.1) as waited:
            await produce(producer, contents(11))
        assert waited.cancelled_caught
        assert producer.writer.next_sequence == 10
        await mesh.store("one")
        await producer.drained()
        await produce(producer, contents(25))

    run(tmp_path, test)


def test_many_producers_of_one_subject_and_none_of_another(tmp_path: Path) -> None:
    async def test(mesh: NativeMesh) -> None:
        await mesh.store("one")
        await mesh.store("two")
        producers = [await mesh.producer() for _ in range(3)]
        other = await mesh.producer("t10")
        for number, producer in enumerate(producers):
            await produce(producer, contents(400, f"of {number}"))
        await produce(other, contents(10))
        consumer = await mesh.consumer()
        found = await receive(consumer, 1200)
        assert found == {
            producer.address: contents(400, f"of {number}") for number, producer in enumerate(producers)
        }
        await trio.sleep(0.1)
        assert not consumer.order.ready

    run(tmp_path, test)


def test_latest_hears_only_what_is_published_from_now_on(tmp_path: Path) -> None:
    async def test(mesh: NativeMesh) -> None:
        await mesh.store("one")
        producer = await mesh.producer()
        await produce(producer, contents(10))
        consumer = await mesh.consumer(from_beginning=False)
        await until(lambda: consumer.order._streams.get(producer.address))
        await produce(producer, [b"new"])
        delivery = await consumer.receive()
        assert (delivery.sequence, delivery.content) == (10, b"new")

    run(tmp_path, test)


def announcement(address: str) -> Announcement:
    return Announcement(address, "t", "cluster", "log", 1, 0, ("one",), 1, b"")


def test_what_a_gateway_announced_is_not_told_to_native_readers(tmp_path: Path) -> None:
    address, native = LIFE + "0" * 16, "9" * 32

    async def test(mesh: NativeMesh) -> None:
        store = await mesh.store("one")
        peer = Peer(mesh, Ack, Answer, DirectHead, DirectRecord)
        await peer.join(mesh)
        opened = Request(b"O", "one", LIFE + "1" * 16, (OpenEntry(announcement(address)).pack(),))
        await peer.until(lambda heard: any(isinstance(each, Answer) for each in heard), opened)
        for kept, content in ((address, batch(0)), (native, b"native")):
            ours = "one", "t", 0, store.starts.nonce
            acked = Ack(kept, *ours) if kept == address else Ack(kept, "~one", "t", 0)
            await peer.until(lambda heard, acked=acked: acked in heard, Record(kept, "t", 0, content))  # type: ignore[misc]
        fetches = [Fetch(each, "R1", "t", 0, 10) for each in (address, native)]
        answer = DirectRecord("R1", "", native, "t", 0, b"native")
        await peer.until(lambda heard: answer in heard, *fetches, GetHeads("t", "R1"))
        await peer.until(lambda heard: heard.count(DirectHead("R1", native, "t", 0)) > 3, GetHeads("t", "R1"))
        told = {each.address for each in peer.heard if isinstance(each, DirectHead | DirectRecord)}
        assert told == {native}

    run(tmp_path, test)


def test_records_that_came_before_their_announcement_are_told_no_more(tmp_path: Path) -> None:
    address = LIFE + "0" * 16

    async def test(mesh: NativeMesh) -> None:
        store = await mesh.store("one")
        peer = Peer(mesh, Ack, Answer, DirectHead)
        await peer.join(mesh)
        early = Ack(address, "~one", "t", 0)
        await peer.until(lambda heard: early in heard, Record(address, "t", 0, b"early"))
        assert store.native.keeping.heads("t") == [(address, 0)]
        opened = Request(b"O", "one", LIFE + "1" * 16, (OpenEntry(announcement(address)).pack(),))
        await peer.until(lambda heard: any(isinstance(each, Answer) for each in heard), opened)
        assert store.native.keeping.heads("t") == []

    run(tmp_path, test)
    database = Database(tmp_path / "one")
    assert list(database.native_addresses()) == []
    state = database.load(address)
    assert state is not None
    assert (state.phase, state.head) == (Phase.OPEN, -1)
    database.close()


def test_hellos_as_c_nodes_say_them(tmp_path: Path) -> None:
    """A store greets who subscribes to its hello, and tells it the heads of the subjects that it names."""

    async def test(mesh: NativeMesh) -> None:
        await mesh.store("one")
        producer = await mesh.producer()
        await produce(producer, contents(3))
        peer = Peer(mesh, StoreHello, DirectHead)
        for prefix in (b"LR1", b"L\xff\xff", b"L", b"L@x"):
            peer.node.subscribe(prefix)
        await peer.join(mesh)
        await peer.until(lambda heard: StoreHello("R1", "one") in heard)
        hello = ConsumerHello("one", "R1", ("t", "u"))
        await peer.until(lambda heard: DirectHead("R1", producer.address, "t", 2) in heard, hello)

    run(tmp_path, test)


def test_a_store_tells_the_head_behind_each_answer(tmp_path: Path) -> None:
    """A C consumer asks for no more unless something comes in."""

    async def test(mesh: NativeMesh) -> None:
        await mesh.store("one")
        producer = await mesh.producer()
        await produce(producer, contents(2000))
        mesh.leave(producer.node)
        peer = Peer(mesh, DirectRecord, DirectHead)
        await peer.join(mesh)
        await peer.until(bool, GetHeads("t", "R1"))
        peer.heard.clear()
        peer.node.send(Fetch(producer.address, "R1", "t", 5, 1000))
        await peer.until(lambda heard: bool(heard) and isinstance(heard[-1], DirectHead))
        assert [each.sequence for each in peer.heard] == [*range(5, 1005), 1999]

    run(tmp_path, test)


REQUESTER = "0123456789ABCDEF0123456789ABCDEF"


async def answered(
    mesh: NativeMesh, records: list[bytes], first: int, subscribed: str
) -> tuple[str, list[Any], DirectHead]:
    """Of a producer that has published these: its address, what a store answers from `first` on to a peer
    that is subscribed to that for DIRECT-RECORDS, and the head behind it.
    """
    await mesh.store("one")
    producer = await mesh.producer()
    await produce(producer, records)
    mesh.leave(producer.node)
    peer = Peer(mesh, DirectRecord, DirectRecords, DirectHead)
    peer.node.subscribe(ids.DIRECT_RECORDS + subscribed.encode())
    await peer.join(mesh)
    await peer.until(bool, GetHeads("t", REQUESTER))
    peer.heard.clear()
    peer.node.send(Fetch(producer.address, REQUESTER, "t", first, 100_000))
    await peer.until(lambda heard: bool(heard) and isinstance(heard[-1], DirectHead))
    *told, head = peer.heard
    return producer.address, told, head


@pytest.mark.parametrize(
    ("subscribed", "is_together"),
    [(REQUESTER, True), (REQUESTER[:16], True), (REQUESTER[:15], False)],
    ids=["its name", "its life", "something else"],
)
def test_whoever_takes_many_records_together_gets_them_so(
    tmp_path: Path, subscribed: str, is_together: bool
) -> None:
    records = [*contents(3000), b"", b"x" * (2 * 1024 * 1024), b"after a large one"]

    async def test(mesh: NativeMesh) -> None:
        address, told, head = await answered(mesh, records, 5, subscribed)
        assert head == DirectHead(REQUESTER, address, "t", len(records) - 1)
        if not is_together:
            assert [one.content for one in told] == records[5:]
            return
        *some, large, last = told
        assert {type(one) for one in some} == {DirectRecords}
        assert [content for one in some for content in one.contents] == records[5:-2]
        firsts = [one.sequence for one in some]
        assert firsts == [5 + sum(len(one.contents) for one in some[:number]) for number in range(len(some))]
        assert max(len(one.contents) for one in some) == 256
        assert [large, last] == [
            DirectRecord(REQUESTER, "", address, "t", len(records) - 2 + number, content)
            for number, content in enumerate(records[-2:])
        ], "one alone is a DIRECT-RECORD"

    run(tmp_path, test)


def test_whoever_takes_many_together_is_sent_what_it_has_room_for(tmp_path: Path) -> None:
    records = [b"%d" % number + bytes(1024 * 1024) for number in range(20)]

    async def test(mesh: NativeMesh) -> None:
        _, told, _ = await answered(mesh, records, 0, REQUESTER)
        assert [one.content for one in told] == records[:8]

    run(tmp_path, test)


def test_beyond_the_quota_the_oldest_go_and_a_consumer_goes_on_from_there(tmp_path: Path) -> None:
    async def test(mesh: NativeMesh) -> None:
        store = await mesh.store("one", native_bytes=10 * 65536)
        producer = await mesh.producer()
        await produce(producer, [BIG + b"%d" % number for number in range(30)])
        kept = store.native.keeping.get(producer.address)
        assert kept is not None
        store.native.keep(kept.written)
        assert store.native.keeping.bytes <= 10 * 65536
        assert 0 < kept.first <= 21
        peer = Peer(mesh, End)
        await peer.join(mesh)
        begins = End("R1", "one", AddressStatus(producer.address, STATUS_BEGINS_LATER, kept.first))
        await peer.until(lambda heard: begins in heard, Fetch(producer.address, "R1", "t", 0, 1))
        consumer = await mesh.consumer()
        first = await consumer.receive()
        assert (first.sequence, first.content) == (kept.first, BIG + b"%d" % kept.first)
        assert consumer.order.skipped == kept.first
        await produce(producer, [b"more"])

    run(tmp_path, test)


def test_a_store_that_comes_late_keeps_what_others_still_have_of_an_address(tmp_path: Path) -> None:
    """Its first records are gone everywhere; what is left, and what comes, is the same on both."""

    async def test(mesh: NativeMesh) -> None:
        one = await mesh.store("one", native_bytes=10 * 65536)
        producer = await mesh.producer()
        await produce(producer, [BIG + b"%d" % number for number in range(30)])
        kept = one.native.keeping.get(producer.address)
        assert kept is not None
        one.native.keep(kept.written)
        first = kept.first
        assert first > 0
        two = await mesh.store("two")
        await produce(producer, [b"more %d" % number for number in range(3)])
        await until(lambda: two.ingest.heads().get(producer.address) == 32)
        late = two.native.keeping.get(producer.address)
        assert late is not None
        assert (late.first, late.head, two.native.begun_later) == (first, 32, 1)
        expected = read_records(one.database, producer.address, first, 32, 1 << 30)
        assert read_records(two.database, producer.address, first, 32, 1 << 30) == expected
        assert expected[-1] == b"more 2"

    run(tmp_path, test)
    database = Database(tmp_path / "two")
    ((address, value),) = database.native_addresses()
    found = Kept.unpack(address, "t", value)
    state = database.load(address)
    database.close()
    assert found.first > 0
    assert state is not None
    assert state.head == 32


def test_what_a_topic_is_still_to_have_is_kept_over_a_restart(tmp_path: Path) -> None:
    """However old it is, and before any gateway has said a word after the restart."""
    wanted = NativeTopic("d1", "t")
    address = ""

    async def before(mesh: NativeMesh) -> None:
        nonlocal address
        store = await mesh.store("one", native_seconds=0.0)
        store.native.on_taken_up(TakenUp("", (wanted,)))
        producer = await mesh.producer()
        address = producer.address
        await produce(producer, [b"%d" % number for number in range(10)])
        store.native.keep(time.time() + 1e6)
        kept = store.native.keeping.get(address)
        assert kept is not None
        assert (kept.first, kept.head) == (0, 9)

    async def after(mesh: NativeMesh) -> None:
        store = await mesh.store("one", native_seconds=0.0)
        keeping = store.native.keeping
        store.native.keep(time.time() + 1e6)
        kept = keeping.get(address)
        assert kept is not None
        assert (kept.first, kept.head) == (0, 9)
        store.native.on_taken_up(TakenUp("", (wanted,), (TakenAddress(0, address, 10),)))
        store.native.keep(time.time() + 1e6)
        assert (kept.first, kept.head) == (10, 9)
        assert store.database.get(keys.record_prefix(address) + keys.sequence_bytes(9)) is None
        store.ingest.segments.cluster_id = "ours"
        other = NativeTopic("d2", "u")
        store.native.on_taken_up(TakenUp("another cluster", (other,)))
        assert "u" not in keeping.wanted
        store.native.on_taken_up(TakenUp("ours", (other,)))
        assert "u" in keeping.wanted

    run(tmp_path, before)
    run(tmp_path, after)


def test_a_store_that_was_away_goes_on_behind_what_topics_have_and_others_dropped(tmp_path: Path) -> None:
    """Nobody has any more what follows what it has itself."""
    topic = NativeTopic("d1", "t", 0)

    def tell(store: Store, address: str, following: int) -> None:
        store.native.on_taken_up(TakenUp("", (topic,), (TakenAddress(0, address, following),)))
        store.native.keep(time.time() + 60)

    async def test(mesh: NativeMesh) -> None:
        one = await mesh.store("one")
        producer = await mesh.producer()
        address = producer.address
        async with trio.open_nursery() as life:
            two = Store(mesh.context, StoreSettings(tmp_path / "two", "two"))
            await life.start(two.run)
            mesh.join(two.node)
            await produce(producer, [b"%d" % number for number in range(5)])
            await until(lambda: two.ingest.heads().get(address) == 4)
            mesh.leave(two.node)
            life.cancel_scope.cancel()
        await produce(producer, [b"%d" % number for number in range(5, 10)])
        tell(one, address, 10)
        two = await mesh.store("two")
        assert two.native.keeping.get(address).head == 4  # type: ignore[union-attr]
        tell(two, address, 3)  # not all that it has is in the topic as far as it knows
        await produce(producer, [b"10"])
        await until(lambda: two.native._late._told.get(address))
        assert two.native.keeping.get(address).head == 4  # type: ignore[union-attr]
        tell(two, address, 10)
        await until(lambda: two.ingest.heads().get(address) == 10)
        kept = two.native.keeping.get(address)
        assert kept is not None
        assert (kept.first, kept.head) == (10, 10)
        two.native.keep(time.time())
        assert read_records(two.database, address, 10, 10, 1 << 30) == [b"10"]
        tell(two, address, 11)
        assert [*two.database.scan(keys.record_prefix(address), keys.record_prefix(address) + b"\xff")] == []

    run(tmp_path, test)


def test_figures_of_what_is_kept(tmp_path: Path) -> None:
    async def test(mesh: NativeMesh) -> None:
        store = await mesh.store("one", native_bytes=10 * 65536)
        metrics = Metrics(with_clients=False)
        register_store(metrics, store)

        def figures() -> dict[str, float]:
            lines = metrics.text().decode().splitlines()
            found = [line.split() for line in lines if line.startswith("dafka_store_native_")]
            return {name.removeprefix("dafka_store_native_"): float(value) for name, value in found}

        nothing = {"addresses": 0, "bytes": 0, "quota_bytes": 655360, "trimmed_bytes_total": 0}
        others = dict.fromkeys(("untaken_bytes_total", "begun_later_total", "dropped_requests_total"), 0)
        assert figures() == {**nothing, **others}
        producer = await mesh.producer()
        records = [BIG + b"%d" % number for number in range(30)]
        await produce(producer, records)
        written = sum(map(len, records)) + 64 * len(records)
        assert (figures()["addresses"], figures()["bytes"]) == (1, written)
        kept = store.native.keeping.get(producer.address)
        assert kept is not None
        store.native.keep(kept.written)
        seen = figures()
        assert seen["trimmed_bytes_total"] > 0
        assert seen["bytes"] + seen["trimmed_bytes_total"] == written
        assert seen["bytes"] <= seen["quota_bytes"]

    run(tmp_path, test)


def test_kafkas_segments_do_not_count_and_do_not_go(tmp_path: Path) -> None:
    address = LIFE + "0" * 16

    async def test(mesh: NativeMesh) -> None:
        store = await mesh.store("one", native_bytes=1, native_seconds=0.001)
        peer = Peer(mesh, Ack, Answer)
        await peer.join(mesh)
        opened = Request(b"O", "one", LIFE + "1" * 16, (OpenEntry(announcement(address)).pack(),))
        await peer.until(lambda heard: any(isinstance(each, Answer) for each in heard), opened)
        acked = Ack(address, "one", "t", 0, store.starts.nonce)
        await peer.until(lambda heard: acked in heard, Record(address, "t", 0, batch(0)))
        store.native.keep(1e12)
        assert read_records(store.database, address, 0, 0, 1) == [batch(0)]
        assert (len(store.native.keeping), store.native.keeping.bytes) == (0, 0)

    run(tmp_path, test)


@pytest.mark.parametrize("forgotten", [False, True], ids=["counts written", "before they were written"])
def test_counts_are_the_same_after_a_restart(tmp_path: Path, forgotten: bool) -> None:
    found: list[tuple[int, int, int, list[tuple[str, int]]]] = []

    def seen(mesh_store: Any) -> None:
        keeping = mesh_store.native.keeping
        (kept,) = keeping._kept.values()
        found.append((keeping.bytes, kept.first, kept.head, keeping.heads("t")))

    async def first(mesh: NativeMesh) -> None:
        store = await mesh.store("one")
        producer = await mesh.producer()
        await produce(producer, contents(700))
        if not forgotten:
            store.native.keep(0.0)
        seen(store)

    async def second(mesh: NativeMesh) -> None:
        seen(await mesh.store("one"))

    run(tmp_path, first)
    run(tmp_path, second)
    assert found[0] == found[1]


def test_a_store_that_did_not_list_its_native_addresses_lists_them(tmp_path: Path) -> None:
    """Data of an earlier version has neither the list nor counts."""

    async def first(mesh: NativeMesh) -> None:
        await mesh.store("one")
        await produce(await mesh.producer(), contents(70))

    async def second(mesh: NativeMesh) -> None:
        await mesh.store("one")
        (records,) = (await receive(await mesh.consumer(), 70)).values()
        assert records == contents(70)

    run(tmp_path, first)
    database = Database(tmp_path / "one")
    for key in [keys.NATIVE_LISTED, *(key for key, _ in database.scan(b"n", b"o"))]:
        database._db.delete(key)
    database.close()
    run(tmp_path, second)


def test_hostile_messages_leave_store_and_consumer_alive(tmp_path: Path) -> None:
    async def test(mesh: NativeMesh) -> None:
        await mesh.store("one")
        producer, consumer = await mesh.producer(), await mesh.consumer()
        peer = Peer(mesh)
        await peer.join(mesh)
        top = (1 << 63) - 1
        for _ in range(20):
            for message in (
                Fetch(producer.address, "R1", "t", 0, (1 << 32) - 1),
                Fetch(producer.address, "R1", "t", top, (1 << 32) - 1),
                Fetch(producer.address, "R1", "", 0, 0),
                Ack(producer.address, "", "t", top),
                DirectHead(producer.address, producer.address, "t", top),
                DirectHead(consumer.requester, "X", "other", top),
                End(consumer.requester, "one", AddressStatus("X", STATUS_BEGINS_LATER, top)),
                ConsumerHello("one", "R1", ("",) * 100),
                StoreHello(consumer.requester, "nobody"),
                Ping("*", producer.address),
            ):
                peer.node.send(message)
            await trio.sleep(0.01)
        other = await mesh.producer()
        await produce(other, contents(100))
        while True:
            delivery = await consumer.receive()
            assert delivery.address == other.address
            if delivery.sequence == 99:
                break

    run(tmp_path, test)


def test_a_store_whose_native_records_have_gone_is_verified_as_good(tmp_path: Path) -> None:
    async def test(mesh: NativeMesh) -> None:
        store = await mesh.store("one", native_seconds=1.0)
        await produce(await mesh.producer(), contents(10))
        producer = await mesh.producer()
        await produce(producer, contents(10))
        kept = store.native.keeping.get(producer.address)
        assert kept is not None
        store.native.keep(kept.written + 1.0)
        assert store.native.keeping.heads("t") == []
        await produce(producer, [b"after it"])
        assert store.native.keeping.heads("t") == [(producer.address, 10)]

    run(tmp_path, test)
    report = verify_database(tmp_path / "one")
    assert report.problems == []
    assert report.records == 1
