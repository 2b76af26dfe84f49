"""A consumer group whose members read all the time, and commit what they have read."""

from __future__ import annotations

import threading
import time
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.faults.history import History, Seen
from tests.faults.workloads import read_value

MEMBERS: Final = 2
POLL_SECONDS: Final = 0.2
MOST_AT_ONCE: Final = 500


class GroupLoad:
    """Its members are threads. What they read goes into the history, by assignment: a partition that comes
    again is read again from what was committed.
    """

    def __init__(self, bootstrap: str, topic: str, history: History, *, group: str = "readers") -> None:
        self._history = history
        self._stop = threading.Event()
        self._read: dict[int, int] = {}
        """By partition, how far the group has read."""
        self.assignments = 0
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(
                target=self._run, args=(bootstrap, topic, group), name=f"{group} {number}", daemon=True
            )
            for number in range(MEMBERS)
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, bootstrap: str, topic: str, group: str) -> None:
        consumer = Consumer(_settings(bootstrap, group))
        reader: dict[int, str] = {}

        def assigned(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
            with self._lock:
                self.assignments += 1
                name = f"{group}/{self.assignments}"
            reader.update({one.partition: name for one in partitions})

        consumer.subscribe([topic], on_assign=assigned)
        while not self._stop.is_set():
            if self._read_some(consumer, reader):
                try:
                    consumer.commit(asynchronous=False)
                except KafkaException:
                    continue  # read again by whoever has the partition next, or committed with what follows
        consumer.close()

    def _read_some(self, consumer: Consumer, reader: dict[int, str]) -> bool:
        some = False
        for message in consumer.consume(MOST_AT_ONCE, POLL_SECONDS):
            partition, offset = message.partition(), message.offset()
            if message.error() is not None or partition is None or offset is None:
                continue  # a retriable one, while leaders change
            value: Any = message.value()
            producer, number, digest = read_value(value)
            self._history.add(Seen(partition, offset, producer, number, digest, reader[partition]))
            with self._lock:
                self._read[partition] = max(self._read.get(partition, 0), offset + 1)
            some = True
        return some

    def wait_until_read(self, ends: dict[int, int], seconds: float) -> None:
        """Until the group has read up to these offsets. Raises AssertionError: it does not go on."""
        deadline = time.monotonic() + seconds
        while behind := {one: end for one, end in ends.items() if self._read.get(one, 0) < end}:
            assert time.monotonic() < deadline, f"the group has read {self._read}, and not up to {behind}"
            time.sleep(0.05)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def _settings(bootstrap: str, group: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 10_000,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 200,
        "topic.metadata.refresh.interval.ms": 5_000,
        "log_level": 0,
    }
