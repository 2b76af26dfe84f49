"""Asks all the time, over restarts: each gateway for last stable offsets, one after the other for groups'."""

from __future__ import annotations

import threading
import time
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition
from kafka.protocol.consumer import ListOffsetsRequest

from tests.differential.wire import Connection, UndecodableError
from tests.faults.transactions.clients import GROUPS, INPUTS, PARTITIONS, TOPICS
from tests.faults.transactions.history import Asked, Known, Stable
from tests.faults.transactions.told import Told

ANSWER_SECONDS: Final = 10.0
"""Longer than a gateway is stopped: what it says when it wakes up is of interest."""

PAUSE_SECONDS: Final = 0.2


class StableWatch:
    """Last stable offsets, each gateway in a thread of its own."""

    def __init__(self, addresses: list[str], told: Told) -> None:
        self._told = told
        of = ListOffsetsRequest.ListOffsetsTopic
        parts = [of.ListOffsetsPartition(partition_index=n, timestamp=-1) for n in range(PARTITIONS)]
        topics = [of(name=topic, partitions=parts) for topic in TOPICS]
        self._question = ListOffsetsRequest(version=5, replica_id=-1, isolation_level=1, topics=topics)
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(address,), name=f"watch {address}", daemon=True)
            for address in addresses
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, address: str) -> None:
        while not self._stop.wait(PAUSE_SECONDS):
            try:
                with Connection(address, timeout=ANSWER_SECONDS) as connection:
                    while not self._stop.wait(PAUSE_SECONDS):
                        self._ask(connection, address)
            except (OSError, UndecodableError):
                continue  # killed in the middle of an answer, or not up yet

    def _ask(self, connection: Connection, address: str) -> None:
        self._told.add(Asked(address, time.monotonic_ns()))
        answer: Any = connection.ask(self._question)
        offsets = [
            (topic.name, part.partition_index, part.offset)
            for topic in answer.topics
            for part in topic.partitions
            if part.error_code == 0
        ]
        self._told.add(Stable(address, offsets, time.monotonic_ns()))

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


class GroupWatch:
    """The stable offsets of the groups: they never go back."""

    def __init__(self, bootstrap: str, told: Told) -> None:
        self._told = told
        self._consumers = {group: _asks(bootstrap, group) for group in GROUPS}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="groups", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(PAUSE_SECONDS):
            self.ask()

    def ask(self, seconds: float = ANSWER_SECONDS) -> None:
        """Once, each of them."""
        wanted = [TopicPartition(INPUTS, partition) for partition in range(PARTITIONS)]
        for group, consumer in self._consumers.items():
            try:
                found = consumer.committed(wanted, timeout=seconds)
            except KafkaException:
                continue  # not yet
            offsets = [(one.topic, one.partition, one.offset) for one in found if one.error is None]
            self._told.add(Known(group, [each for each in offsets if each[2] >= 0], time.monotonic_ns()))

    def stop(self) -> None:
        """With what is known in the end."""
        self._stop.set()
        self._thread.join()
        self.ask(120.0)
        for consumer in self._consumers.values():
            consumer.close()


def _asks(bootstrap: str, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )
