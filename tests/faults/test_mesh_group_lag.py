"""The lag of a group whose partitions several gateways lead, as its coordinator shows it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.faults.several_gateways import PARTITIONS, SECONDS, TOPIC, clients_of, create
from tests.peers.ports import free_ports_in_a_row
from tests.peers.supervised import Supervised

pytestmark = pytest.mark.slow

GROUP = "readers"
LAG = re.compile(
    rf'dafka_group_partition_lag_records{{group="{GROUP}",partition="(\d+)",topic="{TOPIC}"}} (\S+)'
)
AGE = re.compile(
    rf'dafka_group_partition_lag_seconds{{group="{GROUP}",partition="(\d+)",topic="{TOPIC}"}} (\S+)'
)
GATEWAYS, STORES = 3, 3

Lags = dict[int, int]


class Cluster(Supervised):
    """Three gateways, three stores, and a client of them."""

    def __init__(self, directory: Path) -> None:
        first = free_ports_in_a_row(2 * GATEWAYS + STORES)
        self.metrics = [f"127.0.0.1:{first + number}" for number in range(GATEWAYS)]
        self.pages = [f"127.0.0.1:{first + GATEWAYS + STORES + number}" for number in range(GATEWAYS)]
        watched = ["--metrics", self.metrics[0], "--metrics-by-partition", "--http", self.pages[0]]
        super().__init__(directory, GATEWAYS, STORES, *watched)

    def produce(self, records: dict[int, int]) -> None:
        """So many to each partition; all are acknowledged."""
        producer = Producer({**clients_of(self.bootstrap), "message.timeout.ms": 60_000})
        for partition, count in records.items():
            for number in range(count):
                producer.produce(TOPIC, b"%d" % number, partition=partition)
        assert producer.flush(SECONDS) == 0

    def commit(self, offsets: Lags) -> None:
        consumer = self._consumer()
        places = [TopicPartition(TOPIC, partition, offset) for partition, offset in offsets.items()]
        committed = consumer.commit(offsets=places, asynchronous=False)
        assert [one.error for one in committed] == [None] * len(places)
        consumer.close()

    def _consumer(self) -> Consumer:
        return Consumer({**clients_of(self.bootstrap), "group.id": GROUP, "enable.auto.commit": False})

    def lags_by_protocol(self) -> Lags:
        """As an exporter finds them: ends less committed offsets. What moves just now is left out."""
        consumer = self._consumer()
        places = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
        committed = {one.partition: one.offset for one in consumer.committed(places, SECONDS)}
        consumer.close()
        admin = AdminClient(clients_of(self.bootstrap))
        asked = {place: OffsetSpec.latest() for place in places}
        level = IsolationLevel.READ_UNCOMMITTED
        ends = admin.list_offsets(asked, isolation_level=level, request_timeout=SECONDS)
        found = {}
        for place, end in ends.items():
            with suppress(KafkaException):
                found[place.partition] = end.result(SECONDS).offset - committed[place.partition]
        return found

    def shown(self) -> tuple[Lags, dict[int, float]]:
        """The lags that somebody's metrics show, in records and in seconds: only its coordinator knows the
        group.
        """
        lags: Lags = {}
        ages: dict[int, float] = {}
        for where in self.metrics:
            text = read(f"http://{where}/metrics")
            found = {int(partition): int(float(lag)) for partition, lag in LAG.findall(text)}
            assert not (found and lags), "two show the same group"
            if found:
                lags = found
                ages = {int(partition): float(age) for partition, age in AGE.findall(text)}
        return lags, ages

    def shown_on_page(self) -> tuple[Any, Lags]:
        """The sum that a status page shows, and each partition's lag; None and none where nobody does yet."""
        for where in self.pages:
            text = read(f"http://{where}/api/v1/groups/{GROUP}")
            if text:
                group = json.loads(text)
                rows = group["partitions_page"]["items"]
                lags = {row["partition"]: int(row["lag"]) for row in rows if row["lag"] is not None}
                return group["lag"], lags
        return None, {}

    def leaders(self) -> set[int]:
        told = AdminClient(clients_of(self.bootstrap)).list_topics(TOPIC, timeout=SECONDS)
        return {one.leader for one in told.topics[TOPIC].partitions.values()}

    def coordinator(self) -> int:
        admin = AdminClient(clients_of(self.bootstrap))  # what it was asked ends with it
        found = admin.describe_consumer_groups([GROUP])
        return int(found[GROUP].result(SECONDS).coordinator.id)


def read(url: str) -> str:
    """ "": it is not there, or not reached."""
    try:
        with urlopen(url, timeout=SECONDS) as answer:
            text: str = answer.read().decode()
            return text
    except OSError:
        return ""


def wait_for(what: Callable[[], Any], wanted: Any) -> None:
    deadline = time.monotonic() + SECONDS
    while (found := what()) != wanted:
        assert time.monotonic() < deadline, f"{found}, and not {wanted}"
        time.sleep(0.1)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    try:
        made.start()
        create(made.bootstrap, TOPIC, PARTITIONS)
        yield made
    finally:
        made.kill9()
        made.wait_until_all_are_gone()


def test_a_coordinator_shows_the_lag_of_what_others_lead_also_after_one_of_them_was_killed(
    cluster: Cluster,
) -> None:
    wait_for(cluster.leaders, {1, 2, 3})
    cluster.produce({partition: 10 * partition for partition in range(PARTITIONS)})
    cluster.commit({partition: partition for partition in range(PARTITIONS)})
    first = {partition: 9 * partition for partition in range(PARTITIONS)}
    wait_for(cluster.lags_by_protocol, first)
    wait_for(lambda: cluster.shown()[0], first)
    wait_for(cluster.shown_on_page, (str(sum(first.values())), first))
    ages = cluster.shown()[1]
    assert ages[0] == 0
    assert all(0 < ages[partition] < SECONDS for partition in range(1, PARTITIONS))

    killed = min({1, 2, 3} - {cluster.coordinator()})
    cluster.kill(f"gateway-{killed}")
    cluster.produce(dict.fromkeys(range(PARTITIONS), 5))
    second = {partition: lag + 5 for partition, lag in first.items()}
    wait_for(cluster.lags_by_protocol, second)
    wait_for(lambda: cluster.shown()[0], second)

    cluster.wait_until_it_serves_again(f"gateway-{killed}")
    wait_for(cluster.leaders, {1, 2, 3})
    cluster.produce(dict.fromkeys(range(PARTITIONS), 1))
    third = {partition: lag + 1 for partition, lag in second.items()}
    wait_for(cluster.lags_by_protocol, third)
    wait_for(lambda: cluster.shown()[0], third)
    wait_for(cluster.shown_on_page, (str(sum(third.values())), third))
