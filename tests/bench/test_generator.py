"""The native generator sends what it claims, checks what it gets, and counts what was acknowledged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.bench import ceilings, clients, generator
from tests.bench.ceilings import Ceiling
from tests.peers.standalone import Standalone

PARTITIONS = 3


@pytest.fixture(scope="module")
def server() -> Iterator[Standalone]:
    with Standalone(None, "--fsync", "never") as running:
        yield running


@pytest.fixture(scope="module")
def sink() -> Iterator[Ceiling]:
    with ceilings.sink() as running:
        yield running


def values(bootstrap: str, topic: str, records: int) -> list[tuple[int, int, bytes]]:
    """All records as librdkafka reads them: partition, offset, value."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "auto.offset.reset": "earliest"}
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    found: list[tuple[int, int, bytes]] = []
    while len(found) < records:
        messages = consumer.consume(records - len(found), timeout=30)
        assert messages, f"{len(found)} records of {records}"
        for message in messages:
            assert message.error() is None
            found.append((message.partition(), message.offset(), message.value()))
    consumer.close()
    return found


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_what_it_produces_other_clients_read(server: Standalone, codec: str) -> None:
    topic = f"produced-{codec}"
    clients.create_topic(server.bootstrap, topic, PARTITIONS)
    load = generator.run(
        "produce",
        Bootstrap=server.bootstrap,
        Topic=topic,
        Partitions=PARTITIONS,
        Clients=2,
        RecordBytes=1000,
        Records=2000,
        Codec=codec,
        Pids=[server.pid],
    )
    assert load.records == load.all_records >= 2000
    assert load.bytes == 1000 * load.records
    assert clients.log_size(server.bootstrap, topic, PARTITIONS) == load.records
    found = values(server.bootstrap, topic, load.records)
    assert {len(value) for _, _, value in found} == {1000}
    ends = Counter(partition for partition, _, _ in found)
    assert sorted((p, o) for p, o, _ in found) == [(p, o) for p in sorted(ends) for o in range(ends[p])]
    assert len(ends) == PARTITIONS
    again = generator.run(
        "consume",
        Bootstrap=server.bootstrap,
        Topic=topic,
        Partitions=PARTITIONS,
        RecordBytes=1000,
        Once=True,
        Pids=[server.pid],
    )
    assert (again.records, again.bytes, again.batches) == (load.records, load.bytes, load.batches)


def test_a_record_at_a_time_is_one_record_for_each_request(server: Standalone) -> None:
    clients.create_topic(server.bootstrap, "one", PARTITIONS)
    load = generator.run(
        "sync",
        Bootstrap=server.bootstrap,
        Topic="one",
        Partitions=PARTITIONS,
        RecordBytes=100,
        Seconds=0.2,
        Pids=[server.pid],
    )
    assert 0 < load.p50 <= load.p99 <= load.p999
    assert load.requests == load.records == load.batches > 0
    found = values(server.bootstrap, "one", load.all_records)
    assert {len(value) for _, _, value in found} == {100}
    assert clients.log_size(server.bootstrap, "one", PARTITIONS) == load.all_records


def test_end_to_end_has_a_time_for_every_record(server: Standalone) -> None:
    clients.create_topic(server.bootstrap, "end", PARTITIONS)
    options = {"Partitions": PARTITIONS, "RecordBytes": 100, "Rate": 200, "WarmUpSeconds": 1, "Seconds": 1}
    load = generator.run("end-to-end", Bootstrap=server.bootstrap, Topic="end", Pids=[server.pid], **options)
    assert load.records >= 190
    assert 0 < load.p50 <= load.p99 <= load.p999


def test_an_error_ends_it_with_words(server: Standalone) -> None:
    with pytest.raises(AssertionError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        generator.run("consume", Bootstrap=server.bootstrap, Topic="there-is-none", Once=True)


def test_the_sink_counts_what_it_drops(sink: Ceiling) -> None:
    clients.create_topic(sink.bootstrap, "dropped", PARTITIONS)
    options = {"Partitions": PARTITIONS, "RecordBytes": 100, "Records": 5000, "Pids": [sink.pid]}
    load = generator.run("produce", Bootstrap=sink.bootstrap, Topic="dropped", **options)
    assert clients.log_size(sink.bootstrap, "dropped", PARTITIONS) == load.records >= 5000
    (described,) = AdminClient({"bootstrap.servers": sink.bootstrap}).list_topics("dropped").topics.values()
    assert len(described.partitions) == PARTITIONS


def test_librdkafka_takes_the_sink_for_a_server(sink: Ceiling) -> None:
    clients.create_topic(sink.bootstrap, "by-librdkafka", PARTITIONS)
    found = clients.librdkafka_latency(sink, "by-librdkafka", warm_up=10, records=20)
    assert 0 < found.p50 <= found.p99
    assert clients.log_size(sink.bootstrap, "by-librdkafka", PARTITIONS) == 30


def test_the_mock_has_four_partitions() -> None:
    with ceilings.mock() as mock:
        producer = Producer({"bootstrap.servers": mock.bootstrap})
        (topic,) = producer.list_topics("made", timeout=10).topics.values()
        assert len(topic.partitions) == mock.partitions
        load = generator.run("sync", Bootstrap=mock.bootstrap, Topic="made", Seconds=0.2, Pids=[mock.pid])
        assert load.requests > 0
