"""kafka-python 2.0: no idempotent producer, no DeleteRecords; its admin leaves errors in some answers."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.structs import OffsetAndMetadata
from python_client import kafka_python
from python_client.adapter import TRANSACTION_MS, NotInThisClient, TransactionalProducer
from python_client.main import main


class Admin(kafka_python.Admin):
    """What differs from version 3."""

    def create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        self.client.create_topics([NewTopic(topic, partitions, 1, topic_configs=dict(configs))])

    def topics(self) -> set[str]:
        return set(self.client.list_topics())

    def configs(self, topic: str) -> dict[str, str]:
        (answer,) = self.client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        error, _message, _kind, _name, entries = answer.resources[0]
        kafka_python.raise_for(error)
        return {entry[0]: entry[1] for entry in entries}

    def alter(self, topic: str, configs: Mapping[str, str]) -> None:
        answer = self.client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, dict(configs))])
        kafka_python.raise_for(answer.resources[0][0])

    def add_partitions(self, topic: str, total: int) -> None:
        self.client.create_partitions({topic: NewPartitions(total)})

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        raise NotInThisClient("its admin has no DeleteRecords")


class KafkaPython2(kafka_python.Client):
    """The client."""

    can_be_idempotent = False
    tells_membership = False

    def producer(
        self, *, codec: str = "none", idempotent: bool = False, linger_ms: int = 0
    ) -> kafka_python.Producer:
        settings: dict[str, Any] = (
            kafka_python.producer_settings(self.bootstrap, codec, linger_ms) | self.more
        )
        # One request at a time keeps the order where requests are sent again.
        in_flight = {"max_in_flight_requests_per_connection": 1} if idempotent else {}
        return kafka_python.Producer(settings | in_flight)

    def transactional(self, name: str, *, timeout_ms: int = TRANSACTION_MS) -> TransactionalProducer:
        raise NotInThisClient("its producer has no transactions")

    def consumer(
        self, group: str | None = None, *, auto_commit: bool = False, read_committed: bool = False
    ) -> kafka_python.Consumer:
        settings = kafka_python.consumer_settings(
            self.bootstrap, group, auto_commit=auto_commit, read_committed=read_committed
        )
        settings |= self.more
        return kafka_python.Consumer(settings, lambda offset: OffsetAndMetadata(offset, ""))

    def admin(self) -> Admin:
        return Admin(self.bootstrap)


if __name__ == "__main__":
    sys.exit(main(KafkaPython2))
