"""A tower on its ports, as nodes of the C implementation use them: PUB to one, SUB on the other."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
import zmq

from mesh.inside import EndpointTaken
from mesh.links import Context
from mesh.tower.register import MAX_NODES
from mesh.tower.tower import MALFORMED_LOGGED, Tower
from tests.unit.mesh.zmtp import Peer, frame
from wireproto.dafka.beacons import WELCOME, NodeBeacon

VECTORS = Path(__file__).parents[3] / "data" / "dafka" / "c-frames.json"
NODE = "4D01E6529C6347868DC5133585DBA57D"


class CNode:
    """What a C node has towards a tower: a PUB and a SUB. Its calls run in threads: they wait."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], tower: Tower) -> None:
        self.publisher = context.socket(zmq.XPUB)  # a PUB, but for telling when the tower has subscribed
        self.subscriber = context.socket(zmq.SUB)
        for sock in (self.publisher, self.subscriber):
            sock.linger = 0
            sock.rcvtimeo = 10_000
            sock.ipv6 = ":" in tower.host
        self.tower = tower
        self.probe = b"?%d" % id(self)
        for prefix in (b"W", b"B", self.probe):  # the tower reads them in this order
            self.subscriber.subscribe(prefix)
        host = f"[{tower.host}]" if ":" in tower.host else tower.host.replace("0.0.0.0", "127.0.0.1")
        self.subscriber.connect(f"tcp://{host}:{tower.port_out}")
        self.publisher.connect(f"tcp://{host}:{tower.port_in}")

    def close(self) -> None:
        self.publisher.close()
        self.subscriber.close()

    async def start(self) -> list[bytes]:
        """The first frame of the tower, once each hears the other.

        The tower welcomes a connection before it has read what is subscribed to on it, so a node that was
        just welcomed may miss the next beacon. A message of the node's own is sent until it comes.
        """
        assert await trio.to_thread.run_sync(self.publisher.recv) == b"\x01B"
        first = await self.hears()
        last = 0
        while not await trio.to_thread.run_sync(self.subscriber.poll, 20):
            last += 1
            self.tower._outlet.send([self.probe, b"%d" % last])
        while await self.hears() != [self.probe, b"%d" % last]:
            pass
        return first

    async def hears(self) -> list[bytes]:
        return await trio.to_thread.run_sync(self.subscriber.recv_multipart)

    def beacons(self, node: str, host: str = "", port: int = 49152) -> None:
        self.publisher.send_multipart(NodeBeacon(node, host, port).frames())


Test = Callable[[Tower, Callable[[], CNode]], Awaitable[None]]


def run(test: Test, host: str = "127.0.0.1") -> None:
    """With a tower that runs."""
    context, others = Context(), zmq.Context()
    tower = Tower(context, host, 0, 0)
    nodes: list[CNode] = []

    def make() -> CNode:
        nodes.append(CNode(others, tower))
        return nodes[-1]

    async def main() -> None:
        tower.bind()
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                await nursery.start(tower.run)
                await test(tower, make)
                nursery.cancel_scope.cancel()

    try:
        trio.run(main)
    finally:
        for node in nodes:
            node.close()
        others.term()
        context.close()


def vector(name: str) -> list[bytes]:
    (frames,) = [v["frames"] for v in json.loads(VECTORS.read_text())["vectors"] if v["name"] == name]
    return [bytes.fromhex(frame) for frame in frames]


def test_a_beacon_goes_to_every_node_and_its_own() -> None:
    async def test(_: Tower, make: Callable[[], CNode]) -> None:
        nodes = [make(), make()]
        for node in nodes:
            assert await node.start() == [WELCOME]
        nodes[0].publisher.send_multipart(vector("BEACON-TO-TOWER"))
        for node in nodes:
            assert await node.hears() == [b"B", NODE.encode(), b"tcp://127.0.0.1:49152"]

    run(test)


@pytest.mark.parametrize("name", ["BEACON-TO-TOWER", "BEACON-TO-TOWER(with beacon/address)"])
def test_the_beacons_of_c_nodes(name: str) -> None:
    async def test(tower: Tower, make: Callable[[], CNode]) -> None:
        node = make()
        await node.start()
        frames = vector(name)
        node.publisher.send_multipart(frames)
        assert await node.hears() == [b"B", frames[1], b"tcp://127.0.0.1:" + frames[3]]
        assert (tower.beacons, tower.malformed, len(tower.register)) == (1, 0, 1)

    run(test)


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("10.0.0.7", b"tcp://10.0.0.7:49152"),
        ("store-1.example", b"tcp://store-1.example:49152"),
        ("::ffff:10.0.0.7", b"tcp://10.0.0.7:49152"),
        ("fd00::1", b"tcp://[fd00::1]:49152"),
        ("[fd00::1]", b"tcp://[fd00::1]:49152"),
    ],
)
def test_a_host_of_its_own_is_passed_on(host: str, told: bytes) -> None:
    async def test(_: Tower, make: Callable[[], CNode]) -> None:
        node = make()
        await node.start()
        node.beacons("N1", host)
        assert await node.hears() == [b"B", b"N1", told]

    run(test)


