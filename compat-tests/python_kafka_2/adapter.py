"""kafka-python 2.0: no idempotent producer, no DeleteRecords; its admin leaves errors in some answers."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from kafka import KafkaAdminClient, errors
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.structs import OffsetAndMetadata
from python_client import kafka_python
from python_client.adapter import NotInThisClient
from python_client.main import main


class Admin:
    """kafka-python's."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        self._admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=dict(configs))])

    def topics(self) -> set[str]:
        return set(self._admin.list_topics())

    def partitions(self, topic: str) -> int:
        (found,) = self._admin.describe_topics([topic])
        _raise(found["error_code"])
        return len(found["partitions"])

    def configs(self, topic: str) -> dict[str, str]:
        (answer,) = self._admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        error, _message, _kind, _name, entries = answer.resources[0]
        _raise(error)
        return {entry[0]: entry[1] for entry in entries}

    def alter(self, topic: str, configs: Mapping[str, str]) -> None:
        answer = self._admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, dict(configs))])
        _raise(answer.resources[0][0])

    def add_partitions(self, topic: str, total: int) -> None:
        self._admin.create_partitions({topic: NewPartitions(total)})

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        raise NotInThisClient("its admin has no DeleteRecords")

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])

    def close(self) -> None:
        self._admin.close()


class KafkaPython2:
    """The client."""

    can_be_idempotent = False

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def producer(
        self, *, codec: str = "none", idempotent: bool = False, linger_ms: int = 0
    ) -> kafka_python.Producer:
        settings: dict[str, Any] = kafka_python.producer_settings(self._bootstrap, codec, linger_ms)
        # One request at a time keeps the order where requests are sent again.
        in_flight = {"max_in_flight_requests_per_connection": 1} if idempotent else {}
        return kafka_python.Producer(settings | in_flight)

    def consumer(self, group: str | None = None, *, auto_commit: bool = False) -> kafka_python.Consumer:
        settings = kafka_python.consumer_settings(self._bootstrap, group, auto_commit=auto_commit)
        return kafka_python.Consumer(settings, lambda offset: OffsetAndMetadata(offset, ""))

    def admin(self) -> Admin:
        return Admin(self._bootstrap)

    def error_code(self, error: Exception) -> int | None:
        return kafka_python.error_code(error)


def _raise(code: int) -> None:
    if code:
        raise errors.for_code(code)


if __name__ == "__main__":
    sys.exit(main(KafkaPython2))
