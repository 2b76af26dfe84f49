"""Arrow batches as columns of lists."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from dafka_pipeline.producing.rows import rows_of

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("slot", pa.int32()),
        ("position", pa.list_(pa.int64())),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)


def batch(*rows: tuple[Any, ...]) -> pa.RecordBatch:
    names = SCHEMA.names
    return pa.RecordBatch.from_pylist([dict(zip(names, row, strict=True)) for row in rows], SCHEMA)


def header(name: str, value: bytes | None) -> dict[str, Any]:
    return {"key": name, "value": value}


def test_each_run_of_a_target_by_itself() -> None:
    """Also of a batch that begins in the middle of another's memory."""
    whole = batch(
        (9, [0], 0, None, None, None),
        (2, [1], 10, b"k", b"", [header("a", b"1"), header("a", None)]),
        (2, [2], None, None, b"vv", None),
        (2, [3], -1, b"", None, []),
        (5, [1], 11, b"k", b"v", None),
    )
    first, second = rows_of(whole.slice(1))
    assert (first.slot, first.numbers, first.timestamps) == (2, [[1, 2, 3]], [10, 0, -1])
    assert (first.keys, first.values) == ([b"k", None, b""], [b"", b"vv", None])
    assert first.headers == [[("a", b"1"), ("a", None)], [], []]
    assert first.size_bytes == 3
    assert not first.zero
    assert (second.slot, second.headers, second.numbers) == (5, None, [[1]])
    assert list(rows_of(whole.slice(0, 0))) == []


def test_a_time_of_its_own_that_is_zero() -> None:
    (rows,) = rows_of(batch((0, [1], 0, None, None, None), (0, [2], None, None, None, None)))
    assert rows.zero


def test_positions_of_several_numbers() -> None:
    (rows,) = rows_of(batch(*((0, [n // 2, 7, n], 0, None, None, None) for n in range(6))))
    assert rows.header_values("id|")[3] == "id|1.7.3"
    assert [rows.position(n) for n in (0, 5)] == [(0, 7, 0), (2, 7, 5)]


@pytest.mark.parametrize(
    ("position", "behind"),
    [(None, 0), ((-1,), 0), ((0,), 1), ((5,), 3), ((4,), 3), ((8,), 5), ((9,), 5)],
)
def test_how_many_are_there_already(position: tuple[int, ...] | None, behind: int) -> None:
    (rows,) = rows_of(batch(*((0, [n * 2], 0, None, None, None) for n in range(5))))
    assert rows.behind(position) == behind
