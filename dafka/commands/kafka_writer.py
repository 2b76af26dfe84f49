"""Records into a topic of any Kafka, in batches, one request at a time: for commands."""

from __future__ import annotations

import time
from typing import Any, Final

from dafka.commands.cluster import Cluster
from dafka.commands.exits import CommandFailed
from dafka.commands.kafka_client import KafkaClient, error_name
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.partitioner import partition_of
from wireproto.kafka.schemas import REQUEST_CLASSES
from wireproto.records.builder import RecordFields, build_batch

NAMES_UNTIL: Final = 12
"""The last version of Produce that names topics: whoever writes has no use for their ids."""

BATCH_BYTES: Final = 256 * 1024
"""Bytes of keys, values and headers after which a batch is sent: below what any Kafka takes by default."""

BATCH_RECORDS: Final = 10_000
"""Records after which a batch is sent, however small they are."""

PATIENCE_SECONDS: Final = 30.0
"""How long a batch is sent again that was refused for a reason that may pass."""

RETRY_SECONDS: Final = 0.1
REQUEST_TIMEOUT_MS: Final = 8_000
"""What the server may take for a batch: less than this client waits, so that it answers."""

PASSING: Final = frozenset(
    {"NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE", "NOT_ENOUGH_REPLICAS", "UNKNOWN_TOPIC_OR_PARTITION"}
)
"""Errors with which nothing was appended, and which may be over in a moment."""


class KafkaWriter:
    """Writes records into one topic: those with a key where Java's clients put them, all to `partition` if it
    is given, others a batch here and a batch there.

    Raises KafkaTrouble and CommandFailed, which say how many records were acknowledged before.
    """

    def __init__(
        self, cluster: Cluster, topic: str, *, acks: int = -1, codec: int = 0, partition: int | None = None
    ) -> None:
        self.acknowledged = 0
        """Records."""
        self._cluster = cluster
        self._topic = topic
        self._acks = acks
        self._codec = codec
        self._partition = partition
        self._leaders = self._look()
        self._sticky = 0
        self._collected: dict[int, list[RecordFields]] = {}
        self._bytes: dict[int, int] = {}
        if partition is not None and partition not in self._leaders:
            raise CommandFailed(f"{topic} has no partition {partition}: it has {len(self._leaders)}")

    def add(self, record: RecordFields, partition: int | None = None) -> None:
        """Take a record; send its batch if that is large enough. `partition` is one that the topic has."""
        key, value, headers, _ = record
        index = self._place(key) if partition is None else partition
        batch = self._collected.setdefault(index, [])
        batch.append(record)
        size = sum(len(data or b"") for data in (key, value)) + sum(
            len(name) + len(v or b"") for name, v in headers
        )
        self._bytes[index] = self._bytes.get(index, 0) + size
        if self._bytes[index] >= BATCH_BYTES or len(batch) >= BATCH_RECORDS:
            self._send(index)
            self._sticky += 1

    def flush(self) -> None:
        """Send what was collected."""
        for index in sorted(self._collected):
            self._send(index)
        self._sticky += 1

    @property
    def partitions(self) -> int:
        return len(self._leaders)

    def _place(self, key: bytes | None) -> int:
        if self._partition is not None:
            return self._partition
        if key is None:
            return self._sticky % len(self._leaders)
        return partition_of(key, len(self._leaders))

    def _send(self, index: int) -> None:
        records = self._collected.pop(index)
        self._bytes[index] = 0
        batch = build_batch(records, codec=self._codec)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            client = self._cluster.leader(self._leaders[index])
            error, message = produce(client, self._topic, index, batch, self._acks)
            if not error:
                self.acknowledged += len(records)
                return
            if error not in PASSING or time.monotonic() > deadline:
                said = f" ({message})" if message else ""
                raise CommandFailed(
                    f"{self._topic}-{index}: {error}{said}. {self.acknowledged} records were acknowledged "
                    "before"
                )
            time.sleep(RETRY_SECONDS)
            self._leaders = self._look() or self._leaders

    def _look(self) -> dict[int, int]:
        (topic,) = self._cluster.metadata([self._topic]).topics
        if topic.error_code:
            why = error_name(topic.error_code)
            if why == "UNKNOWN_TOPIC_OR_PARTITION":
                why += f". 'dafka topics create {self._topic}' makes it"
            elif why == "INVALID_TOPIC_EXCEPTION":
                why += ". A name has letters, digits, '.', '_' and '-', and at most 249 of them"
            raise CommandFailed(f"{self._topic}: {why}")
        return {one.partition_index: one.leader_id for one in topic.partitions}


def produce(client: KafkaClient, topic: str, index: int, batch: bytes, acks: int) -> tuple[str, str]:
    """Send a batch; the error's name and words, empty for none."""
    answer = client.ask(
        ApiKey.PRODUCE,
        min(client.version(ApiKey.PRODUCE, NAMES_UNTIL), NAMES_UNTIL),
        transactional_id=None,
        acks=acks,
        timeout_ms=REQUEST_TIMEOUT_MS,
        topic_data=[produce_topic(topic, index, batch)],
    )
    result = answer.responses[0].partition_responses[0]
    if not result.error_code:
        return "", ""
    return error_name(result.error_code), getattr(result, "error_message", None) or ""


def produce_topic(topic: str, index: int, batch: bytes) -> Any:
    """The part of a Produce with one batch."""
    data: Any = REQUEST_CLASSES[ApiKey.PRODUCE]
    partition = data.TopicProduceData.PartitionProduceData(index=index, records=batch)
    return data.TopicProduceData(name=topic, partition_data=[partition])
