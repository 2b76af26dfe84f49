"""Consumers of 200 partitions: those with fetch sessions name them once, and all of them read everything."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaConsumer, TopicPartition
from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.producer import ProduceRequest

from tests.clients.sample import T0, text
from tests.clients.stored import create_topic
from tests.clients.test_java import consume as consume_with_java
from tests.differential.batches import Record, batch
from tests.differential.wire import Connection
from tests.peers.maven import KAFKA_VERSION
from tests.peers.ports import free_ports
from tests.peers.standalone import Standalone

PARTITIONS = 200
ROUNDS = 2
SECONDS = 60
BROKER = 4
SLOTS = "max.incremental.fetch.session.cache.slots"
FULL_FETCH_BYTES = 30 * PARTITIONS
"""At least so many has a Fetch that names all partitions."""

Records = dict[tuple[int, int], bytes]
"""Values by partition and offset."""


class Gateway:
    """A gateway with one topic, and what its metrics say."""

    def __init__(self, bootstrap: str, metrics_port: int) -> None:
        self.bootstrap = bootstrap
        self.topic = create_topic(bootstrap, "wide", PARTITIONS)
        self.wanted: Records = {}
        self._metrics = f"http://127.0.0.1:{metrics_port}/metrics"
        for number in range(ROUNDS):
            self._put(number)

    def figure(self, name: str) -> float:
        with urllib.request.urlopen(self._metrics, timeout=SECONDS) as page:
            lines = page.read().decode().splitlines()
        return float(next(line.rpartition(" ")[2] for line in lines if line.startswith(f"{name} ")))

    def fetches(self) -> tuple[float, float]:
        """Fetch requests so far, and their bytes."""
        return (
            self.figure('dafka_requests_total{api="Fetch"}'),
            self.figure('dafka_request_bytes_total{api="Fetch"}'),
        )

    def _put(self, number: int) -> None:
        """A batch of one record for every partition."""
        of = ProduceRequest.TopicProduceData
        parts = []
        for partition in range(PARTITIONS):
            value = text(50, f"{partition} {number}")
            self.wanted[partition, number] = value
            records = batch([Record(value, b"k", T0 + number)])
            parts.append(of.PartitionProduceData(index=partition, records=records))
        with Connection(self.bootstrap) as connection:
            data = [of(name=self.topic, partition_data=parts)]
            answer = connection.ask(ProduceRequest(version=9, acks=-1, timeout_ms=10_000, topic_data=data))
        assert {one.error_code for one in answer.responses[0].partition_responses} == {0}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    (port,) = free_ports(1)
    folder = tmp_path_factory.mktemp("sessions")
    with Standalone(folder / "data", "--metrics", f"127.0.0.1:{port}", directory=folder / "logs") as server:
        yield Gateway(server.bootstrap, port)


def with_kafka_python(gateway: Gateway, *, sessions: bool, max_bytes: int = 1) -> Records:
    consumer = KafkaConsumer(
        bootstrap_servers=gateway.bootstrap,
        group_id=None,
        auto_offset_reset="none",
        consumer_timeout_ms=SECONDS * 1000,
        enable_incremental_fetch_sessions=sessions,
        fetch_max_bytes=max_bytes,
    )
    partitions = [TopicPartition(gateway.topic, index) for index in range(PARTITIONS)]
    consumer.assign(partitions)
    for partition in partitions:
        consumer.seek(partition, 0)
    found: Records = {}
    for message in consumer:
        found[message.partition, message.offset] = message.value
        if len(found) == len(gateway.wanted):
            break
    consumer.close()
    return found


def with_java(gateway: Gateway) -> Records:
    ranges = [f"{gateway.topic}:{index}:0:{ROUNDS}" for index in range(PARTITIONS)]
    found = consume_with_java(gateway.bootstrap, ["fetch.max.bytes=1", *ranges], KAFKA_VERSION)[gateway.topic]
    values = {value: place for place, value in gateway.wanted.items()}
    assert all(values[record.value or b""][1] == offset for offset, record in found)
    return {values[record.value or b""]: record.value or b"" for _, record in found}


def with_librdkafka(gateway: Gateway) -> Records:
    consumer = Consumer(
        {"bootstrap.servers": gateway.bootstrap, "group.id": "unused", "enable.auto.commit": False}
    )
    consumer.assign([ConfluentPartition(gateway.topic, index, 0) for index in range(PARTITIONS)])
    found: Records = {}
    while len(found) < len(gateway.wanted):
        message = consumer.poll(SECONDS)
        assert message is not None
        assert message.error() is None
        value = message.value()
        assert value is not None
        found[message.partition() or 0, message.offset() or 0] = value
    consumer.close()
    return found


def measured(gateway: Gateway, read: Callable[[Gateway], Records]) -> tuple[float, float]:
    """Fetches that a consumer needed for everything, and bytes of one, on average."""
    requests, size = gateway.fetches()
    assert read(gateway) == gateway.wanted
    requests_after, size_after = gateway.fetches()
    return requests_after - requests, (size_after - size) / (requests_after - requests)


READERS: dict[str, Any] = {
    "kafka-python": lambda gateway: with_kafka_python(gateway, sessions=True),
    "java": with_java,
}


@pytest.mark.parametrize("client", READERS)
def test_a_consumer_with_a_session_does_not_name_its_partitions_again(gateway: Gateway, client: str) -> None:
    """Each answer has room for one batch, so each record costs a Fetch, and none is starved."""
    requests, size = measured(gateway, READERS[client])
    assert requests >= PARTITIONS
    assert size < FULL_FETCH_BYTES / 10
    assert gateway.figure("dafka_fetch_sessions") >= 1


def test_a_consumer_without_one_names_them_each_time(gateway: Gateway) -> None:
    sessions = gateway.figure("dafka_fetch_sessions")
    _, size = measured(gateway, lambda gateway: with_kafka_python(gateway, sessions=False, max_bytes=5000))
    assert size > FULL_FETCH_BYTES
    assert gateway.figure("dafka_fetch_sessions") == sessions


def test_librdkafka_which_knows_no_sessions_reads_everything(gateway: Gateway) -> None:
    assert with_librdkafka(gateway) == gateway.wanted


def test_there_are_as_many_sessions_as_are_set(tmp_path: Path) -> None:
    with (
        Standalone(tmp_path / "data", "--fetch-session-slots", "1", directory=tmp_path / "logs") as server,
        Connection(server.bootstrap) as connection,
    ):
        create_topic(server.bootstrap, "t")
        topic = FetchRequest.FetchTopic
        wanted = topic.FetchPartition(
            partition=0, current_leader_epoch=-1, fetch_offset=0, log_start_offset=-1, partition_max_bytes=1
        )
        ask: Any = FetchRequest(
            version=11, replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=1, isolation_level=0, rack_id="",
            session_id=0, session_epoch=0, topics=[topic(topic="t", partitions=[wanted])],
            forgotten_topics_data=[],
        )  # fmt: skip
        assert [bool(connection.ask(ask).session_id) for _ in range(3)] == [True, False, False]
        resource = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=BROKER, resource_name="1", configuration_keys=[SLOTS]
        )
        answer = connection.ask(
            DescribeConfigsRequest(
                version=4, resources=[resource], include_synonyms=False, include_documentation=False
            )
        )
        ((shown,),) = (result.configs for result in answer.results)
        assert (shown.name, shown.value) == (SLOTS, "1")
