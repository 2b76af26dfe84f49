"""A member of a mixed group with kafka-python, version 2 or 3."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import kafka
from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import FencedInstanceIdError
from kafka.structs import OffsetAndMetadata

from python_client.kafka_python import GROUP_POLL_SECONDS
from python_client.mixed_member import HEARTBEAT_MS, Arguments, Fatal, MixedMember, main

ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}


class Client:
    """kafka-python's consumer."""

    def __init__(self, arguments: Arguments, member: MixedMember) -> None:
        settings: dict[str, Any] = {
            "bootstrap_servers": arguments.bootstrap,
            "client_id": arguments.name,
            "group_id": arguments.group,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "partition_assignment_strategy": [ASSIGNORS[name] for name in arguments.protocols],
            "session_timeout_ms": arguments.session_ms,
            "max_poll_interval_ms": arguments.rebalance_ms,
            "heartbeat_interval_ms": HEARTBEAT_MS,
            "reconnect_backoff_max_ms": 500,
        }
        if arguments.instance is not None:
            settings["group_instance_id"] = arguments.instance
        self._topic = arguments.topic
        # In version 3 listeners run in the client's own thread, which cannot wait for itself.
        self.can_commit_when_revoked = kafka.__version__.startswith("2.")
        self._consumer = KafkaConsumer(**settings)
        self._consumer.subscribe([arguments.topic], listener=_Listener(member))

    def poll(self, seconds: float) -> Iterator[tuple[int, int, bytes]]:
        try:
            found = self._consumer.poll(timeout_ms=int(max(seconds, GROUP_POLL_SECONDS) * 1000))
        except FencedInstanceIdError as error:
            raise Fatal(str(error)) from error
        return ((one.partition, one.offset, one.value) for records in found.values() for one in records)

    def generation(self) -> tuple[int, str]:
        generation = self._consumer._coordinator._generation
        return generation.generation_id, generation.member_id

    def commit(self, offsets: Mapping[int, int], metadata: str) -> None:
        fields = OffsetAndMetadata._fields
        more = {"leader_epoch": -1} if "leader_epoch" in fields else {}
        self._consumer.commit(
            {
                TopicPartition(self._topic, partition): OffsetAndMetadata(
                    offset=offset, metadata=metadata, **more
                )
                for partition, offset in offsets.items()
            }
        )

    def close(self) -> None:
        self._consumer.close()


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, member: MixedMember) -> None:
        self._member = member

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._member.assigned(one.partition for one in assigned)

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._member.revoked([one.partition for one in revoked])

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        self._member.lost([one.partition for one in lost])


if __name__ == "__main__":
    sys.exit(main(Client))
