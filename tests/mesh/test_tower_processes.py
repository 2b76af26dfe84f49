"""Nodes that find each other through towers, with real processes over TCP: towers and nodes are killed, come
back, and move.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import pytest
import trio
import zmq

import mesh.protocol.peers
from mesh.beacon import Beacon
from mesh.links import Context
from mesh.node import Node
from mesh.protocol.endpoints import TowerAddress
from tests.peers.tower import TowerProcess
from wireproto.dafka.beacons import NodeBeacon
from wireproto.dafka.messages import Head

POLL_SECONDS = 0.01


class NodeProcess:
    """See `node_process.py`."""

    def __init__(self, *towers: TowerAddress) -> None:
        script = Path(__file__).with_name("node_process.py")
        self.process = subprocess.Popen(
            [sys.executable, str(script), *map(str, towers)],
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        )
        assert self.process.stdout is not None
        self.node_id, self.endpoint = self.process.stdout.readline().decode().split()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


class Here:
    """The node of this process: what it heard of others, and whether they hear it."""

    def __init__(self, context: Context, towers: Sequence[TowerAddress]) -> None:
        self.node = Node(context)
        endpoint = self.node.publisher.bind("tcp://127.0.0.1:*")
        port = int(endpoint.rpartition(":")[2])
        self.beacon = Beacon(context, self.node, towers, host="127.0.0.1", port=port)
        self.heard: dict[str, int] = {}
        """The last beat of each node."""
        self.heard_by: dict[str, int] = {}
        """The last beat of ours that each node heard."""
        self.beats = 0
        self.node.route({Head: self._on_head})
        self.node.subscribe(b"Hbeat")
        self.node.subscribe(b"H" + self.beacon.node_id.encode())

    def _on_head(self, head: Head) -> None:
        seen = self.heard if head.subject == "beat" else self.heard_by
        seen[head.address] = head.sequence

    async def until(self, condition: Callable[[], bool]) -> None:
        """Beat until it holds."""
        while not condition():
            self.node.send(Head(self.beacon.node_id, "beat", self.beats))
            self.beats += 1
            await trio.sleep(POLL_SECONDS)

    async def linked_both_ways(self, *others: str) -> None:
        """From now on each of them hears us, and we hear each of them."""
        now, heard = self.beats, dict(self.heard)
        await self.until(
            lambda: all(
                self.heard_by.get(other, -1) >= now and self.heard.get(other, -1) > heard.get(other, -1)
                for other in others
            )
        )

    def states(self) -> dict[str, str]:
        return {peer.node: peer.state for peer in self.beacon.peers}


def run(test: Callable[[Here], Awaitable[None]], *towers: TowerProcess) -> None:
    context = Context()

    async def main() -> None:
        here = Here(context, [tower.address for tower in towers])
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                await nursery.start(here.node.run)
                await nursery.start(here.beacon.run)
                await test(here)
                nursery.cancel_scope.cancel()

    try:
        trio.run(main)
    finally:
        context.close()


@pytest.fixture
def start() -> Iterator[Callable[..., NodeProcess]]:
    """Starts nodes, and kills them in the end."""
    nodes: list[NodeProcess] = []

    def make(*towers: TowerProcess) -> NodeProcess:
        nodes.append(NodeProcess(*(tower.address for tower in towers)))
        return nodes[-1]

    yield make
    for node in nodes:
        node.kill()


@pytest.fixture
def tower(tmp_path: Path) -> Iterator[TowerProcess]:
    with TowerProcess(tmp_path / "tower") as process:
        yield process


Start = Callable[..., NodeProcess]


def test_nodes_find_each_other(tower: TowerProcess, start: Start) -> None:
    others = [start(tower), start(tower)]

    async def test(here: Here) -> None:
        await here.linked_both_ways(*(other.node_id for other in others))
        assert here.states() == {other.node_id: "connected" for other in others}
        assert {peer.endpoint for peer in here.beacon.peers} == {other.endpoint for other in others}
        assert here.beacon.malformed == 0
        (seen,) = here.beacon.towers
        assert (seen.address, seen.connected) == (tower.address, True)

    run(test, tower)


def test_a_killed_tower_cuts_no_link_and_may_come_back(tower: TowerProcess, start: Start) -> None:
    first = start(tower)

    async def test(here: Here) -> None:
        await here.linked_both_ways(first.node_id)
        tower.kill9()
        await here.until(lambda: not here.beacon.towers[0].connected)
        await here.linked_both_ways(first.node_id)
        tower.start()
        await here.until(lambda: here.beacon.towers[0].connected)
        second = start(tower)
        await here.linked_both_ways(first.node_id, second.node_id)
        assert here.states() == {first.node_id: "connected", second.node_id: "connected"}

    run(test, tower)


def test_a_tower_that_comes_after_the_nodes(tower: TowerProcess, start: Start) -> None:
    tower.kill9()
    other = start(tower)

    async def test(here: Here) -> None:
        assert here.beacon.towers == [(tower.address, False, None)]
        tower.start()
        await here.linked_both_ways(other.node_id)

    run(test, tower)


def test_one_of_two_towers_is_enough(tower: TowerProcess, tmp_path: Path, start: Start) -> None:
    with TowerProcess(tmp_path / "second") as second:
        both = start(tower, second)

        async def test(here: Here) -> None:
            await here.linked_both_ways(both.node_id)
            tower.kill9()
            await here.until(lambda: [t.connected for t in here.beacon.towers] == [False, True])
            late = start(tower, second)
            await here.linked_both_ways(both.node_id, late.node_id)

        run(test, tower, second)


def test_a_node_that_died_is_forgotten(
    tower: TowerProcess, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mesh.protocol.peers, "FORGET_SECONDS", 1.0)
    first, second = start(tower), start(tower)

    async def test(here: Here) -> None:
        await here.linked_both_ways(first.node_id, second.node_id)
        first.kill()
        await here.until(lambda: here.states() == {second.node_id: "connected"})
        again = start(tower)
        await here.linked_both_ways(second.node_id, again.node_id)

    run(test, tower)


def test_a_node_that_moves_is_found_again(tower: TowerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node of another make: it keeps its id and binds another port, and closes the old one or not."""
    monkeypatch.setattr(mesh.protocol.peers, "MOVE_SECONDS", 0.5)
    monkeypatch.setattr(mesh.protocol.peers, "UNREACHED_SECONDS", 0.5)

    async def heard_from(
        here: Here, tower_in: zmq.Socket[bytes], publisher: zmq.Socket[bytes], number: int
    ) -> None:
        port = publisher.bind_to_random_port("tcp://127.0.0.1")

        def condition() -> bool:
            tower_in.send_multipart(NodeBeacon("N1", "127.0.0.1", port).frames())
            publisher.send_multipart(Head("N1", "beat", number).frames())
            return here.heard.get("N1") == number

        await here.until(condition)
        (peer,) = here.beacon.peers
        assert (peer.node, peer.endpoint) == ("N1", f"tcp://127.0.0.1:{port}")

    async def test(here: Here) -> None:
        with zmq.Context() as context, context.socket(zmq.XPUB) as tower_in:
            tower_in.connect(f"tcp://127.0.0.1:{tower.port_in}")
            with context.socket(zmq.PUB) as first:
                await heard_from(here, tower_in, first, 1)
            with context.socket(zmq.PUB) as second, context.socket(zmq.PUB) as third:
                await heard_from(here, tower_in, second, 2)
                await heard_from(here, tower_in, third, 3)

    run(test, tower)
