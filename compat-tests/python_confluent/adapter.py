"""confluent-kafka: librdkafka."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import confluent_kafka
import confluent_kafka.admin
from python_client.adapter import LARGE_REQUEST_BYTES, SECONDS, SESSION_MS, TRANSACTION_MS, Record
from python_client.doors import AUTHENTICATION, CERTIFICATE, Door
from python_client.main import main

library: Any = confluent_kafka
administration: Any = confluent_kafka.admin
CREATE_TIME_OR_APPEND_TIME = (1, 2)
# ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID
MEMBER_IS_GONE = (22, 25)
REFUSALS = {library.KafkaError._AUTHENTICATION: AUTHENTICATION, library.KafkaError._SSL: CERTIFICATE}


class Producer:
    """librdkafka's, whose callbacks fill a cell a record."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._refusals: list[Any] = []
        self._producer = library.Producer({**settings, "error_cb": self._failed})

    def _failed(self, error: Any) -> None:
        """It goes on trying; whoever waits for it is told here why it does not come in."""
        if error.code() in REFUSALS:
            self._refusals.append(error)

    def send(self, topic: str, record: Record) -> Callable[[], int]:
        done: list[tuple[Any, Any]] = []
        more = {} if record.timestamp is None else {"timestamp": record.timestamp}
        try:
            self._producer.produce(
                topic, record.value, record.key, record.partition,
                headers=list(record.headers), on_delivery=lambda *told: done.append(told), **more,
            )  # fmt: skip
        except library.KafkaException as error:
            done.append((error.args[0], None))
        return lambda: self._offset(done)

    def flush(self) -> None:
        self._producer.flush(SECONDS)

    def close(self) -> None:
        self._producer.flush(SECONDS)

    def _offset(self, done: list[tuple[Any, Any]]) -> int:
        deadline = time.monotonic() + SECONDS
        while not done:
            assert time.monotonic() < deadline, "no delivery report"
            self._producer.poll(0.05)
            if self._refusals:
                self._producer.purge()
                raise library.KafkaException(self._refusals[0])
        error, message = done[0]
        if error is not None:
            raise library.KafkaException(error)
        return int(message.offset())


