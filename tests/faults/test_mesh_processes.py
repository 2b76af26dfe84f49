"""A mesh of processes under load while each kind of process is killed, stopped and brought back.

What was acknowledged with acks=all is there, once, in order, through the gateway; and the stores have the
same bytes on their disks.
"""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dafka.operators.socket import OperatorRefused, ask
from tests.clients.stored import create_replicated_topic
from tests.faults.history import History
from tests.faults.mesh_scene import WAIT_SECONDS, Scene, await_other_store, try_produce
from tests.faults.report import report
from tests.peers.mesh import GatewayProcess, MeshCluster, StoreProcess
from tests.peers.tower import TowerProcess

SEED = 20_260_402
TRIED = "tried"
"""A topic for requests that are expected to fail."""
NOT_ENOUGH = {19, 20}
REQUEST_MS = 8000
"""Longer than it takes to find out that a killed store is away."""
LONGER_THAN_LINKS_LIVE = 15.0
"""Seconds: heartbeats give a link up after 5."""
AWAY_SECONDS = 60.0
RECOVERED_SECONDS = 5.0
"""Within which a gateway serves again after SIGKILL on an idle machine; asserted with `LOADED` of these."""
LOADED = 4
KILLS = 20

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


@pytest.mark.long
def test_two_killed_stores_are_told_of_in_time(scene: Scene) -> None:
    """Nothing is acknowledged by the one that is left, and nobody waits without an answer."""
    mesh = scene.mesh
    create_replicated_topic(mesh.bootstrap, TRIED, 1, 3, min_insync_replicas="2")
    with scene.counted("two stores killed"):
        for store in mesh.stores[:2]:
            store.kill9()
        codes = try_produce(mesh.bootstrap, TRIED, 100, timeout_ms=REQUEST_MS)
        report("requests with a timeout", codes=dict(codes))
        assert set(codes) <= NOT_ENOUGH, codes
        # What was acknowledged before they died may still have come in; from here on nothing can be.
        before = scene.load.acked
        time.sleep(1.0)
        assert scene.load.acked == before
    for store in mesh.stores[:2]:
        store.start()
    scene.finish()


def test_a_stopped_store_is_not_missed_and_goes_on(scene: Scene) -> None:
    store = scene.mesh.stores[2]
    store.send_signal(signal.SIGSTOP)
    scene.go_on("one store stopped")
    store.send_signal(signal.SIGCONT)
    scene.finish()


@pytest.mark.long
def test_a_store_stopped_for_longer_than_its_links_live(scene: Scene) -> None:
    store = scene.mesh.stores[2]
    store.send_signal(signal.SIGSTOP)
    with scene.counted("one store stopped for 15 s"):
        scene.load.wait_for_new_acks(150)
        time.sleep(LONGER_THAN_LINKS_LIVE)
        scene.load.wait_for_new_acks(150)
    store.send_signal(signal.SIGCONT)
    scene.finish()


def test_a_killed_gateway_recovers_its_log(scene: Scene) -> None:
    for _ in range(3):
        with scene.counted("gateway killed, until it serves again"):
            scene.mesh.gateway.kill9()
            scene.mesh.gateway.start()
        scene.go_on("and back", healed=True)
    scene.finish()


