"""Consumers' groups that commit offsets all the time, and what must be known of them in the end."""

from __future__ import annotations

import threading
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.faults.checker import Problem

GROUPS: Final = 4
ASK_SECONDS: Final = 30.0


class CommitLoad:
    """Groups that commit ever higher offsets of one topic, one after the other, in a thread of its own."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, *, pause: float) -> None:
        self.tried: dict[tuple[str, int], int] = {}
        """By group and partition, the highest offset that was sent."""
        self.acked: dict[tuple[str, int], int] = {}
        """The highest one that was acknowledged."""
        self._topic, self._partitions, self._pause = topic, partitions, pause
        self._consumers = {f"g{number}": _consumer(bootstrap, f"g{number}") for number in range(GROUPS)}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="commits", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(self._pause):
            number += 1
            for group, consumer in self._consumers.items():
                self._commit(group, consumer, number)

    def _commit(self, group: str, consumer: Consumer, number: int) -> None:
        places = [(group, partition) for partition in range(self._partitions)]
        self.tried |= dict.fromkeys(places, number)
        offsets = [TopicPartition(self._topic, partition, number) for _, partition in places]
        try:
            done = consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException:
            return  # it may be kept or not
        for one in done or ():
            if one.error is None:
                self.acked[group, one.partition] = number

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def check(self) -> list[Problem]:
        """What the groups have committed, judged."""
        found = {}
        for group, consumer in self._consumers.items():
            wanted = [TopicPartition(self._topic, partition) for partition in range(self._partitions)]
            for one in consumer.committed(wanted, timeout=ASK_SECONDS):
                found[group, one.partition] = one.offset
            consumer.close()
        return check_commits(self.tried, self.acked, found)


def check_commits(
    tried: dict[tuple[str, int], int], acked: dict[tuple[str, int], int], found: dict[tuple[str, int], int]
) -> list[Problem]:
    """Every broken promise. Pure; all three by group and partition."""
    problems = []
    for place, offset in found.items():
        if offset < acked.get(place, -1):
            problems.append(Problem("lost", f"{place}: {acked[place]} was committed, {offset} is known"))
        if offset > tried.get(place, -1):
            problems.append(Problem("phantom", f"{place}: {offset} was never committed"))
    problems += [
        Problem("lost", f"{place}: nobody says what was committed") for place in acked.keys() - found
    ]
    return problems


def _consumer(bootstrap: str, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )
