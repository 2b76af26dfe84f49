"""How named differences differ: where a key or value does first, and what stands there on each side.

Only the records that are named are read for it. Of a long value only the block that differs comes to the
driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from dafka_pipeline.audit.records import PLACE
from dafka_pipeline.audit.settings import AuditOptions
from dafka_pipeline.audit.sides import Side
from dafka_pipeline.audit.verdict import (
    ALTERED,
    DOUBLED_RIGHT,
    MISSING_LEFT,
    Difference,
    Place,
)
from dafka_pipeline.ranges import Span

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BLOCK: Final = 4096
"""Bytes that are compared at once, and that come to the driver."""
SHOWN: Final = 16
"""Bytes of a key or value that are shown, from the first that differs."""
HEADERS_SHOWN: Final = 200
"""Characters of headers that are shown."""
TYPES: Final = {0: "CreateTime", 1: "LogAppendTime"}


def detailed(
    spark: SparkSession, left: Side, right: Side, named: Sequence[Difference], options: AuditOptions
) -> list[Difference]:
    """The same differences with details: for altered ones, of each field; for others, of the record
    itself.
    """
    spans = [Span(*one.place, one.place.offset + 1) for one in named]
    spans = sorted(set(spans))
    sides = [_briefs(side.read(spark, spans)) for side in (left, right)]
    here, there = sides
    renamed = there.selectExpr(
        *PLACE, *[f"{name} AS other_{name}" for name in there.columns if name not in PLACE]
    )
    joined = here.join(renamed, [*PLACE], "full_outer")
    blocks = [f"{_first_block(name)} AS {name}_block" for name in ("key", "value")]
    joined = joined.selectExpr("*", *blocks)
    shown = joined.selectExpr(
        *[name for name in joined.columns if name not in {"key", "value", "other_key", "other_value"}],
        *[
            f"{_block(prefix + name, f'coalesce({name}_block, 0)')} AS {prefix}{name}"
            for name in ("key", "value")
            for prefix in ("", "other_")
        ],
    )
    rows: dict[Place, list[Any]] = {}
    for row in shown.collect():
        rows.setdefault(Place(*(row[name] for name in PLACE)), []).append(row)
    return [replace(one, details=_details(one, rows.get(one.place, []), options)) for one in named]


def _briefs(frame: DataFrame) -> DataFrame:
    headers = (
        "array_join(transform(headers, one -> concat(one.key, '=', coalesce(hex(one.value), 'null'))), ', ')"
    )
    return frame.selectExpr(
        *PLACE,
        "key",
        "value",
        "octet_length(key) AS key_bytes",
        "octet_length(value) AS value_bytes",
        "unix_micros(timestamp) AS micros",
        "timestamp_type",
        f"substring(coalesce({headers}, ''), 1, {HEADERS_SHOWN}) AS headers",
        "coalesce(size(headers), 0) AS header_count",
    )


def _first_block(name: str) -> str:
    """The number of the first block in which a field differs; null where none does."""
    longer = f"greatest(coalesce(octet_length({name}), 0), coalesce(octet_length(other_{name}), 0))"
    same = f"{_block(name, 'n')} <=> {_block(f'other_{name}', 'n')}"
    numbers = f"sequence(0, {longer} div {BLOCK})"
    return f"try_element_at(filter({numbers}, n -> NOT ({same})), 1)"


def _block(name: str, number: str) -> str:
    return f"substring({name}, int({number} * {BLOCK} + 1), {BLOCK})"


def _details(one: Difference, rows: Sequence[Any], options: AuditOptions) -> dict[str, str]:
    """rows: what is at the place, more than one where a side has several copies."""
    if not rows:
        return {}
    if one.kind == ALTERED:
        row = max(rows, key=lambda row: sum(_differs(name, row) for name in one.fields))
        return {name: _field(name, row, contents=options.contents) for name in one.fields}
    prefix = "other_" if one.kind in {MISSING_LEFT, DOUBLED_RIGHT} else ""
    return {"record": _record(rows[0], prefix, contents=options.contents)}


def _differs(name: str, row: Any) -> bool:
    if name in {"key", "value"}:
        return row[f"{name}_block"] is not None
    column = "micros" if name == "timestamp" else name
    return bool(row[column] != row[f"other_{column}"])


def _record(row: Any, prefix: str, *, contents: bool) -> str:
    key = _bytes(row[f"{prefix}key"], row[f"{prefix}key_bytes"], 0, contents=contents)
    value = _size(row[f"{prefix}value_bytes"])
    return (
        f"key {key}, value {value}, {row[f'{prefix}header_count']} headers, {_time(row[f'{prefix}micros'])}"
    )


def _field(name: str, row: Any, *, contents: bool) -> str:
    if name == "timestamp":
        return f"{_time(row['micros'])} | {_time(row['other_micros'])}"
    if name == "timestamp_type":
        return " | ".join(TYPES.get(row[one], str(row[one])) for one in (name, f"other_{name}"))
    if name == "headers":
        if not contents:
            return f"{row['header_count']} headers | {row['other_header_count']} headers"
        return f"[{row['headers']}] | [{row['other_headers']}]"
    sizes = [row[f"{name}_bytes"], row[f"other_{name}_bytes"]]
    blocks = [row[name], row[f"other_{name}"]]
    if None in sizes:
        return " | ".join(
            _bytes(block, size, 0, contents=contents) for block, size in zip(blocks, sizes, strict=True)
        )
    inside = first_difference(bytes(blocks[0]), bytes(blocks[1]))
    at = (row[f"{name}_block"] or 0) * BLOCK + inside
    texts = [
        _bytes(bytes(block)[inside:], size, at, contents=contents)
        for block, size in zip(blocks, sizes, strict=True)
    ]
    return f"from byte {at} on: {' | '.join(texts)}"


def first_difference(one: bytes, other: bytes) -> int:
    """The index of the first byte that is not the same; where one ends before, its length."""
    for number, (here, there) in enumerate(zip(one, other, strict=False)):
        if here != there:
            return number
    return min(len(one), len(other))


def _bytes(block: Any, size: int | None, at: int, *, contents: bool) -> str:
    if size is None or block is None:
        return "null"
    if not contents or not size:
        return _size(size)
    shown = bytes(block)[:SHOWN]
    more = "..." if size > at + len(shown) else ""
    return f"{shown!r}{more} ({_size(size)})"


def _size(size: int | None) -> str:
    return "null" if size is None else f"{size:,} bytes" if size else "empty"


def _time(micros: int | None) -> str:
    if micros is None:
        return "no timestamp"
    whole, rest = divmod(micros, 1000)
    return f"{whole} ms" + (f" {rest} us" if rest else "")
