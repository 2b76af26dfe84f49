"""A mesh whose processes have hosts of their own, and whose packets are dropped between them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.stored import create_replicated_topic
from tests.faults.history import History
from tests.faults.mesh_scene import Scene, try_produce
from tests.faults.network import Host, Network, cut
from tests.faults.report import report
from tests.peers.mesh import MeshCluster
from tests.peers.process import ServerProcess

TRIED = "tried"
"""A topic for requests that are expected to fail."""
REQUESTS = 100
TIMEOUT_MS = 1500
NOT_ENOUGH_REPLICAS, NOT_ENOUGH_AFTER_APPEND = 19, 20
NOT_ENOUGH = {7, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_AFTER_APPEND}
"""With REQUEST_TIMED_OUT: a client tries again after each."""
LONGER_THAN_HEARTBEATS = 8.0
"""Seconds after which both ends have given a silent link up."""

pytestmark = pytest.mark.slow


class Hosts:
    """Which host has what."""

    def __init__(self, mesh: MeshCluster, places: dict[ServerProcess, Host]) -> None:
        self.gateway, self.tower = places[mesh.gateway], places[mesh.tower]
        self.stores = [places[store] for store in mesh.stores]


@pytest.fixture
def placed(tmp_path: Path, history: History) -> Iterator[tuple[Scene, Hosts]]:
    with Network() as network:
        mesh = MeshCluster(tmp_path)
        hosts = Hosts(mesh, network.place(mesh))
        with mesh:
            create_replicated_topic(mesh.bootstrap, TRIED, 1, 3, min_insync_replicas="2")
            yield Scene(mesh, history), hosts


@pytest.mark.long
def test_a_gateway_parted_from_one_store_goes_on(placed: tuple[Scene, Hosts]) -> None:
    scene, hosts = placed
    with cut([hosts.gateway], [hosts.stores[0]]):
        scene.go_on("no packets between gateway and one store")
        time.sleep(LONGER_THAN_HEARTBEATS)
        scene.go_on("and the link was given up")
    scene.finish()


def test_a_gateway_parted_from_two_stores_says_so_in_time(placed: tuple[Scene, Hosts]) -> None:
    scene, hosts = placed
    with cut([hosts.gateway], hosts.stores[:2]), scene.counted("no packets between gateway and two stores"):
        # Long enough to learn within it that they are away, and then at once: too few are there to begin.
        for timeout_ms, expected in (
            (5000, {NOT_ENOUGH_REPLICAS, NOT_ENOUGH_AFTER_APPEND}),
            (TIMEOUT_MS, {NOT_ENOUGH_REPLICAS}),
        ):
            codes = try_produce(scene.mesh.bootstrap, TRIED, REQUESTS, timeout_ms=timeout_ms)
            report(f"requests with a timeout of {timeout_ms} ms", codes=dict(codes))
            assert set(codes) <= expected, codes
            time.sleep(LONGER_THAN_HEARTBEATS)
    scene.go_on("healed by itself", healed=True)
    assert set(try_produce(scene.mesh.bootstrap, TRIED, 10, timeout_ms=10_000)) == {0}
    scene.finish()


@pytest.mark.long
@pytest.mark.parametrize("way", ["to the store", "from the store"])
def test_packets_lost_one_way(placed: tuple[Scene, Hosts], way: str) -> None:
    """From the store: its acknowledgements. One store's are not needed, two stores' are."""
    scene, hosts = placed
    gateway, stores = [hosts.gateway], hosts.stores[:2]
    ends = (gateway, stores) if way == "to the store" else (stores, gateway)
    with cut(*ends, back=False), scene.counted(f"two stores, packets lost {way}"):
        codes = try_produce(scene.mesh.bootstrap, TRIED, REQUESTS, timeout_ms=TIMEOUT_MS)
        report(f"requests with a timeout, packets lost {way}", codes=dict(codes))
        assert set(codes) <= NOT_ENOUGH, codes
        time.sleep(LONGER_THAN_HEARTBEATS)
    scene.finish()


@pytest.mark.long
def test_stores_parted_from_each_other(placed: tuple[Scene, Hosts]) -> None:
    """They need each other only to catch up: one that was away as well takes what it missed later."""
    scene, hosts = placed
    with cut([hosts.stores[0]], hosts.stores[1:]):
        scene.mesh.stores[0].kill9()
        scene.go_on("one store killed and parted from the others")
        scene.mesh.stores[0].start()
        scene.go_on("back, and still parted from the others")
    scene.finish()


@pytest.mark.long
def test_everyone_parted_from_the_tower(placed: tuple[Scene, Hosts]) -> None:
    scene, hosts = placed
    with cut([hosts.tower], [hosts.gateway, *hosts.stores]):
        scene.go_on("no packets to or from the tower")
        time.sleep(LONGER_THAN_HEARTBEATS)
        scene.go_on("for longer than beacons are remembered as fresh")
    scene.finish()


@pytest.mark.long
def test_links_that_flap(placed: tuple[Scene, Hosts]) -> None:
    """Half a second without packets, half a second with: no loss, and no file descriptors left behind."""
    scene, hosts = placed
    processes = (*scene.mesh.stores, scene.mesh.gateway)
    before = [open_files(process) for process in processes]
    with scene.counted("links flap for a minute"):
        for turn in range(60):
            with cut([hosts.gateway], [hosts.stores[turn % 3], hosts.stores[(turn + 1) % 3]]):
                time.sleep(0.5)
            time.sleep(0.5)
    scene.go_on("after flapping", healed=True)
    for process, had in zip(processes, before, strict=True):
        assert open_files(process) < had + 20
    scene.finish()


def open_files(process: ServerProcess) -> int:
    return len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
