"""The image is built, and each role runs in it as one would run it in earnest: with a user without rights, a
read-only root, nothing to write to but its volume and /tmp, and as process 1.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.deploy.container import Container
from tests.deploy.image import ROOT, Image, built_image
from tests.faults.network import Network
from tests.mesh.keyed_processes import issue
from tests.peers.requirements import unavailable

GRACE_SECONDS = 15.0
"""As the files in deploy/ give."""
ADDED_BYTES = 120_000_000
"""What the image may add to its base. A library for the signatures of tokens is 20 MB of it."""
RECORDS = [f"record {number}".encode() for number in range(100)]
WAIT_SECONDS = 60.0

pytestmark = [pytest.mark.slow, pytest.mark.deploy]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    if os.geteuid() != 0:
        unavailable("the image is built and started with mounts and namespaces: root is needed")
    with built_image(tmp_path_factory.mktemp("image")) as image:
        yield image


@pytest.fixture
def network() -> Iterator[Network]:
    with Network() as network:
        yield network


def test_what_the_image_says(image: Image) -> None:
    config = image.config
    assert image.user == (10001, 10001)
    assert config["Entrypoint"] == ["dafka"]
    assert config["Healthcheck"]["Test"] == ["CMD", "dafka", "health"]
    assert config["StopSignal"] == "SIGTERM"
    assert set(config["Volumes"]) == {"/data"}
    labels = {key.removeprefix("org.opencontainers.image."): text for key, text in config["Labels"].items()}
    assert labels["licenses"] == "MPL-2.0"
    assert {"title", "description", "version", "revision", "created"} <= set(labels)
    assert len(labels["revision"]) == 40


def test_it_is_small_and_has_no_tools_of_its_making(image: Image) -> None:
    print(f"base {image.base_bytes / 1e6:.0f} MB, image {image.bytes / 1e6:.0f} MB")
    assert image.bytes - image.base_bytes < ADDED_BYTES
    packages = image.root / "opt/dafka/lib/python3.11/site-packages"
    assert (packages / "gateway").is_dir()
    assert not (packages / "pip").exists()
    assert not (image.root / "source").exists()


def test_it_says_what_it_is_made_of(image: Image) -> None:
    environment = image.root / "opt/dafka"
    command = [sys.executable, str(ROOT / ".ci/sbom_contents.py"), str(environment / "sbom.cdx.json")]
    done = subprocess.run(
        [*command, str(environment), str(ROOT / "constraints.txt")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_nothing_in_it_is_compiled_when_it_starts(image: Image, network: Network, tmp_path: Path) -> None:
    """A read-only root keeps no bytecode: what is not in the image is compiled at every start."""
    with served(image, network, tmp_path) as (container, _):
        seen = container.run(
            "python3", "-v", "-c", "import dafka.processes.standalone, dafka.processes.store, dafka.cli"
        )
    assert seen.returncode == 0, seen.stderr
    loaded = [line for line in seen.stderr.splitlines() if line.startswith("# code object from ")]
    assert len(loaded) > 300
    assert [line for line in loaded if not line.rstrip("'").endswith(".pyc")] == []


def test_standalone_serves_is_healthy_and_keeps_its_data(
    image: Image, network: Network, tmp_path: Path
) -> None:
    with served(image, network, tmp_path) as (container, bootstrap):
        write(bootstrap)
        assert container.check_health().returncode == 0, container.check_health().stderr
        assert read(bootstrap) == RECORDS
        assert container.run("python3", "-c", "open('/opt/x', 'w')").stderr.count("Read-only file system")
        rights = ("CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp")
        none = "0000000000000000"
        assert [status_field(container.first_pid, name) for name in rights] == [none, none, none, "1", "2"]
        assert container.stop(GRACE_SECONDS) == 0, container.tail()
        assert "Traceback" not in container.log
        container.start("^Kafka is ready on")
        assert read(bootstrap) == RECORDS
        assert container.stop(GRACE_SECONDS) == 0, container.tail()


def test_a_stop_while_it_starts_is_heard(image: Image, network: Network, tmp_path: Path) -> None:
    """Process 1 has to have a handler: the system ignores the signal otherwise."""
    container = Container(
        image, network.host(), tmp_path / "early", ["standalone", "--listen=127.0.0.1:9092"]
    )
    try:
        container.launch()
        deadline = time.monotonic() + WAIT_SECONDS
        while "/opt/dafka/bin/dafka" not in command_line(container):
            assert time.monotonic() < deadline, container.tail()
            time.sleep(0.001)
        first = container.first_pid
        # The interpreter itself takes some milliseconds until Python code can say what it does with signals.
        while not int(status_field(first, "SigCgt"), 16) & (1 << (15 - 1)):
            assert time.monotonic() < deadline, container.tail()
        assert container.stop(GRACE_SECONDS) in {0, 128 + 15}, container.tail()
    finally:
        container.kill9()


@pytest.mark.parametrize("has_keys", [False, True], ids=["insecure", "keys"])
def test_each_role_of_a_mesh_is_healthy(
    image: Image, network: Network, tmp_path: Path, has_keys: bool
) -> None:
    hosts = [network.host() for _ in range(3)]
    tower, store, gateway = (host.address for host in hosts)
    mesh = "--mesh-keys=/keys" if has_keys else "--insecure-mesh"
    keys = keys_of_each_node(image, tmp_path / "keys") if has_keys else {}
    containers = [
        Container(
            image, hosts[0], tmp_path / "tower", ["tower", "--listen=0.0.0.0", mesh], {}, keys.get("tower")
        ),
        Container(
            image,
            hosts[1],
            tmp_path / "store",
            ["store", f"--tower={tower}", "--mesh-listen=0.0.0.0:7000", mesh],
            {"DAFKA_MESH_ADVERTISE": store, "DAFKA_NAME": "one"},
            keys.get("one"),
        ),
        Container(
            image,
            hosts[2],
            tmp_path / "gateway",
            [
                *("gateway", f"--tower={tower}", "--mesh-listen=0.0.0.0:7000", f"--mesh-advertise={gateway}"),
                *(f"--listen=0.0.0.0:9092@{gateway}:9092", mesh),
            ],
            {},
            keys.get("gateway"),
        ),
    ]
    ready = ("^Tower is ready", "^The store one is ready", "^Kafka is ready on")
    try:
        # Alone a gateway waits for its store: it is alive and not ready, and says why.
        containers[2].launch()
        waiting = containers[2]
        wait_until_alive(waiting)
        check = waiting.check_health()
        assert (check.returncode, '"ready": false' in check.stderr) == (1, True), check
        for container, pattern in zip(containers[:2], ready, strict=False):
            container.start(pattern)
        write(f"{gateway}:9092")
        for container in containers:
            assert container.check_health().returncode == 0, container.check_health().stderr
        assert read(f"{gateway}:9092") == RECORDS
        for container in reversed(containers):
            assert container.stop(GRACE_SECONDS) == 0, container.tail()
    finally:
        for container in containers:
            container.kill9()


def test_none_is_left_when_it_is_killed_from_outside(image: Image, network: Network, tmp_path: Path) -> None:
    with served(image, network, tmp_path) as (container, _):
        first = container.first_pid
    deadline = time.monotonic() + WAIT_SECONDS
    while Path(f"/proc/{first}").exists():
        assert time.monotonic() < deadline, "it outlives what started it"
        time.sleep(0.05)


# what they share -------------------------------------------------------------------------------------------


def keys_of_each_node(image: Image, path: Path) -> dict[str, dict[str, Path]]:
    """What to mount in the container of each node: its directory of keys, which is its user's."""
    issue(path, {"tower": "tower", "one": "store", "gateway": "gateway"})
    for file in path.rglob("*"):
        os.chown(file, *image.user)
    return {folder.name: {"/keys": folder} for folder in path.iterdir()}


