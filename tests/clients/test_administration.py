"""Admin clients and Kafka's command-line tools: topics that grow, configs that change, and what tools ask."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import confluent_kafka.admin
import kafka.admin
import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ElectionType,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import InvalidPartitionsError, SecurityDisabledError

from tests.clients.stored import put, stored_records
from tests.differential.batches import Record
from tests.peers.java import java_tool

SECONDS = 30.0

# Its own hints leave out half of what it has.
library: Any = confluent_kafka.admin


def only(futures: dict[Any, Future[Any]]) -> Any:
    """The one result. Raises KafkaException."""
    (future,) = futures.values()
    return future.result(SECONDS)


@pytest.fixture
def confluent(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def configs(admin: AdminClient, topic: str) -> dict[str, tuple[str | None, str]]:
    """(value, source) of every config of a topic."""
    found = only(admin.describe_configs([library.ConfigResource(library.ResourceType.TOPIC, topic)]))
    return {name: (entry.value, entry.source) for name, entry in found.items()}


# confluent-kafka ------------------------------------------------------------------------------------------


def test_confluent_adds_partitions_under_a_producer(
    bootstrap: str, confluent: AdminClient, new_topic: Callable[..., str]
) -> None:
    """A producer that was there before learns of them, and its records go there."""
    topic = new_topic(partitions=1)
    placed: list[tuple[int, int]] = []

    def delivered(error: Any, message: Any) -> None:
        assert error is None, error
        placed.append((message.partition(), message.offset()))

    producer = Producer({"bootstrap.servers": bootstrap, "topic.metadata.refresh.interval.ms": 50})
    producer.produce(topic, b"0", partition=0, on_delivery=delivered)
    assert producer.flush(SECONDS) == 0
    only(confluent.create_partitions([library.NewPartitions(topic, 4)]))
    described = only(confluent.describe_topics(TopicCollection([topic])))
    assert [one.id for one in described.partitions] == [0, 1, 2, 3]
    for partition in (3, 1, 2, 0):
        while True:
            try:
                producer.produce(topic, b"%d" % partition, partition=partition, on_delivery=delivered)
            except KafkaException:  # it has not heard of that partition yet
                producer.poll(0.01)
                continue
            break
        assert producer.flush(SECONDS) == 0
    assert placed == [(0, 0), (3, 0), (1, 0), (2, 0), (0, 1)]
    assert [r.value for _, r in stored_records(bootstrap, topic, 3)] == [b"3"]
    with pytest.raises(KafkaException, match="would not be an increase"):
        only(confluent.create_partitions([library.NewPartitions(topic, 2)]))


def test_confluent_changes_configs_one_by_one(confluent: AdminClient, new_topic: Callable[..., str]) -> None:
    topic = new_topic(max_message_bytes="2000")

    def change(**operations: tuple[str | None, Any]) -> None:
        entries = [
            library.ConfigEntry(name.replace("_", "."), value, incremental_operation=operation)
            for name, (value, operation) in operations.items()
        ]
        resource = library.ConfigResource(library.ResourceType.TOPIC, topic, incremental_configs=entries)
        only(confluent.incremental_alter_configs([resource]))

    change(
        retention_ms=("5000", library.AlterConfigOpType.SET),
        cleanup_policy=("compact", library.AlterConfigOpType.APPEND),
        max_message_bytes=(None, library.AlterConfigOpType.DELETE),
    )
    found = configs(confluent, topic)
    topic_source, default = found["retention.ms"][1], found["segment.ms"][1]
    assert found["retention.ms"][0] == "5000"
    assert found["cleanup.policy"] == ("delete,compact", topic_source)
    assert found["max.message.bytes"] == ("1048588", default)
    with pytest.raises(KafkaException, match="Value must be at least"):
        change(segment_bytes=("1", library.AlterConfigOpType.SET))
    assert configs(confluent, topic) == found


def test_confluent_deletes_records(bootstrap: str, confluent: AdminClient, topic: str) -> None:
    put(bootstrap, topic, [Record(b"%d" % number) for number in range(10)])
    deleted = only(confluent.delete_records([TopicPartition(topic, 0, 7)]))
    assert deleted.low_watermark == 7
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    assert reader.get_watermark_offsets(TopicPartition(topic, 0), SECONDS) == (7, 10)
    reader.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found = reader.consume(3, SECONDS)
    assert [(one.offset(), one.value()) for one in found] == [(7, b"7"), (8, b"8"), (9, b"9")]
    reader.close()
    with pytest.raises(KafkaException, match="OFFSET_OUT_OF_RANGE"):
        only(confluent.delete_records([TopicPartition(topic, 0, 11)]))


def test_confluent_asks_what_is_off(bootstrap: str, confluent: AdminClient, topic: str) -> None:
    acls = library.AclBindingFilter(
        library.ResourceType.ANY,
        None,
        library.ResourcePatternType.ANY,
        None,
        None,
        library.AclOperation.ANY,
        library.AclPermissionType.ANY,
    )
    assert confluent.describe_acls(acls).result(SECONDS) == []  # its word for "security is disabled"
    users: Any = confluent.describe_user_scram_credentials()
    assert users.result(SECONDS) == {}
    elected = confluent.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)]).result(SECONDS)
    assert [error.name() for error in elected.values()] == ["ELECTION_NOT_NEEDED"]


# kafka-python ---------------------------------------------------------------------------------------------


def test_kafka_python_administers(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=2, retention_ms="5000")
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        admin.create_partitions({topic: 3})
        with pytest.raises(InvalidPartitionsError):
            admin.create_partitions({topic: 3})
        producer = KafkaProducer(bootstrap_servers=bootstrap)
        sent = producer.send(topic, value=b"x", partition=2).get(timeout=SECONDS)
        assert (sent.partition, sent.offset) == (2, 0)
        (found,) = admin.describe_producers([kafka.TopicPartition(topic, 2)]).values()
        assert "producer_id" in repr(found)
        producer.close()
        admin.describe_metadata_quorum()
        assert list(admin.list_transactions().values()) == [[]]
        assert admin.list_partition_reassignments() == {}
        assert topic in repr(admin.describe_log_dirs())
        pages = admin.describe_topic_partitions([topic])
        assert topic in repr(pages)
        pattern = kafka.admin.ResourcePatternFilter(
            kafka.admin.ResourceType.ANY, None, kafka.admin.ACLResourcePatternType.ANY
        )
        anything = kafka.admin.ACLFilter(
            None, None, kafka.admin.ACLOperation.ANY, kafka.admin.ACLPermissionType.ANY, pattern
        )
        with pytest.raises(SecurityDisabledError):
            admin.describe_acls(anything)
    finally:
        admin.close()


# Kafka's tools --------------------------------------------------------------------------------------------


def tool(bootstrap: str, name: str, *arguments: str) -> str:
    """What one of Kafka's tools prints."""
    done = java_tool(name, "--bootstrap-server", bootstrap, *arguments)
    assert "Exception" not in done.stdout + done.stderr
    return done.stdout


