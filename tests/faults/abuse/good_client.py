"""A client that behaves: it produces, consumes what it produced, commits, with kafka-python's own retries.

A line of JSON for each operation: {"at": seconds, "what": "produce" | "consume" | "commit", "took": seconds,
"error": text or null}. It checks what it reads: a record that is missing, twice, or of other content is an
error of "consume". Run as a process: ``python -m tests.faults.abuse.good_client BOOTSTRAP TOPIC
[USER PASSWORD]``.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

PAUSE_SECONDS: Final = 0.02
PATIENCE_SECONDS: Final = 60.0
PREFIX: Final = b"good "


class GoodClient:
    """One producer and one consumer of a group, on partition 0."""

    def __init__(self, bootstrap: str, topic: str, user: str = "", password: str = "") -> None:
        self._partition = TopicPartition(topic, 0)
        come_in: dict[str, Any] = {"bootstrap_servers": bootstrap}
        if user:
            come_in |= {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"}
            come_in |= {"sasl_plain_username": user, "sasl_plain_password": password}
        self._producer = KafkaProducer(**come_in, acks="all", enable_idempotence=True)
        self._consumer = KafkaConsumer(
            **come_in,
            group_id="good",
            enable_auto_commit=False,
            fetch_max_wait_ms=500,
        )
        self._consumer.assign([self._partition])
        self._consumer.seek_to_end()
        self._consumer.position(self._partition)
        self._sent = 0

    def produce(self) -> None:
        """One record, durable."""
        value = PREFIX + b"%d" % self._sent
        future = self._producer.send(self._partition.topic, value, partition=self._partition.partition)
        future.get(PATIENCE_SECONDS)
        self._sent += 1

    def consume(self) -> None:
        """Read until the record that was sent last. Raises ValueError: it is not there, or something else."""
        ends = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < ends:
            found = self._consumer.poll(timeout_ms=1000).get(self._partition, [])
            mine = [record.value for record in found if (record.value or b"").startswith(PREFIX)]
            if mine:
                expected = PREFIX + b"%d" % (self._sent - 1)
                if mine != [expected]:
                    raise ValueError(f"read {mine[:3]!r} of {len(mine)}, expected {expected!r}")
                return
        raise ValueError(f"record {self._sent - 1} was not read within {PATIENCE_SECONDS} s")

    def commit(self) -> None:
        """Commit the position."""
        self._consumer.commit()


def timed(what: str, operation: Callable[[], None]) -> None:
    """Do it, and print how that went."""
    began = time.monotonic()
    error = None
    try:
        operation()
    except Exception as caught:  # noqa: BLE001 - whatever a user would see
        error = repr(caught)
    ended = time.monotonic()
    print(json.dumps({"at": ended, "what": what, "took": ended - began, "error": error}), flush=True)


def main(bootstrap: str, topic: str, *who: str) -> None:
    """For ever."""
    client = GoodClient(bootstrap, topic, *who)
    while True:
        timed("produce", client.produce)
        timed("consume", client.consume)
        timed("commit", client.commit)
        time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
