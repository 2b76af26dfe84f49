"""Lines of words, and what must come out of them."""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterable

from frameworks.side import Record

WORDS = [f"word{n:02d}" for n in range(40)]
WORDS_IN_A_LINE = 8
WINDOW_MILLISECONDS = 10_000
# Between two lines, so that a few hundred fill several windows.
STEP_MILLISECONDS = 100


class Lines:
    """Lines that were written so far. They are the same in every run, but for when."""

    def __init__(self) -> None:
        self._random = random.Random(1)
        self._start = int(time.time() * 1000)
        self._records: list[Record] = []

    def more(self, count: int) -> list[Record]:
        first = len(self._records)
        made = [self._line(number) for number in range(first, first + count)]
        self._records += made
        return made

    def counts(self) -> Counter[str]:
        """How often each word comes."""
        return Counter(word for record in self._records for word in _words(record))

    def windows(self) -> Counter[str]:
        """The same by WORD@START of each window."""
        return Counter(f"{word}@{_window(record)}" for record in self._records for word in _words(record))

    def places(self) -> dict[str, str]:
        """In which lines each word is: WORD@LINE, in order."""
        found: dict[str, set[str]] = defaultdict(set)
        for record in self._records:
            for word in _words(record):
                found[word].add(f"{word}@{(record.key or b'').decode()}")
        return {word: ",".join(sorted(places)) for word, places in found.items()}

    def _line(self, number: int) -> Record:
        words = " ".join(self._random.choices(WORDS, k=WORDS_IN_A_LINE))
        return Record(b"line%06d" % number, words.encode(), self._start + number * STEP_MILLISECONDS)


def latest(records: Iterable[Record]) -> dict[str, bytes]:
    """Of each key."""
    return {(record.key or b"").decode(): record.value or b"" for record in records}


def number(value: bytes) -> int:
    """As Kafka's LongSerializer writes it."""
    return int.from_bytes(value, "big", signed=True)


def _words(record: Record) -> list[str]:
    return (record.value or b"").decode().split()


def _window(record: Record) -> int:
    assert record.timestamp is not None
    return record.timestamp - record.timestamp % WINDOW_MILLISECONDS