def changed_by_kafka_configs(bootstrap: str, topic: str) -> str:
    """Changes a topic's configs by kafka-configs; what it shows then."""
    entity = ("--entity-type", "topics", "--entity-name", topic)
    change = ("--add-config", "retention.ms=777,cleanup.policy=[compact,delete]")
    tool(bootstrap, "kafka.admin.ConfigCommand", "--alter", *entity, *change)
    return tool(bootstrap, "kafka.admin.ConfigCommand", "--describe", *entity)


@pytest.mark.slow
def test_kafka_topics_and_kafka_configs(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=1)
    kafka_topics = "org.apache.kafka.tools.TopicCommand"
    tool(bootstrap, kafka_topics, "--alter", "--topic", topic, "--partitions", "3")
    assert "PartitionCount: 3" in tool(bootstrap, kafka_topics, "--describe", "--topic", topic)
    shown = changed_by_kafka_configs(bootstrap, topic)
    assert "retention.ms=777 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=777}" in shown
    assert "cleanup.policy=compact,delete" in shown


@pytest.mark.slow
def test_kafka_log_dirs_and_kafka_delete_records(
    bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic(partitions=2)
    put(bootstrap, topic, [Record(b"x" * 500)] * 3, partition=1)

    def sizes() -> dict[str, int]:
        command = "org.apache.kafka.tools.LogDirsCommand"
        shown = tool(bootstrap, command, "--describe", "--topic-list", topic)
        (broker,) = json.loads(shown.splitlines()[-1])["brokers"]
        return {one["partition"]: one["size"] for found in broker["logDirs"] for one in found["partitions"]}

    found = sizes()
    assert found.pop(f"{topic}-0") == 0
    assert 1500 < found.pop(f"{topic}-1") < 2000
    offsets = tmp_path / "offsets.json"
    offsets.write_text(
        json.dumps({"partitions": [{"topic": topic, "partition": 1, "offset": 2}], "version": 1})
    )
    command = "org.apache.kafka.tools.DeleteRecordsCommand"
    shown = tool(bootstrap, command, "--offset-json-file", str(offsets))
    assert f"partition: {topic}-1\tlow_watermark: 2" in shown


@pytest.mark.slow
def test_kafka_metadata_quorum(bootstrap: str) -> None:
    shown = tool(bootstrap, "org.apache.kafka.tools.MetadataQuorumCommand", "describe", "--status")
    assert "LeaderId:               1\n" in shown
    assert f"PLAINTEXT://{bootstrap}" in shown
