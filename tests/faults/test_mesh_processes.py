"""A mesh of processes under load while each kind of process is killed, stopped and brought back.

What was acknowledged with acks=all is there, once, in order, through the gateway; and the stores have the
same bytes on their disks.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.history import History
from tests.faults.mesh_scene import Scene
from tests.peers.mesh import GatewayProcess, MeshCluster, StoreProcess
from tests.peers.tower import TowerProcess

pytestmark = pytest.mark.slow


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
        scene.mesh.gateway.start()
        scene.go_on("gateway killed, and back")
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
