"""Whatever answers in etcd's place: it is understood, or that it is not is said; nothing else comes of it."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.catalog.etcd.attempts import (
    Done,
    Failed,
    Names,
    NeverHappened,
    Seen,
    Slot,
    SlotGone,
    WentBack,
    attempt,
    outcome,
    settle,
    settled,
)
from gateway.catalog.etcd.client import _object
from gateway.catalog.etcd.words import Kv, NotUnderstood, Refused, Unknown, judge, kvs, ranges, revision
from gateway.catalog.interface import Compare
from gateway.catalog.mirror import Transaction

NAMES = Names(b"/dafka")
SEEN = Seen(b"name", 7, 100)
STEP = Transaction((Compare("/a", 3),), {"/a": b"1"}, (), 0)

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
WORDS = st.sampled_from(
    (
        *("header", "revision", "succeeded", "responses", "response_range", "kvs", "key", "value"),
        *("mod_revision", "error", "code", "message", "grpc_code", "version", "lease", "create_revision"),
    )
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=20,
)
DEEP = b"[" * 100_000


@given(st.integers(100, 599), st.binary(max_size=200) | ANYTHING.map(lambda told: json.dumps(told).encode()))
def test_any_answer_is_judged(status: int, content: bytes) -> None:
    assert isinstance(judge(status, content), dict | Refused | Unknown)


def test_what_is_nested_deeply_is_no_answer() -> None:
    assert isinstance(judge(200, DEEP), Unknown)
    with pytest.raises(NotUnderstood):
        _object(DEEP)


@given(st.dictionaries(WORDS, ANYTHING, max_size=6))
def test_any_object_is_read_or_not_understood(told: dict[str, Any]) -> None:
    for read in (kvs, revision, ranges):
        try:
            read(told)
        except NotUnderstood:
            pass


def opened() -> Slot:
    slot = Slot(b"/dafka/attempts/x/0", 50)
    attempt(NAMES, slot, 1, SEEN, STEP)
    return slot


@given(st.dictionaries(WORDS, ANYTHING, max_size=6))
def test_an_attempt_stays_open_where_its_answer_is_not_understood(told: dict[str, Any]) -> None:
    for read in (lambda slot: outcome(slot, SEEN, told), lambda slot: settled(slot, told)):
        slot = opened()
        try:
            assert isinstance(read(slot), Done | Failed | SlotGone | WentBack | NeverHappened)
        except NotUnderstood:
            assert slot.is_open


def kv(key: bytes, value: bytes = b"", mod: int = 1, version: int = 1) -> dict[str, Any]:
    return {
        "key": b64encode(key).decode(),
        "value": b64encode(value).decode(),
        "create_revision": "1",
        "mod_revision": str(mod),
        "version": str(version),
    }


def history(value: bytes, mod: int, version: int) -> tuple[dict[str, Any], Kv]:
    """As etcd tells it, and as it is read."""
    return kv(NAMES.history, value, mod, version), Kv(NAMES.history, value, 1, mod, version, 0)


def told(*looked: dict[str, Any] | None, succeeded: bool = False, at: int = 200) -> dict[str, Any]:
    responses = [{"response_range": {"kvs": [one]} if one else {}} for one in looked]
    return {"header": {"revision": str(at)}, "succeeded": succeeded, "responses": responses}


HISTORY, SLOT = kv(NAMES.history, b"name", 150, 8), kv(b"/dafka/attempts/x/0", b"", 50)
OLDER, OLDER_READ = history(b"name", 90, 6)
OTHER, OTHER_READ = history(b"other", 150, 8)
ENTRY = b"/dafka/entries/a"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (told(succeeded=True), Done(200)),
        (told(HISTORY, SLOT, kv(ENTRY, mod=4)), Failed((Kv(ENTRY, b"", 1, 4, 1, 0),), 150)),
        (told(HISTORY, SLOT, None), Failed((None,), 150)),
        (told(HISTORY, None, None), SlotGone()),
        (told(None, SLOT, None), WentBack(None)),
        (
            told(kv(NAMES.history, b"name", 90, 6), SLOT, None),
            WentBack(Kv(NAMES.history, b"name", 1, 90, 6, 0)),
        ),
        (
            told(kv(NAMES.history, b"other", 150, 8), SLOT, None),
            WentBack(Kv(NAMES.history, b"other", 1, 150, 8, 0)),
        ),
    ],
    ids=["done", "a compare", "it is gone", "the slot is gone", "no history", "an older one", "another one"],
)
def test_what_an_answer_to_an_attempt_says(answer: dict[str, Any], expected: object) -> None:
    slot = opened()
    assert outcome(slot, SEEN, answer) == expected
    assert not slot.is_open


@pytest.mark.parametrize(
    ("value", "expected"),
    [(b"1", Done(160)), (b"1 settled", NeverHappened()), (b"7", NeverHappened())],
)
def test_an_attempt_is_settled_by_what_its_slot_has(value: bytes, expected: object) -> None:
    slot = opened()
    settle(slot, 1)
    assert settled(slot, told(kv(slot.name, value, 160))) == expected
    assert (slot.is_open, slot.mod_revision) == (False, 160)


@pytest.mark.parametrize("answer", [told(), told(HISTORY)])
def test_half_an_answer_leaves_it_open(answer: dict[str, Any]) -> None:
    slot = opened()
    with pytest.raises(NotUnderstood):
        outcome(slot, SEEN, answer)
    assert slot.is_open


def test_a_name_that_is_no_text_is_nobodys_entry() -> None:
    assert NAMES.key(b"/dafka/entries/a") == "/a"
    assert NAMES.key(b"/dafka/entries/\xff") is None
    assert NAMES.key(b"/dafka/history") is None
