"""A mesh with keys: who has none gets nothing, and who has one does what its role may do."""

from __future__ import annotations

import itertools
import resource
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import zmq

from mesh.keys import directory
from mesh.keys.certificate import Certificate
from mesh.keys.keys import Keys
from mesh.keys.roles import Role
from mesh.link_bounds import BEACONS, DATA
from mesh.links import Context
from mesh.log_bounds import MAX_LINES, MAX_LINES_OF_SOURCE
from mesh.protocol.address_state import Phase
from mesh.protocol.peers import RETRY_SECONDS
from mesh.protocol.subscriptions import MAX_PEER_BYTES, OVERHEAD_BYTES
from mesh.zmq_trio import PublisherSocket, SubscriberSocket, new_key_pair
from tests.entries import entry_of
from tests.mesh.keyed_mesh import KeyedMesh, certificate, look, run, until
from tests.mesh.stores import Gateway, batch
from wireproto.dafka import ids
from wireproto.dafka.additions import (
    STATUS_DONE,
    STATUS_INCOMPLETE,
    STATUS_NOT_HERE,
    STATUS_OPEN,
    STATUS_OTHER_END,
    AddressStatus,
    Announcement,
    Answer,
    ListSegments,
    Ping,
    Request,
)
from wireproto.dafka.beacons import NodeBeacon, TowerBeacon
from wireproto.dafka.messages import Ack, DirectRecord, Fetch, Head, Record, directed_prefix

STORE_1, STORE_2 = "5" * 32, "6" * 32

STRANGE_MESSAGES = 20
"""How often a stranger tries."""


def _has_refused(keys: Keys, count: int) -> bool:
    return keys.refused_messages == count


class Scene:
    """A tower, a store, and a gateway with a segment of ten records there."""

    def __init__(self, keyed: KeyedMesh) -> None:
        self.keyed = keyed
        self.tower_key = certificate("tower-1", Role.TOWER)
        self.store_key = certificate("store-1", Role.STORE)
        self.gateway_key = certificate("gateway-1", Role.GATEWAY)
        self.tower: Any
        self.store: Any
        self.gateway: Any
        self.segment: Announcement
        self.has_beaconed = 0

    async def start(self, *others: Certificate) -> None:
        keyed = self.keyed
        keyed.issue(self.tower_key, self.store_key, self.gateway_key, *others)
        self.tower = await keyed.tower(self.tower_key)
        self.store = await keyed.store(self.store_key, incarnation=STORE_1)
        self.gateway = await keyed.asker(self.gateway_key)
        self.segment = await self.write(self.gateway.gateway)

    async def write(self, gateway: Gateway, count: int = 10) -> Announcement:
        """Open a segment, and have the store keep so many records."""
        await gateway.greet(STORE_1)
        segment = gateway.announcement([STORE_1])
        assert await gateway.open(STORE_1, segment) == [STATUS_DONE]
        gateway.publish(segment, 0, count - 1)
        await until(lambda: self.head(segment) == count - 1)
        return segment

    async def say_to_tower(self, liar: Any, beacon: NodeBeacon, seconds: float) -> None:
        """Say this beacon by that process's key, every so many seconds, for ever."""
        publisher = PublisherSocket(liar.context.sockets, BEACONS)
        publisher.connect(f"tcp://127.0.0.1:{self.keyed.towers[0].port_in}", self.tower_key.public)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(publisher.run)
                while True:
                    publisher.send(beacon.frames())
                    self.has_beaconed += 1
                    await trio.sleep(seconds)
        finally:
            publisher.close()

    def head(self, segment: Announcement) -> int:
        state = self.store.store.ingest.known(segment.address)
        return -1 if state is None else state.head

    async def contents(self) -> list[bytes]:
        """What the store has of the segment, as the gateway reads it."""
        asked, store = self.segment, STORE_1
        records, end = await self.gateway.gateway.requests.ask_range(
            store, lambda requester: Fetch(asked.address, requester, asked.subject, 0, 1000, store, 1 << 20)
        )
        assert end.last.status == STATUS_DONE
        return [bytes(record.content) for record in records]

    async def is_whole(self) -> bool:
        return await self.contents() == [batch(number) for number in range(10)]


def scene(path: Path, test: Callable[[Scene], Any]) -> None:
    run(path, lambda keyed: test(Scene(keyed)))


async def is_refused(scene: Scene, gateway: Gateway, make: Callable[[str], Any]) -> None:
    """Ask the store until it has refused that, which it counts."""
    keys = scene.store.keys
    before = keys.refused_messages
    answers: list[Any] = []

    async def ask() -> None:
        answers.append(await gateway.requests.ask(STORE_1, make))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await until(lambda: keys.refused_messages > before)
        nursery.cancel_scope.cancel()
    assert not answers


# what goes --------------------------------------------------------------------------------------------------


