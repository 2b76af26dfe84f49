"""What can go wrong with a copy of a table, each case in a topic of its own: what is done, and what an
audit must say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dafka_pipeline.audit.verdict import (
    ALTERED,
    DOUBLED_LEFT,
    DOUBLED_RIGHT,
    MISSING_LEFT,
    MISSING_RIGHT,
    MOVED,
    SWAPPED,
)

T0 = 1_700_000_000_000
RECORDS = {0: 40, 1: 8}
"""Offsets of each partition."""

Rows = list[dict[str, Any]]


class Said(NamedTuple):
    """What the audit must say of one place (partition, offset)."""

    kind: str
    place: tuple[int, int]
    fields: tuple[str, ...] = ()
    times: tuple[int, int] = (1, 1)
    other: tuple[int, int] | None = None


@dataclass(frozen=True)
class Case:
    """change: changes the rows of the left and of the right, which are equal before. said: all that is
    wrong after."""

    name: str
    change: Callable[[Rows, Rows], None]
    said: Sequence[Said] = ()

    @property
    def topic(self) -> str:
        return self.name.replace(" ", "-")


def base(topic: str) -> Rows:
    """Records of every usual shape; no two have the same key, value or time."""
    rows: Rows = []
    for partition, count in RECORDS.items():
        for offset in range(count):
            name = f"{topic}/{partition}/{offset}".encode()
            headers = [{"key": "h", "value": name}, {"key": "null", "value": None}] if offset % 2 else None
            rows.append(
                {
                    "topic": topic,
                    "partition": partition,
                    "offset": offset,
                    "timestamp": (T0 + partition * 1000 + offset) * 1000,
                    "timestamp_type": 0,
                    "key": b"key " + name,
                    "value": b"value " + name,
                    "headers": headers,
                }
            )
    return rows


def at(rows: Rows, offset: int, partition: int = 0) -> dict[str, Any]:
    return next(row for row in rows if (row["partition"], row["offset"]) == (partition, offset))


def flip(data: bytes, index: int) -> bytes:
    return data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :]


def headers(*pairs: tuple[str, bytes | None]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in pairs]


def set_right(**fields: Any) -> Callable[[Rows, Rows], None]:
    """Gives the record at offset 5 on the right these fields."""
    return lambda _left, right: at(right, 5).update(fields)


def set_both(here: dict[str, Any], there: dict[str, Any]) -> Callable[[Rows, Rows], None]:
    def change(left: Rows, right: Rows) -> None:
        at(left, 5).update(here)
        at(right, 5).update(there)

    return change


def altered(*fields: str) -> list[Said]:
    return [Said(ALTERED, (0, 5), fields)]


def _one_byte(field: str) -> Callable[[Rows, Rows], None]:
    def change(_left: Rows, right: Rows) -> None:
        row = at(right, 5)
        row[field] = flip(row[field], len(row[field]) - 1)

    return change


def _header_byte(_left: Rows, right: Rows) -> None:
    row = at(right, 5)
    row["headers"] = headers(("h", flip(row["headers"][0]["value"], 0)), ("null", None))


def _lost(_left: Rows, right: Rows) -> None:
    right.remove(at(right, 5))


def _lost_at(offset: int) -> Callable[[Rows, Rows], None]:
    return lambda _left, right: right.remove(at(right, offset))


def _gained(left: Rows, _right: Rows) -> None:
    left.remove(at(left, 5))


def _doubled(times: int) -> Callable[[Rows, Rows], None]:
    return lambda _left, right: right.extend([dict(at(right, 5)) for _ in range(times - 1)])


def _doubled_left(left: Rows, _right: Rows) -> None:
    left.append(dict(at(left, 5)))


def _doubled_and_altered(_left: Rows, right: Rows) -> None:
    right.append({**at(right, 5), "value": b"another"})


CONTENT = ("key", "value", "headers", "timestamp", "timestamp_type")


def _exchange(one: dict[str, Any], other: dict[str, Any], fields: Sequence[str]) -> None:
    for field in fields:
        one[field], other[field] = other[field], one[field]


def _swapped(fields: Sequence[str]) -> Callable[[Rows, Rows], None]:
    return lambda _left, right: _exchange(at(right, 5), at(right, 9), fields)


def _swapped_apart(_left: Rows, right: Rows) -> None:
    _exchange(at(right, 5), at(right, 5, 1), CONTENT)


def _swapped_twice(_left: Rows, right: Rows) -> None:
    _exchange(at(right, 5), at(right, 9), CONTENT)
    _exchange(at(right, 7), at(right, 31), CONTENT)


def _swapped_among_equals(left: Rows, right: Rows) -> None:
    """Two pairs whose contents are the same two: each place is in one pair."""
    for rows in (left, right):
        for offset, value in ((4, b"one"), (6, b"other"), (8, b"one"), (10, b"other")):
            at(rows, offset).update(key=b"k", value=value, headers=None, timestamp=T0 * 1000)
    _exchange(at(right, 4), at(right, 6), CONTENT)
    _exchange(at(right, 8), at(right, 10), CONTENT)


def _swapped_and_altered(_left: Rows, right: Rows) -> None:
    _exchange(at(right, 5), at(right, 9), CONTENT)
    at(right, 5)["timestamp"] += 1000


def _three_in_a_ring(_left: Rows, right: Rows) -> None:
    _exchange(at(right, 5), at(right, 7), CONTENT)
    _exchange(at(right, 7), at(right, 9), CONTENT)


def _moved(_left: Rows, right: Rows) -> None:
    at(right, 5).update(partition=1, offset=8)


def _other_partition(_left: Rows, right: Rows) -> None:
    """The same records, in the other partition."""
    for row in right:
        if row["partition"] == 1:
            row.update(partition=0, offset=40 + row["offset"])


def _order_in_partition(_left: Rows, right: Rows) -> None:
    """The last two records of a partition, one offset later: nothing at the first of their places."""
    at(right, 7, 1).update(offset=8)
    at(right, 6, 1).update(offset=7)


CASES = [
    Case("untouched", lambda _left, _right: None),
    Case("one byte of a key", _one_byte("key"), altered("key")),
    Case("one byte of a value", _one_byte("value"), altered("value")),
    Case("one byte of a header", _header_byte, altered("headers")),
    Case("a timestamp a millisecond later", set_right(timestamp=(T0 + 6) * 1000), altered("timestamp")),
    Case("a timestamp before 1970", set_right(timestamp=-1000), altered("timestamp")),
    Case("a timestamp's type", set_right(timestamp_type=1), altered("timestamp_type")),
    Case(
        "everything of a record",
        set_right(key=b"", value=None, headers=None, timestamp=0, timestamp_type=1),
        altered("key", "value", "headers", "timestamp", "timestamp_type"),
    ),
    Case("a record lost", _lost, [Said(MISSING_RIGHT, (0, 5), times=(1, 0))]),
    Case("the first record lost", _lost_at(0), [Said(MISSING_RIGHT, (0, 0), times=(1, 0))]),
    Case("the last record lost", _lost_at(39), [Said(MISSING_RIGHT, (0, 39), times=(1, 0))]),
    Case("a record gained", _gained, [Said(MISSING_LEFT, (0, 5), times=(0, 1))]),
    Case("a record twice", _doubled(2), [Said(DOUBLED_RIGHT, (0, 5), times=(1, 2))]),
    Case("a record three times", _doubled(3), [Said(DOUBLED_RIGHT, (0, 5), times=(1, 3))]),
    Case("a record twice on the left", _doubled_left, [Said(DOUBLED_LEFT, (0, 5), times=(2, 1))]),
    Case(
        "a record twice with one copy altered",
        _doubled_and_altered,
        [Said(ALTERED, (0, 5), ("value",), (1, 2)), Said(DOUBLED_RIGHT, (0, 5), times=(1, 2))],
    ),
    Case(
        "two swapped",
        _swapped(CONTENT),
        [Said(SWAPPED, (0, 5), ("key", "value", "headers", "timestamp"), other=(0, 9))],
    ),
    Case(
        "two swapped that keep their times",
        _swapped(("key", "value", "headers")),
        [Said(SWAPPED, (0, 5), ("key", "value", "headers"), other=(0, 9))],
    ),
    Case(
        "two values swapped",
        _swapped(("value",)),
        [Said(ALTERED, (0, 5), ("value",)), Said(ALTERED, (0, 9), ("value",))],
    ),
    Case(
        "two swapped in different partitions",
        _swapped_apart,
        [Said(SWAPPED, (0, 5), ("key", "value", "headers", "timestamp"), other=(1, 5))],
    ),
    Case(
        "two pairs swapped",
        _swapped_twice,
        [
            Said(SWAPPED, (0, 5), ("key", "value", "headers", "timestamp"), other=(0, 9)),
            Said(SWAPPED, (0, 7), ("key", "value", "headers", "timestamp"), other=(0, 31)),
        ],
    ),
    Case(
        "pairs of equal contents swapped",
        _swapped_among_equals,
        [Said(SWAPPED, (0, 4), ("value",), other=(0, 6)), Said(SWAPPED, (0, 8), ("value",), other=(0, 10))],
    ),
    Case(
        "two swapped and one altered",
        _swapped_and_altered,
        [
            Said(ALTERED, (0, 5), ("key", "value", "headers", "timestamp")),
            Said(ALTERED, (0, 9), ("key", "value", "headers", "timestamp")),
        ],
    ),
    Case(
        "three in a ring",
        _three_in_a_ring,
        [Said(ALTERED, (0, offset), ("key", "value", "headers", "timestamp")) for offset in (5, 7, 9)],
    ),
    Case("a record in another partition", _moved, [Said(MOVED, (0, 5), other=(1, 8))]),
    Case(
        "all records of a partition in another",
        _other_partition,
        [Said(MOVED, (1, offset), other=(0, 40 + offset)) for offset in range(8)],
    ),
    Case("a null key that is empty", set_both({"key": None}, {"key": b""}), altered("key")),
    Case("a null value that is empty", set_both({"value": None}, {"value": b""}), altered("value")),
    Case("an empty value that is null", set_both({"value": b""}, {"value": None}), altered("value")),
    Case(
        "a null in the key that is in the value",
        set_both({"key": None, "value": b"a"}, {"key": b"a", "value": None}),
        altered("key", "value"),
    ),
    Case(
        "an empty key that is in the value",
        set_both({"key": b"", "value": b"a"}, {"key": b"a", "value": b""}),
        altered("key", "value"),
    ),
    Case(
        "a boundary between key and value",
        set_both({"key": b"a", "value": b"bc"}, {"key": b"ab", "value": b"c"}),
        altered("key", "value"),
    ),
    Case(
        "a null header value that is empty",
        set_both({"headers": headers(("h", None))}, {"headers": headers(("h", b""))}),
        altered("headers"),
    ),
    Case(
        "a null header value that is the next key's",
        set_both(
            {"headers": headers(("a", None), ("b", b"x"))}, {"headers": headers(("a", b"b"), ("x", None))}
        ),
        altered("headers"),
    ),
    Case(
        "headers in another order",
        set_both(
            {"headers": headers(("a", b"1"), ("b", b"2"))}, {"headers": headers(("b", b"2"), ("a", b"1"))}
        ),
        altered("headers"),
    ),
    Case(
        "a header twice",
        set_both({"headers": headers(("a", b"1"))}, {"headers": headers(("a", b"1"), ("a", b"1"))}),
        altered("headers"),
    ),
    Case(
        "a boundary in a header",
        set_both({"headers": headers(("a", b"bc"))}, {"headers": headers(("ab", b"c"))}),
        altered("headers"),
    ),
    Case(
        "a boundary between headers",
        set_both({"headers": headers(("a", b"b"), ("c", b"d"))}, {"headers": headers(("a", b"bcd"))}),
        altered("headers"),
    ),
    Case(
        "one empty header or none",
        set_both({"headers": headers(("", b""))}, {"headers": None}),
        altered("headers"),
    ),
    Case("no headers and an empty list of them", set_both({"headers": None}, {"headers": []})),
    Case(
        "a header that is in the value",
        set_both({"value": b"v", "headers": headers(("a", b"b"))}, {"value": b"vab", "headers": None}),
        altered("value", "headers"),
    ),
    Case(
        "everything one offset later",
        _order_in_partition,
        [
            Said(ALTERED, (1, 7), ("key", "value", "headers", "timestamp")),
            Said(MISSING_RIGHT, (1, 6), times=(1, 0)),
            Said(MISSING_LEFT, (1, 8), times=(0, 1)),
        ],
    ),
]
