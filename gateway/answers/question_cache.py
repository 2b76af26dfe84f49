"""Questions that were asked already, by their bytes: clients ask the same ones over and over.

What a question means is found out once; what is answered is looked up each time.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Generic, TypeVar

from wireproto.kafka.headers import RequestHeader

MAX_REMEMBERED: Final = 256
"""Questions of one API that are remembered: clients of one kind ask alike."""

MAX_REMEMBERED_BYTES: Final = 256 * 1024
"""Bytes of them together. What they are turned into takes some fifteen times that."""

_T = TypeVar("_T")
Question = tuple[int, bytes]


class QuestionCache(Generic[_T]):
    """What questions mean, the least recently asked ones forgotten first."""

    def __init__(self) -> None:
        self._known: OrderedDict[Question, _T] = OrderedDict()
        self._bytes = 0

    def get(self, question: Question) -> _T | None:
        found = self._known.get(question)
        if found is not None:
            self._known.move_to_end(question)
        return found

    def put(self, question: Question, meaning: _T) -> None:
        """Remember it in place of what was known, unless it is too long."""
        size = len(question[1])
        if size > MAX_REMEMBERED_BYTES:
            return
        if self._known.pop(question, None) is not None:
            self._bytes -= size
        self._known[question] = meaning
        self._bytes += size
        while len(self._known) > MAX_REMEMBERED or self._bytes > MAX_REMEMBERED_BYTES:
            forgotten, _ = self._known.popitem(last=False)
            self._bytes -= len(forgotten[1])


def question_of(header: RequestHeader, frame: memoryview) -> Question:
    """What is asked, whoever asks: the version and the body's bytes."""
    return header.api_version, bytes(frame[header.body_offset :])
