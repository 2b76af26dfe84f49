"""A real Prometheus on a real mesh: what happens to the mesh is what fires, and is over when it is over."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, Self

import pytest
from kafka import KafkaConsumer, KafkaProducer

from tests.clients.stored import create_replicated_topic
from tests.docs.metrics_page import SECTIONS, metrics_of
from tests.faults.disks import SmallDisk
from tests.monitoring.dashboard import Query, asked, queries
from tests.monitoring.prometheus import Prometheus, free_ports
from tests.monitoring.rules import SHORTEST_RANGE_SECONDS
from tests.peers.mesh import MeshCluster
from tests.peers.requirements import require

pytestmark = pytest.mark.alerts

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
    """A mesh, its load and the Prometheus that watches it."""

    def __init__(self, mesh: MeshCluster, disk: SmallDisk, prometheus: Prometheus, load: Load) -> None:
        self.mesh, self.disk, self.prometheus, self.load = mesh, disk, prometheus, load
        self.consuming = ExitStack()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    require("prometheus")
    path = tmp_path_factory.mktemp("watched")
    targets = [f"127.0.0.1:{port}" for port in free_ports(5)]
    arguments = ["--metrics-by-partition", "--group-initial-rebalance-delay-ms", "0"]
    mesh = MeshCluster(path, 3, [f"--metrics={targets[0]}", *arguments])
    mesh.tower.arguments = (f"--metrics={targets[1]}",)
    for store, target in zip(mesh.stores, targets[2:], strict=True):
        store.arguments = [f"--metrics={target}"]
    with ExitStack() as stack:
        disk = stack.enter_context(SmallDisk(path / "small", DISK_BYTES))
        mesh.stores[0].data = disk.path / "data"
        stack.enter_context(mesh)
        create_replicated_topic(mesh.bootstrap, TOPIC, 4, 3)
        prometheus = stack.enter_context(Prometheus(path / "prometheus", targets))
        load = stack.enter_context(Load(mesh.bootstrap))
        made = Watched(mesh, disk, prometheus, load)
        made.consuming.enter_context(load.consumer())
        stack.callback(made.consuming.close)
        pace = f"deriv(dafka_group_position_records[{SHORTEST_RANGE_SECONDS}s]) > 0"
        prometheus.wait_for(lambda: bool(prometheus.query(pace)), "nothing is consumed")
        prometheus.wait_until_clear()
        yield made


def test_what_is_served_is_what_the_page_says(watched: Watched) -> None:
    """In both directions: what has no samples yet has its head."""
    metadata = watched.prometheus.api("targets/metadata", match_target='{job="dafka"}', limit="10000")
    served = {(one["metric"], one["type"], one["help"]) for one in metadata}
    described = {(one.name, one.kind, one.help) for section in SECTIONS for one in metrics_of(section)}
    ours = {one for one in served if one[0].startswith("dafka_")}
    assert ours == described


def test_stores_are_killed(watched: Watched) -> None:
    prometheus, stores = watched.prometheus, watched.mesh.stores
    stores[2].kill9()
    prometheus.wait_until_fires("DafkaDown", "DafkaPartitionsUnderReplicated")
    assert "DafkaPartitionsUnderMinCopies" not in prometheus.firing()
    stores[1].kill9()
    prometheus.wait_until_fires("DafkaPartitionsUnderMinCopies")
    refused = 'sum(dafka_partition_errors_total{api="Produce",error=~"NOT_ENOUGH_REPLICAS.*"}) > 0'
    prometheus.wait_for(lambda: bool(prometheus.query(refused)), "no producer is refused")
    for store in stores[1:]:
        store.start()
    prometheus.wait_until_clear()


def test_a_consumer_stops(watched: Watched) -> None:
    prometheus = watched.prometheus
    watched.consuming.close()
    prometheus.wait_until_fires("DafkaGroupLate", "DafkaGroupStalled")
    ((labels, seconds),) = prometheus.query(
        f'max by (group, topic) (dafka_group_lag_seconds{{group="{GROUP}"}})'
    )
    assert labels == {"group": GROUP, "topic": TOPIC}
    assert 5 < seconds < 60
    watched.consuming.enter_context(watched.load.consumer())
    prometheus.wait_until_clear()
    ((_, records),) = prometheus.query(f'sum(dafka_group_lag_records{{group="{GROUP}"}})')
    assert records < 100


def test_a_disk_fills(watched: Watched) -> None:
    prometheus = watched.prometheus
    watched.disk.fill(leave=LEFT_BYTES)
    prometheus.wait_until_fires("DafkaDiskFull", "DafkaDiskFills")
    assert "DafkaDown" not in prometheus.firing()
    watched.disk.empty()
    prometheus.wait_until_clear()


@pytest.mark.parametrize(
    ("title", "query"), list(queries()), ids=lambda one: one if isinstance(one, str) else ""
)
def test_the_dashboard_shows_what_there_is(watched: Watched, title: str, query: Query) -> None:
    found = watched.prometheus.query(asked(query.expression))
    assert found or query.may_be_empty, title
    assert not any(math.isnan(value) for _, value in found) or "quantile" in query.expression
