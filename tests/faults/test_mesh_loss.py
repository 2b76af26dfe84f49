"""`dafka store accept-loss`: the last resort names exactly what is given up before it is done."""

from __future__ import annotations

import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka.protocol.producer import ProduceRequest

from dafka.operators.socket import OperatorRefused, ask
from tests.clients.stored import create_replicated_topic, stored_records
from tests.differential.batches import batch_of
from tests.differential.wire import Connection
from tests.faults.mesh_scene import WAIT_SECONDS, await_other_store
from tests.peers.mesh import MeshCluster, StoreProcess
from tests.peers.ports import free_ports
from tests.peers.process import ServerEnded

TOPIC = "orders"
USAGE, DATA_REFUSED = 2, 3

pytestmark = pytest.mark.slow


@pytest.fixture
def ports() -> list[int]:
    return free_ports(3)


@pytest.fixture
def mesh(tmp_path: Path, ports: list[int]) -> Iterator[MeshCluster]:
    mesh = MeshCluster(tmp_path)
    for store, port in zip(mesh.stores, ports, strict=True):
        store.arguments += ["--metrics", f"127.0.0.1:{port}"]
    with mesh:
        create_replicated_topic(mesh.bootstrap, TOPIC, 1, 3)
        yield mesh


def accept_loss(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dafka.cli", "store", "accept-loss", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def produce(mesh: MeshCluster, *values: bytes) -> None:
    """One batch for each, acknowledged with acks=all before the next one is sent."""
    of = ProduceRequest.TopicProduceData
    with Connection(mesh.bootstrap) as connection:
        for value in values:
            part = of.PartitionProduceData(index=0, records=batch_of(value))
            data = [of(name=TOPIC, partition_data=[part])]
            asked = ProduceRequest(version=9, acks=-1, timeout_ms=20_000, topic_data=data)
            answer = connection.ask(asked).responses[0].partition_responses[0]
            assert answer.error_code == 0, answer


def values(mesh: MeshCluster) -> list[bytes | None]:
    found = stored_records(mesh.bootstrap, TOPIC)
    assert [offset for offset, _ in found] == list(range(len(found)))
    return [record.value for _, record in found]


def some(first: int, last: int, word: str = "value") -> list[bytes]:
    return [b"%b-%05d" % (word.encode(), number) for number in range(first, last + 1)]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def head(port: int) -> int:
    """The highest durable head of a store's open segments."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        lines = page.read().decode().splitlines()
    heads = [float(line.split()[1]) for line in lines if line.startswith("dafka_store_durable_head{")]
    return int(max(heads, default=-1))


def is_removed(mesh: MeshCluster, name: str) -> bool:
    """Whether a store that is being replaced could be removed: another one has all of what it had."""
    try:
        ask(mesh.gateway.data, "stores.remove", store=name)
    except OperatorRefused:
        return False
    return True


def is_told(mesh: MeshCluster, name: str) -> bool:
    """Whether a store has confirmed the ends of all closed segments."""
    stores = mesh.status()["stores"]
    return all(not one["unconfirmed_segments"] for one in stores if one["name"] == name)


def test_stores_that_are_lost_for_good(mesh: MeshCluster, ports: list[int], tmp_path: Path) -> None:
    """Two of three: what only they acknowledged is named and given up, and the rest is served again."""
    gateway, left = mesh.gateway, mesh.stores[2]
    produce(mesh, *some(0, 9))
    until(lambda: head(ports[2]) == 9)
    left.kill9()
    produce(mesh, *some(10, 14, "lost"))  # the two others acknowledge
    for process in (gateway, *mesh.stores[:2]):
        process.kill9()
    left.start()
    gateway.start()
    lost = ["--gone", "s1", "--gone", "s2", "--data", gateway.data]

    looked = accept_loss(*lost)
    assert looked.returncode == USAGE
    assert re.search(
        rf"^  {TOPIC}-0, segment [0-9A-F]{{32}}: offsets from 10 on", looked.stdout, re.MULTILINE
    ), looked.stdout + looked.stderr
    assert "(s3) have it up to 9" in looked.stdout
    assert "nothing was changed" in looked.stderr
    assert "--yes" in looked.stderr
    (troubled,) = mesh.status()["troubled"]
    assert "waits for the stores" in troubled["reason"]

    one_only = accept_loss("--gone", "s1", "--data", gateway.data, "--yes")
    assert one_only.returncode == USAGE
    assert "no partition waits for these stores" in one_only.stderr
    there = accept_loss("--gone", "s1", "--gone", "s3", "--data", gateway.data, "--yes")
    assert there.returncode == USAGE
    assert "(s3) is there: it is not lost" in there.stderr

    done = accept_loss(*lost, "--yes")
    assert done.returncode == 0, done.stderr
    assert f"{TOPIC}-0 serves again: its next offset is 10" in done.stdout
    assert "dafka store replace LOST NEW" in done.stdout
    assert values(mesh) == some(0, 9)

    # One that was lost comes back, and what was given up is cut off there. An empty store replaces the other.
    mesh.stores[0].start()
    until(lambda: is_told(mesh, "s1"))
    new = StoreProcess(tmp_path / "new", "new", mesh.tower)
    try:
        new.start()
        ask(gateway.data, "stores.admit", store=await_other_store(mesh, "new"))
        ask(gateway.data, "stores.replace", store="s2", by="new")
        until(lambda: is_removed(mesh, "s2"))
        produce(mesh, *some(10, 12))
        assert values(mesh) == some(0, 12)
    finally:
        new.kill9()
    assert mesh.stores[0].terminate() == 0
    kept = [record for records in mesh.stores[0].contents().values() for record in records]
    assert len(kept) >= 10
    assert not [record for record in kept if b"lost-" in record]


def test_a_log_that_is_damaged_in_the_middle(mesh: MeshCluster, ports: list[int]) -> None:
    """Named from what is whole behind the damage, and from the catalog; then it is another store."""
    store, gateway = mesh.stores[0], mesh.gateway
    produce(mesh, *some(0, 19))
    until(lambda: head(ports[0]) == 19)
    store.kill9()
    (log,) = [path for path in (store.data / "db").rglob("*.log") if b"value-00012" in path.read_bytes()]
    content = bytearray(log.read_bytes())
    content[content.index(b"value-00012")] ^= 1
    log.write_bytes(content)
    produce(mesh, *some(20, 24))
    with pytest.raises(ServerEnded):
        store.start()
    assert store.returncode == DATA_REFUSED
    assert "dafka store accept-loss" in store.log

    before = files(store)
    looked = accept_loss(store.data, "--data", gateway.data)
    assert looked.returncode == USAGE
    found = re.search(rf"{TOPIC}-0, segment [0-9A-F]{{32}}: offsets (\d+) to (\d+); (.*)", looked.stdout)
    assert found is not None, looked.stdout + looked.stderr
    first = int(found[1])
    assert first <= 12
    assert int(found[2]) == 24, "the catalog's gateway knows more than the log"
    assert "(s2), " in found[3]
    assert "(s3) keep it too" in found[3]
    assert files(store) == before, "a look changes nothing"

    alone = accept_loss(store.data, "--data", store.data)
    assert f"offsets {first} to 19" in alone.stdout
    assert "is not said here: no gateway answers" in alone.stdout

    done = accept_loss(store.data, "--data", gateway.data, "--yes")
    assert done.returncode == 0, done.stderr
    step = re.search(r"'dafka store admit (\w+)', 'dafka store replace (\w+) (\w+)'", done.stdout)
    assert step is not None, done.stdout
    again = accept_loss(store.data, "--data", gateway.data, "--yes")
    assert again.returncode == USAGE
    assert "is not damaged: there is nothing to give up" in again.stderr
    store.start()
    assert await_other_store(mesh, store.name) == step[1] == step[3]
    ask(gateway.data, "stores.admit", store=step[1])
    ask(gateway.data, "stores.replace", store=step[2], by=step[3])
    until(lambda: is_removed(mesh, step[2]))
    produce(mesh, *some(25, 29))
    assert values(mesh) == some(0, 29)


def files(store: StoreProcess) -> dict[Path, bytes]:
    """What lies in a stopped store's directory, but for who had it open last."""
    found = {path: path.read_bytes() for path in store.data.rglob("*") if path.is_file()}
    del found[store.data / "lock"]
    return found
