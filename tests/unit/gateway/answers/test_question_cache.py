from __future__ import annotations

import pytest

from gateway.answers import question_cache
from gateway.answers.question_cache import QuestionCache


def test_the_least_recently_asked_questions_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question_cache, "MAX_REMEMBERED", 3)
    monkeypatch.setattr(question_cache, "MAX_REMEMBERED_BYTES", 100)
    known: QuestionCache[str] = QuestionCache()
    for name in "abc":
        known.put((1, name.encode()), name)
    assert known.get((1, b"a")) == "a"
    known.put((1, b"d"), "d")
    assert [known.get((1, name)) for name in (b"a", b"b", b"c", b"d")] == ["a", None, "c", "d"]
    known.put((1, b"d"), "again")
    known.put((1, bytes(99)), "long")
    assert [known.get((1, name)) for name in (b"a", b"c", b"d")] == [None, None, "again"]
    known.put((1, bytes(101)), "too long")
    assert (known.get((1, bytes(101))), known.get((1, bytes(99)))) == (None, "long")
