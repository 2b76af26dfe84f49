"""Metadata answers that were given already: clients ask the same question over and over.

An idle Spark query asks for its topics up to a hundred times a second, and every client refreshes. Building
an answer takes some 7 us per partition, comparing the state it was built from 0.1 us.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

MAX_ANSWERS: Final = 256
"""Different questions whose answers are kept: clients of one kind ask alike."""

MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
"""Largest answer that is kept: some 40,000 partitions."""

MAX_TOTAL_BYTES: Final = 16 * 1024 * 1024
"""All answers that are kept."""


@dataclass(slots=True)
class _Kept:
    state: object
    answer: bytes


class AnswerCache:
    """Answers by question, the least recently used ones dropped first.

    An answer is valid for one state of what it tells of, and built from that state alone; the caller gives
    the state that holds now.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._bytes = 0

    def get(self, question: Hashable, state: object) -> bytes | None:
        """The answer, if it was kept and the state is still the same."""
        kept = self._kept.get(question)
        if kept is None or kept.state != state:
            return None
        self._kept.move_to_end(question)
        return kept.answer

    def put(self, question: Hashable, state: object, answer: bytes) -> None:
        """Keep an answer in place of an older one, unless it is too large."""
        if len(answer) > MAX_ANSWER_BYTES:
            return
        if (old := self._kept.pop(question, None)) is not None:
            self._bytes -= len(old.answer)
        self._kept[question] = _Kept(state, answer)
        self._bytes += len(answer)
        while len(self._kept) > MAX_ANSWERS or self._bytes > MAX_TOTAL_BYTES:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= len(dropped.answer)
