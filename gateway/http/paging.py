"""Lists in pages: of all rows, the next few in an order, without sorting all of them.

A page is asked for by what the last row of the one before it was sorted by, so rows that come and go in
between change nothing for those that stay.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from gateway.http.failures import bad_parameter
from gateway.http.turns import Turns

ROWS_A_BREATH: Final = 128
"""Rows between two looks at the clock: 0.3 ms."""

MAX_CURSOR_CHARACTERS: Final = 4096
"""Of a cursor: more than the longest name makes."""

_Row = TypeVar("_Row")

Key: TypeAlias = tuple[Any, ...]
"""What rows are ordered by: numbers and texts, the last of them different for each row."""


class Descending(tuple[Any, ...]):
    """A key that comes before smaller ones."""

    __slots__ = ()

    def __lt__(self, other: Any) -> bool:
        return super().__gt__(other)

    def __gt__(self, other: Any) -> bool:
        return super().__lt__(other)


def order(key: Key, descends: bool) -> Key:
    """The key, for a list that goes up or down."""
    return Descending(key) if descends else key


class Page(NamedTuple):
    """The rows of a page, the cursor of the next one, and how many rows there are in all pages."""

    rows: list[Any]
    next: str | None
    total: int


async def page(
    rows: Iterable[_Row],
    key: Callable[[_Row], Key],
    after: Key | None,
    limit: int,
    turns: Turns,
    keep: Callable[[_Row], bool] = lambda _: True,
) -> Page:
    """The first `limit` rows after `after`, of those to `keep`. The caller works (`Turns.working`)."""
    best: list[tuple[Key, int, _Row]] = []
    total = 0
    each = iter(rows)
    while some := list(islice(each, ROWS_A_BREATH)):
        kept = [row for row in some if keep(row)]
        keyed = [(key(row), total + number, row) for number, row in enumerate(kept)]
        if after is not None:
            keyed = [one for one in keyed if one[0] > after]
        if len(best) > limit:
            worst = best[-1][0]
            keyed = [one for one in keyed if one[0] < worst]
        if keyed:
            best = sorted([*best, *keyed])[: limit + 1]
        total += len(kept)
        await turns.breathe()
    more = len(best) > limit
    del best[limit:]
    return Page([row for _, _, row in best], cursor(best[-1][0]) if more else None, total)


def cursor(key: Key | dict[str, int]) -> str:
    """A key as text that is safe in a target."""
    return base64.urlsafe_b64encode(json.dumps(key, separators=(",", ":")).encode()).decode().rstrip("=")


def parse_cursor(text: str, types: tuple[type, ...], *, descends: bool = False) -> Key | None:
    """The key in a cursor; None for no text. Raises Failure unless it has values of these types."""
    if not text:
        return None
    wanted = "what `next` was"
    value = decode_cursor(text)
    if not isinstance(value, list) or len(value) != len(types):
        raise bad_parameter("after", text, wanted)
    for one, kind in zip(value, types, strict=True):
        if type(one) is not kind and not (kind is float and type(one) is int):
            raise bad_parameter("after", text, wanted)
    return order(tuple(value), descends)


def decode_cursor(text: str) -> Any:
    """The JSON in a cursor. Raises Failure."""
    wanted = "what `next` was"
    if len(text) > MAX_CURSOR_CHARACTERS or not text.isascii():
        raise bad_parameter("after", text, wanted)
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        return json.loads(raw, parse_constant=_refuse)
    except (binascii.Error, ValueError, RecursionError):
        raise bad_parameter("after", text, wanted) from None


def _refuse(constant: str) -> Any:
    raise ValueError(constant)
