"""Stores that scrub all the time, and how far they are."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Sequence

from tests.faults.mesh_scene import WAIT_SECONDS
from tests.peers.mesh import MeshCluster
from tests.peers.ports import free_ports


def scrub_often(mesh: MeshCluster) -> Sequence[int]:
    """Before the start: every store scrubs with a second of rest. The ports of their metrics."""
    ports = free_ports(len(mesh.stores))
    for store, port in zip(mesh.stores, ports, strict=True):
        store.arguments += ["--scrub-interval-seconds", "1", "--metrics", f"127.0.0.1:{port}"]
        store.arguments += ["--scrub-bytes-per-second", str(1 << 30)]
    return ports


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
