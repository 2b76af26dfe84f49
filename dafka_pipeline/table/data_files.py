"""Parquet files of a table: written by Spark, each counted and measured by its own footer.

A commit names each file with its rows and with the least and greatest value of some columns, by which readers
pass over files. Both stand in the footer already, so nothing is counted while rows are written.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, unquote

from dafka_pipeline.table.location import Files, Found

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FOOTER_BYTES: Final = 64 << 10
"""What is read from the end of a file at first: most footers fit."""
MAGIC: Final = b"PAR1"
TAIL_BYTES: Final = 8
"""A footer's length in four bytes, and the magic."""
NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""What a folder is called whose column is null, as Hive, Spark and Arrow have it."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class DataFile(NamedTuple):
    """A file as a commit names it.

    path: below the table, as a URI. values: of the partition columns. size: bytes. modified: milliseconds.
    statistics: as the Delta protocol has them ("Per-file Statistics").
    """

    path: str
    values: Mapping[str, str | None]
    size: int
    modified: int
    rows: int
    statistics: Mapping[str, Any]


def write_files(
    frame: DataFrame,
    files: Files,
    folder: str,
    *,
    partitioned_by: Sequence[str] = (),
    constant: Mapping[str, str | None],
    measured: Collection[str] = (),
) -> list[DataFile]:
    """Write the rows below `folder`, which must be new; the files that have rows.

    constant: values of partition columns that are the same in all rows. With all of them given, no row is
        looked at for where it belongs.
    measured: columns of numbers or times to tell the least and greatest value of.
    """
    place = "/".join([folder, *(f"{name}={_named(value)}" for name, value in constant.items())])
    writer = frame.drop(*constant).write
    others = [name for name in partitioned_by if name not in constant]
    if others:
        writer = writer.partitionBy(*others)
    writer.parquet(f"{files.location}/{place}")
    found = [data_file(files, one, measured) for one in files.below(folder) if one.name.endswith(".parquet")]
    files.settle(folder)
    return [one for one in found if one.rows]


def data_file(files: Files, found: Found, measured: Collection[str]) -> DataFile:
    """What a commit says of a file."""
    metadata = footer(files, found)
    pairs = (part.split("=", 1) for part in found.name.split("/")[:-1] if "=" in part)
    statistics = {"numRecords": metadata.num_rows, **bounds(metadata, measured)}
    return DataFile(
        path=quote(found.name, safe="/="),
        values={name: None if value == NULL else unquote(value) for name, value in pairs},
        size=found.size,
        modified=found.modified,
        rows=metadata.num_rows,
        statistics=statistics,
    )


def footer(files: Files, found: Found) -> Any:
    """A Parquet file's metadata, read from its end."""
    import pyarrow as pa
    from pyarrow import parquet

    end = files.tail(found, FOOTER_BYTES)
    length = int.from_bytes(end[-TAIL_BYTES:-4], "little") + TAIL_BYTES
    if length > len(end):
        end = files.tail(found, length)
    return parquet.read_metadata(pa.BufferReader(MAGIC + end[-length:]))


def bounds(metadata: Any, columns: Collection[str]) -> dict[str, dict[str, Any]]:
    """`minValues`, `maxValues` and `nullCount` of the columns that have them."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for index in range(metadata.num_columns):
        column = metadata.schema.column(index)
        if column.path not in columns:
            continue
        groups = [metadata.row_group(n).column(index).statistics for n in range(metadata.num_row_groups)]
        if not groups or any(one is None or not one.has_min_max for one in groups):
            continue
        is_time = json.loads(column.logical_type.to_json()).get("Type") == "Timestamp"
        low = _said(min(one.min_raw for one in groups), is_time=is_time)
        high = _said(max(one.max_raw for one in groups), is_time=is_time)
        if low is None or high is None:
            continue
        least[column.path], greatest[column.path] = low, high
        if all(one.has_null_count for one in groups):
            nulls[column.path] = sum(one.null_count for one in groups)
    return {"minValues": least, "maxValues": greatest, "nullCount": nulls}


def _named(value: str | None) -> str:
    return NULL if value is None else quote(value, safe="")


def _said(value: int, *, is_time: bool) -> int | str | None:
    """A bound as JSON has it; None for a time (microseconds since 1970) beyond what readers parse."""
    if not is_time:
        return value
    try:
        time = EPOCH + timedelta(microseconds=value)
    except OverflowError:
        return None
    return f"{time.strftime('%Y').zfill(4)}{time.strftime('-%m-%dT%H:%M:%S')}.{time.microsecond // 1000:03}Z"
