"""Archives written by hand, and altered copies of them: rows as dicts, changed without Spark."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from dafka_pipeline.ranges import Span
from dafka_pipeline.table import layout
from dafka_pipeline.table.archive import Archive
from dafka_pipeline.table.location import Location
from dafka_pipeline.table.state import State, TopicEnds

HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
ARROW = pa.schema(
    [
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestamp_type", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(HEADER)),
        ("archived_on", pa.date32()),
    ]
)
"""An archive's columns; a row is a dict, its timestamp in microseconds."""
DAY = 20_000

Rows = list[dict[str, Any]]


def arrow(rows: Rows) -> pa.Table:
    filled = [{"topic_id": None, "archived_on": DAY, **row} for row in rows]
    columns = []
    for field in ARROW:
        values = [row[field.name] for row in filled]
        if field.name == "timestamp":
            columns.append(pa.array(values, pa.int64()).cast(field.type))
        elif field.name == "archived_on":
            columns.append(pa.array(values, pa.int32()).cast(field.type))
        else:
            columns.append(pa.array(values, field.type))
    return pa.table(columns, ARROW)


def write_archive(
    spark: SparkSession,
    path: Path,
    rows: Rows,
    ends: Mapping[str, Sequence[int]],
    *,
    starts: Mapping[str, Sequence[int]] | None = None,
    ids: Mapping[str, str] | None = None,
) -> Path:
    """An archive of one batch: rows, and a commit that says how far each topic goes."""
    archive = Archive(spark, Location(str(path)))
    archive.records.create(layout.SCHEMA, layout.PARTITIONED_BY, layout.WITH_STATISTICS)
    topics = {name: TopicEnds((ids or {}).get(name), tuple(at)) for name, at in ends.items()}
    spans = tuple(
        Span(name, number, (starts or {}).get(name, [0] * len(at))[number], end)
        for name, at in ends.items()
        for number, end in enumerate(at)
    )
    state = State("0" * 32, 1, "run", 1, topics, spans)
    add_rows(path, rows)
    archive.records.append(archive.records.read().limit(0), state.number, state.to_json())
    return path


def add_rows(path: Path, rows: Rows) -> None:
    """As somebody does who writes to the table beside the archive job."""
    write_deltalake(path, arrow(rows), mode="append")


def table_rows(path: Path) -> Rows:
    table = DeltaTable(path).to_pyarrow_table()
    times = table["timestamp"].cast(pa.int64())
    days = table["archived_on"].cast(pa.int32())
    table = table.set_column(table.schema.get_field_index("timestamp"), "timestamp", times)
    table = table.set_column(table.schema.get_field_index("archived_on"), "archived_on", days)
    return list(table.select(ARROW.names).to_pylist())


def altered_copy(path: Path, to: Path, change: Callable[[Rows], Rows]) -> Path:
    """A copy of an archive with other rows; what its commits say stays."""
    shutil.copytree(path, to)
    write_deltalake(to, arrow(change(table_rows(to))), mode="overwrite")
    return to


def add_gaps(path: Path, gaps: Sequence[tuple[str, str | None, int, int, int, str]]) -> None:
    """Rows of an archive's table of gaps: topic, topic id, partition, first offset, end, reason."""
    names = [one.split()[0] for one in layout.GAPS_SCHEMA.split(", ")]
    moment = pa.timestamp("us", "UTC")
    types = [pa.string(), pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.string(), moment]
    rows = [dict(zip(names, (*gap, 0), strict=True)) for gap in gaps]
    schema = pa.schema(list(zip(names, types, strict=True)))
    write_deltalake(path / layout.GAPS, pa.Table.from_pylist(rows, schema), mode="append")
