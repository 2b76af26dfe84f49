"""Quotas as administrators set them, with Kafka's own tool, and as clients feel them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, ThrottleEvent, TopicPartition
from kafka import KafkaProducer
from kafka.protocol.admin import AlterClientQuotasRequest

from tests.clients.stored import put, stored_records
from tests.differential.batches import Record
from tests.differential.wire import ask
from tests.peers.java import java_tool

SECONDS = 60.0

NAMED = {
    "user": ("--entity-type", "users", "--entity-name", "alice"),
    "default user": ("--entity-type", "users", "--entity-default"),
    "pair": (
        *("--entity-type", "users", "--entity-name", "alice"),
        *("--entity-type", "clients", "--entity-name", "app"),
    ),
    "ip": ("--entity-type", "ips", "--entity-name", "10.0.0.1"),
    "default ip": ("--entity-type", "ips", "--entity-default"),
}
"""Entities as the tool names them."""

SHOWN = {
    "user": "Quota configs for user-principal 'alice' are ",
    "default user": "Quota configs for the default user-principal are ",
    "pair": "Quota configs for user-principal 'alice', client-id 'app' are ",
    "ip": "Quota configs for ip '10.0.0.1' are ",
    "default ip": "Quota configs for the default ip are ",
}

SET = {
    "user": "producer_byte_rate=1024.0, request_percentage=12.5",
    "default user": "controller_mutation_rate=5.5",
    "pair": "consumer_byte_rate=4096.0",
    "ip": "connection_creation_rate=100.0",
    "default ip": "connection_creation_rate=1000.0",
}


KINDS = {
    ("--entity-type", "users"): ("user", "default user"),
    ("--entity-type", "users", "--entity-type", "clients"): ("pair",),
    ("--entity-type", "ips"): ("ip", "default ip"),
}
"""What is described together."""


def configs(bootstrap: str, *arguments: str, check: bool = True) -> str:
    done = java_tool("kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap, *arguments, check=check)
    return done.stdout + ("" if check else done.stderr)


def add(value: str) -> str:
    """As it is written: whole numbers have no fraction there."""
    return value.replace(".0", "").replace(" ", "")


def shown(text: str) -> set[str]:
    """What is told of quotas; the order of their names is nobody's promise."""
    return {
        f"{head}are {', '.join(sorted(values.split(', ')))}"
        for head, found, values in (line.partition("are ") for line in text.splitlines())
        if found
    }


def test_kafka_configs(bootstrap: str) -> None:
    try:
        for name, entity in NAMED.items():
            configs(bootstrap, "--alter", *entity, "--add-config", add(SET[name]))
        for kind, names in KINDS.items():
            described = configs(bootstrap, "--describe", *kind)
            assert shown(described) == {SHOWN[name] + SET[name] for name in names}
    finally:
        for name, entity in NAMED.items():
            keys = ",".join(pair.partition("=")[0] for pair in add(SET[name]).split(","))
            configs(bootstrap, "--alter", *entity, "--delete-config", keys)
    assert shown(configs(bootstrap, "--describe", "--entity-type", "users")) == set()


def test_kafka_configs_is_told_what_is_wrong(bootstrap: str) -> None:
    said = configs(bootstrap, "--alter", *NAMED["user"], "--add-config", "producer_byte_rate=-1", check=False)
    assert "Quota producer_byte_rate must be greater than 0" in said
    assert shown(configs(bootstrap, "--describe", "--entity-type", "users")) == set()


@pytest.fixture
def limit(bootstrap: str) -> Iterator[Callable[[str, str], None]]:
    """Gives a client id a quota, for the length of the test."""
    limited: list[tuple[str, str]] = []

    def give(client_id: str, key: str) -> None:
        alter(bootstrap, client_id, key, RATE)
        limited.append((client_id, key))

    yield give
    for client_id, key in limited:
        alter(bootstrap, client_id, key, None)


def alter(bootstrap: str, client_id: str, key: str, value: float | None) -> None:
    of = AlterClientQuotasRequest.EntryData
    op = of.OpData(key=key, value=value or 0.0, remove=value is None)
    entry = of(entity=[of.EntityData(entity_type="client-id", entity_name=client_id)], ops=[op])
    answer = ask(bootstrap, AlterClientQuotasRequest(version=1, entries=[entry], validate_only=False))
    assert [one.error_code for one in answer.entries] == [0]


RATE = 100_000
"""A burst is ten times as much."""


def large_records(count: int, size: int) -> list[Record]:
    return [Record(bytes([number % 251]) * size, None, 1_000 + number, ()) for number in range(count)]


def test_confluent_is_told_and_loses_nothing(
    bootstrap: str, topic: str, limit: Callable[[str, str], None]
) -> None:
    limit("throttled", "producer_byte_rate")
    told: list[ThrottleEvent] = []
    wanted = large_records(22, RATE // 2)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": "throttled",
            "throttle_cb": told.append,
            "batch.num.messages": 1,
        }
    )
    for record in wanted:
        producer.produce(topic, record.value, partition=0, timestamp=record.timestamp)
    assert producer.flush(SECONDS) == 0
    producer.poll(0)
    assert [record.value for _, record in stored_records(bootstrap, topic)] == [one.value for one in wanted]
    assert told
    assert all(event.throttle_time > 0 for event in told)


def test_kafka_python_is_told_and_loses_nothing(
    bootstrap: str, topic: str, limit: Callable[[str, str], None], caplog: pytest.LogCaptureFixture
) -> None:
    limit("throttled-too", "producer_byte_rate")
    wanted = large_records(22, RATE // 2)
    producer: Any = KafkaProducer(
        bootstrap_servers=bootstrap, client_id="throttled-too", batch_size=1, max_block_ms=60_000
    )
    futures = [
        producer.send(topic, record.value, partition=0, timestamp_ms=record.timestamp) for record in wanted
    ]
    for future in futures:
        future.get(timeout=SECONDS)
    producer.close()
    assert "ProduceResponse throttled by broker" in caplog.text
    assert [record.value for _, record in stored_records(bootstrap, topic)] == [one.value for one in wanted]


def test_a_consumer_over_its_quota_is_given_everything_in_the_end(
    bootstrap: str, topic: str, limit: Callable[[str, str], None]
) -> None:
    wanted = large_records(22, RATE // 2)
    for record in wanted:
        put(bootstrap, topic, [record])
    limit("slow-reader", "consumer_byte_rate")
    told: list[ThrottleEvent] = []
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": "slow-reader",
            "group.id": "unused",
            "enable.auto.commit": False,
            "throttle_cb": told.append,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[Any] = []
    while len(found) < len(wanted):
        message = consumer.poll(SECONDS)
        assert message is not None
        assert message.error() is None
        found.append(message.value())
    consumer.close()
    assert found == [record.value for record in wanted]
    assert told