@pytest.mark.long
def test_a_gateway_killed_twenty_times(scene: Scene) -> None:
    """After 0.2 to 3 seconds each."""
    gateway, moments, took = scene.mesh.gateway, random.Random(SEED), []
    with scene.counted(f"gateway killed {KILLS} times"):
        for _ in range(KILLS):
            time.sleep(moments.uniform(0.2, 3.0))
            gateway.kill9()
            gateway.start()
            took.append(time.monotonic() - gateway.started_at)
    took.sort()
    report("seconds until it serves", longest=round(took[-1], 2), middle=round(took[KILLS // 2], 2))
    assert max(took) < LOADED * RECOVERED_SECONDS
    scene.finish()


def test_without_its_tower_a_mesh_goes_on(scene: Scene) -> None:
    scene.mesh.tower.kill9()
    scene.go_on("the tower killed")
    scene.mesh.tower.start()
    scene.finish()


@pytest.mark.long
def test_a_minute_without_the_tower(scene: Scene, tmp_path: Path) -> None:
    """Records go on as before; a store that is new waits, and is found once the tower is back."""
    mesh = scene.mesh
    began, before = time.monotonic(), scene.load.acked
    while time.monotonic() < began + 5.0:
        time.sleep(0.1)
    usual = (scene.load.acked - before) / (time.monotonic() - began)
    new = StoreProcess(tmp_path / "late", "late", mesh.tower)
    mesh.tower.kill9()
    try:
        with scene.counted("the tower killed for a minute"):
            began, before = time.monotonic(), scene.load.acked
            new.start()
            time.sleep(AWAY_SECONDS)
            without = (scene.load.acked - before) / (time.monotonic() - began)
            assert new.returncode is None
            assert "late" not in {entry["name"] for entry in ask(mesh.gateway.data, "stores.list")}
        mesh.tower.start()
        back = time.monotonic()
        await_other_store(mesh, "late")
        report(
            "acknowledged a second",
            with_tower=round(usual),
            without=round(without),
            found_after_seconds=round(time.monotonic() - back, 2),
        )
    finally:
        new.kill9()
    # A tenth less is what the design allows; half of it is what a busy machine may cost besides.
    assert without > 0.5 * usual
    scene.finish()


def test_a_gateway_recovers_while_one_store_is_away(scene: Scene) -> None:
    away = scene.mesh.stores[0]
    away.kill9()
    scene.go_on("one store killed")
    with scene.counted("gateway killed too, until it serves again"):
        scene.mesh.gateway.kill9()
        scene.mesh.gateway.start()
    scene.go_on("back, and the store still away")
    away.start()
    scene.finish()


def test_everything_is_restarted_one_by_one(scene: Scene) -> None:
    mesh = scene.mesh
    processes: list[StoreProcess | TowerProcess | GatewayProcess] = [*mesh.stores, mesh.tower, mesh.gateway]
    for process in processes:
        with scene.counted("one process restarted"):
            assert process.terminate() == 0, process.tail()
            process.start()
        scene.go_on("and back", healed=True)
    scene.finish()


@pytest.mark.long
def test_a_lost_disk_is_replaced_under_load(scene: Scene) -> None:
    """A store comes back empty, as another one; it gets the place of the lost one and copies all of it."""
    mesh, store = scene.mesh, scene.mesh.stores[0]
    with scene.counted("one store's disk lost and replaced"):
        store.kill9()
        (old,) = (e["incarnation"] for e in ask(mesh.gateway.data, "stores.list") if e["name"] == store.name)
        shutil.rmtree(store.data)
        store.start()
        new = await_other_store(mesh, store.name)
        ask(mesh.gateway.data, "stores.admit", store=new)
        ask(mesh.gateway.data, "stores.replace", store=old, by=new)
        _remove(mesh, old)
    scene.finish()


def _remove(mesh: MeshCluster, store: str) -> None:
    """Once nothing counts on it any more."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            ask(mesh.gateway.data, "stores.remove", store=store)
        except OperatorRefused:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


# a stop in order, and a second signal ----------------------------------------------------------------------


@pytest.mark.long
def test_a_second_signal_ends_a_store_or_a_tower_at_once(scene: Scene) -> None:
    """Each is told to stop, and told again at once: it ends, and nothing acknowledged is missing."""
    mesh = scene.mesh
    processes: list[StoreProcess | TowerProcess] = [*mesh.stores, mesh.tower]
    for process in processes:
        with scene.counted("two signals to one process"):
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGINT)
            # The first one may have been enough.
            assert process.wait(10.0) in {0, -signal.SIGTERM, -signal.SIGINT}, process.tail()
            assert "Traceback" not in process.log
            process.start()
        scene.go_on("and back", healed=True)
    scene.finish()
