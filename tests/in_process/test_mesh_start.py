"""How a gateway of a mesh starts: what it waits for, what it refuses, and what operators ask of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dafka.commands.exits import EXIT_DATA_REFUSED, EXIT_USAGE
from dafka.operators.socket import OperatorRefused, ask
from tests.clients.stored import create_replicated_topic, stored_records
from tests.faults.workloads import make_value
from tests.peers.mesh import GatewayProcess, MeshCluster, StoreProcess
from tests.peers.tower import TowerProcess

TOPIC = "orders"
PATIENCE_SECONDS = 30.0

pytestmark = pytest.mark.slow


def until(condition: Callable[[], Any]) -> Any:
    """What `condition` gives, once it gives something."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, "it does not come to be"
        time.sleep(0.02)
    return found


def write(mesh: MeshCluster, first: int, last: int) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": mesh.bootstrap, "acks": "all"})
    for number in range(first, last):
        producer.produce(TOPIC, make_value("p", number, 100), partition=0)
    assert producer.flush(PATIENCE_SECONDS) == 0


def values(mesh: MeshCluster) -> list[bytes | None]:
    return [record.value for _, record in stored_records(mesh.bootstrap, TOPIC, 0)]


def expected(count: int) -> list[bytes]:
    return [make_value("p", number, 100) for number in range(count)]


def refuses(process: GatewayProcess, code: int, *words: str) -> None:
    """It ends with this exit code and one line that has these words."""
    process.launch()
    assert process.wait() == code, process.tail()
    line = process.log.splitlines()[-1]
    assert line.startswith("dafka: "), line
    for word in words:
        assert word in line, line
    assert "Traceback" not in process.log


def test_it_waits_for_its_first_stores_and_can_be_stopped_meanwhile(tmp_path: Path) -> None:
    with TowerProcess(tmp_path / "tower") as tower:
        store = StoreProcess(tmp_path / "s1", "s1", tower)
        gateway = GatewayProcess(tmp_path / "gateway", tower, 2)
        try:
            store.start()
            gateway.launch()
            until(lambda: "waiting for 2 stores, 1 are there (s1)" in gateway.log)
            assert "Kafka is ready" not in gateway.stdout_path.read_text()
            assert gateway.terminate() == 0, gateway.tail()
        finally:
            gateway.kill9()
            store.kill9()


def test_health_says_that_it_starts(tmp_path: Path) -> None:
    with TowerProcess(tmp_path / "tower") as tower:
        gateway = GatewayProcess(tmp_path / "gateway", tower, 1, "--metrics", "127.0.0.1:19464")
        try:
            gateway.launch()
            assert "starting" in until(lambda: _not_ready("http://127.0.0.1:19464/health"))
        finally:
            gateway.kill9()


def _not_ready(url: str) -> str | None:
    try:
        urllib.request.urlopen(url, timeout=5)
    except urllib.error.HTTPError as error:
        return error.read().decode() if error.code == 503 else None
    except OSError:
        return None
    return None


def test_a_lost_catalog_is_refused_and_can_be_rebuilt(tmp_path: Path) -> None:
    with MeshCluster(tmp_path) as mesh:
        create_replicated_topic(mesh.bootstrap, TOPIC, 1, 3, max_message_bytes="123456")
        write(mesh, 0, 500)
        mesh.gateway.kill9()
        (mesh.gateway.data / "catalog.sqlite").rename(tmp_path / "lost")
        for left in mesh.gateway.data.glob("catalog.sqlite-*"):
            left.unlink()
        refuses(mesh.gateway, EXIT_DATA_REFUSED, "hold data of cluster", "rebuild-catalog")
        done = rebuild(mesh)
        assert done.returncode == 0, done.stderr
        assert f"topic {TOPIC}: 1 partition, 1 segment\n" in done.stdout
        assert "was read back from the stores: 1 topic. 'dafka gateway'" in done.stdout
        mesh.gateway.start()
        assert values(mesh) == expected(500)
        write(mesh, 500, 600)
        assert values(mesh) == expected(600)


def rebuild(mesh: MeshCluster) -> subprocess.CompletedProcess[str]:
    """`dafka gateway rebuild-catalog`; options may stand on either side of the subcommand."""
    tower = mesh.tower.address
    before = ["gateway", "--data", str(mesh.gateway.data)]
    after = ["rebuild-catalog", "--stores", "3", "--tower", f"{tower.host}:{tower.port_in}:{tower.port_out}"]
    command = [sys.executable, "-m", "dafka.cli", *before, *after]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_second_gateway_leaves_the_first_one_alone(tmp_path: Path) -> None:
    with MeshCluster(tmp_path, 1) as mesh:
        create_replicated_topic(mesh.bootstrap, TOPIC, 1, 1)
        write(mesh, 0, 10)
        second = GatewayProcess(tmp_path / "second", mesh.tower, 1)
        refuses(second, EXIT_DATA_REFUSED, "hold data of cluster")  # it has no catalog
        mesh.gateway.kill9()
        _copy(mesh.gateway.data, second.data)
        mesh.gateway.start()
        try:
            refuses(second, EXIT_USAGE, "another gateway", f"process {mesh.gateway.pid}")
        finally:
            second.kill9()
        write(mesh, 10, 20)
        assert values(mesh) == expected(20)


