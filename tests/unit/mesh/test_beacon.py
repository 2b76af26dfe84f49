"""A node's side of the towers, against towers that the test plays or runs, over TCP."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
import trio
import zmq

import mesh.protocol.peers
import mesh.tower_link
from mesh.beacon import MALFORMED_LOGGED, Beacon, beacon_host
from mesh.links import Context
from mesh.node import Node
from mesh.protocol.endpoints import TowerAddress
from mesh.protocol.peers import MAX_PEERS
from mesh.tower.tower import Tower
from wireproto.dafka.beacons import NodeBeacon, TowerBeacon, decode_node_beacon

POLL_SECONDS = 0.01


class PlayedTower:
    """The two ports of a tower. Nothing is said but what the test says."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self.inlet = context.socket(zmq.SUB)
        self.inlet.subscribe(b"")
        self.outlet = context.socket(zmq.XPUB)
        self.outlet.sndhwm = 0  # what a test says is not dropped
        for sock in (self.inlet, self.outlet):
            sock.rcvtimeo = 10_000
        self.address = TowerAddress(
            "127.0.0.1",
            self.inlet.bind_to_random_port("tcp://127.0.0.1"),
            self.outlet.bind_to_random_port("tcp://127.0.0.1"),
        )
        self.accepted = self.inlet.get_monitor_socket(zmq.EVENT_ACCEPTED)

    def close(self) -> None:
        self.inlet.disable_monitor()
        for sock in (self.accepted, self.inlet, self.outlet):
            sock.close(linger=0)

    async def subscribed(self) -> None:
        """The node hears what is said from now on."""
        got = {await trio.to_thread.run_sync(self.outlet.recv) for _ in range(2)}
        assert got == {b"\x01B", b"\x01W"}

    async def beacon(self) -> NodeBeacon:
        return decode_node_beacon(await trio.to_thread.run_sync(self.inlet.recv_multipart))

    def says(self, *frames: bytes) -> None:
        self.outlet.send_multipart(frames)

    def names(self, node: str, endpoint: str) -> None:
        self.says(*TowerBeacon(node, endpoint).frames())


Test = Callable[[Beacon, PlayedTower], Awaitable[None]]


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - links change what no event tells
        await trio.sleep(POLL_SECONDS)


def run_beacon(
    towers: Sequence[TowerAddress], body: Callable[[Beacon], Awaitable[None]], host: str = "127.0.0.1"
) -> None:
    context = Context()

    async def main() -> None:
        node = Node(context)
        port = int(node.publisher.bind("tcp://127.0.0.1:*").rpartition(":")[2])
        beacon = Beacon(context, node, towers, host=host, port=port)
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                await nursery.start(node.run)
                await nursery.start(beacon.run)
                await body(beacon)
                nursery.cancel_scope.cancel()

    try:
        trio.run(main)
    finally:
        context.close()


def run(test: Test, host: str = "127.0.0.1") -> None:
    with zmq.Context() as context:
        tower = PlayedTower(context)
        try:
            run_beacon([tower.address], lambda beacon: test(beacon, tower), host)
        finally:
            tower.close()


def test_it_beacons_as_c_nodes_do() -> None:
    async def test(beacon: Beacon, tower: PlayedTower) -> None:
        first = await tower.beacon()
        assert len(first.node) == 32
        assert set(first.node) <= set("0123456789ABCDEF")
        assert (first.node, first.host) == (beacon.node_id, "")
        assert await tower.beacon() == first, "and goes on to"

    run(test, host="")


def test_it_beacons_at_once_when_a_node_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mesh.beacon.BEACON_SECONDS", 10_000.0)
    monkeypatch.setattr("mesh.beacon.GREET_LEAST_SECONDS", 0.01)

    async def test(_: Beacon, tower: PlayedTower) -> None:
        await tower.subscribed()
        for number in range(20):  # more than there are links to tell of at the start
            tower.names(f"N{number}", f"tcp://127.0.0.1:{1 + number}")
            await tower.beacon()

    run(test)


def test_one_link_to_a_port_of_a_tower() -> None:
    """It beacons before its tasks are all there: that must not connect twice."""

    async def test(beacon: Beacon, tower: PlayedTower) -> None:
        await until(lambda: beacon.towers[0].connected)
        await tower.beacon()
        await tower.beacon()
        await tower.beacon()
        tower.accepted.recv_multipart(zmq.DONTWAIT)
        with pytest.raises(zmq.Again):
            tower.accepted.recv_multipart(zmq.DONTWAIT)

    run(test)


