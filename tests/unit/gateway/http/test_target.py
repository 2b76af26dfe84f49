"""What clients may ask for, and what they send instead."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.failures import Failure
from gateway.http.limits import MAX_TARGET_BYTES
from gateway.http.target import MAX_PARAMETERS, parse_target, split_keys, whole_number

TEXTS = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=40)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_target_or_are_refused_with_the_next_step(raw: bytes) -> None:
    refused, target = None, None
    try:
        target = parse_target(raw)
    except Failure as failure:
        refused = failure
    if refused is not None:
        assert refused.status.value in {400, 414}
        assert refused.detail
        assert refused.next_step
    if target is not None:
        assert raw.startswith(b"/")
        assert "\0" not in "".join([*target.parts, *target.parameters, *target.parameters.values()])


@given(st.lists(TEXTS, min_size=1, max_size=8), st.dictionaries(TEXTS.filter(bool), TEXTS, max_size=8))
def test_what_is_encoded_comes_out(parts: list[str], parameters: dict[str, str]) -> None:
    path = "/".join(quote(part, safe="") for part in parts)
    query = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in parameters.items())
    target = parse_target(f"/{path}?{query}".encode())
    assert target.parts == tuple(parts)
    assert target.parameters == parameters


@given(st.lists(TEXTS.filter(bool), max_size=20))
def test_keys_may_have_commas_and_slashes(keys: list[str]) -> None:
    text = ",".join(quote(key, safe="") for key in keys)
    assert split_keys(text) == keys


@pytest.mark.parametrize(
    "raw",
    [
        b"*",
        b"http://elsewhere/",
        b"/" + b"a/" * 50,
        b"/%ff",
        b"/%00",
        b"/a?b=%c3",
        b"/a?b=1&b=2",
        b"/a?" + b"&".join(b"p%d=1" % n for n in range(MAX_PARAMETERS + 1)),
    ],
)
def test_what_is_no_target_is_refused(raw: bytes) -> None:
    with pytest.raises(Failure) as refused:
        parse_target(raw)
    assert refused.value.status.value == 400


def test_a_target_that_is_too_long_is_told_so() -> None:
    with pytest.raises(Failure) as refused:
        parse_target(b"/" + b"a" * MAX_TARGET_BYTES)
    assert refused.value.status.value == 414


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.0", "٣", "1" * 20, str(1 << 63), " 1", "0x1"])
def test_what_is_no_whole_number(text: str) -> None:
    assert whole_number(text) is None


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=a", "limit="])
def test_a_limit_out_of_bounds_is_refused(query: str) -> None:
    with pytest.raises(Failure):
        parse_target(f"/a?{query}".encode()).limit()


def test_an_unknown_parameter_is_refused() -> None:
    with pytest.raises(Failure) as refused:
        parse_target(b"/a?limt=3").only("limit")
    assert refused.value.next_step == "Known here: limit."