def test_native_records_go_from_a_producer_to_a_reader_that_came_later(tmp_path: Path) -> None:
    async def test(keyed: KeyedMesh) -> None:
        tower, store = certificate("tower-1", Role.TOWER), certificate("store-1", Role.STORE)
        producer = certificate("sensors", Role.PRODUCER, "heat")
        reader = certificate("screen", Role.READER)
        keyed.issue(tower, store, producer, reader)
        await keyed.tower(tower)
        await keyed.store(store)
        writing = await keyed.producer(producer, "heat")
        records = [b"record %d" % number for number in range(300)]
        for record in records:
            await writing.native.produce(record)
        await writing.native.drained()
        await writing.stop()
        reading = await keyed.reader(reader, "heat")
        assert [(await reading.native.receive()).content for _ in records] == records

    run(tmp_path, test)


def test_a_tower_ends_the_links_of_a_key_that_is_removed(tmp_path: Path) -> None:
    """Both: also the one that its beacons come on, though it sends none any more."""

    async def test(keyed: KeyedMesh) -> None:
        tower_key, removed = certificate("tower-1", Role.TOWER), certificate("store-1", Role.STORE)
        keyed.issue(tower_key, removed)
        tower: Any = await keyed.tower(tower_key)
        context = Context(Keys(keyed.folder(removed)))
        links: list[tuple[str, bool]] = []
        publisher = PublisherSocket(context.sockets, BEACONS)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(context.run)
            await nursery.start(publisher.follow_links, lambda *link: links.append(link))
            nursery.start_soon(publisher.run)
            endpoint = f"tcp://127.0.0.1:{tower.tower.port_in}"
            publisher.connect(endpoint, tower_key.public)
            await until(lambda: publisher.subscribed(b"B"))
            publisher.send(NodeBeacon("A" * 32, "127.0.0.1", 7000).frames())
            await until(lambda: tower.tower.beacons == 1)
            assert links == [(endpoint, True)]
            directory.remove(keyed.folder(tower_key), removed.name)
            await look([tower])
            await until(lambda: links == [(endpoint, True), (endpoint, False)])
            assert tower.tower.cut == 1
            nursery.cancel_scope.cancel()
        publisher.close()
        context.close()

    run(tmp_path, test)