@pytest.mark.parametrize(("bound", "seen"), [("0.0.0.0", b"127.0.0.1"), ("::1", b"[::1]")])
def test_the_address_that_a_beacon_comes_from(bound: str, seen: bytes) -> None:
    async def test(_: Tower, make: Callable[[], CNode]) -> None:
        node = make()
        await node.start()
        node.beacons("N1")
        assert await node.hears() == [b"B", b"N1", b"tcp://" + seen + b":49152"]

    run(test, bound)


MALFORMED: list[list[bytes]] = [
    [b"B"],
    [b"B", b"N1"],
    [b"B", b"N1", b""],
    [b"B", b"N1", b"", b"49152", b""],
    [b"B", b"N1", b"tcp://10.0.0.7:49152"],
    [b"B", b"", b"", b"49152"],
    [b"B", b"N1", b"", b"0"],
    [b"B", b"N1", b"", b"65536"],
    [b"B", b"N1", b"", b"port"],
    [b"B", b"N1", b"", b""],
    [b"B", b"N1", b"*", b"49152"],
    [b"B", b"N1", b"0.0.0.0", b"49152"],
    [b"B", b"N1", b"eth0;10.0.0.7", b"49152"],
    [b"B", b"N 1", b"", b"49152"],
    [b"B", b"N\xff", b"", b"49152"],
    [b"B", b"N" * 256, b"", b"49152"],
    [b"B" * 1000, b"N1", b"", b"49152"],
    [b"B"] * 100_000,
]


def test_what_is_malformed_is_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """The C tower takes the frames that a short beacon lacks from the next node's."""

    async def test(tower: Tower, make: Callable[[], CNode]) -> None:
        stranger, node = make(), make()
        for each in (stranger, node):
            await each.start()
        for number, frames in enumerate(MALFORMED):
            stranger.publisher.send_multipart(frames)
            stranger.beacons("S1", port=1 + number)
            assert await node.hears() == [b"B", b"S1", b"tcp://127.0.0.1:%d" % (1 + number)]
        assert (tower.malformed, tower.beacons) == (len(MALFORMED), len(MALFORMED))

    caplog.set_level(logging.WARNING)
    run(test)
    assert sum("malformed" in record.message for record in caplog.records) == MALFORMED_LOGGED


def test_a_frame_beyond_every_beacon_is_not_taken() -> None:
    async def test(tower: Tower, make: Callable[[], CNode]) -> None:
        stranger, node = make(), make()
        for each in (stranger, node):
            await each.start()
        stranger.publisher.send_multipart([b"B", bytes(10_000_000)])
        node.beacons("N1")
        assert await node.hears() == [b"B", b"N1", b"tcp://127.0.0.1:49152"]
        assert tower.malformed == 0

    run(test)


def test_a_beacon_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its link is cut; that of a node which has sent as much, in beacons, is not."""
    monkeypatch.setattr("mesh.zmq_trio.GATHERED_LOOK_SECONDS", 0.05)

    async def test(tower: Tower, make: Callable[[], CNode]) -> None:
        node = make()
        await node.start()

        def send() -> bool:
            with Peer.connect(tower.port_in, b"PUB") as peer:
                parts = frame(b"B" + b"x" * 1000, more=True) * 1000
                for _ in range(100):
                    if not peer.send(parts):
                        break
                return peer.is_cut()

        assert await trio.to_thread.run_sync(send)
        while tower.cut != 1:  # noqa: ASYNC110 - nobody is told
            await trio.sleep(0.01)
        node.beacons("N1")
        assert (await node.hears())[1] == b"N1"

    run(test)


def test_nodes_are_bounded() -> None:
    async def test(tower: Tower, make: Callable[[], CNode]) -> None:
        stranger = make()
        await stranger.start()
        for number in range(MAX_NODES):
            stranger.beacons(f"S{number}")
            await stranger.hears()
        stranger.beacons("ONE-MORE")
        stranger.beacons("S0")
        assert (await stranger.hears())[1] == b"S0"
        assert (len(tower.register), tower.register.refused) == (MAX_NODES, 1)

    run(test)


def test_a_local_node_of_a_tower_for_all_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    async def test(_: Tower, make: Callable[[], CNode]) -> None:
        node = make()
        await node.start()
        for name, host in (("N1", "10.0.0.7"), ("N2", ""), ("N3", "")):
            node.beacons(name, host)
            await node.hears()

    caplog.set_level(logging.WARNING)
    run(test, "0.0.0.0")
    (record,) = caplog.records
    assert record.message.startswith("nodes on other machines cannot reach the node at tcp://127.0.0.1:49152")


@pytest.mark.parametrize("which", ["port_in", "port_out"])
def test_a_taken_port(which: str) -> None:
    context = Context()
    first = Tower(context, "127.0.0.1", 0, 0)
    first.bind()
    ports = {"port_in": 0, "port_out": 0} | {which: getattr(first, which)}
    second = Tower(context, "127.0.0.1", **ports)
    with pytest.raises(EndpointTaken, match=rf"{ports[which]}: Address already in use. Stop what uses it"):
        second.bind()
    for tower in (first, second):
        tower.close()
    context.close()


def test_an_address_of_another_machine() -> None:
    context = Context()
    tower = Tower(context, "192.0.2.1", 0, 0)
    with pytest.raises(EndpointTaken, match="`ip address` lists them"):
        tower.bind()
    tower.close()
    context.close()
