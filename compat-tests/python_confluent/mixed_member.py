"""A member of a mixed group with librdkafka."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import confluent_kafka
from python_client.mixed_member import (
    COMMIT_PATIENCE_SECONDS,
    HEARTBEAT_MS,
    Arguments,
    Fatal,
    MixedMember,
    main,
)

library: Any = confluent_kafka
# "CGMDv2:", the generation in the machine's byte order, then texts that end with NUL: the group's id, the
# member's, the instance's if it has one (`rd_kafka_consumer_group_metadata_write`).
METADATA_HEAD = struct.Struct("=7si")


class Client:
    """librdkafka's consumer."""

    can_commit_when_revoked = True

    def __init__(self, arguments: Arguments, member: MixedMember) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": arguments.bootstrap,
            "client.id": arguments.name,
            "group.id": arguments.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": ",".join(arguments.protocols),
            "session.timeout.ms": arguments.session_ms,
            "max.poll.interval.ms": arguments.rebalance_ms,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "socket.timeout.ms": int(COMMIT_PATIENCE_SECONDS * 1000),
            "reconnect.backoff.max.ms": 500,
            "error_cb": self._failed,
            "log_level": 0,
        }
        if arguments.instance is not None:
            settings["group.instance.id"] = arguments.instance
        self._topic = arguments.topic
        self._fatal: Any = None
        self._consumer = library.Consumer(settings)
        self._consumer.subscribe(
            [arguments.topic],
            on_assign=lambda _, partitions: member.assigned(_numbers(partitions)),
            on_revoke=lambda _, partitions: member.revoked(_numbers(partitions)),
            on_lost=lambda _, partitions: member.lost(_numbers(partitions)),
        )

    def _failed(self, error: Any) -> None:
        # A fatal error does not always say of itself that it is one.
        if error.fatal() or error.code() in {
            library.KafkaError._FATAL,
            library.KafkaError.FENCED_INSTANCE_ID,
        }:
            self._fatal = error

    def poll(self, seconds: float) -> Iterable[tuple[int, int, bytes]]:
        # One at a time: what `consume` gives may be from before a rebalance that it told of.
        try:
            message = self._consumer.poll(seconds)
        except library.KafkaException as error:
            self._failed(error.args[0])
            message = None
        if message is not None and message.error() is not None:
            self._failed(message.error())
            message = None
        if self._fatal is not None:
            raise Fatal(str(self._fatal))
        return () if message is None else ((message.partition(), message.offset(), message.value()),)

    def generation(self) -> tuple[int, str]:
        whole = self._consumer.consumer_group_metadata()
        _, generation = METADATA_HEAD.unpack_from(whole)
        return generation, whole[METADATA_HEAD.size :].split(b"\0")[1].decode()

    def commit(self, offsets: Mapping[int, int], metadata: str) -> None:
        wanted = [
            library.TopicPartition(self._topic, partition, offset, metadata=metadata)
            for partition, offset in offsets.items()
        ]
        for one in self._consumer.commit(offsets=wanted, asynchronous=False):
            if one.error is not None:
                raise library.KafkaException(one.error)

    def close(self) -> None:
        self._consumer.close()


def _numbers(partitions: Iterable[Any]) -> list[int]:
    return [one.partition for one in partitions]


if __name__ == "__main__":
    sys.exit(main(Client))
