"""Parquet files of a table: written by Spark, each counted and measured by its own footer.

A commit names each file with its rows and with the least and greatest value of some columns, by which readers
pass over files. Both stand in the footer already, so nothing is counted while rows are written.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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
AT_ONCE: Final = 16
"""Footers that are read at the same time: elsewhere than on this machine each takes some round trips."""
NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""What a folder is called whose column is null, as Hive, Spark and Arrow have it."""
NO_MARK: Final = "mapreduce.fileoutputcommitter.marksuccessfuljobs"
"""Spark's `_SUCCESS` would keep VACUUM from removing folders that are empty otherwise."""
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
    writer = frame.drop(*constant).write.option(NO_MARK, "false")
    others = [name for name in partitioned_by if name not in constant]
    if others:
        writer = writer.partitionBy(*others)
    writer.parquet((files.location / place).for_spark)
    found = [one for one in files.below(folder) if is_data(one.name.removeprefix(folder))]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        made = list(pool.map(lambda one: data_file(files, one, measured, constant), found))
    files.settle([one.name for one in found])
    return [one for one in made if one.rows]


def is_data(name: str) -> bool:
    """Whether a name below a batch's folder is a file of rows, and not what a late or killed task left."""
    parts = name.split("/")
    hidden = any(part.startswith(("_", ".")) and "=" not in part for part in parts)
    return parts[-1].endswith(".parquet") and not hidden


def data_file(
    files: Files, found: Found, measured: Collection[str], constant: Mapping[str, str | None]
) -> DataFile:
    """What a commit says of a file."""
    metadata = footer(files, found)
    pairs = (part.split("=", 1) for part in found.name.split("/")[:-1] if "=" in part)
    values = {name: None if value == NULL else unquote(value) for name, value in pairs}
    return DataFile(
        path=quote(found.name, safe="/="),
        values={**values, **constant},
        size=found.size,
        modified=found.modified,
        rows=metadata.num_rows,
        statistics={"numRecords": metadata.num_rows, **bounds(metadata, measured)},
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
        kind = json.loads(column.logical_type.to_json())
        low = _said(min(one.min_raw for one in groups), kind)
        high = _said(max(one.max_raw for one in groups), kind)
        if low is None or high is None:
            continue
        least[column.path], greatest[column.path] = low, high
        if all(one.has_null_count for one in groups):
            nulls[column.path] = sum(one.null_count for one in groups)
    return {"minValues": least, "maxValues": greatest, "nullCount": nulls}


def _named(value: str | None) -> str:
    return NULL if value is None else quote(value, safe="")


def _said(value: int, kind: Mapping[str, Any]) -> int | str | None:
    """A bound as JSON has it; None for a time beyond what readers parse, or in another unit than ours."""
    if kind.get("Type") != "Timestamp":
        return value
    if kind.get("timeUnit") != "microseconds":
        return None
    try:
        time = EPOCH + timedelta(microseconds=value)
    except OverflowError:
        return None
    return f"{time.strftime('%Y').zfill(4)}{time.strftime('-%m-%dT%H:%M:%S')}.{time.microsecond // 1000:03}Z"
