"""What a topic holds and what an archive holds, each read by something that is not Spark, to be compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable
from pyarrow.dataset import dataset

from tests.clients.stored import committed_records
from tests.differential.batches import Record


class Row(NamedTuple):
    """A record in an archive."""

    topic: str
    partition: int
    offset: int
    record: Record


def topic_rows(bootstrap: str, topic: str, partitions: int = 1) -> list[Row]:
    """All records of a topic over plain Fetch requests, in order."""
    return [
        Row(topic, partition, offset, record)
        for partition in range(partitions)
        for offset, record in committed_records(bootstrap, topic, partition)
    ]


def archive_rows(archive: Path, version: int | None = None) -> list[Row]:
    """All records of an archive, read by deltalake (delta-rs), sorted by topic, partition, offset."""
    return rows_of(DeltaTable(archive, version=version).to_pyarrow_table())


def plain_rows(archive: Path) -> list[Row]:
    """The same of an archive in plain Parquet, read by pyarrow, which knows nothing of it."""
    return rows_of(dataset(archive, format="parquet", partitioning="hive").to_table())


def rows_of(found: pa.Table) -> list[Row]:
    """Sorted by topic, partition, offset."""
    # Arrow's numbers, not Python's datetimes: a year 30,000 is a timestamp, too.
    times = found["timestamp"].cast(pa.int64())
    columns = {
        name: found[name].to_pylist() for name in ("topic", "partition", "offset", "key", "value", "headers")
    }
    rows = []
    for n, microseconds in enumerate(times.to_pylist()):
        headers = tuple((one["key"], one["value"]) for one in columns["headers"][n] or ())
        record = Record(columns["value"][n], columns["key"][n], microseconds // 1000, headers)
        rows.append(Row(columns["topic"][n], columns["partition"][n], columns["offset"][n], record))
    return sorted(rows, key=lambda row: row[:3])


def delta_dicts(table: Path) -> list[dict[str, Any]]:
    """The rows of any Delta table."""
    return list(DeltaTable(table).to_pyarrow_table().to_pylist())
