"""Data directories of a mesh's stores that a crash or a person has damaged, or that belong elsewhere."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dafka.operators.socket import OperatorRefused, ask
from mesh.store.write_ahead.entries import SALT_BYTES
from tests.clients.stored import create_topic, put
from tests.differential.batches import Record
from tests.faults.disks import SmallDisk, needed_of_log, newest_log
from tests.faults.history import History
from tests.faults.mesh_scene import Scene, await_other_store
from tests.faults.report import report
from tests.peers.mesh import MeshCluster, StoreProcess
from tests.peers.process import ServerEnded

MIB = 1024 * 1024
ENVIRONMENT, DATA_REFUSED = 2, 3
SEED = 20_260_403
RESTARTS = 100

pytestmark = pytest.mark.slow


@pytest.fixture
def scene(tmp_path: Path, history: History) -> Iterator[Scene]:
    with MeshCluster(tmp_path) as mesh:
        yield Scene(mesh, history)


def refused(store: StoreProcess) -> str:
    """What a store says that must not start."""
    with pytest.raises(ServerEnded):
        store.start()
    assert store.returncode == DATA_REFUSED
    assert "Traceback" not in store.log
    return store.log


@pytest.mark.long
@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_a_torn_write(scene: Scene, part: float) -> None:
    """The last write before a crash, of which a part is there: it was never acknowledged."""
    store = scene.mesh.stores[0]
    store.kill9()
    log = newest_log(store.data / "db")
    content = log.path.read_bytes()
    first = log.entries[0]
    torn = SALT_BYTES + int(part * (first.end - first.start - SALT_BYTES - 1))
    written = content[: log.end] + content[first.start :][:torn]
    log.path.write_bytes(written + content[len(written) :])
    scene.go_on("one store killed in a write")
    store.start()
    scene.finish()


@pytest.mark.long
def test_a_flipped_bit_in_the_log(scene: Scene) -> None:
    """It refuses, and names file and remedy; by `--accept-loss` it comes back as another store."""
    store, gateway = scene.mesh.stores[0], scene.mesh.gateway
    store.kill9()
    log, place = needed_of_log(store.data / "db")
    content = bytearray(log.read_bytes())
    content[place] ^= 0x10
    log.write_bytes(content)
    said = refused(store)
    assert log.name in said
    assert "--accept-loss" in said
    assert log.read_bytes() == bytes(content)
    scene.go_on("one store refuses to start")
    store.arguments.append("--accept-loss")
    store.start()
    store.arguments.remove("--accept-loss")
    new = await_other_store(scene.mesh, store.name)
    ask(gateway.data, "stores.admit", store=new)
    scene.go_on("back as another store", healed=True)
    gateway.kill9()
    gateway.start()
    scene.go_on("and a new life of the gateway", healed=True)
    scene.read()


def test_a_directory_in_use_or_of_another_mesh(tmp_path: Path, history: History) -> None:
    """Whoever comes with one is refused or not counted; the mesh under load does not notice."""
    with MeshCluster(tmp_path / "one", stores=1) as one, MeshCluster(tmp_path / "two") as two:
        scene = Scene(two, history)
        create_topic(one.bootstrap, "elsewhere")
        put(one.bootstrap, "elsewhere", [Record(b"of the other mesh")])
        with scene.counted("a second store on one's directory, and a store of another mesh"):
            second = StoreProcess(tmp_path / "second", "second", two.tower)
            second.data = two.stores[0].data
            said = refused(second)
            assert str(two.stores[0].pid) in said
            # The directory of a store of one mesh, carried to the other.
            one.stores[0].kill9()
            carried = StoreProcess(tmp_path / "carried", "carried", two.tower)
            shutil.copytree(one.stores[0].data, carried.data)
            try:
                carried.start()
                await_other_store(two, "carried")
                with pytest.raises(OperatorRefused, match="cluster"):
                    ask(two.gateway.data, "stores.admit", store="carried")
                states = {entry["name"]: entry["state"] for entry in ask(two.gateway.data, "stores.list")}
                assert states == dict.fromkeys(("s1", "s2", "s3"), "admitted") | {"carried": "not admitted"}
            finally:
                carried.kill9()
        scene.finish()


@pytest.mark.long
def test_a_directory_that_cannot_be_written(tmp_path: Path, history: History) -> None:
    """The file system of one store is read-only when it starts: it says so, and the others serve."""
    mesh = MeshCluster(tmp_path)
    store = mesh.stores[1]
    with SmallDisk(tmp_path / "small", 256 * MIB) as disk:
        store.data = disk.path / "data"
        with mesh:
            scene = Scene(mesh, history)
            store.kill9()
            with disk.read_only():
                with pytest.raises(ServerEnded):
                    store.start()
                assert store.returncode == ENVIRONMENT, store.tail()
                assert "Read-only file system" in store.log
                assert str(store.data) in store.log
                assert "Traceback" not in store.log
                scene.go_on("one store's directory cannot be written")
            store.start()
            scene.finish()


@pytest.mark.long
def test_a_hundred_restarts(scene: Scene) -> None:
    """A store after the other is killed 0 to 0.5 s after its start: no start gets slower for those before."""
    seconds, moments = [], random.Random(SEED)
    for number in range(RESTARTS):
        store = scene.mesh.stores[number % 3]
        with scene.counted("a store killed once more"):
            store.kill9()
            store.launch()
            time.sleep(moments.random() * 0.5)
            store.kill9()
            store.start()
        seconds.append(time.monotonic() - store.started_at)
        if number % 10 == 0:
            scene.go_on(f"after {number + 1} restarts", 20, healed=True)
    early, late = sorted(seconds[:30])[15], sorted(seconds[-30:])[15]
    report("seconds that a start takes", early=round(early, 2), late=round(late, 2))
    assert late < 3 * early + 1.0, (early, late)
    scene.finish()
