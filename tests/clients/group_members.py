"""Members of consumer groups with librdkafka: polled in turn by a test, or in a process that can be killed.

`python -m tests.clients.group_members BOOTSTRAP TOPIC GROUP` is one member that prints what it owns.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

SECONDS = 60.0
"""Patience with a loaded machine; nothing here waits for it."""

SESSION_MS = 2000
QUICK = {
    "session.timeout.ms": SESSION_MS,
    "heartbeat.interval.ms": 200,
    "reconnect.backoff.max.ms": 200,
    "log_level": 0,
}


class Member:
    """One consumer of a group. `owned` are its partitions now; `events` tell how it came to them."""

    def __init__(self, bootstrap: str, topic: str, group: str, **settings: Any) -> None:
        given = {key.replace("_", "."): value for key, value in settings.items()}
        base = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
        self.consumer = Consumer(base | QUICK | {"error_cb": self._failed} | given)
        self.owned: set[int] = set()
        self.events: list[tuple[str, tuple[int, ...]]] = []
        self.records: list[tuple[int, int, bytes]] = []
        """(partition, offset, value) of each record, in the order in which they came."""
        self.fatal: KafkaError | None = None
        self.consumer.subscribe(
            [topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def poll(self) -> None:
        """Take what there is: a record, or news of the group. Errors that pass are passed over."""
        try:
            message = self.consumer.poll(0.02)
        except KafkaException as error:
            self._failed(error.args[0])
            return
        if message is None:
            return
        if (failed := message.error()) is not None:
            self._failed(failed)
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert offset is not None
        assert isinstance(value, bytes)
        self.records.append((partition, offset, value))

    def committed(self, topic: str, partitions: int) -> list[int]:
        """The group's offsets; -1001 where there is none."""
        wanted = [TopicPartition(topic, number) for number in range(partitions)]
        return [one.offset for one in self.consumer.committed(wanted, timeout=SECONDS)]

    def close(self) -> None:
        self.consumer.close()

    def _failed(self, error: KafkaError) -> None:
        # A consumer's fatal error does not always say of itself that it is fatal.
        if error.fatal() or error.code() in {KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID}:
            self.fatal = error

    def _assigned(self, _consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._event("assigned", partitions)
        self.owned |= {one.partition for one in partitions}

    def _revoked(self, _consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._event("revoked", partitions)
        self.owned -= {one.partition for one in partitions}

    def _lost(self, _consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._event("lost", partitions)
        self.owned -= {one.partition for one in partitions}

    def _event(self, kind: str, partitions: Sequence[TopicPartition]) -> None:
        self.events.append((kind, tuple(sorted(one.partition for one in partitions))))


def poll_until(done: Callable[[], bool], *members: Member) -> None:
    """Poll the members in turn until that is so."""
    deadline = time.monotonic() + SECONDS
    while not done():
        assert time.monotonic() < deadline, [(one.owned, one.events, one.fatal) for one in members]
        for member in members:
            member.poll()


def shared(partitions: int, *members: Member) -> bool:
    """Whether the members have all partitions between them, each has some, and nobody has another's."""
    owned = [partition for member in members for partition in member.owned]
    return all(member.owned for member in members) and sorted(owned) == list(range(partitions))


class MemberProcess:
    """A member in a process of its own."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.clients.group_members", bootstrap, topic, group],
            stdout=subprocess.PIPE,
            text=True,
        )

    def owns(self) -> set[int]:
        """What it says next that it owns: it says so after each rebalance."""
        assert self._process.stdout is not None
        return set(json.loads(self._process.stdout.readline()))

    def kill(self) -> None:
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


def _main() -> None:
    member = Member(*sys.argv[1:4])
    said: set[int] | None = None
    while True:
        member.poll()
        if member.owned != said:
            said = set(member.owned)
            print(json.dumps(sorted(said)), flush=True)


if __name__ == "__main__":
    _main()