@contextmanager
def served(image: Image, network: Network, directory: Path) -> Iterator[tuple[Container, str]]:
    """A standalone container that serves, and its bootstrap address."""
    host = network.host()
    bootstrap = f"{host.address}:9092"
    listen = f"--listen=0.0.0.0:9092@{bootstrap}"
    container = Container(image, host, directory / "container", ["standalone", listen])
    try:
        yield container.start("^Kafka is ready on"), bootstrap
    finally:
        container.kill9()


def wait_until_alive(container: Container) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while "/opt/dafka/bin/dafka" not in command_line(container) or (
        container.run("dafka", "health", "--live").returncode != 0
    ):
        assert time.monotonic() < deadline, container.tail()
        assert container.returncode is None, container.tail()
        time.sleep(0.05)


def command_line(container: Container) -> str:
    try:
        return Path(f"/proc/{container.first_pid}/cmdline").read_text()
    except (OSError, IndexError):
        return ""  # not begun yet


def status_field(pid: int, name: str) -> str:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return line.split()[1]
    raise AssertionError(name)


def write(bootstrap: str) -> None:
    failures: list[object] = []

    def done(error: object, _message: object) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    for value in RECORDS:
        producer.produce("orders", value, partition=0, on_delivery=done)
    assert producer.flush(WAIT_SECONDS) == 0
    assert failures == []


def read(bootstrap: str) -> list[bytes | None]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, "log_level": 0}
    )
    try:
        consumer.assign([TopicPartition("orders", 0, 0)])
        found: list[bytes | None] = []
        deadline = time.monotonic() + WAIT_SECONDS
        while len(found) < len(RECORDS):
            message = consumer.poll(1.0)
            assert time.monotonic() < deadline, f"{len(found)} records"
            if message is not None:
                assert message.error() is None, message.error()
                found.append(message.value())
        return found
    finally:
        consumer.close()
