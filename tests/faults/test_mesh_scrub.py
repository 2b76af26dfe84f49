"""A disk that loses bits under a store of a mesh: the store finds it, and mends it from the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.disks import alter_records, flip_table_byte
from tests.faults.history import History
from tests.faults.mesh_scene import Scene, assert_same_contents
from tests.faults.report import report
from tests.faults.scrubbing import figure, scrub_often, until_scrubbed
from tests.peers.mesh import MeshCluster, StoreProcess

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("damage", [flip_table_byte, alter_records], ids=["table file", "records"])
def test_a_flipped_byte_is_found_and_mended(
    tmp_path: Path, history: History, damage: Callable[[StoreProcess], int]
) -> None:
    """In a table file RocksDB notices it as it reads; in a record only the record's own CRC tells."""
    mesh = MeshCluster(tmp_path)
    ports = scrub_often(mesh)
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
