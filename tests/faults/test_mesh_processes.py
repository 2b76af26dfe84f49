"""A mesh of processes under load while each kind of process is killed, stopped and brought back.

What was acknowledged with acks=all is there, once, in order, through the gateway; and the stores have the
same bytes on their disks.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.stored import create_replicated_topic
from tests.faults.history import Event, History
from tests.faults.workloads import Load, WatermarkWatch, read_all
from tests.peers.mesh import GatewayProcess, MeshCluster, StoreProcess
from tests.peers.tower import TowerProcess

PARTITIONS = 4
TOPIC = "faults"
OPERATIONS = 150
"""Acknowledged at least before, during and after each fault."""

pytestmark = pytest.mark.slow


class Scene:
    """A mesh, a topic on all stores, a load on it and a watch."""

    def __init__(self, mesh: MeshCluster, history: History) -> None:
        self.mesh, self.history = mesh, history
        create_replicated_topic(mesh.bootstrap, TOPIC, PARTITIONS, len(mesh.stores))
        self.load = Load(mesh.bootstrap, TOPIC, history, partitions=PARTITIONS)
        self.watch = WatermarkWatch(mesh.bootstrap, TOPIC, history, PARTITIONS)
        self.go_on("before")

    def go_on(self, when: str) -> None:
        """So many more operations succeed."""
        self.history.add(Event(when))
        self.load.wait_for_acks(OPERATIONS)

    def finish(self) -> None:
        """Stops the load, reads everything through the gateway (the history is judged by its fixture), and
        compares what the stores have.
        """
        self.go_on("healed")
        self.load.stop()
        self.watch.stop()
        count = read_all(self.mesh.bootstrap, TOPIC, self.history, PARTITIONS)
        assert count >= self.load.acked > 0
        # The next life closes what is open, and has every store copy what it lacks.
        self.mesh.gateway.kill9()
        self.mesh.gateway.start()
        self.mesh.wait_until_all_have_all()
        self.mesh.stop()
        assert_same_contents(self.mesh.stores)


def assert_same_contents(stores: list[StoreProcess]) -> None:
    """Every store has the same records under the same addresses."""
    first, *others = ({a: c for a, c in store.contents().items() if c} for store in stores)
    assert sum(map(len, first.values())) > 3 * OPERATIONS / 50  # batches, of some records each
    for other in others:
        assert other.keys() == first.keys()
        for address, content in first.items():
            assert other[address] == content, f"the stores differ at address {address}"


@pytest.fixture
def scene(tmp_path: Path, history: History) -> Iterator[Scene]:
    with MeshCluster(tmp_path) as mesh:
        yield Scene(mesh, history)


def test_a_killed_store_is_not_missed_and_comes_back(scene: Scene) -> None:
    store = scene.mesh.stores[1]
    store.kill9()
    scene.go_on("one store killed")
    store.start()
    scene.finish()


def test_a_stopped_store_is_not_missed_and_goes_on(scene: Scene) -> None:
    store = scene.mesh.stores[2]
    store.send_signal(signal.SIGSTOP)
    scene.go_on("one store stopped")
    store.send_signal(signal.SIGCONT)
    scene.finish()


def test_a_killed_gateway_recovers_its_log(scene: Scene) -> None:
    for _ in range(3):
        scene.mesh.gateway.kill9()
        scene.history.add(Event("gateway killed"))
        scene.mesh.gateway.start()
        scene.load.wait_for_acks(OPERATIONS)
    scene.finish()


def test_without_its_tower_a_mesh_goes_on(scene: Scene) -> None:
    scene.mesh.tower.kill9()
    scene.go_on("the tower killed")
    scene.mesh.tower.start()
    scene.finish()


def test_a_gateway_recovers_while_one_store_is_away(scene: Scene) -> None:
    away = scene.mesh.stores[0]
    away.kill9()
    scene.go_on("one store killed")
    scene.mesh.gateway.kill9()
    scene.mesh.gateway.start()
    scene.go_on("gateway killed too, and back")
    away.start()
    scene.finish()


def test_everything_is_restarted_one_by_one(scene: Scene) -> None:
    mesh = scene.mesh
    processes: list[StoreProcess | TowerProcess | GatewayProcess] = [*mesh.stores, mesh.tower, mesh.gateway]
    for process in processes:
        assert process.terminate() == 0, process.tail()
        process.start()
        scene.go_on("one process restarted")
    scene.finish()
