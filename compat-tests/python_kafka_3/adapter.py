"""kafka-python 3."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

from kafka import TopicPartition, errors
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.structs import OffsetAndMetadata
from python_client import kafka_python
from python_client.adapter import TRANSACTION_MS
from python_client.doors import Door
from python_client.main import main

HOPELESS_MS = 2000
DELIVERY_MS = 12_000


class Admin(kafka_python.Admin):
    """What differs from version 2."""

    def create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        self.client.create_topics({topic: {"num_partitions": partitions, "configs": dict(configs)}})

    def topics(self) -> set[str]:
        return {one if isinstance(one, str) else one["name"] for one in self.client.list_topics()}

    def configs(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        found = self.client.describe_configs([resource], config_filter="all")["topic"][topic]
        return {name: entry["value"] for name, entry in found.items()}

    def alter(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(configs))
        told = self.client.alter_configs([resource])["topic"][topic]
        # It raises nothing, and tells the number of an error only inside a text.
        if found := re.match(r"\[Error (\d+)\]", told):
            kafka_python.raise_for(int(found[1]))

    def add_partitions(self, topic: str, total: int) -> None:
        self.client.create_partitions({topic: total})

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        one = TopicPartition(topic, partition)
        answer: Any = self.client.delete_records({one: before})[one]
        return int(answer["low_watermark"] if isinstance(answer, dict) else answer.low_watermark)


class Transactional(kafka_python.Producer):
    """Its producer with a transactional id."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send_offsets(self, membership: object, topic: str, offsets: Mapping[int, int]) -> None:
        positions = {
            TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        self._producer.send_offsets_to_transaction(positions, membership)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()


class KafkaPython3(kafka_python.Client):
    """The client."""

    can_be_idempotent = True
    tells_membership = True

    def __init__(self, bootstrap: str, door: Door | None = None) -> None:
        super().__init__(bootstrap, door)
        if door is not None and door.is_hopeless:
            self.more |= {"bootstrap_timeout_ms": HOPELESS_MS}

    def producer(
        self, *, codec: str = "none", idempotent: bool = False, linger_ms: int = 0
    ) -> kafka_python.Producer:
        settings = kafka_python.producer_settings(self.bootstrap, codec, linger_ms) | self.more
        limit = {"delivery_timeout_ms": DELIVERY_MS} if self.more else {}
        return kafka_python.Producer(settings | limit | {"enable_idempotence": idempotent})

    def transactional(self, name: str, *, timeout_ms: int = TRANSACTION_MS) -> Transactional:
        settings = kafka_python.producer_settings(self.bootstrap, "none", 0)
        return Transactional(settings | {"transactional_id": name, "transaction_timeout_ms": timeout_ms})

    def consumer(
        self, group: str | None = None, *, auto_commit: bool = False, read_committed: bool = False
    ) -> kafka_python.Consumer:
        settings = kafka_python.consumer_settings(
            self.bootstrap, group, auto_commit=auto_commit, read_committed=read_committed
        )
        settings |= self.more
        return kafka_python.Consumer(settings, lambda offset: OffsetAndMetadata(offset, "", -1))

    def admin(self) -> Admin:
        return Admin(self.bootstrap)

    def is_fenced(self, error: Exception) -> bool:
        return isinstance(error, errors.ProducerFencedError)

    def is_stale_member(self, error: Exception) -> bool:
        return isinstance(error, errors.CommitFailedError)


if __name__ == "__main__":
    sys.exit(main(KafkaPython3))
