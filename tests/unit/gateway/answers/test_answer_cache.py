from __future__ import annotations

import pytest

from gateway.answers import answer_cache
from gateway.answers.answer_cache import AnswerCache


def test_an_answer_is_good_for_its_question_and_its_state_only() -> None:
    cache = AnswerCache()
    cache.put("q", ["s"], b"a")
    assert cache.get("q", ["s"]) == b"a"
    assert cache.get("q", ["t"]) is None
    assert cache.get("r", ["s"]) is None
    cache.put("q", ["t"], b"b")
    assert cache.get("q", ["t"]) == b"b"
    assert cache.get("q", ["s"]) is None


def test_the_least_recently_used_answers_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_cache, "MAX_ANSWERS", 3)
    cache = AnswerCache()
    for question in "abc":
        cache.put(question, 0, question.encode())
    assert cache.get("a", 0) == b"a"
    cache.put("d", 0, b"d")
    assert [cache.get(question, 0) for question in "abcd"] == [b"a", None, b"c", b"d"]


def test_the_bytes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_cache, "MAX_TOTAL_BYTES", 10)
    monkeypatch.setattr(answer_cache, "MAX_ANSWER_BYTES", 8)
    cache = AnswerCache()
    cache.put("large", 0, b"123456789")
    assert cache.get("large", 0) is None
    cache.put("a", 0, b"12345678")
    cache.put("a", 1, b"123")  # takes the place of the older one
    cache.put("b", 0, b"1234567")
    assert [cache.get("a", 1), cache.get("b", 0)] == [b"123", b"1234567"]
    cache.put("c", 0, b"1")
    assert [cache.get("a", 1), cache.get("b", 0), cache.get("c", 0)] == [None, b"1234567", b"1"]
