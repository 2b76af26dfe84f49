"""A mesh whose catalog is in an etcd: members of that, or its gateway's machine, are lost under load.

What was acknowledged with acks=all is there, once, in order, through the gateway; and the stores have the
same bytes on their disks.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from kafka.protocol.admin import CreateTopicsRequest

from dafka.operators.socket import ask
from gateway.cluster.alive import LEASE_SECONDS
from tests.clients.stored import create_replicated_topic, put, stored_records
from tests.differential.batches import Record
from tests.differential.wire import Connection
from tests.faults.history import History
from tests.faults.mesh_scene import Scene, await_other_store
from tests.peers.etcd import Etcd
from tests.peers.mesh import GatewayProcess, MeshCluster, StoreProcess
from tests.peers.ports import free_ports
from tests.peers.process import ServerEnded

TOPIC = "orders"
NOT_CONTROLLER, TIMED_OUT, ALREADY_EXISTS = 41, 7, 36
SECONDS = 60.0
USAGE, DATA_REFUSED = 2, 3

pytestmark = pytest.mark.slow


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Etcd]:
    with Etcd(tmp_path / "etcd", 3) as etcd:
        yield etcd


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Etcd]:
    with Etcd(tmp_path / "etcd") as etcd:
        yield etcd


@pytest.fixture
def scene(tmp_path: Path, history: History, three: Etcd) -> Iterator[Scene]:
    with MeshCluster(tmp_path, gateway_arguments=["--catalog", three.address]) as mesh:
        yield Scene(mesh, history)


@pytest.fixture
def mesh(tmp_path: Path, one: Etcd) -> Iterator[MeshCluster]:
    with MeshCluster(tmp_path, gateway_arguments=["--catalog", one.address]) as mesh:
        create_replicated_topic(mesh.bootstrap, TOPIC, 1, 3)
        yield mesh


def create(bootstrap: str, name: str) -> tuple[int, str | None]:
    """The answer to the creation of a topic."""
    topic = CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=1, replication_factor=-1, assignments=[], configs=[]
    )
    with Connection(bootstrap) as connection:
        answer = connection.ask(CreateTopicsRequest(version=5, topics=[topic], timeout_ms=10_000)).topics[0]
    return answer.error_code, answer.error_message


def create_in_the_end(bootstrap: str, name: str) -> None:
    """As an administrator's client: it tries again what may be tried again, while etcd has no leader."""
    deadline = time.monotonic() + SECONDS
    while (error := create(bootstrap, name)[0]) not in (0, ALREADY_EXISTS):
        assert error in (NOT_CONTROLLER, TIMED_OUT)
        assert time.monotonic() < deadline


def some(first: int, last: int) -> list[Record]:
    return [Record(b"value-%05d" % number) for number in range(first, last + 1)]


def values(bootstrap: str) -> list[bytes | None]:
    return [record.value for _, record in stored_records(bootstrap, TOPIC)]


def expected(first: int, last: int) -> list[bytes | None]:
    return [record.value for record in some(first, last)]


def test_a_member_of_etcd_is_killed_and_one_is_stopped(scene: Scene, three: Etcd) -> None:
    leader = three.leader()
    leader.kill9()
    scene.go_on("etcd's leader killed")
    create_in_the_end(scene.mesh.bootstrap, "while-one-is-away")
    leader.start()
    leader = three.leader()
    stopped = time.monotonic()
    leader.pause()
    scene.go_on("etcd's leader stopped")
    create_in_the_end(scene.mesh.bootstrap, "while-one-is-stopped")
    leader.go_on()
    if time.monotonic() > stopped + LEASE_SECONDS / 2:
        start_again_if_it_ends(scene.mesh.gateway)
    scene.finish()


def start_again_if_it_ends(gateway: GatewayProcess) -> None:
    """A member that was stopped for longer than a lease may still take itself for the leader for a moment
    when it goes on, and have leases end that were renewed: on a machine that is busy enough for that.
    """
    deadline = time.monotonic() + 2 * LEASE_SECONDS
    while gateway.returncode is None and time.monotonic() < deadline:
        time.sleep(0.1)
    if gateway.returncode is not None:
        assert "was not told for 6 s that this gateway is alive" in gateway.log
        gateway.start()


def test_all_of_etcd_is_away(scene: Scene, three: Etcd) -> None:
    """What is open goes on; what has to be changed in the catalog is refused with the reason, until it is
    back.
    """
    bootstrap = scene.mesh.bootstrap
    three.kill_all()
    scene.go_on("etcd killed")
    while (answer := create(bootstrap, "while-it-is-away"))[0] != NOT_CONTROLLER:
        assert answer[0] == TIMED_OUT, "until it is noticed, nobody knows whether it was made"
    assert answer[1] is not None
    assert "nothing can be changed at present: the catalog etcd://" in answer[1]
    assert "was not reached for" in answer[1]
    three.start_all()
    create_in_the_end(bootstrap, "when-it-is-back")
    scene.finish()


