"""A mesh with a load, and the Prometheus that watches it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Self

from kafka import KafkaConsumer, KafkaProducer

from tests.clients.stored import create_replicated_topic
from tests.faults.disks import SmallDisk, mounted
from tests.monitoring.prometheus import Prometheus
from tests.monitoring.rules import SHORTEST_RANGE_SECONDS
from tests.peers.mesh import MeshCluster
from tests.peers.ports import free_ports
from tests.peers.requirements import require

MIB: Final = 1024 * 1024
DISK_BYTES: Final = 256 * MIB
LEFT_BYTES: Final = 10 * MIB
"""What is left of it: less than the twentieth that is alarming, and enough for a store to go on."""

TOPIC, GROUP = "orders", "billing"


class Load:
    """A producer of some records a second, and one consumer that commits what it has read."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._end = threading.Event()
        self._producing = threading.Thread(target=self._produce, daemon=True)

    def __enter__(self) -> Self:
        self._producing.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._end.set()
        self._producing.join()

    def _produce(self) -> None:
        producer = KafkaProducer(bootstrap_servers=self._bootstrap, acks="all", retries=1_000)
        while not self._end.wait(0.05):
            producer.send(TOPIC, b"x" * 200)
        producer.close(timeout=10)

    @contextmanager
    def consumer(self) -> Iterator[None]:
        """Somebody reads, while the block runs."""
        end = threading.Event()

        def consume() -> None:
            consumer = KafkaConsumer(
                TOPIC,
                bootstrap_servers=self._bootstrap,
                group_id=GROUP,
                auto_offset_reset="earliest",
                auto_commit_interval_ms=200,
            )
            while not end.is_set():
                consumer.poll(timeout_ms=200)
            consumer.close()

        thread = threading.Thread(target=consume, daemon=True)
        thread.start()
        yield
        end.set()
        thread.join()


class Watched:
    """All of it. `disk` is the first store's; None where nobody may mount any."""

    def __init__(self, mesh: MeshCluster, disk: SmallDisk | None, prometheus: Prometheus, load: Load) -> None:
        self.mesh, self.disk, self.prometheus, self.load = mesh, disk, prometheus, load
        self.consuming = ExitStack()


@contextmanager
def watched_mesh(path: Path) -> Iterator[Watched]:
    """Three stores and a consumer that keeps up; nothing fires.

    Each store has a disk of its own: how full the machine's is must not decide what fires.
    """
    require("prometheus")
    targets = [f"127.0.0.1:{port}" for port in free_ports(5)]
    arguments = ["--metrics-by-partition", "--group-initial-rebalance-delay-ms", "0"]
    mesh = MeshCluster(path, 3, [f"--metrics={targets[0]}", *arguments])
    mesh.tower.arguments = (f"--metrics={targets[1]}",)
    for store, target in zip(mesh.stores, targets[2:], strict=True):
        store.arguments = [f"--metrics={target}"]
    with ExitStack() as stack:
        disks = [mounted(stack, path / f"disk-{store.name}", DISK_BYTES) for store in mesh.stores]
        for store, disk in zip(mesh.stores, disks, strict=True):
            if disk is not None:
                store.data = disk.path / "data"
        stack.enter_context(mesh)
        create_replicated_topic(mesh.bootstrap, TOPIC, 4, 3)
        prometheus = stack.enter_context(Prometheus(path / "prometheus", targets))
        load = stack.enter_context(Load(mesh.bootstrap))
        made = Watched(mesh, disks[0], prometheus, load)
        made.consuming.enter_context(load.consumer())
        stack.callback(made.consuming.close)
        pace = f"deriv(dafka_group_position_records[{SHORTEST_RANGE_SECONDS}s]) > 0"
        prometheus.wait_for(lambda: bool(prometheus.query(pace)), "nothing is consumed")
        prometheus.wait_until_clear()
        yield made
