"""Disks of single stores that are full, fail, are slow or lie, and the power loss of all at once."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka.protocol.consumer import FetchRequest

from tests.clients.stored import FETCH_BYTES, create_replicated_topic
from tests.differential.batches import whole_batches
from tests.differential.wire import Connection, UndecodableError
from tests.faults.disks import (
    SmallDisk,
    alter_records,
    cut_to_synced,
    failing,
    flip_stored_bytes,
    logged,
    slow,
)
from tests.faults.history import History
from tests.faults.mesh_scene import OPERATIONS, PARTITIONS, TOPIC, Scene
from tests.faults.report import report
from tests.faults.workloads import read_all
from tests.peers.mesh import MeshCluster, StoreProcess
from tests.peers.process import ServerEnded

MIB = 1024 * 1024
DATA_REFUSED, DISK_FAILED = 3, 4
STORAGE_ERROR = 56

pytestmark = pytest.mark.slow


@pytest.fixture
def mesh(tmp_path: Path) -> MeshCluster:
    return MeshCluster(tmp_path)


@pytest.fixture
def scene(mesh: MeshCluster, history: History) -> Iterator[Scene]:
    with mesh:
        yield Scene(mesh, history)


def test_a_full_disk(mesh: MeshCluster, history: History, tmp_path: Path) -> None:
    """The store ends by itself; the others serve. With room and started again, it fetches what it lacks."""
    store = mesh.stores[1]
    with SmallDisk(tmp_path / "small", 48 * MIB) as disk:
        store.data = disk.path / "data"
        with mesh:
            scene = Scene(mesh, history)
            with scene.counted("one store's disk is full"):
                disk.fill(leave=2 * MIB)
                assert store.wait() == DISK_FAILED, store.tail()
                scene.load.wait_for_new_acks(150)
            assert "Traceback" not in store.log
            assert "space" in store.log.lower()
            disk.fill()
            with pytest.raises(ServerEnded):
                store.start()  # it says so again
            assert store.returncode in {DATA_REFUSED, DISK_FAILED}
            assert "Traceback" not in store.log
            scene.go_on("and while it cannot start")
            disk.empty()
            disk.grow(512 * MIB)
            store.start()
            scene.finish()


@pytest.mark.long
def test_an_fsync_that_fails(scene: Scene, tmp_path: Path) -> None:
    """EIO once: that store acknowledges nothing more and ends; nothing was tried again on the file."""
    store, log = scene.mesh.stores[0], tmp_path / "strace.log"
    store.kill9()
    store.prefix = failing(log, 40)
    with scene.counted("one store's fsync fails"):
        store.start()
        assert store.wait() == DISK_FAILED, store.tail()
        scene.load.wait_for_new_acks(150)
    assert "Traceback" not in store.log
    lines = log.read_text(errors="replace").splitlines()
    failed = next(number for number, line in enumerate(lines) if "INJECTED" in line)
    assert [line for line in lines[failed + 1 :] if "sync(" in line and ".log>" in line] == []
    store.prefix = ()
    store.start()
    scene.finish()


@pytest.mark.long
def test_a_catalogs_fsync_that_fails(scene: Scene, tmp_path: Path) -> None:
    """EIO once: the gateway ends and says so. What that transaction wrote may be on the disk or not; the next
    life believes no page that only the system's memory may have, and writes the file anew.
    """
    gateway, log = scene.mesh.gateway, tmp_path / "strace.log"
    catalog = gateway.data / "catalog.sqlite"
    gateway.kill9()
    gateway.prefix = failing(log, 30)
    with scene.counted("the catalog's fsync fails"):
        gateway.start()
        for number in range(100):
            if gateway.returncode is not None:
                break
            with contextlib.suppress(AssertionError, OSError, UndecodableError):
                create_replicated_topic(scene.mesh.bootstrap, f"more-{number}", 1, 3)
        assert gateway.wait() == DISK_FAILED, gateway.tail()
    assert "Traceback" not in gateway.log
    assert "INJECTED" in log.read_text(errors="replace")
    before = catalog.stat().st_ino
    gateway.prefix = ()
    gateway.start()
    assert catalog.stat().st_ino != before
    scene.finish()


@pytest.mark.long
def test_a_slow_fsync(scene: Scene) -> None:
    """Half a second for each on one of three: two are enough, and nobody waits for the third."""
    waits = []
    with slow(scene.mesh.stores[2], 0.5), scene.counted("one store's fsync takes 0.5 s"):
        until = time.monotonic() + 8.0
        while time.monotonic() < until:
            began = time.monotonic()
            scene.load.wait_for_acks(50)
            waits.append(time.monotonic() - began)
    report("longest wait for 50 acknowledgements", seconds=round(max(waits), 2))
    assert sum(waits) / len(waits) < 0.5
    scene.finish()


@pytest.mark.long
def test_a_power_loss_of_everything(mesh: MeshCluster, history: History, tmp_path: Path) -> None:
    """Every store keeps what it had forced to disk, not a byte more."""
    logs = {store: tmp_path / f"{store.name}.strace" for store in mesh.stores}
    for store in mesh.stores:
        store.prefix = logged(logs[store])
    with mesh:
        scene = Scene(mesh, history)
        scene.go_on("under strace", 1000, healed=True)
        with scene.counted("power loss of all stores and the gateway"):
            for process in (*mesh.stores, mesh.gateway):
                process.kill9()
            lost = {store.name: cut_to_synced(logs[store], store.data) for store in mesh.stores}
            report("bytes that no fsync had covered", **lost)
            for store in mesh.stores:
                store.prefix = ()
                store.start()
            mesh.gateway.start()
        scene.finish()


# wrong bytes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [pytest.param(flip_stored_bytes, marks=pytest.mark.long), alter_records],
    ids=["flipped bits", "altered records"],
)
def test_wrong_bytes_on_two_stores(scene: Scene, damage: Callable[[StoreProcess], int]) -> None:
    """While the third is away readers get an error, and never something wrong or too little; with it they get
    what it has. What is written meanwhile is kept.
    """
    mesh = scene.mesh
    _close_all_segments(scene)
    mesh.gateway.kill9()
    # Before the others start: they would mend what is damaged from it.
    mesh.stores[2].kill9()
    for store in mesh.stores[:2]:
        assert store.terminate() == 0
        assert damage(store)
        store.start()
    mesh.gateway.start()
    scene.new_load("q", pause=0.002)
    with scene.counted("wrong bytes on two stores, and the third is away"):
        codes = [_read_to_an_error(mesh.bootstrap, partition) for partition in range(PARTITIONS)]
        report("reads with the last good copy away", codes=codes)
        assert set(codes) == {STORAGE_ERROR}
        scene.load.wait_for_new_acks(OPERATIONS)
    assert "bad copy" in mesh.gateway.log or any("cannot be read" in s.log for s in mesh.stores), (
        mesh.gateway.log
    )
    with scene.counted("and with the third"):
        mesh.stores[2].start()
        read_all(mesh.bootstrap, TOPIC, scene.history, PARTITIONS, "meanwhile")
        scene.load.wait_for_new_acks(OPERATIONS)
    scene.read()


def _close_all_segments(scene: Scene) -> None:
    """By a new life of the gateway; every store has all of them then."""
    scene.stop_load()
    scene.mesh.gateway.kill9()
    scene.mesh.gateway.start()
    scene.mesh.wait_until_all_have_all()


def _read_to_an_error(bootstrap: str, partition: int) -> int:
    """Reads from the beginning: the first error, or 0 at the high watermark; never less than up to there."""
    offset = 0
    with Connection(bootstrap) as connection:
        while True:
            part = FetchRequest.FetchTopic.FetchPartition(
                partition=partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES
            )
            asked = FetchRequest(
                version=11,
                max_wait_ms=500,
                min_bytes=0,
                max_bytes=FETCH_BYTES,
                session_id=0,
                session_epoch=-1,
                topics=[FetchRequest.FetchTopic(topic=TOPIC, partitions=[part])],
            )
            answer = connection.ask(asked).responses[0].partitions[0]
            if answer.error_code or offset >= answer.high_watermark:
                return int(answer.error_code)
            batches = list(whole_batches(answer.records))
            assert batches, f"nothing at {offset}, and no error"
            assert all(batch.crc_is_right for batch in batches)
            offset = batches[-1].base_offset + batches[-1].last_offset_delta + 1
