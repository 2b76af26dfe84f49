"""kafka-python 3."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

from kafka import KafkaAdminClient, TopicPartition, errors
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.structs import OffsetAndMetadata
from python_client import kafka_python
from python_client.main import main


class Admin:
    """kafka-python's."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        self._admin.create_topics({topic: {"num_partitions": partitions, "configs": dict(configs)}})

    def topics(self) -> set[str]:
        return {one if isinstance(one, str) else one["name"] for one in self._admin.list_topics()}

    def partitions(self, topic: str) -> int:
        (found,) = self._admin.describe_topics([topic])
        _raise(found["error_code"])
        return len(found["partitions"])

    def configs(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        found = self._admin.describe_configs([resource], config_filter="all")["topic"][topic]
        return {name: entry["value"] for name, entry in found.items()}

    def alter(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(configs))
        told = self._admin.alter_configs([resource])["topic"][topic]
        # It raises nothing, and tells the number of an error only inside a text.
        if found := re.match(r"\[Error (\d+)\]", told):
            _raise(int(found[1]))

    def add_partitions(self, topic: str, total: int) -> None:
        self._admin.create_partitions({topic: total})

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        one = TopicPartition(topic, partition)
        answer: Any = self._admin.delete_records({one: before})[one]
        return int(answer["low_watermark"] if isinstance(answer, dict) else answer.low_watermark)

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])

    def close(self) -> None:
        self._admin.close()


class KafkaPython3:
    """The client."""

    can_be_idempotent = True

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def producer(
        self, *, codec: str = "none", idempotent: bool = False, linger_ms: int = 0
    ) -> kafka_python.Producer:
        settings = kafka_python.producer_settings(self._bootstrap, codec, linger_ms)
        return kafka_python.Producer(settings | {"enable_idempotence": idempotent})

    def consumer(self, group: str | None = None, *, auto_commit: bool = False) -> kafka_python.Consumer:
        settings = kafka_python.consumer_settings(self._bootstrap, group, auto_commit=auto_commit)
        return kafka_python.Consumer(settings, lambda offset: OffsetAndMetadata(offset, "", -1))

    def admin(self) -> Admin:
        return Admin(self._bootstrap)

    def error_code(self, error: Exception) -> int | None:
        return kafka_python.error_code(error)


def _raise(code: int) -> None:
    if code:
        raise errors.for_code(code)


if __name__ == "__main__":
    sys.exit(main(KafkaPython3))
