"""A real Prometheus on a real mesh: what happens to the mesh is what fires, and is over when it is over."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from tests.docs.metrics_page import ON_OPTIONS, SECTIONS, metrics_of
from tests.monitoring.dashboard import Query, asked, queries
from tests.monitoring.scene import GROUP, LEFT_BYTES, TOPIC, Watched, watched_mesh

pytestmark = pytest.mark.alerts


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with watched_mesh(tmp_path_factory.mktemp("watched")) as made:
        yield made


def test_what_is_served_is_what_the_page_says(watched: Watched) -> None:
    """In both directions: what has no samples yet has its head."""
    metadata = watched.prometheus.api("targets/metadata", match_target='{job="dafka"}', limit="10000")
    served = {(one["metric"], one["type"], one["help"]) for one in metadata}
    sections = SECTIONS.keys() - ON_OPTIONS
    described = {(one.name, one.kind, one.help) for section in sections for one in metrics_of(section)}
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
    prometheus, disk = watched.prometheus, watched.disk
    if disk is None:
        pytest.skip("mounting takes root")
    disk.fill(leave=LEFT_BYTES)
    prometheus.wait_until_fires("DafkaDiskFull", "DafkaDiskFills")
    assert watched.mesh.stores[0].returncode is None, "it goes on with little room"
    disk.empty()
    prometheus.wait_until_clear()


@pytest.mark.parametrize(
    ("title", "query"), list(queries()), ids=lambda one: one if isinstance(one, str) else ""
)
def test_the_dashboard_shows_what_there_is(watched: Watched, title: str, query: Query) -> None:
    found = watched.prometheus.query(asked(query.expression))
    assert found or query.may_be_empty, title
    assert not any(math.isnan(value) for _, value in found) or "quantile" in query.expression
