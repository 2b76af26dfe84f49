"""What tests of backups put into a cluster, and how they compare what comes back: by a real Kafka client,
record by record, and by the bytes of the batches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kafka.protocol.consumer import FetchRequest

from dafka.cli import run
from tests.differential.wire import Connection

SETTLE_SECONDS = 60.0

FETCH_BYTES = 1024 * 1024

SEGMENT_BYTES = str(1024 * 1024)
"""The smallest segments that there are: two hundred records of `produce`."""

Record = tuple[int, bytes | None, bytes | None, Any, Any]
"""Offset, key, value, timestamp, headers."""


class Log(NamedTuple):
    """A partition as its consumers see it. `batches` are the bytes of its batches."""

    start: int
    end: int
    records: list[Record]
    batches: bytes


def settle(ready: Callable[[], bool], what: str) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while not ready():
        assert time.monotonic() < deadline, f"not within {SETTLE_SECONDS:g} s: {what}"
        time.sleep(0.05)


@cache
def admin(bootstrap: str) -> AdminClient:
    """One client for all questions: its answers end with it."""
    return AdminClient({"bootstrap.servers": bootstrap})


def create(bootstrap: str, name: str, partitions: int = 1, copies: int = 1, **configs: str) -> None:
    dotted = {key.replace("_", "."): value for key, value in configs.items()}
    topic = NewTopic(name, partitions, copies, config=dotted)
    for future in admin(bootstrap).create_topics([topic]).values():
        future.result()


def producer(bootstrap: str) -> Producer:
    """An idempotent one, whose batches are small."""
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "batch.num.messages": 10,
            "linger.ms": 1,
            "reconnect.backoff.max.ms": 200,
        }
    )


def produce(
    to: Producer, topic: str, numbers: Iterable[int], partition: int = 0, *, keys: int = 0, size: int = 5000
) -> None:
    """One record a number, acknowledged; its value says which."""
    failed: list[Any] = []
    for number in numbers:
        to.produce(
            topic,
            f"{topic} {number} ".encode() * (size // 10),
            str(number % keys if keys else number).encode(),
            partition,
            headers=[("number", str(number).encode())],
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert to.flush(60) == 0
    assert failed == []


def commit(bootstrap: str, group: str, topic: str, offsets: Iterable[int]) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    wanted = [TopicPartition(topic, index, offset) for index, offset in enumerate(offsets)]
    consumer.commit(offsets=wanted, asynchronous=False)
    consumer.close()


def committed(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    # A client of its own: after a restart of the only broker librdkafka 2.16 would go on asking a coordinator
    # that it knows from before, and which it has dropped meanwhile, until the time of the question is over.
    client = AdminClient({"bootstrap.servers": bootstrap})
    asked = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    found = asked[group].result().topic_partitions
    return {(one.topic, one.partition): one.offset for one in found}


def read_log(bootstrap: str, topic: str, partition: int = 0) -> Log:
    """All of a partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reads",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    place = TopicPartition(topic, partition)
    start, end = consumer.get_watermark_offsets(place, timeout=20)
    records: list[Record] = []
    consumer.assign([TopicPartition(topic, partition, start)])
    while True:
        message = consumer.poll(20)
        assert message is not None, f"{topic}-{partition} stops at {records[-1:]}"
        if message.error():
            assert message.error().name() == "_PARTITION_EOF", message.error()
            break
        records.append(
            (message.offset(), message.key(), message.value(), message.timestamp(), message.headers())
        )
    consumer.close()
    return Log(start, end, records, _batches(bootstrap, topic, partition, start, end))


def _batches(bootstrap: str, topic: str, partition: int, start: int, end: int) -> bytes:
    found = b""
    of = FetchRequest.FetchTopic
    with Connection(bootstrap) as connection:
        while start < end:
            part = of.FetchPartition(partition=partition, fetch_offset=start, partition_max_bytes=FETCH_BYTES)
            request = FetchRequest(
                version=11,
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=FETCH_BYTES,
                session_id=0,
                session_epoch=-1,
                topics=[of(topic=topic, partitions=[part])],
            )
            answer = connection.ask(request).responses[0].partitions[0]
            assert answer.error_code == 0, answer
            got = bytes(answer.records or b"")
            whole = 0
            while whole + 61 <= len(got):
                size = 12 + int.from_bytes(got[whole + 8 : whole + 12])
                if whole + size > len(got):
                    break
                start = (
                    int.from_bytes(got[whole : whole + 8]) + int.from_bytes(got[whole + 23 : whole + 27]) + 1
                )
                whole += size
            found += got[:whole]
            if not whole:
                break  # compaction has taken the last ones away
    return found


def everything(bootstrap: str) -> dict[tuple[str, int], Log]:
    """All partitions of all topics that are nobody's own."""
    topics = admin(bootstrap).list_topics(timeout=20).topics
    return {
        (name, partition): read_log(bootstrap, name, partition)
        for name, topic in topics.items()
        if not name.startswith("__")
        for partition in topic.partitions
    }


def identities(bootstrap: str) -> dict[str, Any]:
    """Of each topic its id and the configs that it has of its own."""
    client = admin(bootstrap)
    names = list(client.list_topics(timeout=20).topics)
    described = client.describe_topics(TopicCollection(names))
    found = {name: [str(future.result().topic_id)] for name, future in described.items()}
    for resource, future in client.describe_configs(
        [ConfigResource(ResourceType.TOPIC, name) for name in names]
    ).items():
        own = {key: one.value for key, one in future.result().items() if not one.is_default}
        found[resource.name].append(str(sorted(own.items())))
    return found


def create_all(bootstrap: str, names: Iterable[str]) -> None:
    """Topics of one partition each."""
    for future in admin(bootstrap).create_topics([NewTopic(name, 1, 1) for name in names]).values():
        future.result()


def acl(name: str, permission: AclPermissionType) -> AclBinding:
    """That everybody may, or may not, read topics whose names begin so."""
    return AclBinding(
        ResourceType.TOPIC, name, ResourcePatternType.PREFIXED, "User:*", "*", AclOperation.READ, permission
    )


def make_acls(bootstrap: str, acls: Iterable[AclBinding]) -> None:
    for future in admin(bootstrap).create_acls(list(acls)).values():
        future.result()


def all_acls(bootstrap: str) -> set[AclBinding]:
    any_acl = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    return set(admin(bootstrap).describe_acls(any_acl).result())


def trim(bootstrap: str, topic: str, before: int) -> None:
    for future in admin(bootstrap).delete_records([TopicPartition(topic, 0, before)]).values():
        future.result()


def end_of(bootstrap: str, topic: str) -> int:
    """The first partition's high watermark."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "looks"})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)
    consumer.close()
    return int(end)


def dafka(*arguments: str | Path) -> int:
    """A command, in this process; its exit code."""
    return run(list(map(str, arguments)))
