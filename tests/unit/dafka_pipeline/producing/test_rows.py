"""Arrow batches as columns of lists."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from dafka_pipeline.producing.rows import NAMES, parse_headers, rows_of

TYPES = (pa.int32(), pa.string(), pa.int64(), pa.binary(), pa.binary(), pa.string())
SCHEMA = pa.schema(list(zip(NAMES, TYPES, strict=True)))


def batch(*rows: tuple[Any, ...]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(NAMES, row, strict=True)) for row in rows], SCHEMA)


def test_each_run_of_a_target_by_itself() -> None:
    """Also of a batch that begins in the middle of another's memory."""
    whole = batch(
        (9, "r|0", 0, None, None, None),
        (2, "r|1", 10, b"k", b"", "61:31,61:-"),
        (2, "r|2", None, None, b"vv", None),
        (2, "r|3", -1, b"", None, ":"),
        (5, "r|1", 11, b"k", b"v", None),
    )
    first, second = rows_of(whole.slice(1))
    assert (first.slot, first.positions, first.timestamps) == (2, ["r|1", "r|2", "r|3"], [10, 0, -1])
    assert (first.keys, first.values) == ([b"k", None, b""], [b"", b"vv", None])
    assert first.all_headers("p", 0, 3) == [
        [("a", b"1"), ("a", None), ("p", "r|1")],
        [("p", "r|2")],
        [("", b""), ("p", "r|3")],
    ]
    assert first.size_bytes == 3
    assert not first.zero
    assert (second.slot, second.headers, second.positions) == (5, None, ["r|1"])
    assert second.all_headers("p", 0, 1) == [[("p", "r|1")]]
    assert list(rows_of(whole.slice(0, 0))) == []


def test_headers_of_any_bytes() -> None:
    name, value = "\N{SNOWMAN},:-", bytes(range(256))
    text = f"{name.encode().hex().upper()}:{value.hex().upper()}"
    assert parse_headers(f"{text},2D:2D") == [(name, value), ("-", b"-")]
    assert parse_headers(None) == []


def test_a_time_of_its_own_that_is_zero() -> None:
    (rows,) = rows_of(batch((0, "r|1", 0, None, None, None), (0, "r|2", None, None, None, None)))
    assert rows.zero


def test_positions_of_several_numbers() -> None:
    (rows,) = rows_of(batch(*((0, f"i.d|{n // 2}.7.{n}", 0, None, None, None) for n in range(6))))
    assert [rows.position(n) for n in (0, 5)] == [(0, 7, 0), (2, 7, 5)]


def test_a_position_that_is_none() -> None:
    (rows,) = rows_of(batch((0, "r|", 0, None, None, None)))
    with pytest.raises(ValueError, match="is no position"):
        rows.position(0)


@pytest.mark.parametrize(
    ("position", "behind"),
    [(None, 0), ((-1,), 0), ((0,), 1), ((5,), 3), ((4,), 3), ((8,), 5), ((9,), 5), ((15,), 8), ((99,), 10)],
)
def test_how_many_are_there_already(position: tuple[int, ...] | None, behind: int) -> None:
    """Compared as numbers, not as texts."""
    (rows,) = rows_of(batch(*((0, f"r|{n * 2}", 0, None, None, None) for n in range(10))))
    assert rows.behind(position) == behind