def _copy(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for name in ("identity.json", "catalog.sqlite", "catalog.sqlite-wal"):
        if (source / name).exists():
            (target / name).write_bytes((source / name).read_bytes())


def test_stores_are_listed_admitted_and_removed(tmp_path: Path) -> None:
    with MeshCluster(tmp_path, 1) as mesh:
        data = mesh.gateway.data
        late = StoreProcess(tmp_path / "late", "late", mesh.tower)
        try:
            late.start()
            listed = until(lambda: _named(ask(data, "stores.list"), "late"))
            assert (listed["id"], listed["state"], listed["live"]) == (None, "not admitted", True)
            with pytest.raises(OperatorRefused, match=r"no store was heard of that is called nobody.*late"):
                ask(data, "stores.admit", store="nobody")
            assert ask(data, "stores.admit", store="late")["id"] == 1001
            with pytest.raises(OperatorRefused, match="admitted already"):
                ask(data, "stores.admit", store="late")
            create_replicated_topic(mesh.bootstrap, TOPIC, 1, 2)
            write(mesh, 0, 10)
            with pytest.raises(
                OperatorRefused, match=f"cannot be removed: 1 segments of {TOPIC}-0 count on it"
            ):
                ask(data, "stores.remove", store="late")
            status = ask(data, "mesh.status")
            assert (status["partitions"], status["ready"], status["troubled"]) == (1, 1, [])
        finally:
            late.kill9()


def test_a_store_whose_disk_is_gone_is_replaced(tmp_path: Path) -> None:
    with MeshCluster(tmp_path) as mesh:
        create_replicated_topic(mesh.bootstrap, TOPIC, 1, 3)
        write(mesh, 0, 300)
        data, gone = mesh.gateway.data, mesh.stores[2]
        gone.kill9()
        fresh = StoreProcess(tmp_path / "fresh", "fresh", mesh.tower)
        try:
            fresh.start()
            until(lambda: _named(ask(data, "stores.list"), "fresh"))
            ask(data, "stores.admit", store="fresh")
            assert ask(data, "stores.replace", store="s3", by="fresh")["new"]["name"] == "fresh"
            until(lambda: _removed(data, "s3"))
            write(mesh, 300, 400)
            assert values(mesh) == expected(400)
            mesh.gateway.kill9()
            mesh.gateway.start()
            mesh.wait_until_all_have_all()
            mesh.gateway.terminate()
            assert fresh.terminate() == mesh.stores[0].terminate() == 0
            kept = {address: records for address, records in fresh.contents().items() if records}
            assert kept
            assert kept.items() <= mesh.stores[0].contents().items()
            assert sum(map(len, kept.values())) == sum(map(len, mesh.stores[0].contents().values()))
        finally:
            fresh.kill9()


def _removed(data: Path, name: str) -> bool:
    try:
        ask(data, "stores.remove", store=name)
    except OperatorRefused:
        return False
    return True


def _named(stores: list[dict[str, Any]], name: str) -> dict[str, Any] | None:
    return next((store for store in stores if store["name"] == name), None)


def test_a_port_that_is_taken_is_an_error_of_usage(tmp_path: Path) -> None:
    with MeshCluster(tmp_path, 1) as mesh:
        port = mesh.stores[0].stdout_path.read_text().split("127.0.0.1:")[1].split(",")[0]
        second = GatewayProcess(tmp_path / "second", mesh.tower, 1, "--mesh-listen", f"127.0.0.1:{port}")
        refuses(second, EXIT_USAGE, "cannot bind the mesh", "--mesh-listen")


def test_sigterm_ends_every_process_in_order(tmp_path: Path) -> None:
    with MeshCluster(tmp_path, 1) as mesh:
        create_replicated_topic(mesh.bootstrap, TOPIC, 1, 1)
        write(mesh, 0, 10)
        mesh.gateway.send_signal(signal.SIGHUP)  # is ignored
        mesh.stop()
        assert not (mesh.stores[0].data / "running").exists()


def test_a_stopped_store_is_verified_and_a_flipped_byte_is_found(tmp_path: Path) -> None:
    with MeshCluster(tmp_path, 1) as mesh:
        create_replicated_topic(mesh.bootstrap, TOPIC, 1, 1)
        write(mesh, 0, 2000)
        store = mesh.stores[0]
        mesh.gateway.kill9()
        in_use = dafka("store", "verify", str(store.data))
        assert (in_use.returncode, "is using it" in in_use.stderr) == (EXIT_DATA_REFUSED, True), in_use
        assert store.terminate() == 0
        good = dafka("store", "verify", str(store.data))
        assert (good.returncode, good.stdout.endswith("all is well\n")) == (0, True), good
        blob = max(store.data.glob("db/*.blob"), key=lambda file: file.stat().st_size)
        content = bytearray(blob.read_bytes())
        content[len(content) // 2] ^= 1
        blob.write_bytes(content)
        bad = dafka("store", "verify", "--json", str(store.data))
        assert bad.returncode == EXIT_DATA_REFUSED, bad
        report = json.loads(bad.stdout)
        assert report["problem_count"] >= 1
        assert report["problems"][0]["sequence"] >= 0


def dafka(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dafka.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
