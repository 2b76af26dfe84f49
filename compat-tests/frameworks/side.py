"""The server seen from beside the framework: its topics, their configs and all their records."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import confluent_kafka
import confluent_kafka.admin

from frameworks.checks import SECONDS, until

library: Any = confluent_kafka
administration: Any = confluent_kafka.admin
SETTINGS = {"reconnect.backoff.max.ms": 500, "log_level": 0}
POLL_SECONDS = 0.05


class Record(NamedTuple):
    """`timestamp` in milliseconds; None: the client's clock."""

    key: bytes | None
    value: bytes | None
    timestamp: int | None = None


class Side:
    """One server."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._settings = {"bootstrap.servers": bootstrap, **SETTINGS}
        self._admin = administration.AdminClient(self._settings)
        self._producer: Any = None

    def make_topic(self, topic: str, partitions: int, configs: Mapping[str, str] | None = None) -> None:
        """There once this returns."""
        new = administration.NewTopic(topic, num_partitions=partitions, config=dict(configs or {}))
        _only(self._admin.create_topics([new]))
        until(lambda: topic in self.topics(), f"{topic} to be listed")

    def topics(self) -> dict[str, int]:
        """Names, and how many partitions."""
        found = self._admin.list_topics(timeout=SECONDS).topics
        return {name: len(topic.partitions) for name, topic in found.items()}

    def configs(self, topic: str) -> dict[str, str]:
        found = _only(self._admin.describe_configs([_resource(topic)]))
        return {name: entry.value for name, entry in found.items()}

    def alter(self, topic: str, configs: Mapping[str, str]) -> None:
        kind = administration.AlterConfigOpType.SET
        entries = [
            administration.ConfigEntry(name, value, incremental_operation=kind)
            for name, value in configs.items()
        ]
        _only(self._admin.incremental_alter_configs([_resource(topic, incremental_configs=entries)]))

    def add_partitions(self, topic: str, total: int) -> None:
        _only(self._admin.create_partitions([administration.NewPartitions(topic, total)]))

    def commit_ends(self, group: str, topic: str) -> None:
        """As a group that has read everything."""
        ends = enumerate(end for _, end in self.bounds(topic))
        with _Reader({**self._settings, "group.id": group}) as consumer:
            wanted = [library.TopicPartition(topic, n, end) for n, end in ends]
            for done in consumer.commit(offsets=wanted, asynchronous=False):
                assert done.error is None, done.error

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Offsets by partition, of those that have one."""
        asked = [library.TopicPartition(topic, n) for n in range(self.topics()[topic])]
        with _Reader({**self._settings, "group.id": group}) as consumer:
            return {
                one.partition: one.offset for one in consumer.committed(asked, SECONDS) if one.offset >= 0
            }

    def produce(self, topic: str, records: Iterable[Record]) -> None:
        """By an idempotent producer; all are acknowledged once this returns."""
        if self._producer is None:
            self._producer = library.Producer({**self._settings, "enable.idempotence": True, "linger.ms": 5})
        failed: list[Any] = []
        for record in records:
            more = {} if record.timestamp is None else {"timestamp": record.timestamp}
            self._producer.produce(
                topic, record.value, record.key,
                on_delivery=lambda error, _: failed.append(error) if error else None, **more,
            )  # fmt: skip
        left = self._producer.flush(SECONDS)
        assert not left, f"{left} records are not acknowledged"
        assert not failed, f"not written: {failed[0]}"

    def bounds(self, topic: str) -> list[tuple[int, int]]:
        """First offset and end of each partition."""
        with _Reader(self._settings) as consumer:
            return [
                consumer.get_watermark_offsets(library.TopicPartition(topic, n), SECONDS)
                for n in range(self.topics()[topic])
            ]

    def read(self, topic: str) -> list[Record]:
        """All records, partition by partition, up to their ends as they are now."""
        found: dict[int, list[Record]] = {n: [] for n in range(self.topics()[topic])}
        waiting = set(found)
        deadline = time.monotonic() + SECONDS
        with _Reader(self._settings) as consumer:
            start = library.OFFSET_BEGINNING
            consumer.assign([library.TopicPartition(topic, n, start) for n in found])
            while waiting:
                assert time.monotonic() < deadline, f"partitions {sorted(waiting)} of {topic} have no end"
                for message in consumer.consume(500, POLL_SECONDS):
                    if message.error() is None:
                        record = Record(message.key(), message.value(), message.timestamp()[1])
                        found[message.partition()].append(record)
                    elif message.error().code() == library.KafkaError._PARTITION_EOF:
                        waiting.discard(message.partition())
        return [record for records in found.values() for record in records]

    def is_compacted(self, topic: str) -> bool:
        """Something that was written is there no more, behind where the log starts."""
        written = sum(end - start for start, end in self.bounds(topic))
        return len(self.read(topic)) < written

    def values(self, topic: str) -> list[str]:
        """As text."""
        return [(record.value or b"").decode() for record in self.read(topic)]


class _Reader:
    def __init__(self, settings: dict[str, Any]) -> None:
        # A fetch that waits at the end of one partition holds up those of the next.
        more = {"enable.auto.commit": False, "enable.partition.eof": True, "fetch.wait.max.ms": 10}
        self._consumer = library.Consumer({"group.id": "none", **settings, **more})

    def __enter__(self) -> Any:
        return self._consumer

    def __exit__(self, *_: object) -> None:
        self._consumer.close()


def _resource(topic: str, **more: Any) -> Any:
    return administration.ConfigResource(administration.ResourceType.TOPIC, topic, **more)


def _only(futures: dict[Any, Any]) -> Any:
    (future,) = futures.values()
    return future.result(SECONDS)
