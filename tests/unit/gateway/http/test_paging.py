"""Pages of a list that changes meanwhile."""

from __future__ import annotations

import base64
import contextlib
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.failures import Failure
from gateway.http.paging import Key, Page, cursor, decode_cursor, order, page, parse_cursor
from gateway.http.turns import Turns

ROWS = st.dictionaries(st.text(st.characters(blacklist_categories=["Cs"]), max_size=5), st.integers(-5, 5))


def one_page(rows: dict[str, int], text: str, limit: int, *, descends: bool) -> Page:
    async def main() -> Page:
        turns = Turns()
        after = parse_cursor(text, (int, str), descends=descends)

        def key(name: str) -> Key:
            return order((rows[name], name), descends)

        async with turns.working():
            return await page(list(rows), key, after, limit, turns)

    return trio.run(main)


def all_pages(rows: dict[str, int], limit: int, *, descends: bool) -> list[str]:
    found: list[str] = []
    text = ""
    while True:
        made = one_page(rows, text, limit, descends=descends)
        assert made.total == len(rows)
        assert len(made.rows) <= limit
        found += made.rows
        if made.next is None:
            return found
        text = made.next


@given(ROWS, st.integers(1, 7), st.booleans())
def test_all_pages_together_are_the_list_in_its_order(
    rows: dict[str, int], limit: int, descends: bool
) -> None:
    wanted = sorted(rows, key=lambda name: (rows[name], name), reverse=descends)
    assert all_pages(rows, limit, descends=descends) == wanted


@given(ROWS.filter(lambda rows: len(rows) > 3), st.booleans(), st.data())
def test_a_row_that_goes_changes_nothing_for_the_others(
    rows: dict[str, int], descends: bool, data: Any
) -> None:
    first = one_page(rows, "", 2, descends=descends)
    gone = data.draw(st.sampled_from(first.rows))
    left = {name: value for name, value in rows.items() if name != gone}
    assert first.next is not None
    second = one_page(left, first.next, 100, descends=descends)
    assert sorted([*first.rows, *second.rows]) == sorted(rows)


@given(st.text(max_size=50))
def test_a_cursor_that_is_none_is_refused(text: str) -> None:
    found: Key | None = None
    with contextlib.suppress(Failure):
        found = parse_cursor(text, (int, str))
    assert found is None or (type(found[0]) is int and type(found[1]) is str)


@pytest.mark.parametrize("value", [[1], ["a", 1], [True, "a"], {"a": 1}, None, [1, "a", 2]])
def test_a_cursor_of_something_else_is_refused(value: Any) -> None:
    with pytest.raises(Failure):
        parse_cursor(cursor(value), (int, str))


def test_a_cursor_nested_without_an_end_is_refused() -> None:
    nested = base64.urlsafe_b64encode(b"[" * 3000).decode()
    with pytest.raises(Failure):
        decode_cursor(nested)