def test_malformed_beacons_are_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    malformed: list[list[bytes]] = [
        [b"B"],
        [b"B", b"N1"],
        [b"B", b"N1", b"", b"49152"],
        [b"B", b"", b"tcp://127.0.0.1:1"],
        [b"B", b"N1", b"ipc:///tmp/socket:1"],
        [b"B", b"N1", b"tcp://*:1"],
        [b"B", b"N1", b"tcp://0.0.0.0:1"],
        [b"B", b"N1", b"tcp://eth0;127.0.0.1:1"],
        [b"B", b"N1", b"tcp://127.0.0.1:0"],
        [b"B\xff", b"N1", b"tcp://127.0.0.1:1"],
        [b"W", b"W"],
        [b"W" * 100],
    ]

    async def test(beacon: Beacon, tower: PlayedTower) -> None:
        await tower.subscribed()
        for frames in malformed:
            tower.says(*frames)
        tower.names("N2", "tcp://127.0.0.1:1")
        await until(lambda: bool(beacon.peers))
        assert [peer.node for peer in beacon.peers] == ["N2"]
        assert beacon.malformed == len(malformed)

    run(test)
    assert sum("malformed beacon" in record.message for record in caplog.records) == MALFORMED_LOGGED


def test_a_tower_that_names_very_many_nodes() -> None:
    async def test(beacon: Beacon, tower: PlayedTower) -> None:
        await tower.subscribed()
        for number in range(3000):
            tower.names(f"S{number}", f"tcp://127.{number // 250}.1.{1 + number % 250}:1")
        await until(lambda: beacon.refused == 3000 - MAX_PEERS)
        assert len(beacon.peers) == MAX_PEERS

    run(test)


def test_a_node_that_goes_by_a_name() -> None:
    async def test(beacon: Beacon, tower: PlayedTower) -> None:
        await tower.subscribed()
        with zmq.Context() as context, context.socket(zmq.PUB) as publisher:
            port = publisher.bind_to_random_port("tcp://127.0.0.1")

            def linked() -> bool:
                tower.names("N1", f"tcp://localhost:{port}")
                return [(peer.node, peer.state) for peer in beacon.peers] == [("N1", "connected")]

            await until(linked)

    run(test)


def test_a_tower_whose_name_has_no_address_yet(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[str] = []

    async def look_up(name: str) -> str:
        asked.append(name)
        if len(asked) < 7:
            raise OSError("no such host")
        return "127.0.0.1"

    monkeypatch.setattr(mesh.tower_link, "look_up", look_up)
    monkeypatch.setattr(mesh.tower_link, "LOOKUP_AGAIN_SECONDS", 0.01)

    async def test(beacon: Beacon) -> None:
        await until(lambda: beacon.towers[0].connected)

    with zmq.Context() as context:
        tower = PlayedTower(context)
        run_beacon([tower.address._replace(host="tower.example")], test)
        tower.close()
    assert set(asked) == {"tower.example"}
    assert caplog.text.count("tower.example has no address") == 2, "once for each of its ports"


# where ZeroMQ gives up --------------------------------------------------------------------------------------


@contextmanager
def something_else(port: int = 0) -> Iterator[tuple[socket.socket, int]]:
    """A port on which no ZeroMQ is spoken: to ZeroMQ a reason never to come back."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        yield listener, listener.getsockname()[1]


async def refuse_one(listener: socket.socket) -> None:
    """Answer as another program would, and see ZeroMQ leave."""

    def answer() -> None:
        listener.settimeout(10)
        peer, _ = listener.accept()
        with peer:
            peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10)
            with contextlib.suppress(ConnectionResetError):
                while peer.recv(1000):
                    pass

    await trio.to_thread.run_sync(answer)


def test_a_tower_where_another_program_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mesh.tower_link, "RETRY_SECONDS", 0.2)
    with something_else() as (first, port_in), something_else() as (second, port_out):

        async def test(beacon: Beacon) -> None:
            for listener in (first, second):
                await refuse_one(listener)
                listener.close()
            context = Context()
            tower = Tower(context, "127.0.0.1", port_in, port_out)
            tower.bind()
            async with trio.open_nursery() as nursery:
                await nursery.start(tower.run)
                await until(lambda: beacon.towers[0].connected and len(tower.register) == 1)
                nursery.cancel_scope.cancel()
            context.close()

        run_beacon([TowerAddress("127.0.0.1", port_in, port_out)], test)


def test_a_node_where_another_program_was(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(mesh.protocol.peers, "RETRY_SECONDS", 1.0)

    async def test(beacon: Beacon, tower: PlayedTower) -> None:
        await tower.subscribed()
        with something_else() as (listener, port), zmq.Context() as context:
            tower.names("N1", f"tcp://127.0.0.1:{port}")
            await refuse_one(listener)
            listener.close()
            with context.socket(zmq.PUB) as publisher:
                publisher.bind(f"tcp://127.0.0.1:{port}")
                await until(lambda: [peer.state for peer in beacon.peers] == ["connected"])

    run(test)
    assert "--mesh-advertise" in caplog.text


@pytest.mark.parametrize(
    ("bound", "advertised", "told"),
    [
        ("127.0.0.1", "", "127.0.0.1"),
        ("10.0.0.7", "store-1", "store-1"),
        ("0.0.0.0", "", ""),
        ("::", "", ""),
        ("*", "", ""),
        ("0.0.0.0", "10.0.0.7", "10.0.0.7"),
    ],
)
def test_what_others_are_told(bound: str, advertised: str, told: str) -> None:
    assert beacon_host(bound, advertised) == told
