"""A load for a compacted topic, and what must be left of it: of each key the newest record, or a later one.

The header of every record says which one it is, and its hash; a deletion (a null value) has one, too.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable
from typing import Any, Final

from confluent_kafka import KafkaError, Message, Producer

from tests.clients.stored import create_replicated_topic, stored_records
from tests.faults.checker import Problem
from tests.faults.workloads import FLUSH_SECONDS, make_value, read_value

KEYED_TOPIC: Final = "keyed"
KEYS: Final = 200
SIZES: Final = (500, 3000)
DELETIONS: Final = 0.1
"""Share of the records that have no value."""

HEADER: Final = "record"

OFTEN: Final = {
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": "0.01",
    "segment_ms": "1000",
    "delete_retention_ms": "1000",
}
"""Configs with which a topic is compacted as often as may be."""


class KeyedLoad:
    """An idempotent producer in a thread of its own: one partition, so that the order of a key is one."""

    def __init__(self, bootstrap: str, copies: int, *, pause: float, seed: int) -> None:
        create_replicated_topic(bootstrap.split(",", 1)[0], KEYED_TOPIC, 1, copies, **OFTEN)
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "message.timeout.ms": 120_000,
            "log_level": 0,
        }
        self.sent: dict[int, tuple[int, str | None]] = {}
        """Of each record its key and the digest of its value; None: a deletion."""
        self.acked: dict[int, int] = {}
        """Of each key the newest record that was acknowledged."""
        self._bootstrap = bootstrap
        self._producer = Producer(settings)
        self._random = random.Random(seed)
        self._pause = pause
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keyed load", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._pause):
            self._send()
            self._producer.poll(0)

    def _send(self) -> None:
        number, key = len(self.sent), self._random.randrange(KEYS)
        value = None
        if self._random.random() >= DELETIONS:
            value = make_value("keyed", number, self._random.choice(SIZES))

        def done(error: KafkaError | None, _message: Message) -> None:
            if error is None:
                self.acked[key] = max(number, self.acked.get(key, -1))

        self.sent[number] = key, None if value is None else read_value(value)[2]
        headers: list[tuple[str, str | bytes | None]] = [(HEADER, str(number).encode())]
        self._producer.produce(
            KEYED_TOPIC, value, str(key).encode(), partition=0, headers=headers, on_delivery=done
        )

    def stop(self) -> None:
        """Stops sending and waits until everything sent has its result."""
        self._stop.set()
        self._thread.join()
        left = self._producer.flush(FLUSH_SECONDS)
        assert left == 0, f"{left} records have no result"

    def check(self, leader: str = "") -> list[Problem]:
        """What the topic holds, judged; it is asked of the `leader`, if that is another one."""
        found = []
        for _, record in stored_records(leader or self._bootstrap, KEYED_TOPIC, gaps=True):
            number = int(dict(record.headers)[HEADER] or b"-1")
            digest = None if record.value is None else read_value(record.value)[2]
            found.append((int(record.key or b"-1"), number, digest))
        return check_keyed(self.sent, self.acked, found)


def check_keyed(
    sent: dict[int, tuple[int, str | None]],
    acked: dict[int, int],
    found: Iterable[tuple[int, int, str | None]],
) -> list[Problem]:
    """Every broken promise. Pure.

    Args:
        sent: number -> key, and the digest of the value; None: a deletion.
        acked: key -> the newest number that was acknowledged.
        found: key, number, digest of what was read, in order.
    """
    problems = []
    newest: dict[int, int] = {}
    for key, number, digest in found:
        if sent.get(number) != (key, digest):
            problems.append(Problem("wrong content", f"key {key}, record {number}: {digest}"))
        elif number <= newest.get(key, -1):
            problems.append(Problem("reordered", f"key {key}: {number} after {newest[key]}"))
        newest[key] = number
    deletions: dict[int, int] = {}
    for number, (key, digest) in sent.items():
        if digest is None:
            deletions[key] = number
    for key, number in acked.items():
        # A deletion may be gone, and everything before it; nothing after it may.
        if key in newest and newest[key] < number:
            problems.append(
                Problem("lost", f"key {key}: {number} was acknowledged, the newest is {newest[key]}")
            )
        if key not in newest and deletions.get(key, -1) < number:
            problems.append(Problem("lost", f"key {key}: {number} was acknowledged, and nothing is left"))
    return problems
