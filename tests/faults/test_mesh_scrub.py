"""A disk that loses bits under a store of a mesh: the store finds it, and mends it from the others."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.disks import alter_records, flip_table_byte
from tests.faults.history import History
from tests.faults.mesh_scene import WAIT_SECONDS, Scene, assert_same_contents
from tests.faults.report import report
from tests.peers.mesh import MeshCluster, StoreProcess
from tests.peers.probe import free_ports

pytestmark = pytest.mark.slow


def figure(port: int, name: str) -> float:
    """What a process shows to Prometheus under a name."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        lines = page.read().decode().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"{name} ")))


def until_scrubbed(port: int) -> None:
    """Until a whole pass has found nothing that is damaged and not mended."""
    deadline = time.monotonic() + WAIT_SECONDS
    passes = figure(port, "dafka_store_scrub_passes_total")
    while (
        figure(port, "dafka_store_scrub_passes_total") < passes + 2
        or figure(port, "dafka_store_damaged_segments") > 0
    ):
        assert time.monotonic() < deadline, "the scrub does not come to an end"
        time.sleep(0.05)


@pytest.mark.parametrize("damage", [flip_table_byte, alter_records], ids=["table file", "records"])
def test_a_flipped_byte_is_found_and_mended(
    tmp_path: Path, history: History, damage: Callable[[StoreProcess], int]
) -> None:
    """In a table file RocksDB notices it as it reads; in a record only the record's own CRC tells."""
    mesh = MeshCluster(tmp_path)
    ports = free_ports(len(mesh.stores))
    for store, port in zip(mesh.stores, ports, strict=True):
        store.arguments += ["--scrub-interval-seconds", "1", "--metrics", f"127.0.0.1:{port}"]
        store.arguments += ["--scrub-bytes-per-second", str(1 << 30)]
    with mesh:
        # Small records, so that RocksDB has few files and no reason to merge the damaged one meanwhile.
        scene = Scene(mesh, history, sizes=(100, 600))
        scene.go_on("enough for several blocks of a file", 1500, healed=True)
        scene.load.stop()
        mesh.gateway.kill9()
        mesh.gateway.start()  # closes what was open
        mesh.wait_until_all_have_all()
        store, port = mesh.stores[0], ports[0]
        assert store.terminate() == 0
        assert damage(store)
        store.start()
        until_scrubbed(port)
        repaired = figure(port, "dafka_store_repaired_ranges_total")
        report("a flipped byte", repaired=repaired, bytes=figure(port, "dafka_store_scrubbed_bytes_total"))
        assert figure(port, "dafka_store_bad_ranges_total") == repaired > 0
        assert figure(port, "dafka_store_irreparable_ranges") == 0
        assert "is damaged on this disk" in store.log
        assert "is repaired, as store" in store.log
        for other in ports[1:]:
            assert figure(other, "dafka_store_bad_ranges_total") == 0
            assert figure(other, "dafka_store_differing_segments") == 0
        scene.read()
        mesh.stop()
        assert_same_contents(mesh.stores)