class Transactional(Producer):
    """librdkafka's with a transactional id."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self._producer.init_transactions(SECONDS)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send_offsets(self, membership: object, topic: str, offsets: Mapping[int, int]) -> None:
        positions = [library.TopicPartition(topic, *one) for one in offsets.items()]
        self._producer.send_offsets_to_transaction(positions, membership, SECONDS)

    def commit(self) -> None:
        self._producer.commit_transaction(SECONDS)

    def abort(self) -> None:
        self._producer.abort_transaction(SECONDS)

    def close(self) -> None:
        """Nothing is on its way outside of a transaction, and one that is fenced cannot even be flushed."""


class Consumer:
    """librdkafka's."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._consumer = library.Consumer(settings)

    def assign(self, topic: str, partitions: Sequence[int]) -> None:
        start = library.OFFSET_BEGINNING
        self._consumer.assign([library.TopicPartition(topic, n, start) for n in partitions])

    def subscribe(self, topic: str) -> None:
        self._consumer.subscribe([topic])

    def poll(self, seconds: float) -> list[Record]:
        found = self._consumer.consume(500, seconds)
        # Errors that pass (a server that is away) come as messages; records are awaited by the scenario.
        return [_record(message) for message in found if message.error() is None]

    def owned(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def seek(self, topic: str, partition: int, offset: int) -> None:
        self._consumer.assign([library.TopicPartition(topic, partition, offset)])

    def seek_to_beginning(self, topic: str, partition: int) -> None:
        self.seek(topic, partition, library.OFFSET_BEGINNING)

    def seek_to_end(self, topic: str, partition: int) -> None:
        self.seek(topic, partition, self.bounds(topic, partition)[1])

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        low, high = self._consumer.get_watermark_offsets(library.TopicPartition(topic, partition), SECONDS)
        return low, high

    def offset_at(self, topic: str, partition: int, timestamp: int) -> int | None:
        wanted = [library.TopicPartition(topic, partition, timestamp)]
        (found,) = self._consumer.offsets_for_times(wanted, SECONDS)
        return found.offset if found.offset >= 0 else None

    def commit(self, topic: str, partition: int, offset: int) -> None:
        wanted = [library.TopicPartition(topic, partition, offset)]
        (done,) = self._consumer.commit(offsets=wanted, asynchronous=False)
        if done.error is not None:
            raise library.KafkaException(done.error)

    def committed(self, topic: str, partition: int) -> int | None:
        (found,) = self._consumer.committed([library.TopicPartition(topic, partition)], SECONDS)
        return found.offset if found.offset >= 0 else None

    def membership(self) -> object:
        return self._consumer.consumer_group_metadata()

    def close(self) -> None:
        self._consumer.close()


class Admin:
    """librdkafka's."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._admin = administration.AdminClient(settings)

    def create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        new = administration.NewTopic(topic, num_partitions=partitions, config=dict(configs))
        _only(self._admin.create_topics([new]))

    def topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=SECONDS).topics)

    def partitions(self, topic: str) -> int:
        return len(self._admin.list_topics(timeout=SECONDS).topics[topic].partitions)

    def configs(self, topic: str) -> dict[str, str]:
        found = _only(self._admin.describe_configs([_resource(topic)]))
        return {name: entry.value for name, entry in found.items()}

    def alter(self, topic: str, configs: Mapping[str, str]) -> None:
        entries = [
            administration.ConfigEntry(
                name, value, incremental_operation=administration.AlterConfigOpType.SET
            )
            for name, value in configs.items()
        ]
        resource = administration.ConfigResource(
            administration.ResourceType.TOPIC, topic, incremental_configs=entries
        )
        _only(self._admin.incremental_alter_configs([resource]))

    def add_partitions(self, topic: str, total: int) -> None:
        _only(self._admin.create_partitions([administration.NewPartitions(topic, total)]))

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        wanted = [library.TopicPartition(topic, partition, before)]
        return int(_only(self._admin.delete_records(wanted)).low_watermark)

    def delete(self, topic: str) -> None:
        _only(self._admin.delete_topics([topic]))

    def close(self) -> None:
        pass  # it goes with its last reference


class Confluent:
    """The client."""

    can_be_idempotent = True
    tells_membership = True
    best_mechanism = "SCRAM-SHA-512"

    def __init__(self, bootstrap: str, **more: Any) -> None:
        self._base = {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 500, "log_level": 0} | more

    def secured(self, door: Door) -> Confluent:
        more: dict[str, Any] = {"security.protocol": door.protocol, "ssl.ca.location": door.ca}
        if door.mechanism == "OAUTHBEARER":
            expiry = time.time() + SECONDS
            more |= {"oauth_cb": lambda _config: (door.secret, expiry, door.user, {})}
        elif door.mechanism:
            more |= {"sasl.username": door.user, "sasl.password": door.secret}
        return Confluent(
            door.bootstrap, **more, **({"sasl.mechanism": door.mechanism} if door.mechanism else {})
        )

    def refusal(self, error: Exception) -> str:
        return REFUSALS.get(self.error_code(error) or 0, "")

    def producer(self, *, codec: str = "none", idempotent: bool = False, linger_ms: int = 0) -> Producer:
        return Producer({
            **self._base,
            "compression.type": codec,
            "enable.idempotence": idempotent,
            "linger.ms": linger_ms,
            "message.max.bytes": LARGE_REQUEST_BYTES,
        })  # fmt: skip

    def transactional(self, name: str, *, timeout_ms: int = TRANSACTION_MS) -> Transactional:
        more = {"transactional.id": name, "transaction.timeout.ms": timeout_ms, "linger.ms": 0}
        return Transactional({**self._base, **more})

    def consumer(
        self, group: str | None = None, *, auto_commit: bool = False, read_committed: bool = False
    ) -> Consumer:
        return Consumer({
            **self._base,
            "group.id": group or "none",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": auto_commit,
            "auto.commit.interval.ms": 500,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 500,
            "isolation.level": "read_committed" if read_committed else "read_uncommitted",
        })  # fmt: skip

    def admin(self) -> Admin:
        return Admin(self._base)

    def error_code(self, error: Exception) -> int | None:
        return error.args[0].code() if isinstance(error, confluent_kafka.KafkaException) else None

    def is_fenced(self, error: Exception) -> bool:
        fatal = isinstance(error, confluent_kafka.KafkaException) and error.args[0].fatal()
        return fatal and self.error_code(error) == library.KafkaError._FENCED

    def is_stale_member(self, error: Exception) -> bool:
        abortable = isinstance(error, confluent_kafka.KafkaException) and error.args[0].txn_requires_abort()
        return abortable and self.error_code(error) in MEMBER_IS_GONE


def _record(message: Any) -> Record:
    kind, timestamp = message.timestamp()
    return Record(
        message.value(), message.key(), tuple(message.headers() or ()),
        timestamp if kind in CREATE_TIME_OR_APPEND_TIME else None, message.partition(), message.offset(),
    )  # fmt: skip


def _resource(topic: str) -> Any:
    return administration.ConfigResource(administration.ResourceType.TOPIC, topic)


def _only(futures: dict[Any, Any]) -> Any:
    (future,) = futures.values()
    return future.result(SECONDS)


if __name__ == "__main__":
    sys.exit(main(Confluent))
