"""'Restore a copy of the catalog' and 'Lose the catalog' of docs/operations.md, with real processes."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.peers.mesh import MeshCluster
from tests.peers.process import ServerEnded

pytestmark = pytest.mark.slow


def dafka(*arguments: str | Path) -> str:
    """What a command prints; it must do what it is asked."""
    done = subprocess.run(
        [sys.executable, "-m", "dafka.cli", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def create(mesh: MeshCluster, name: str) -> None:
    dafka("topics", "create", name, "--replication-factor", "3", "--bootstrap", mesh.bootstrap)


def topics(mesh: MeshCluster) -> set[str]:
    return set(AdminClient({"bootstrap.servers": mesh.bootstrap}).list_topics(timeout=20).topics)


def write(mesh: MeshCluster, topic: str) -> None:
    producer = Producer({"bootstrap.servers": mesh.bootstrap, "enable.idempotence": True})
    producer.produce(topic, b"value", partition=0)
    assert producer.flush(20) == 0


def refused(mesh: MeshCluster) -> str:
    """Why the gateway does not start."""
    with pytest.raises(ServerEnded):
        mesh.gateway.start()
    assert mesh.gateway.returncode == 3
    return mesh.gateway.log


def test_a_backup_that_is_older_than_the_stores_is_refused_and_a_rebuild_has_everything(
    tmp_path: Path,
) -> None:
    backup, export = tmp_path / "backup", tmp_path / "catalog.jsonl"
    with MeshCluster(tmp_path) as mesh:
        gateway = mesh.gateway
        create(mesh, "orders")
        write(mesh, "orders")
        dafka("catalog", "export", "--data", gateway.data, export)
        assert gateway.terminate() == 0
        shutil.copytree(gateway.data, backup)
        gateway.start()
        create(mesh, "newer")
        assert gateway.terminate() == 0

        shutil.rmtree(gateway.data)
        shutil.copytree(backup, gateway.data)
        said = refused(mesh)
        assert "the catalog is older than store 100" in said
        assert "rebuild-catalog" in said

        shutil.rmtree(gateway.data)
        dafka("catalog", "import", "--data", gateway.data, export)
        assert "without --older" in refused(mesh)
        shutil.rmtree(gateway.data)
        dafka("catalog", "import", "--data", gateway.data, export, "--older")

        # An import has told the stores nothing yet: they still have all that was there.
        shutil.rmtree(gateway.data)
        tower = mesh.tower.address
        printed = dafka(
            "gateway", "rebuild-catalog", "--data", gateway.data, "--stores", "3",
            "--tower", f"{tower.host}:{tower.port_in}:{tower.port_out}",
        )  # fmt: skip
        assert "topic newer: 1 partition, 0 segments" in printed
        gateway.start()
        assert {"orders", "newer"} <= topics(mesh)
        for name in ("orders", "newer"):
            write(mesh, name)
        mesh.stop()


def test_a_new_topic_of_the_settings_waits_for_the_stores_and_nobody_waits_for_it(tmp_path: Path) -> None:
    with MeshCluster(tmp_path) as mesh:
        create(mesh, "orders")
        assert mesh.gateway.terminate() == 0
        for store in mesh.stores[:2]:
            store.kill9()
        mesh.gateway.arguments += ["--topics", "later"]
        mesh.gateway.start()
        assert topics(mesh) == {"orders"}
        for store in mesh.stores[:2]:
            store.start()
        deadline = time.monotonic() + 30
        while topics(mesh) != {"orders", "later"}:
            assert time.monotonic() < deadline, mesh.gateway.tail()
            time.sleep(0.1)
        write(mesh, "later")