def test_a_gateway_ends_though_etcd_is_away(mesh: MeshCluster, one: Etcd) -> None:
    put(mesh.bootstrap, TOPIC, some(0, 9))
    one.kill_all()
    assert create(mesh.bootstrap, "late")[0] == TIMED_OUT
    assert mesh.gateway.terminate() == 0
    assert "stopping although the catalog" in mesh.gateway.log
    one.start_all()
    mesh.gateway.start()
    assert values(mesh.bootstrap) == expected(0, 9)
    assert create(mesh.bootstrap, "late")[0] == 0


def test_the_gateways_machine_is_lost(scene: Scene) -> None:
    """Another one has nothing but the catalog's address."""
    gateway = scene.mesh.gateway
    for _ in range(3):
        with scene.counted("gateway and its directory lost, until another one serves"):
            gateway.kill9()
            shutil.rmtree(gateway.data)
            gateway.start()
        scene.go_on("and back", healed=True)
    scene.finish()


def test_a_gateway_that_was_stopped_for_so_long_that_another_one_serves_ends(
    mesh: MeshCluster, tmp_path: Path, one: Etcd
) -> None:
    first = mesh.gateway
    put(first.bootstrap, TOPIC, some(0, 9))
    first.send_signal(signal.SIGSTOP)
    second = GatewayProcess(tmp_path / "second", mesh.tower, 3, "--catalog", one.address)
    try:
        second.start()
        put(second.bootstrap, TOPIC, some(10, 19))
        first.send_signal(signal.SIGCONT)
        assert first.wait() == USAGE
        # Its lease's age or the catalog's refusal, whichever it meets first.
        assert re.search("another (one may have|gateway has) taken (its|this one's) place", first.log)
        assert "Start it again: it waits" in first.log or "start it again, and it waits" in first.log
        assert values(second.bootstrap) == expected(0, 19)
    finally:
        second.kill9()


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "ended"])
def test_a_standby_takes_the_place_of_a_gateway(
    mesh: MeshCluster, tmp_path: Path, one: Etcd, killed: bool
) -> None:
    first = mesh.gateway
    second, third = (
        GatewayProcess(tmp_path / name, mesh.tower, 3, "--catalog", one.address) for name in ("b", "c")
    )
    new = StoreProcess(tmp_path / "new", "new", mesh.tower)
    try:
        second.launch()
        second.wait_for_log("this one waits, to take its place")
        new.start()
        ask(first.data, "stores.admit", store=await_other_store(mesh, "new"))
        put(first.bootstrap, TOPIC, some(0, 9))
        if killed:
            first.kill9()
        else:
            assert first.terminate() == 0
        second.wait_ready()
        assert "new" in {one["name"] for one in ask(second.data, "stores.list") if one["state"] == "admitted"}
        assert values(second.bootstrap) == expected(0, 9)
        put(second.bootstrap, TOPIC, some(10, 19))
        # The first one's machine is back, and its gateway is a standby now.
        first.launch()
        first.wait_for_log("this one waits, to take its place")
        third.launch()
        third.wait_for_log("this one waits, to take its place")
        assert third.terminate() == 0, "a standby ends as any other"
        second.kill9()
        first.wait_ready()
        put(first.bootstrap, TOPIC, some(20, 29))
        assert values(first.bootstrap) == expected(0, 29)
    finally:
        for process in (second, third, new):
            process.kill9()


