"""What kafka-python 2 and 3 have in common: all of the producer and the consumer, and some of the admin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition, errors

from python_client.adapter import LARGE_REQUEST_BYTES, SECONDS, SESSION_MS, NotInThisClient, Record
from python_client.doors import Door, Heard

try:
    from kafka.net.sasl.oauth import AbstractTokenProvider
except ImportError:
    from kafka.oauth import AbstractTokenProvider

# In version 3 a poll that times out between SyncGroup and its answer leaves the member without an assignment
# for ever (python_kafka_3/FINDINGS.md). So long a poll hardly ever does; records end it at once.
GROUP_POLL_SECONDS = 2.0
# Less than a test's patience, more than the server needs to come back.
REQUEST_TIMEOUT_MS = 10_000
_HEARD = Heard("kafka", "<authenticating>" if kafka.__version__.startswith("2") else "socket disconnected")


class Producer:
    """kafka-python's."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._producer = KafkaProducer(**settings)

    def send(self, topic: str, record: Record) -> Callable[[], int]:
        future = self._producer.send(
            topic, record.value, record.key, partition=record.partition,
            timestamp_ms=record.timestamp, headers=list(record.headers),
        )  # fmt: skip
        return lambda: int(future.get(SECONDS).offset)

    def flush(self) -> None:
        self._producer.flush(SECONDS)

    def close(self) -> None:
        self._producer.close(SECONDS)


class Consumer:
    """kafka-python's. `committed_offset` makes what can be committed: its shape differs by version."""

    def __init__(self, settings: dict[str, Any], committed_offset: Callable[[int], Any]) -> None:
        self._consumer = KafkaConsumer(**settings)
        self._committed_offset = committed_offset

    def assign(self, topic: str, partitions: Sequence[int]) -> None:
        self._consumer.assign([TopicPartition(topic, n) for n in partitions])

    def subscribe(self, topic: str) -> None:
        self._consumer.subscribe([topic])

    def poll(self, seconds: float) -> list[Record]:
        seconds = GROUP_POLL_SECONDS if self._consumer.subscription() else seconds
        found = self._consumer.poll(timeout_ms=int(seconds * 1000))
        return [_record(one) for records in found.values() for one in records]

    def owned(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def seek(self, topic: str, partition: int, offset: int) -> None:
        self._consumer.seek(TopicPartition(topic, partition), offset)

    def seek_to_beginning(self, topic: str, partition: int) -> None:
        self._consumer.seek_to_beginning(TopicPartition(topic, partition))

    def seek_to_end(self, topic: str, partition: int) -> None:
        self._consumer.seek_to_end(TopicPartition(topic, partition))
        self._consumer.position(TopicPartition(topic, partition))

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        one = TopicPartition(topic, partition)
        return self._consumer.beginning_offsets([one])[one], self._consumer.end_offsets([one])[one]

    def offset_at(self, topic: str, partition: int, timestamp: int) -> int | None:
        one = TopicPartition(topic, partition)
        found = self._consumer.offsets_for_times({one: timestamp})[one]
        return None if found is None else int(found.offset)

    def commit(self, topic: str, partition: int, offset: int) -> None:
        self._consumer.commit({TopicPartition(topic, partition): self._committed_offset(offset)})

    def committed(self, topic: str, partition: int) -> int | None:
        found: int | None = self._consumer.committed(TopicPartition(topic, partition))
        return found

    def membership(self) -> object:
        return self._consumer.group_metadata()

    def close(self) -> None:
        self._consumer.close()


class Admin:
    """kafka-python's, so far as its versions are alike."""

    def __init__(self, bootstrap: str) -> None:
        self.client = KafkaAdminClient(bootstrap_servers=bootstrap)

    def partitions(self, topic: str) -> int:
        (found,) = self.client.describe_topics([topic])
        raise_for(found["error_code"])
        return len(found["partitions"])

    def delete(self, topic: str) -> None:
        self.client.delete_topics([topic])

    def close(self) -> None:
        self.client.close()


class Client:
    """A version of kafka-python: what makes its producers, consumers and admins is its own."""

    best_mechanism = "SCRAM-SHA-512"

    def __init__(self, bootstrap: str, door: Door | None = None) -> None:
        self.bootstrap = bootstrap
        self.more = {} if door is None else _security(door)

    def secured(self, door: Door) -> Self:
        """The same client, which comes in there."""
        return type(self)(door.bootstrap, door)

    def refusal(self, error: Exception) -> str:
        """Which it means, if any."""
        return _HEARD.refusal(error)

    def error_code(self, error: Exception) -> int | None:
        """Kafka's number of an error of kafka-python's."""
        return error.errno if isinstance(error, errors.KafkaError) else None

    def is_fenced(self, error: Exception) -> bool:
        """Version 2 has no transactions."""
        raise NotInThisClient(f"its producer has no transactions: {error!r}")

    def is_stale_member(self, error: Exception) -> bool:
        """Likewise."""
        raise NotInThisClient(f"its producer has no transactions: {error!r}")


class _Token(AbstractTokenProvider):  # type: ignore[misc]  # its place differs by version
    """One that does not change."""

    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token

    def extensions(self) -> dict[str, str]:
        return {}


def _security(door: Door) -> dict[str, Any]:
    settings: dict[str, Any] = {"security_protocol": door.protocol, "ssl_cafile": door.ca}
    if not door.mechanism:
        return settings
    settings |= {"sasl_mechanism": door.mechanism}
    if door.mechanism == "OAUTHBEARER":
        return settings | {"sasl_oauth_token_provider": _Token(door.secret)}
    return settings | {"sasl_plain_username": door.user, "sasl_plain_password": door.secret}


def producer_settings(bootstrap: str, codec: str, linger_ms: int) -> dict[str, Any]:
    return {
        "bootstrap_servers": bootstrap,
        "acks": "all",
        "retries": 1000,
        "compression_type": None if codec == "none" else codec,
        "linger_ms": linger_ms,
        "max_request_size": LARGE_REQUEST_BYTES,
        "request_timeout_ms": REQUEST_TIMEOUT_MS,
        "reconnect_backoff_max_ms": 500,
    }


def consumer_settings(
    bootstrap: str, group: str | None, *, auto_commit: bool, read_committed: bool
) -> dict[str, Any]:
    return {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": auto_commit,
        "auto_commit_interval_ms": 500,
        "session_timeout_ms": SESSION_MS,
        "heartbeat_interval_ms": 500,
        "reconnect_backoff_max_ms": 500,
        **({"isolation_level": "read_committed"} if read_committed else {}),
    }


def raise_for(error_code: int) -> None:
    """Raises kafka-python's error of this number; 0 is none."""
    if error_code:
        raise errors.for_code(error_code)


def _record(one: Any) -> Record:
    return Record(one.value, one.key, tuple(one.headers), one.timestamp, one.partition, one.offset)
