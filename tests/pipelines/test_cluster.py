"""What the driver asks a Kafka itself: our server and Apache Kafka answer alike."""

from __future__ import annotations

import base64
import time
import uuid

import pytest
from confluent_kafka import KafkaException
from kafka.protocol.admin import DeleteTopicsRequest

from dafka_pipeline.failures import KafkaAway, UsageFailure
from dafka_pipeline.kafka.cluster import ANSWER_SECONDS, Cluster, TopicPartition
from dafka_pipeline.kafka.options import KafkaOptions
from tests.clients.sample import T0
from tests.clients.stored import create_topic, put
from tests.differential.batches import Record
from tests.differential.wire import Connection
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.ports import free_ports

STEP_MS = 1000


@pytest.fixture(params=["ours", "apache"])
def server(request: pytest.FixtureRequest, bootstrap: str) -> str:
    if request.param == "ours":
        return bootstrap
    kafka: ApacheKafka = request.getfixturevalue("apache_kafka")
    return kafka.bootstrap


@pytest.fixture
def cluster(server: str) -> Cluster:
    return Cluster(KafkaOptions(server))


def new_name() -> str:
    return f"cluster-{uuid.uuid4().hex[:12]}"


def with_records(server: str, count: int, **configs: str) -> str:
    """A topic of two partitions with records a second apart in the first."""
    name = create_topic(server, new_name(), 2, **configs)
    put(server, name, [Record(b"%d" % n, timestamp=T0 + n * STEP_MS) for n in range(count)], per_batch=1)
    return name


def delete(server: str, name: str) -> None:
    with Connection(server) as connection:
        answer = connection.ask(DeleteTopicsRequest(version=5, topic_names=[name], timeout_ms=10_000))
        assert answer.responses[0].error_code == 0, answer


def delete_before(cluster: Cluster, partition: TopicPartition, offset: int) -> None:
    import confluent_kafka

    wanted = [confluent_kafka.TopicPartition(*partition, offset)]
    for done in cluster.admin.delete_records(wanted).values():
        done.result()


def test_topics_have_ids_and_partitions_and_missing_ones_are_not_made(server: str, cluster: Cluster) -> None:
    there, missing = create_topic(server, new_name(), 3), new_name()
    found = cluster.topics([there, missing])
    assert found.keys() == {there}
    topic = found[there]
    assert (topic.name, topic.partitions) == (there, 3)
    # As Kafka's tools print it: 16 bytes, URL-safe, without padding.
    assert topic.topic_id is not None
    assert len(base64.urlsafe_b64decode(topic.topic_id + "==")) == 16
    assert cluster.topics([there])[there] == topic
    names = cluster.names()
    assert there in names
    assert missing not in names
    assert cluster.topics([]) == {}


def test_internal_topics_are_not_named(server: str, cluster: Cluster) -> None:
    assert [name for name in cluster.names() if name.startswith("__")] == []


def test_a_topic_that_is_made_again_has_another_id(server: str, cluster: Cluster) -> None:
    name = create_topic(server, new_name())
    before = cluster.topics([name])[name].topic_id
    delete(server, name)
    deadline = time.monotonic() + ANSWER_SECONDS
    while cluster.topics([name]):
        assert time.monotonic() < deadline
    create_topic(server, name)
    after = cluster.topics([name])[name].topic_id
    assert None not in {before, after}
    assert before != after


def test_offsets(server: str, cluster: Cluster) -> None:
    name = with_records(server, 10)
    one, empty = TopicPartition(name, 0), TopicPartition(name, 1)
    assert cluster.first_offsets([one, empty]) == {one: 0, empty: 0}
    assert cluster.end_offsets([one, empty]) == {one: 10, empty: 0}
    delete_before(cluster, one, 4)
    assert cluster.first_offsets([one]) == {one: 4}
    assert cluster.end_offsets([one]) == {one: 10}
    assert cluster.first_offsets([]) == cluster.end_offsets([]) == {}


@pytest.mark.parametrize(
    ("after_ms", "expected"),
    [(-1, 0), (0, 0), (1, 1), (7 * STEP_MS, 7), (9 * STEP_MS, 9), (9 * STEP_MS + 1, -1)],
)
def test_offsets_at_a_time(server: str, cluster: Cluster, after_ms: int, expected: int) -> None:
    name = with_records(server, 10)
    one, empty = TopicPartition(name, 0), TopicPartition(name, 1)
    assert cluster.offsets_at([one, empty], T0 + after_ms) == {one: expected, empty: -1}


def test_configs_that_were_set_are_told_from_defaults(server: str, cluster: Cluster) -> None:
    name = create_topic(server, new_name(), 1, cleanup_policy="compact", max_message_bytes="123456")
    assert cluster.configs(name) == {
        "cleanup.policy": "compact",
        "max.message.bytes": "123456",
        "retention.ms": "-1",
    }
    assert cluster.config(name, "cleanup.policy") == "compact"
    assert cluster.config(name, "message.timestamp.type") == "CreateTime"  # a default
    assert cluster.config(name, "no.such.config") is None


@pytest.mark.long
def test_nobody_there() -> None:
    (port,) = free_ports(1)
    with pytest.raises(
        KafkaAway, match=rf"127.0.0.1:{port} does not answer when asked for its topics"
    ) as away:
        Cluster(KafkaOptions(f"127.0.0.1:{port}")).names()
    assert away.value.retriable
    assert away.value.bootstrap == f"127.0.0.1:{port}"
    assert isinstance(away.value.__cause__, KafkaException)


def test_an_option_with_a_value_that_is_none(server: str) -> None:
    with pytest.raises(UsageFailure, match=r'librdkafka refuses .*"SAFE".*"security.protocol"'):
        Cluster(KafkaOptions(server, {"security.protocol": "SAFE"})).names()
