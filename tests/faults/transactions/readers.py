"""Readers that are in no group and read all the time: some to the end, others from anywhere."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from typing import Final, cast

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.faults.transactions.clients import PARTITIONS, TOPICS
from tests.faults.transactions.history import COMMITTED, From, Read
from tests.faults.transactions.told import Told

POLL_SECONDS: Final = 0.2
MOST_AT_ONCE: Final = 500
SPAN: Final = 400
"""Records that a reader from anywhere reads before it begins again somewhere else."""


class Reader:
    """A thread that reads every partition from its beginning on, over everything that happens."""

    def __init__(self, name: str, bootstrap: str, isolation: str, told: Told) -> None:
        self.name = name
        self.read: dict[tuple[str, int], int] = dict.fromkeys(_everywhere(), 0)
        """By partition, the offset up to which all was read."""
        self.values: dict[str, set[str]] = {topic: set() for topic in TOPICS}
        """By topic."""
        self._bootstrap, self._isolation, self._told = bootstrap, isolation, told
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        consumer = _reader(self._bootstrap, self._isolation)
        _begin(consumer, self.name, self._isolation, dict.fromkeys(_everywhere(), 0), self._told)
        while not self._stop.is_set():
            found, ends = _read(consumer, self.name, self._told)
            for topic, partition, offset, value in found:
                self.read[topic, partition] = offset + 1
                self.values[topic].add(value)
            for topic, partition, offset in ends:
                self.read[topic, partition] = max(self.read[topic, partition], offset)
        consumer.close()

    def has_read(self, ends: Mapping[tuple[str, int], int]) -> bool:
        """Whether it has reached all of them."""
        return all(self.read[place] >= end for place, end in ends.items())

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


class FromAnywhere:
    """A thread that reads a bit from places that others have reached, with a new consumer each time: what
    it is sent was read from closed segments, and begins in the middle of transactions.
    """

    def __init__(self, bootstrap: str, told: Told, reached: Reader, seed: int) -> None:
        self._bootstrap, self._told, self._reached = bootstrap, told, reached
        self._random = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="from anywhere", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(1.0):
            number += 1
            places = {place: self._random.randint(0, end) for place, end in self._reached.read.items()}
            consumer, name = _reader(self._bootstrap, COMMITTED), f"anywhere {number}"
            _begin(consumer, name, COMMITTED, places, self._told)
            left, idle = SPAN, 0
            while left > 0 and idle < 10 and not self._stop.is_set():
                found, _ = _read(consumer, name, self._told)
                left -= len(found)
                idle = 0 if found else idle + 1
            consumer.close()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def _everywhere() -> list[tuple[str, int]]:
    return [(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]


def _reader(bootstrap: str, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "fetch.wait.max.ms": 100,
            "queued.min.messages": 1000,
            "reconnect.backoff.max.ms": 200,
            "topic.metadata.refresh.interval.ms": 5000,
            "socket.connection.setup.timeout.ms": 2000,
            "log_level": 0,
        }
    )


def _begin(
    consumer: Consumer, name: str, isolation: str, places: dict[tuple[str, int], int], told: Told
) -> None:
    told.add(From(name, isolation, [(*place, offset) for place, offset in places.items()]))
    consumer.assign([TopicPartition(*place, offset) for place, offset in places.items()])


def _read(
    consumer: Consumer, name: str, told: Told
) -> tuple[list[tuple[str, int, int, str]], list[tuple[str, int, int]]]:
    """Records, and where there was an end."""
    found, ends = [], []
    for message in consumer.consume(MOST_AT_ONCE, POLL_SECONDS):
        error, value = message.error(), cast("bytes | None", message.value())
        place = str(message.topic()), message.partition() or 0, message.offset() or 0
        if error is None:
            found.append((*place, (value or b"").decode()))
        elif error.code() == KafkaError._PARTITION_EOF:
            ends.append(place)
    if found:
        told.add(Read(name, found, time.monotonic_ns()))
    return found, ends