def test_a_gateway_writes_reads_seals_closes_and_deletes(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        await scene.start()
        assert await scene.is_whole()
        gateway, address = scene.gateway.gateway, scene.segment.address
        assert (await gateway.seal(STORE_1, address)).sequence == 9
        assert (await gateway.close(STORE_1, address, 9)).status == STATUS_DONE
        (deleted,) = await gateway.ask(ids.DELETE, STORE_1, entry_of(ids.DELETE, address))
        assert deleted.status == STATUS_DONE
        counts = [process.keys.refused_messages for process in (scene.tower, scene.store, scene.gateway)]
        assert counts == [0, 0, 0]
        assert scene.store.store.node.cut == scene.gateway.gateway.node.cut == 0

    scene(tmp_path, test)


# roles ------------------------------------------------------------------------------------------------------


def attacks(segment: Announcement, incarnation: str = STORE_1) -> list[Callable[[str], Any]]:
    """What was done to a store by plain ZeroMQ, and what else orders stores."""

    def request(letter: bytes) -> Callable[[str], Any]:
        entry = entry_of(letter, segment.address)
        return lambda requester: Request(letter, incarnation, requester, (entry,))

    return [
        lambda requester: ListSegments(incarnation, requester, "", 10),
        lambda requester: Fetch(segment.address, requester, "orders", 0, 10, incarnation, 1 << 20),
        lambda requester: Ping(incarnation, requester),
        *map(request, (ids.SEAL, ids.DELETE, ids.CLOSE)),
    ]


@pytest.mark.parametrize("role", [Role.PRODUCER, Role.READER])
def test_a_native_key_orders_nothing_and_reads_nothing_of_gateways(tmp_path: Path, role: Role) -> None:
    async def test(scene: Scene) -> None:
        native = certificate("native", role, *(("*",) if role is Role.PRODUCER else ()))
        await scene.start(native)
        attacker = (await scene.keyed.node(native)).node
        await attacker.publisher.wait_subscribed(directed_prefix(ids.FETCH, STORE_1))
        keys, segment = scene.store.keys, scene.segment
        forged = [attack("A" * 32) for attack in attacks(segment)]
        forged += [
            Record(segment.address, segment.subject, 10, batch(10)),
            Head(segment.address, "orders", 99),
        ]
        for number, message in enumerate(forged, 1):
            attacker.send(message)
            await until(partial(_has_refused, keys, number))
        assert await scene.is_whole()
        assert scene.head(segment) == 9

    scene(tmp_path, test)


def test_a_store_orders_no_other_store(tmp_path: Path) -> None:
    """It may pass on the end of a segment, but not of one that is written, and none that cuts."""

    async def test(scene: Scene) -> None:
        rogue = certificate("store-2", Role.STORE)
        await scene.start(rogue)
        asker = await scene.keyed.asker(rogue)
        await scene.store.store.node.publisher.wait_subscribed(
            ids.LISTED + asker.gateway.requests.prefix.encode()
        )
        store_list, _, ping, seal, delete, _ = attacks(scene.segment)
        for attack in (store_list, ping, seal, delete):
            await is_refused(scene, asker.gateway, attack)
        assert await scene.is_whole()
        address, gateway = scene.segment.address, scene.gateway.gateway
        for end in (-1, 9, 19):
            assert (await asker.gateway.close(STORE_1, address, end)).status == STATUS_OPEN
        gateway.publish(scene.segment, 10, 19)
        await until(lambda: scene.head(scene.segment) == 19)
        assert (await gateway.seal(STORE_1, address)).sequence == 19
        assert (await asker.gateway.close(STORE_1, address, 9)).status == STATUS_OTHER_END
        assert (await asker.gateway.close(STORE_1, address, 30)).status == STATUS_INCOMPLETE, "it may be"
        closed = await gateway.close(STORE_1, address, 19)
        assert (closed.status, closed.sequence) == (STATUS_DONE, 19)
        assert (await asker.gateway.close(STORE_1, address, 30)).status == STATUS_OTHER_END
        assert await scene.contents() == [batch(number) for number in range(20)]

    scene(tmp_path, test)


def test_a_store_that_lost_its_copy_is_given_it_again_by_another_store(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        second_key = certificate("store-2", Role.STORE)
        await scene.start(second_key)
        gateway = scene.gateway.gateway
        second = await scene.keyed.store(second_key, incarnation=STORE_2)
        await gateway.greet(STORE_2)
        segment = gateway.announcement([STORE_1, STORE_2])
        for store in (STORE_1, STORE_2):
            assert await gateway.open(store, segment) == [STATUS_DONE]
        gateway.publish(segment, 0, 9)
        await until(lambda: scene.head(segment) == 9)
        for store in (STORE_1, STORE_2):
            await gateway.seal(store, segment.address)
        assert (await gateway.close(STORE_1, segment.address, 9)).status == STATUS_DONE
        await second.stop()
        shutil.rmtree(scene.keyed.path / second_key.name)

        second = await scene.keyed.store(second_key, incarnation=STORE_2)
        first = scene.store.store
        await until(lambda: first.node.publisher.subscribed(directed_prefix(ids.FETCH, STORE_2)))
        await first.scrub.scrub_all()
        await until(lambda: (state := second.store.ingest.known(segment.address)) and state.head == 9)
        state = second.store.database.load(segment.address)
        assert (state.announcement, state.phase, state.end) == (segment, Phase.CLOSED, 9)
        assert state.is_passed_on
        assert (await gateway.close(STORE_2, segment.address, 9)).status == STATUS_DONE
        assert not second.store.database.load(segment.address).is_passed_on
        assert first.node.cut == second.store.node.cut == second.keys.refused_messages == 0

    scene(tmp_path, test)


def test_nobody_but_that_store_acknowledges_or_answers_for_a_store(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        rogue, other = certificate("store-2", Role.STORE), certificate("gateway-2", Role.GATEWAY)
        await scene.start(rogue, other)
        for key in (rogue, other):
            asker = await scene.keyed.asker(key)
            node = asker.gateway.node
            await node.publisher.wait_subscribed(ids.ACK + scene.gateway.gateway.requests.prefix.encode())
            refused = scene.gateway.keys.refused_messages + 2
            node.send(Ack(scene.segment.address, STORE_1, "orders", 99))
            requester = scene.gateway.gateway.requests.new_id()
            status = AddressStatus(scene.segment.address, STATUS_NOT_HERE, -1)
            node.send(Answer(ids.SEALED, requester, STORE_1, (status,)))
            await until(partial(_has_refused, scene.gateway.keys, refused))
            await asker.stop()

    scene(tmp_path, test)


def test_a_producer_publishes_its_subjects_alone(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        sensors = certificate("sensors", Role.PRODUCER, "heat")
        await scene.start(sensors)
        writing = await scene.keyed.producer(sensors, "cold")
        await until(lambda: len(scene.store.store.node._keyed._links) == 2)
        await writing.native.node.publisher.wait_subscribed(ids.RECORD)
        await writing.native.produce(b"forged")
        await until(lambda: scene.store.keys.refused_messages)
        assert not list(scene.store.store.native.keeping.heads("cold"))

    scene(tmp_path, test)


@pytest.mark.parametrize("prefix", [b"", b"D", b"the gateway's"])
def test_a_native_that_listens_to_gateways_is_cut_and_stays_out(tmp_path: Path, prefix: bytes) -> None:
    async def test(scene: Scene) -> None:
        reader, honest = certificate("spy", Role.READER), certificate("screen", Role.READER)
        await scene.start(reader, honest)
        prefix_of_gateway = ids.DIRECT_RECORD + scene.gateway.gateway.requests.prefix.encode()
        wanted = prefix_of_gateway if prefix == b"the gateway's" else prefix
        keys = [scene.store_key.public, reader.public, reader.secret]
        endpoint = f"tcp://127.0.0.1:{scene.store.beacon.port}"
        with plain(zmq.SUB, endpoint, wanted, keys=keys) as spy:
            await until(lambda: scene.store.keys.peer(reader.public) is None)
            await until(lambda: scene.store.store.node.publisher.cut == 1)
            refused = scene.store.keys.refused_peers
            await until(lambda: scene.store.keys.refused_peers > refused)  # it has tried again
            while spy.poll(0):
                spy.recv_multipart()
            assert await scene.is_whole()
            assert not spy.poll(0)
        hearing = await scene.keyed.reader(honest, "heat")
        await scene.store.store.node.publisher.wait_subscribed(b"D" + hearing.native.requester.encode())
        assert scene.store.keys.peer(honest.public) is not None

    scene(tmp_path, test)


async def heard_by(node: Any) -> list[DirectRecord]:
    """What the node hears from now on of what is sent to one."""
    heard: list[DirectRecord] = []
    node.route({DirectRecord: heard.append})
    return heard


def test_a_native_that_has_the_next_ids_of_a_gateway_before_it_subscribes_hears_nothing(
    tmp_path: Path,
) -> None:
    """Its life is no secret, and ids are counted up."""

    async def test(scene: Scene) -> None:
        reader = certificate("screen", Role.READER)
        await scene.start(reader)
        await scene.gateway.stop()
        spy = (await scene.keyed.node(reader)).node
        heard = await heard_by(spy)
        life = "0123456789ABCDEF"
        for number in range(100):
            spy.subscribe(ids.DIRECT_RECORD + f"{life}{number:016X}".encode())
        last = ids.DIRECT_RECORD + f"{life}{99:016X}".encode()
        await scene.store.store.node.publisher.wait_subscribed(last)
        scene.gateway = await scene.keyed.asker(scene.gateway_key, life)
        assert await scene.is_whole()
        await until(lambda: scene.store.store.node.publisher.cut == 1)
        assert scene.store.keys.peer(reader.public) is None
        assert await scene.is_whole()
        assert not heard

    scene(tmp_path, test)


def test_a_native_that_has_ids_of_the_gateway_in_the_stores_process_hears_nothing(tmp_path: Path) -> None:
    """As in `dafka standalone --mesh-listen`."""

    async def test(keyed: KeyedMesh) -> None:
        tower, store = certificate("tower-1", Role.TOWER), certificate("store-1", Role.STORE)
        early, late = certificate("early", Role.READER), certificate("late", Role.READER)
        keyed.issue(tower, store, early, late)
        await keyed.tower(tower)
        storing = await keyed.store(store, incarnation=STORE_1)
        inside, life = storing.store.node, "0123456789ABCDEF"
        wanted = [ids.DIRECT_RECORD + f"{life}{number:016X}".encode() for number in range(100)]
        spies = [(await keyed.node(early)).node]
        heard = [await heard_by(spies[0])]
        for prefix in wanted:
            spies[0].subscribe(prefix)
        await inside.publisher.wait_subscribed(wanted[-1])
        gateway = Gateway(storing.context, life)
        inside.connect(gateway.node.publisher.bind("inproc://gateway"))
        gateway.node.connect(inside.publisher.bind("inproc://store"))
        async with trio.open_nursery() as nursery:
            await nursery.start(gateway.node.run)
            await gateway.greet(STORE_1)
            segment = gateway.announcement([STORE_1])
            assert await gateway.open(STORE_1, segment) == [STATUS_DONE]
            gateway.publish(segment, 0, 9)
            await until(lambda: storing.store.ingest.known(segment.address).head == 9)
            await until(lambda: inside.publisher.cut == 1)
            spies.append((await keyed.node(late)).node)
            heard.append(await heard_by(spies[1]))
            for prefix in wanted:
                spies[1].subscribe(prefix)
            await until(lambda: inside.publisher.cut == 2)
            records, _ = await gateway.requests.ask_range(
                STORE_1, lambda id_: Fetch(segment.address, id_, segment.subject, 0, 1000, STORE_1, 1 << 20)
            )
            assert [bytes(record.content) for record in records] == [batch(number) for number in range(10)]
            nursery.cancel_scope.cancel()
        assert heard == [[], []]
        assert {one.name for one in storing.keys.members()} == {"tower-1", "store-1"}

    run(tmp_path, test)


def test_what_a_store_tells_of_its_start_is_no_id_that_it_asks_under(tmp_path: Path) -> None:
    """Acknowledgements of a gateway's addresses have it; who knew the ids could hear what a store copies."""

    async def test(scene: Scene) -> None:
        await scene.start()
        gateway, store = scene.gateway.gateway, scene.store.store
        answer = await gateway.requests.ask(
            STORE_1, lambda requester: ListSegments(STORE_1, requester, "", 1)
        )
        assert answer.nonce == store.starts.nonce
        assert answer.nonce.hex().upper() not in {store.life, store.requests.prefix}

    scene(tmp_path, test)


def test_a_tower_has_no_native_banished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what a socket that connects is told, its "user" is what the other side calls itself."""

    async def test(keyed: KeyedMesh) -> None:
        tower, store = certificate("tower-1", Role.TOWER), certificate("store-1", Role.STORE)
        reader = certificate("screen", Role.READER)
        keyed.issue(tower, store, reader)
        monkeypatch.setattr("mesh.zmq_trio._user", lambda _frame: reader.public)
        await keyed.tower(tower)
        node = await keyed.node(store)
        await until(lambda: all(one.connected for one in node.beacon.towers))
        publisher = node.beacon._towers[0]._publisher
        await until(lambda: publisher._subscribers.prefixes)
        assert node.keys.peer(reader.public) is not None

    run(tmp_path, test)


# strangers --------------------------------------------------------------------------------------------------


@contextmanager
def plain(kind: int, endpoint: str, *subscriptions: bytes, keys: Sequence[str] = ()) -> Iterator[Any]:
    """A socket of who knows ZeroMQ; with keys (the server's, its own two) it speaks CURVE."""
    context = zmq.Context()
    socket: Any = context.socket(kind)
    socket.linger = 0
    socket.sndhwm = 0  # subscriptions beyond it would be lost
    if keys:
        socket.curve_serverkey, socket.curve_publickey, socket.curve_secretkey = (
            key.encode() for key in keys
        )
    for prefix in subscriptions:
        socket.subscribe(prefix)
    socket.connect(endpoint)
    try:
        yield socket
    finally:
        socket.close()
        context.term()


@pytest.mark.parametrize("has_key", [False, True])
def test_a_stranger_hears_nothing_and_says_nothing(tmp_path: Path, has_key: bool) -> None:
    """Neither by plain ZeroMQ, nor with a key that nobody gave it, though it knows all public ones."""

    async def test(scene: Scene) -> None:
        await scene.start()
        stranger = certificate("stranger", Role.GATEWAY)
        tower, store = scene.keyed.towers[0], scene.store.store.node.publisher
        own = [stranger.public, stranger.secret] if has_key else []

        def keys(server: Certificate) -> list[str]:
            return [server.public, *own] if has_key else []

        endpoint = f"tcp://127.0.0.1:{scene.store.beacon.port}"
        with (
            plain(zmq.SUB, f"tcp://127.0.0.1:{tower.port_out}", b"", keys=keys(scene.tower_key)) as hears,
            plain(zmq.SUB, endpoint, b"stranger", b"", keys=keys(scene.store_key)) as spies,
            plain(zmq.PUB, f"tcp://127.0.0.1:{tower.port_in}", keys=keys(scene.tower_key)) as beacons,
        ):
            if has_key:
                await until(lambda: scene.tower.keys.refused_peers and scene.store.keys.refused_peers)
            known = len(scene.tower.tower.register)
            for _ in range(STRANGE_MESSAGES):
                beacons.send_multipart(NodeBeacon("S" * 32, "127.0.0.1", 4711).frames())
                assert await scene.is_whole(), "others go on"
            assert not hears.poll(0)
            assert not spies.poll(0)
            assert not store.subscribed(b"stranger")
            assert len(scene.tower.tower.register) == known

    scene(tmp_path, test)


def test_a_forged_beacon_moves_nobody(tmp_path: Path) -> None:
    """A member says that it is the store, or where the store is: it has another key, which the tower says."""

    async def test(scene: Scene) -> None:
        insider = certificate("screen", Role.READER)
        await scene.start(insider)
        tower = scene.keyed.towers[0]
        keys = [scene.tower_key.public, insider.public, insider.secret]
        forged = [
            NodeBeacon(scene.store.beacon.node_id, "127.0.0.1", 4711),
            NodeBeacon("S" * 32, "127.0.0.1", scene.store.beacon.port),
        ]
        with plain(zmq.XPUB, f"tcp://127.0.0.1:{tower.port_in}", keys=keys) as beacons:
            await until(lambda: beacons.poll(0))
            for _ in range(50):
                for beacon in forged:
                    beacons.send_multipart(beacon.frames())
                await trio.sleep(0.01)
            await until(lambda: scene.store.beacon.strangers == 50)
        assert scene.gateway.beacon.strangers == 0, "it knows who that is, and has no business with it"
        (peer,) = scene.gateway.beacon.peers
        assert (peer.node, peer.state) == (scene.store.beacon.node_id, "connected")
        assert await scene.is_whole()

    scene(tmp_path, test)


# keys that come and go --------------------------------------------------------------------------------------


def test_a_gateway_whose_key_is_removed_orders_nothing_more(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        await scene.start()
        scene.keyed.withdraw(scene.gateway_key)
        gateway, segment = scene.gateway.gateway, scene.segment
        await scene.store.keys.look()
        assert not scene.store.store.node._keyed._links
        assert scene.store.store.node.publisher.cut == 1, "it hears nothing more, either"
        gateway.publish(segment, 10, 20)
        gateway.node.send(Request(ids.DELETE, STORE_1, "A" * 32, (entry_of(ids.DELETE, segment.address),)))
        scene.keyed.tell(scene.gateway_key)
        await look([scene.tower, scene.store])
        await gateway.greet(STORE_1)
        assert scene.head(segment) == 9
        assert await scene.is_whole(), "what it said meanwhile was heard by nobody"

    scene(tmp_path, test)


def test_at_a_tower_the_links_of_a_key_that_is_removed_are_cut(tmp_path: Path) -> None:
    """Both of them; whoever has it is let in again once it is added."""

    async def test(scene: Scene) -> None:
        await scene.start()
        (sides,) = [tower._sides for tower in scene.gateway.beacon._towers]
        await until(lambda: all(side.live for side in sides))
        directory.remove(scene.keyed.folder(scene.tower_key), scene.gateway_key.name)
        await scene.tower.keys.look()
        await until(lambda: not any(side.live for side in sides))
        scene.keyed.tell(scene.gateway_key)
        await scene.tower.keys.look()
        await until(lambda: all(side.live for side in sides))

    scene(tmp_path, test)


def test_a_key_that_was_removed_and_added_is_linked_by_the_next_beacon(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        await scene.start()
        directory.remove(scene.keyed.folder(scene.store_key), scene.gateway_key.name)
        await look([scene.store])
        assert scene.store.beacon.peers == []
        scene.keyed.tell(scene.gateway_key)
        await look([scene.store])
        with trio.fail_after(RETRY_SECONDS - 1):
            await scene.gateway.gateway.greet(STORE_1)
        assert [peer.state for peer in scene.store.beacon.peers] == ["connected"]

    scene(tmp_path, test)


def test_who_beacons_with_a_gateways_id_keeps_nobody_from_that_gateway(tmp_path: Path) -> None:
    """Before the gateway's link is up, as often as a tower takes it; the store knows both."""
    reader = certificate("screen", Role.READER)

    async def test(scene: Scene) -> None:
        await scene.start(reader)
        liar = await scene.keyed.node(reader)
        beacon = NodeBeacon(scene.gateway.beacon.node_id, "127.0.0.1", liar.beacon.port)
        await scene.store.stop()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scene.say_to_tower, liar, beacon, 0.01)
            await until(lambda: scene.has_beaconed > 50)
            scene.store = await scene.keyed.store(scene.store_key, incarnation=STORE_1)
            await until(lambda: len(scene.store.beacon.peers) == 2)
            await scene.gateway.gateway.greet(STORE_1)
            nursery.cancel_scope.cancel()
        assert await scene.is_whole()

    scene(tmp_path, test)


def hear(process: Any, key: str, endpoint: str, node: str = "F" * 32) -> None:
    """As if a tower had told of this node."""
    process.beacon._on_beacon(TowerBeacon(node, endpoint, key))


def test_a_place_whose_holder_has_just_left_it_is_not_said_to_have_a_live_link(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a rotation: the new key beacons while the old one still has its place."""

    async def test(scene: Scene) -> None:
        late = certificate("gateway-1", Role.GATEWAY)
        await scene.start(late)
        (peer,) = scene.store.beacon.peers
        hear(scene.store, late.public, str(peer.endpoint))
        (line,) = (line for line in caplog.messages if "dropped the beacon" in line)
        assert "another key has its name or place, with a live link, or had it until some seconds ago" in line

    scene(tmp_path, test)


def test_a_beacon_of_a_key_that_counts_no_more_is_told_from_a_strangers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(scene: Scene) -> None:
        screen, stranger = certificate("screen", Role.READER), certificate("stranger", Role.READER)
        await scene.start(screen)
        assert not scene.store.keys.may_subscribe(screen.public, b"D")
        caplog.clear()
        for key in (screen.public, stranger.public):
            hear(scene.store, key, "tcp://127.0.0.1:1")
        banished, strange = (line for line in caplog.messages if "a tower tells of a node" in line)
        assert f"key {screen.public} at tcp://127.0.0.1:1: it subscribed to what is not for it" in banished
        assert "dafka keys add" not in banished
        add = f"it is no member here. 'dafka keys add {scene.store.keys.path} CERTIFICATE'"
        assert f"key {stranger.public} at tcp://127.0.0.1:1: {add}" in strange
        assert scene.store.beacon.strangers == 2

    scene(tmp_path, test)


def test_strange_beacons_keep_no_others_out_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(scene: Scene) -> None:
        late = certificate("gateway-2", Role.GATEWAY)
        await scene.start(late)
        caplog.clear()
        for _ in range(20):
            hear(scene.store, new_key_pair()[0], "tcp://10.0.0.66:1")
        assert len(caplog.messages) == MAX_LINES_OF_SOURCE
        hear(scene.store, new_key_pair()[0], "tcp://10.0.0.1:1")
        hear(scene.store, new_key_pair()[0], "no endpoint")
        assert ["10.0.0.1:1" in line for line in caplog.messages[MAX_LINES_OF_SOURCE:]] == [True, False]
        for host in range(2, 50):
            hear(scene.store, new_key_pair()[0], f"tcp://10.0.0.{host}:1")
        assert len(caplog.messages) == MAX_LINES
        (peer,) = scene.store.beacon.peers
        for number in range(20):
            hear(scene.store, late.public, str(peer.endpoint), f"{number:032X}")
        assert len(caplog.messages) == MAX_LINES + MAX_LINES_OF_SOURCE
        assert all("dropped the beacon of node 0000" in line for line in caplog.messages[MAX_LINES:])

    scene(tmp_path, test)


def test_links_of_others_than_gateways_tell_nothing_of_gateways(tmp_path: Path) -> None:
    """A store's key that beacons with the life of a gateway, and then goes, is no gateway that went."""
    other = certificate("store-2", Role.STORE)

    async def test(scene: Scene) -> None:
        await scene.start(other)
        told: list[tuple[str, bool]] = []
        scene.store.beacon.on_links(lambda node, _, live: told.append((node, live)))
        liar = await scene.keyed.node(other)
        beacon = NodeBeacon(scene.gateway.beacon.node_id[:16] + "F" * 16, "127.0.0.1", liar.beacon.port)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scene.say_to_tower, liar, beacon, 0.01)
            await until(lambda: len(scene.store.beacon.peers) == 2)
            await until(lambda: {peer.state for peer in scene.store.beacon.peers} == {"connected"})
            nursery.cancel_scope.cancel()
        await liar.stop()
        await until(lambda: "connected" not in states(scene)[1:])
        assert told == []
        await scene.gateway.stop()
        await until(lambda: told)
        assert told == [(scene.gateway.beacon.node_id, False)]

    scene(tmp_path, test)


def states(scene: Scene) -> list[str]:
    """Of the links to the store's peers: the gateway's first."""
    return [peer.state for peer in scene.store.beacon.peers]


def test_a_message_that_came_before_its_senders_key_went_does_not_count(tmp_path: Path) -> None:
    """It waits in a queue, and is looked at later."""

    async def test(scene: Scene) -> None:
        await scene.start()
        scene.keyed.withdraw(scene.gateway_key)
        store = scene.store
        await store.keys.look()
        before = store.keys.refused_messages
        frames = Ping(STORE_1, "A" * 32).frames()
        store.store.node._on_keyed_frames(scene.gateway_key.public, frames)
        assert store.keys.refused_messages == before + 1

    scene(tmp_path, test)


def test_keys_are_rotated_without_a_stop(tmp_path: Path) -> None:
    """The next key is told everywhere, the node is started with it, and the old one is withdrawn."""

    async def test(scene: Scene) -> None:
        await scene.start()
        processes = [scene.tower, scene.store, scene.gateway]

        next_store = certificate("store-1", Role.STORE)
        scene.keyed.issue(next_store)
        await look(processes)
        await scene.store.stop()
        scene.store = await scene.keyed.store(next_store, data="store-1", incarnation=STORE_1)
        assert await scene.is_whole()
        scene.keyed.withdraw(scene.store_key)
        await look([scene.tower, scene.store, scene.gateway])
        assert await scene.is_whole()

        next_tower = certificate("tower-1", Role.TOWER)
        scene.keyed.issue(next_tower)
        await look([scene.tower, scene.store, scene.gateway])
        await scene.tower.stop()
        assert await scene.is_whole(), "links live without a tower"
        scene.tower = await scene.keyed.tower(next_tower, scene.keyed.towers[0])
        await until(lambda: len(scene.tower.tower.register) == 2)
        scene.keyed.withdraw(scene.tower_key)
        await look([scene.tower, scene.store, scene.gateway])

        await scene.gateway.stop()
        next_gateway = certificate("gateway-1", Role.GATEWAY)
        scene.keyed.issue(next_gateway)
        await look([scene.tower, scene.store])
        scene.gateway = await scene.keyed.asker(next_gateway)
        scene.keyed.withdraw(scene.gateway_key)
        await look([scene.tower, scene.store, scene.gateway])
        await scene.gateway.gateway.greet(STORE_1)
        assert await scene.is_whole()
        assert scene.store.keys.refused_messages == scene.gateway.keys.refused_messages == 0

    scene(tmp_path, test)


def test_a_tower_whose_key_is_removed_introduces_nobody(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        await scene.start()
        scene.keyed.withdraw(scene.tower_key)
        await look([scene.store, scene.gateway])
        assert not any(tower.connected for tower in scene.gateway.beacon.towers)
        assert await scene.is_whole()

    scene(tmp_path, test)


def test_who_is_added_is_let_in_though_it_was_refused_before(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        late = certificate("gateway-2", Role.GATEWAY)
        await scene.start()
        scene.keyed.issue(late)
        for key in (scene.tower_key, scene.store_key):
            directory.remove(scene.keyed.folder(key), late.name)
        asker = await scene.keyed.asker(late)
        await until(lambda: scene.tower.keys.refused_peers)
        scene.keyed.tell(late)
        await look([scene.tower, scene.store])
        await asker.gateway.greet(STORE_1)

    scene(tmp_path, test)


def test_what_curve_adds_to_messages_is_no_message_without_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes of a link are compared with those of its messages: many small ones must not get it cut.

    The bound is more than the largest message here, a part of which may have come when the link is looked at.
    """
    few = 96 * 1024
    monkeypatch.setattr("mesh.zmq_trio.GATHERED_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(
        "mesh.zmq_trio.SubscriberSocket",
        partial(SubscriberSocket, link=DATA._replace(max_gathered_bytes=few)),
    )

    async def test(scene: Scene) -> None:
        await scene.start()
        gateway, store = scene.gateway.gateway, scene.store.store
        for _ in range(8):
            for _ in range(1000):
                gateway.head(scene.segment, 9)
            assert await scene.is_whole()
        for size in (1, 200, 256, 70_000):
            gateway.node.publisher.send([ids.RECORD + b"x", bytes(size)])
        await until(lambda: store.node.malformed == 4)
        for _ in range(10):
            assert await scene.is_whole()
        assert store.node.cut == gateway.node.cut == 0

    scene(tmp_path, test)


def test_a_native_with_as_many_subjects_as_may_be_stays(tmp_path: Path) -> None:
    """What CURVE adds to its subscriptions is nothing that it sent."""

    async def test(keyed: KeyedMesh) -> None:
        store, reader = certificate("store-1", Role.STORE), certificate("screen", Role.READER)
        keyed.issue(store, reader)
        storing = await keyed.store(store)
        subjects = [b"M%04d" % number for number in range(MAX_PEER_BYTES // (5 + OVERHEAD_BYTES))]
        endpoint = f"tcp://127.0.0.1:{storing.beacon.port}"
        with plain(zmq.SUB, endpoint, *subjects, keys=[store.public, reader.public, reader.secret]) as hears:
            publisher = storing.store.node.publisher
            await publisher.wait_subscribed(subjects[-1])
            publisher.send([subjects[0], b"still here"])
            await until(lambda: hears.poll(0))
            assert hears.recv_multipart() == [subjects[0], b"still here"]
            assert publisher.cut == 0

    run(tmp_path, test)


# descriptors ------------------------------------------------------------------------------------------------


def dead_endpoints(count: int) -> list[str]:
    """Where nobody listens, as any key may say of itself."""
    return [f"tcp://127.0.0.1:{port}" for port in range(1, 1 + count)]


@contextmanager
def few_files(more: int) -> Iterator[None]:
    """This process may open so many more."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = {int(file.name) for file in Path("/proc/self/fd").iterdir()}
    free = (number for number in itertools.count() if number not in opened)
    too_many = next(itertools.islice(free, more, None))
    resource.setrlimit(resource.RLIMIT_NOFILE, (too_many, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_without_descriptors_a_link_waits_and_others_live(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It ended the process: "internal error: Too many open files"."""

    async def test(scene: Scene) -> None:
        late, sensors = certificate("gateway-2", Role.GATEWAY), certificate("sensors", Role.PRODUCER, "*")
        await scene.start(late, sensors)
        node = scene.store.store.node
        dead = dead_endpoints(30)
        with few_files(20):
            for _ in range(2):
                for endpoint in dead:
                    node.connect(endpoint, sensors.public)
                await until(lambda: "no link to" in caplog.text)
                assert await scene.is_whole()
        # Once each time that they are too few: not for each link.
        assert caplog.text.count("no link to") <= 2
        assert "Too many open files" in caplog.text
        for endpoint in dead:
            node.disconnect(endpoint)
        scene.gateway = await scene.keyed.asker(late)
        await scene.gateway.gateway.greet(STORE_1)
        assert await scene.is_whole()

    scene(tmp_path, test)


def test_a_link_that_breaks_on_its_own_socket_is_told_to_be_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counted as live for ever, and was not made anew."""
    breaking: list[bool] = []

    class Broken(SubscriberSocket):
        def _take_some(self) -> bool:
            if breaking:
                raise zmq.ZMQError(zmq.EFAULT)
            return super()._take_some()

    async def test(scene: Scene) -> None:
        await scene.start()
        assert states(scene)[0] == "connected"
        breaking.append(True)
        scene.gateway.gateway.publish(scene.segment, 10, 10)
        await until(lambda: states(scene)[0] != "connected")

    monkeypatch.setattr("mesh.zmq_trio.SubscriberSocket", Broken)
    scene(tmp_path, test)


def _has_made(events: list[str], count: int) -> bool:
    return events.count("made") == count


def test_links_that_are_made_anew_are_closed_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All in one turn, as they come: old and new ones together would take twice the descriptors."""
    events: list[str] = []

    class Recorded(SubscriberSocket):
        def connect(self, endpoint: str, key: str = "") -> None:
            events.append("made")
            super().connect(endpoint, key)

        def close(self) -> None:
            events.append("closed")
            super().close()

    async def test(keyed: KeyedMesh) -> None:
        store, gateway = certificate("store-1", Role.STORE), certificate("gateway-1", Role.GATEWAY)
        keyed.issue(store, gateway)
        node = (await keyed.node(store)).node
        monkeypatch.setattr("mesh.zmq_trio.SubscriberSocket", Recorded)
        for count in (5, 10):
            for endpoint in dead_endpoints(5):
                node.connect(endpoint, gateway.public)
            await until(partial(_has_made, events, count))
        assert events == ["made"] * 5 + ["closed"] * 5 + ["made"] * 5

    run(tmp_path, test)
