"""Values as JSON has them."""

from __future__ import annotations

import base64
import json
from typing import Any

import trio
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.texts import LARGE_TEXT, encoded, shown_bytes
from gateway.http.turns import Turns

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(blacklist_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=6) | st.dictionaries(st.text('abc"\\', max_size=3), inner, max_size=6)
    ),
    max_leaves=30,
)


def written(value: Any) -> Any:
    async def main() -> bytes:
        turns = Turns()
        async with turns.working():
            return await encoded(value, turns)

    return json.loads(trio.run(main))


@given(JSON)
def test_what_is_written_in_pieces_is_the_same_json(value: Any) -> None:
    assert written(value) == value


def test_a_large_text_is_whole() -> None:
    text = '"\\\n\u2028ü😀' * LARGE_TEXT
    assert written({"record": {"value": {"text": text}}}) == {"record": {"value": {"text": text}}}


@given(st.text(st.characters(blacklist_categories=["Cs"])), st.integers(0, 50))
def test_text_that_is_cut_ends_with_a_whole_character(text: str, most: int) -> None:
    data = text.encode()
    shown = shown_bytes(data[:most], len(data), hidden=False)
    assert shown is not None
    assert shown["bytes"] == len(data)
    assert shown["cut"] == (most < len(data))
    assert text.startswith(shown["text"])
    assert len(data[:most]) - len(shown["text"].encode()) < 4


@given(st.binary())
def test_bytes_that_are_no_text_come_out_as_they_are(data: bytes) -> None:
    shown = shown_bytes(data, len(data), hidden=False)
    assert shown is not None
    if "text" in shown:
        assert shown["text"].encode() == data
    else:
        assert base64.b64decode(shown["base64"]) == data


def test_hidden_bytes_show_their_size_alone() -> None:
    assert shown_bytes(b"secret", 6, hidden=True) == {"hidden": True, "bytes": 6}
    assert shown_bytes(None, 0, hidden=True) is None
