"""Data directories of a mesh's stores that a crash or a person has damaged, or that belong elsewhere."""

from __future__ import annotations

import shutil
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.admin import ask
from tests.faults.history import History
from tests.faults.mesh_scene import WAIT_SECONDS, Scene
from tests.peers.mesh import MeshCluster, StoreProcess
from tests.peers.process import ServerEnded

DATA_REFUSED = 3
RESTARTS = 100
RECORD_HEADER_BYTES = 7

pytestmark = pytest.mark.slow


@pytest.fixture
def scene(tmp_path: Path, history: History) -> Iterator[Scene]:
    with MeshCluster(tmp_path) as mesh:
        yield Scene(mesh, history)


def newest_log(store: StoreProcess) -> Path:
    """The store's write-ahead log."""
    return max((store.data / "db").glob("*.log"), key=lambda path: int(path.stem))


def refused(store: StoreProcess) -> str:
    """What a store says that must not start."""
    with pytest.raises(ServerEnded):
        store.start()
    assert store.returncode == DATA_REFUSED
    assert "Traceback" not in store.log
    return store.log


def await_other_store(mesh: MeshCluster, name: str) -> str:
    """The incarnation of a store that is there under a name, and not admitted, once the gateway knows it."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        stores = ask(mesh.gateway.data, "stores.list")
        for entry in stores:
            if entry["name"] == name and entry["state"] != "admitted" and entry["live"]:
                return str(entry["incarnation"])
        assert time.monotonic() < deadline, stores
        time.sleep(0.05)


@pytest.mark.long
@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_a_torn_write(scene: Scene, part: float) -> None:
    """The last write before a crash, of which a part is there: it was never acknowledged."""
    store = scene.mesh.stores[0]
    store.kill9()
    log = newest_log(store)
    content = log.read_bytes()
    (length,) = struct.unpack_from("<H", content, 4)
    torn = 1 + int(part * (RECORD_HEADER_BYTES + length - 2))
    log.write_bytes(content + content[:torn])
    scene.go_on("one store killed in a write")
    store.start()
    scene.finish()


@pytest.mark.long
def test_a_flipped_bit_in_the_log(scene: Scene) -> None:
    """It refuses, and names file and remedy; by `--accept-loss` it comes back as another store."""
    store, gateway = scene.mesh.stores[0], scene.mesh.gateway
    store.kill9()
    log = newest_log(store)
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 0x10
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
    scene.go_on("back as another store")
    gateway.kill9()
    gateway.start()
    scene.go_on("and a new life of the gateway")
    scene.read()


def test_a_directory_in_use_or_of_another_mesh(tmp_path: Path) -> None:
    with MeshCluster(tmp_path / "one", stores=1) as one, MeshCluster(tmp_path / "two", stores=1) as two:
        second = StoreProcess(tmp_path / "second", "second", one.tower)
        second.data = one.stores[0].data
        said = refused(second)
        assert str(one.stores[0].pid) in said
        # The directory of a store of one mesh, carried to the other.
        one.stores[0].kill9()
        carried = StoreProcess(tmp_path / "carried", "carried", two.tower)
        shutil.copytree(one.stores[0].data, carried.data)
        try:
            carried.start()
            states = {entry["name"]: entry["state"] for entry in ask(two.gateway.data, "stores.list")}
            assert states["s1"] == "admitted"
            assert states.get("carried", "foreign") != "admitted"
        finally:
            carried.kill9()


@pytest.mark.long
def test_a_hundred_restarts(scene: Scene) -> None:
    """One store after the other is killed and started: no start takes longer for those before it."""
    seconds = []
    for number in range(RESTARTS):
        store = scene.mesh.stores[number % 3]
        store.kill9()
        store.start()
        seconds.append(time.monotonic() - store.started_at)
        if number % 10 == 0:
            scene.go_on(f"after {number + 1} restarts", 20)
    early, late = sorted(seconds[:30])[15], sorted(seconds[-30:])[15]
    assert late < 3 * early + 1.0, (early, late)
    scene.finish()
