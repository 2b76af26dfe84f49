"""Lines of which each word is in one partition only, and results that are therefore the same in every run."""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

import confluent_kafka
from frameworks.checks import SECONDS
from frameworks.side import SETTINGS, Record

from kafka_streams.lines import STEP_MILLISECONDS, WORDS_IN_A_LINE
from tests.faults.checker import Problem

library: Any = confluent_kafka

PARTITIONS: Final = 2

WORDS: Final = 200
"""Of each partition: few enough that each comes again and again, many enough that its places stay few."""

Results = Mapping[str, list[tuple[bytes | None, int | None]]]
"""By key, what became of it: values and timestamps in their order."""


class LinesApart:
    """Written by one idempotent producer. A word's records go through one task after the other, in the order
    in which its lines were written: so Streams without a cache has one sequence of results for each key.
    """

    def __init__(self, bootstrap: str, topic: str, seed: int) -> None:
        self.written: dict[int, list[Record]] = {n: [] for n in range(PARTITIONS)}
        self._topic = topic
        self._random = random.Random(seed)
        self._start = int(time.time() * 1000)
        more = {"enable.idempotence": True, "message.timeout.ms": 180_000, "linger.ms": 5}
        self._producer = library.Producer({"bootstrap.servers": bootstrap, **SETTINGS, **more})
        self._failed: list[str] = []

    @property
    def words(self) -> Counter[str]:
        """How often each was written."""
        lines = [line for each in self.written.values() for line in each]
        return Counter(word for line in lines for word in (line.value or b"").decode().split())

    def write(self, count: int) -> None:
        """So many more; they are acknowledged later."""
        for _ in range(count):
            number = sum(map(len, self.written.values()))
            partition = number % PARTITIONS
            words = self._random.choices(range(WORDS), k=WORDS_IN_A_LINE)
            text = " ".join(f"word{partition}.{word:03d}" for word in words)
            timestamp = self._start + number * STEP_MILLISECONDS
            line = Record(b"line%06d" % number, text.encode(), timestamp)
            self._producer.produce(
                self._topic, line.value, line.key,
                partition=partition, timestamp=timestamp, on_delivery=self._delivered,
            )  # fmt: skip
            self.written[partition].append(line)
        self._producer.poll(0)

    def finish(self) -> None:
        """All are acknowledged. Raises AssertionError: some are not."""
        left = self._producer.flush(3 * SECONDS)
        assert not left, f"{left} lines are not acknowledged"
        assert not self._failed, f"not written: {self._failed[0]}"

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self._failed.append(str(error))


def by_key(records: Iterable[Record]) -> Results:
    found: dict[str, list[tuple[bytes | None, int | None]]] = defaultdict(list)
    for record in records:
        found[(record.key or b"").decode()].append((record.value, record.timestamp))
    return found


def differences(what: str, found: Results, wanted: Results) -> list[Problem]:
    """Of each key whose results are not those of the run that nothing disturbed."""
    keys = sorted({*found, *wanted})
    return [
        Problem(
            _kind(found.get(key, []), wanted.get(key, [])), f"{what} of {key}: {_first(key, found, wanted)}"
        )
        for key in keys
        if found.get(key, []) != wanted.get(key, [])
    ]


def _kind(found: list[Any], wanted: list[Any]) -> str:
    more, fewer = Counter(found) - Counter(wanted), Counter(wanted) - Counter(found)
    if more and fewer:
        return "wrong content"
    if more:
        return "duplicate"
    return "lost" if fewer else "reordered"


def _first(key: str, found: Results, wanted: Results) -> str:
    """Where they part."""
    one, other = found.get(key, []), wanted.get(key, [])
    n = next((n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
    n = min(len(one), len(other)) if n is None else n
    return f"{len(one)} results, not {len(other)}; number {n} is {one[n : n + 1]}, not {other[n : n + 1]}"
