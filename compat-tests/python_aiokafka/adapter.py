"""aiokafka: its event loop runs in a thread, so that heartbeats go on between the scenario's steps."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, ProducerFenced, for_code
from python_client.adapter import (
    LARGE_REQUEST_BYTES,
    SECONDS,
    SESSION_MS,
    TRANSACTION_MS,
    NotInThisClient,
    Record,
)
from python_client.doors import Door, Heard
from python_client.main import main

REQUEST_TIMEOUT_MS = 10_000
_heard = Heard("aiokafka", "KafkaConnectionError: Connection at")
_loop = asyncio.new_event_loop()
threading.Thread(target=_loop.run_forever, daemon=True).start()


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """What it returns or raises, on the loop's thread."""
    return asyncio.run_coroutine_threadsafe(work, _loop).result(SECONDS)


class Token(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types here
    """One that does not change."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


class Producer:
    """aiokafka's."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._producer = run(_started(AIOKafkaProducer, settings))

    def send(self, topic: str, record: Record) -> Callable[[], int]:
        future = run(
            self._producer.send(
                topic, record.value, record.key, partition=record.partition,
                timestamp_ms=record.timestamp, headers=list(record.headers),
            )
        )  # fmt: skip
        return lambda: int(run(_awaited(future)).offset)

    def flush(self) -> None:
        run(self._producer.flush())

    def close(self) -> None:
        run(self._producer.stop())


class Transactional(Producer):
    """aiokafka's with a transactional id."""

    def begin(self) -> None:
        run(self._producer.begin_transaction())

    def send_offsets(self, membership: object, topic: str, offsets: Mapping[int, int]) -> None:
        positions = {TopicPartition(topic, partition): offset for partition, offset in offsets.items()}
        run(self._producer.send_offsets_to_transaction(positions, membership))

    def commit(self) -> None:
        run(self._producer.commit_transaction())

    def abort(self) -> None:
        run(self._producer.abort_transaction())


class Consumer:
    """aiokafka's."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._group = settings["group_id"]
        self._consumer = run(_started(AIOKafkaConsumer, settings))

    def assign(self, topic: str, partitions: Sequence[int]) -> None:
        run(_called(self._consumer.assign, [TopicPartition(topic, n) for n in partitions]))

    def subscribe(self, topic: str) -> None:
        run(_called(self._consumer.subscribe, [topic]))

    def poll(self, seconds: float) -> list[Record]:
        found = run(self._consumer.getmany(timeout_ms=int(seconds * 1000)))
        return [_record(one) for records in found.values() for one in records]

    def owned(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def seek(self, topic: str, partition: int, offset: int) -> None:
        run(_called(self._consumer.seek, TopicPartition(topic, partition), offset))

    def seek_to_beginning(self, topic: str, partition: int) -> None:
        run(self._consumer.seek_to_beginning(TopicPartition(topic, partition)))

    def seek_to_end(self, topic: str, partition: int) -> None:
        run(self._consumer.seek_to_end(TopicPartition(topic, partition)))
        run(self._consumer.position(TopicPartition(topic, partition)))

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        one = TopicPartition(topic, partition)
        low = run(self._consumer.beginning_offsets([one]))[one]
        return low, run(self._consumer.end_offsets([one]))[one]

    def offset_at(self, topic: str, partition: int, timestamp: int) -> int | None:
        one = TopicPartition(topic, partition)
        found = run(self._consumer.offsets_for_times({one: timestamp}))[one]
        return None if found is None else int(found.offset)

    def commit(self, topic: str, partition: int, offset: int) -> None:
        run(self._consumer.commit({TopicPartition(topic, partition): offset}))

    def committed(self, topic: str, partition: int) -> int | None:
        found: int | None = run(self._consumer.committed(TopicPartition(topic, partition)))
        return found

    def membership(self) -> object:
        """The group's name is all that its producer takes."""
        return self._group

    def close(self) -> None:
        run(self._consumer.stop())


class Admin:
    """aiokafka's, which leaves the errors in the answers to whoever asks."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._admin = run(_started(AIOKafkaAdminClient, settings))

    def create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        answer = run(self._admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=dict(configs))]))
        _raise(answer.topic_errors[0][1])

    def topics(self) -> set[str]:
        return set(run(self._admin.list_topics()))

    def partitions(self, topic: str) -> int:
        (found,) = run(self._admin.describe_topics([topic]))
        _raise(found["error_code"])
        return len(found["partitions"])

    def configs(self, topic: str) -> dict[str, str]:
        (answer,) = run(self._admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)]))
        error, _message, _kind, _name, entries = answer.resources[0]
        _raise(error)
        return {entry[0]: entry[1] for entry in entries}

    def alter(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs=dict(configs))
        (answer,) = run(self._admin.alter_configs([resource]))
        _raise(answer.resources[0][0])

    def add_partitions(self, topic: str, total: int) -> None:
        answer = run(self._admin.create_partitions({topic: NewPartitions(total)}))
        _raise(answer.topic_errors[0][1])

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        one = TopicPartition(topic, partition)
        return int(run(self._admin.delete_records({one: RecordsToDelete(before)}))[one])

    def delete(self, topic: str) -> None:
        answer = run(self._admin.delete_topics([topic]))
        _raise(answer.topic_error_codes[0][1])

    def close(self) -> None:
        run(self._admin.close())


class Aiokafka:
    """The client."""

    can_be_idempotent = True
    tells_membership = False
    best_mechanism = "SCRAM-SHA-512"

    def __init__(self, bootstrap: str, **more: Any) -> None:
        self._base = {"bootstrap_servers": bootstrap, **more}

    def secured(self, door: Door) -> Aiokafka:
        more: dict[str, Any] = {
            "security_protocol": door.protocol, "ssl_context": door.context,
            # It says no sooner that it gives up.
            "request_timeout_ms": REQUEST_TIMEOUT_MS,
        }  # fmt: skip
        if door.mechanism:
            more |= {"sasl_mechanism": door.mechanism}
        if door.mechanism == "OAUTHBEARER":
            more |= {"sasl_oauth_token_provider": Token(door.secret)}
        elif door.mechanism:
            more |= {"sasl_plain_username": door.user, "sasl_plain_password": door.secret}
        return Aiokafka(door.bootstrap, **more)

    def refusal(self, error: Exception) -> str:
        return _heard.refusal(error)

    def producer(self, *, codec: str = "none", idempotent: bool = False, linger_ms: int = 0) -> Producer:
        return Producer({
            **self._base,
            "acks": "all",
            "compression_type": None if codec == "none" else codec,
            "enable_idempotence": idempotent,
            "linger_ms": linger_ms,
            "max_request_size": LARGE_REQUEST_BYTES,
        })  # fmt: skip

    def transactional(self, name: str, *, timeout_ms: int = TRANSACTION_MS) -> Transactional:
        return Transactional({
            **self._base, "transactional_id": name, "transaction_timeout_ms": timeout_ms
        })  # fmt: skip

    def consumer(
        self, group: str | None = None, *, auto_commit: bool = False, read_committed: bool = False
    ) -> Consumer:
        return Consumer({
            **self._base,
            "group_id": group,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": auto_commit,
            "auto_commit_interval_ms": 500,
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": 500,
            "isolation_level": "read_committed" if read_committed else "read_uncommitted",
        })  # fmt: skip

    def admin(self) -> Admin:
        return Admin(self._base)

    def error_code(self, error: Exception) -> int | None:
        return error.errno if isinstance(error, KafkaError) else None

    def is_fenced(self, error: Exception) -> bool:
        return isinstance(error, ProducerFenced)

    def is_stale_member(self, error: Exception) -> bool:
        raise NotInThisClient(f"its producer does not say whose offsets it commits: {error!r}")


async def _started(kind: Callable[..., Any], settings: dict[str, Any]) -> Any:
    made = kind(**settings)
    await made.start()
    return made


async def _awaited(future: asyncio.Future[Any]) -> Any:
    return await future


async def _called(function: Callable[..., object], *arguments: object) -> None:
    function(*arguments)


def _record(one: Any) -> Record:
    return Record(one.value, one.key, tuple(one.headers), one.timestamp, one.partition, one.offset)


def _raise(code: int) -> None:
    if code:
        raise for_code(code)


if __name__ == "__main__":
    sys.exit(main(Aiokafka))
