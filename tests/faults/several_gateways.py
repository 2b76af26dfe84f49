"""Clients of several gateways that go on by themselves while those are lost, and what they may expect."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from typing import Final, Protocol

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC: Final = "orders"
PARTITIONS: Final = 12
SECONDS: Final = 60.0


class Cluster(Protocol):
    @property
    def clients(self) -> dict[str, str]:
        """How clients find all of it."""
        ...


def clients_of(addresses: str) -> dict[str, str]:
    return {"bootstrap.servers": addresses, "topic.metadata.refresh.interval.ms": "1000"}


def create(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(topic, partitions, 3)]).values():
        made.result(SECONDS)


class Sender:
    """An idempotent producer of numbers, to all partitions in turn."""

    def __init__(self, gateways: Cluster) -> None:
        self._producer = Producer(
            {**gateways.clients, "enable.idempotence": True, "message.timeout.ms": 60_000, "linger.ms": 1}
        )
        self._numbers = count()
        self.sent: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
        self.acknowledged: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)
        self.failed: list[object] = []

    def send_until(self, happened: Callable[[], bool]) -> None:
        while not happened():
            number = next(self._numbers)
            partition = number % PARTITIONS
            self._producer.produce(TOPIC, b"%d" % number, partition=partition, on_delivery=self._delivered)
            self.sent[partition].append(number)
            self._producer.poll(0.002)

    def send_until_all_partitions_acknowledge(self) -> None:
        before = dict(self.acknowledged)
        self.send_until(lambda: all(self.acknowledged[one] > before[one] for one in before))

    def _delivered(self, error: object, message: Message) -> None:
        if error is not None:
            self.failed.append(error)
        else:
            partition = message.partition()
            assert partition is not None
            self.acknowledged[partition] += 1

    def finish(self, gateways: Cluster) -> None:
        """All was acknowledged, and is there once and in order."""
        assert self._producer.flush(SECONDS) == 0
        assert self.failed == []
        assert read(gateways, sum(map(len, self.sent.values()))) == self.sent


def read(gateways: Cluster, records: int, **config: str) -> dict[int, list[int]]:
    """So many records, by partition: assigned by hand, or by a group."""
    group = config.get("group.id")
    consumer = Consumer({**gateways.clients, "group.id": "nobody", "auto.offset.reset": "earliest", **config})
    if group:
        consumer.subscribe([TOPIC])
    else:
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    found: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    deadline = time.monotonic() + SECONDS
    while (left := records - sum(map(len, found.values()))) > 0:
        assert time.monotonic() < deadline, f"{left} of {records} are not there"
        for message in consumer.consume(500, 0.5):
            assert message.error() is None, message.error()
            partition, value = message.partition(), message.value()
            assert partition is not None
            assert isinstance(value, bytes)
            found[partition].append(int(value))
    assert not consumer.consume(1, 0.5), "more than was sent"
    consumer.close()
    return found