def test_clients_find_the_standby(mesh: MeshCluster, tmp_path: Path, one: Etcd) -> None:
    """librdkafka has both addresses, and repeats by itself what was not acknowledged."""
    first = mesh.gateway
    second = GatewayProcess(tmp_path / "second", mesh.tower, 3, "--catalog", one.address)
    (second.port,) = free_ports(1)
    both = {"bootstrap.servers": f"{first.bootstrap},{second.bootstrap}"}
    producer = Producer({**both, "enable.idempotence": True, "message.timeout.ms": 60_000, "linger.ms": 1})
    failed: list[object] = []
    sent = 0

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failed.append(error)

    def produce_until(happened: Callable[[], bool]) -> None:
        nonlocal sent
        while not happened():
            producer.produce(TOPIC, b"value-%05d" % sent, on_delivery=delivered)
            sent += 1
            producer.poll(0.01)

    try:
        second.launch()
        second.wait_for_log("this one waits, to take its place")
        produce_until(lambda: sent == 100)
        first.kill9()
        produce_until(lambda: "Kafka is ready on" in second.stdout_path.read_text())
        assert second.wait_ready().returncode is None
        assert producer.flush(60) == 0
        assert failed == []
        assert values(second.bootstrap) == expected(0, sent - 1)
        consumer = Consumer({**both, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe([TOPIC])
        read: list[bytes | None] = []
        while len(read) < sent:
            for message in consumer.consume(500, 1.0):
                assert message.error() is None
                read.append(message.value())
        consumer.close()
        assert read == expected(0, sent - 1)
    finally:
        second.kill9()


def test_an_etcd_that_was_put_back_to_an_older_copy_is_refused(
    mesh: MeshCluster, tmp_path: Path, one: Etcd
) -> None:
    gateway, (member,) = mesh.gateway, one.members
    put(gateway.bootstrap, TOPIC, some(0, 9))
    assert gateway.terminate() == 0
    member.kill9()
    shutil.copytree(member.data, tmp_path / "older")
    member.start()
    gateway.start()
    put(gateway.bootstrap, TOPIC, some(10, 19))
    assert create(gateway.bootstrap, "newer") == (0, None)
    gateway.kill9()
    member.kill9()
    shutil.rmtree(member.data)
    (tmp_path / "older").rename(member.data)
    member.start()
    with pytest.raises(ServerEnded):
        gateway.start()
    assert gateway.returncode == DATA_REFUSED
    assert f"{one.address}: the catalog is older than store" in gateway.log
    assert "Put back the etcd that was here, or the newest snapshot of it" in gateway.log

    # As the message says: read back below another prefix.
    elsewhere = f"{one.address}/read-back"
    address = mesh.tower.address
    tower = f"{address.host}:{address.port_in}:{address.port_out}"
    where = ["--data", str(tmp_path / "new"), "--tower", tower, "--stores", "3"]
    command = [sys.executable, "-m", "dafka.cli", "gateway", "rebuild-catalog", *where]
    done = subprocess.run([*command, "--catalog", elsewhere], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "topic newer: 1 partition" in done.stdout
    again = subprocess.run([*command, "--catalog", one.address], capture_output=True, text=True, check=False)
    assert again.returncode == USAGE
    assert "is not empty (an import or a rebuild that did not come to its end" in again.stderr
    second = GatewayProcess(tmp_path / "second", mesh.tower, 3, "--catalog", elsewhere)
    try:
        second.start()
        assert values(second.bootstrap) == expected(0, 19)
        put(second.bootstrap, TOPIC, some(20, 29))
        assert values(second.bootstrap) == expected(0, 29)
    finally:
        second.kill9()


def test_an_etcd_that_nobody_reaches_is_named(tmp_path: Path, mesh: MeshCluster) -> None:
    gateway = GatewayProcess(tmp_path / "lost", mesh.tower, 3, "--catalog", "etcd://127.0.0.1:1")
    with pytest.raises(ServerEnded):
        gateway.start()
    assert gateway.returncode == USAGE
    assert "the catalog etcd://127.0.0.1:1 cannot be reached: 127.0.0.1:1: " in gateway.log
    assert "Start etcd, or correct --catalog" in gateway.log


def test_a_catalog_moves_into_etcd_and_back(tmp_path: Path, one: Etcd) -> None:
    """Offline, with `dafka catalog export` and `import`: each is a new lineage of the one before."""

    def catalog(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "dafka.cli", "catalog", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    with MeshCluster(tmp_path) as mesh:
        gateway = mesh.gateway
        create_replicated_topic(mesh.bootstrap, TOPIC, 1, 3)
        put(mesh.bootstrap, TOPIC, some(0, 9))
        assert gateway.terminate() == 0
        assert catalog("export", "--data", gateway.data, tmp_path / "1").returncode == 0
        imported = catalog("import", "--catalog", one.address, tmp_path / "1")
        assert imported.returncode == 0, imported.stderr
        assert "1 topics" in imported.stdout
        twice = catalog("import", "--catalog", one.address, tmp_path / "1")
        assert twice.returncode == USAGE
        assert "is not empty (an import or a rebuild that did not come to its end" in twice.stderr

        gateway.data, gateway.arguments = tmp_path / "in-etcd", ["--catalog", one.address]
        gateway.start()
        assert values(mesh.bootstrap) == expected(0, 9)
        put(mesh.bootstrap, TOPIC, some(10, 19))
        assert gateway.terminate() == 0
        exported = catalog("export", "--catalog", one.address, tmp_path / "2")
        assert exported.returncode == 0, exported.stderr
        assert "/alive/" not in (tmp_path / "2").read_text()

        mistyped = catalog("export", "--catalog", f"{one.address}/other", tmp_path / "3")
        assert mistyped.returncode == USAGE
        assert "there is no catalog in" in mistyped.stderr
        assert "/PREFIX at its end" in mistyped.stderr
        again = catalog("export", "--catalog", f"{one.address}/other", tmp_path / "3")
        assert "there is no catalog in" in again.stderr, "a look makes none"

        gateway.data, gateway.arguments = tmp_path / "in-a-file", []
        assert catalog("import", "--data", gateway.data, tmp_path / "2").returncode == 0
        gateway.start()
        assert values(mesh.bootstrap) == expected(0, 19)
        put(mesh.bootstrap, TOPIC, some(20, 29))
        assert values(mesh.bootstrap) == expected(0, 29)
