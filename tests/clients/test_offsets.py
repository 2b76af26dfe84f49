"""Real clients commit how far they have read, and go on there: the same one, another one, Kafka's tool."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, KafkaConsumer
from kafka import TopicPartition as PyTopicPartition
from kafka.structs import OffsetAndMetadata

from gateway.groups.internal_topic import OFFSETS_TOPIC, OFFSETS_TOPIC_PARTITIONS
from gateway.journal.internal_topic import partition_for
from tests.clients.sample import small_records
from tests.clients.stored import put, stored_records
from tests.peers.java import java_tool

SECONDS = 30.0
RECORDS = small_records(30)
COMMAND = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@pytest.fixture
def filled(bootstrap: str, topic: str) -> str:
    """A topic with 30 records."""
    put(bootstrap, topic, RECORDS)
    return topic


# -------------------------------------------------------------- reads `count` records as a member of a group


def python_member(bootstrap: str, topic: str, count: int, note: str) -> list[tuple[int, bytes]]:
    """kafka-python: commits behind the last record that it gives."""
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=int(SECONDS * 1000),
        max_poll_records=7,
    )
    found = []
    for message in consumer:
        found.append((message.offset, message.value))
        if len(found) == count:
            break
    partition = PyTopicPartition(topic, 0)
    consumer.commit({partition: OffsetAndMetadata(found[-1][0] + 1, note, -1)})
    assert consumer.committed(partition, metadata=True).metadata == note
    consumer.close()
    return found


def confluent_member(bootstrap: str, topic: str, count: int, note: str) -> list[tuple[int, bytes]]:
    """librdkafka, asynchronously but for the last one."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    found: list[tuple[int, bytes]] = []
    while len(found) < count:
        message = consumer.poll(SECONDS)
        assert message is not None
        assert message.error() is None, message.error()
        offset, value = message.offset(), message.value()
        assert offset is not None
        assert isinstance(value, bytes)
        found.append((offset, value))
        consumer.commit(message=message, asynchronous=True)
    behind = TopicPartition(topic, 0, found[-1][0] + 1, metadata=note)
    (committed,) = consumer.commit(offsets=[behind], asynchronous=False)
    assert committed.error is None
    (read,) = consumer.committed([TopicPartition(topic, 0)], SECONDS)
    assert (read.offset, read.metadata) == (behind.offset, note)
    consumer.close()
    return found


def aio_member(bootstrap: str, topic: str, count: int, note: str) -> list[tuple[int, bytes]]:
    """aiokafka, with the oldest versions of all."""

    async def main() -> list[tuple[int, bytes]]:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            found: list[tuple[int, bytes]] = []
            while len(found) < count:
                message = await asyncio.wait_for(consumer.getone(), SECONDS)
                found.append((message.offset, message.value))
            partition = AioTopicPartition(topic, 0)
            await consumer.commit({partition: (found[-1][0] + 1, note)})
            assert await consumer.committed(partition) == found[-1][0] + 1
            return found
        finally:
            await consumer.stop()

    return asyncio.run(main())


MEMBERS = {"kafka-python": python_member, "confluent": confluent_member, "aiokafka": aio_member}


def values(first: int, count: int) -> list[tuple[int, bytes | None]]:
    return [(n, record.value) for n, record in enumerate(RECORDS)][first : first + count]


@pytest.mark.parametrize("client", MEMBERS)
def test_a_client_goes_on_where_it_committed(bootstrap: str, filled: str, client: str) -> None:
    for first, count in [(0, 12), (12, 1), (13, 17)]:
        assert MEMBERS[client](bootstrap, filled, count, f"note {first}") == values(first, count)


def test_each_client_goes_on_where_another_one_committed(bootstrap: str, filled: str) -> None:
    first = 0
    for member in [*MEMBERS.values(), *MEMBERS.values()]:
        assert member(bootstrap, filled, 5, "é") == values(first, 5)
        first += 5


def test_administrators_see_and_change_offsets(bootstrap: str, filled: str) -> None:
    python_member(bootstrap, filled, 12, "note")
    python = KafkaAdminClient(bootstrap_servers=bootstrap)
    seen = python.list_group_offsets(filled)[filled][PyTopicPartition(filled, 0)]
    assert (seen.offset, seen.metadata) == (12, "note")
    python.close()
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted: Any = ConsumerGroupTopicPartitions(filled, [TopicPartition(filled, 0, 3)])
    (altered,) = admin.alter_consumer_group_offsets([wanted]).values()
    assert [(one.offset, one.error) for one in altered.result(SECONDS).topic_partitions] == [(3, None)]
    (listed,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(filled)]).values()
    assert [(one.topic, one.partition, one.offset) for one in listed.result(SECONDS).topic_partitions] == [
        (filled, 0, 3)
    ]
    assert python_member(bootstrap, filled, 4, "") == values(3, 4)


# -------------------------------------------------------------------------------------- kafka-consumer-groups


def groups_tool(bootstrap: str, *arguments: str) -> list[dict[str, str]]:
    """The table that the tool prints, a row by the names of its columns."""
    printed = java_tool(COMMAND, "--bootstrap-server", bootstrap, *arguments).stdout
    lines = [line.split() for line in printed.splitlines() if line.strip()]
    start = next(n for n, line in enumerate(lines) if "GROUP" in line or "TOPIC" in line)
    return [dict(zip(lines[start], line, strict=False)) for line in lines[start + 1 :]]


@pytest.mark.slow
def test_kafkas_own_tool(bootstrap: str, filled: str) -> None:
    python_member(bootstrap, filled, 12, "note")
    of_group = ("--group", filled)
    (row,) = groups_tool(bootstrap, *of_group, "--describe")
    assert {
        name: row[name] for name in ("TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")
    } == {
        "TOPIC": filled,
        "PARTITION": "0",
        "CURRENT-OFFSET": "12",
        "LOG-END-OFFSET": "30",
        "LAG": "18",
    }
    (row,) = groups_tool(
        bootstrap, *of_group, "--reset-offsets", "--topic", filled, "--shift-by", "-5", "--execute"
    )
    assert row["NEW-OFFSET"] == "7"
    assert confluent_member(bootstrap, filled, 3, "") == values(7, 3)


@pytest.mark.slow
def test_a_tool_reads_the_internal_topic(bootstrap: str, filled: str) -> None:
    """Kafka's console consumer with its own decoder of offsets."""
    python_member(bootstrap, filled, 12, "note")
    partition = partition_for(filled, OFFSETS_TOPIC_PARTITIONS)
    count = len(stored_records(bootstrap, OFFSETS_TOPIC, partition))
    printed = java_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", bootstrap, "--topic", OFFSETS_TOPIC, "--partition", str(partition)),
        *("--offset", "earliest", "--max-messages", str(count)),
        *("--formatter", "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"),
    ).stdout
    ours = [line for line in printed.splitlines() if f'"topic":"{filled}"' in line]
    assert len(ours) == 1
    assert f'"group":"{filled}"' in ours[0]
    assert '"offset":12' in ours[0]
    assert '"metadata":"note"' in ours[0]
