"""Erasing: records that match a condition go, from every table of the archive, from the disk, and for good.

In this order, so that a kill at any moment leaves something that the next erasure finishes: which offsets go
is written into the table of gaps (an audit then knows that they are missing on purpose), the records are
deleted, then what was made of them (dead letters, decoded rows), then the files that held them. How far the
archive is does not change, so nothing that was erased is read again from Kafka, not even at the end of a
partition.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from dafka_pipeline.archive.plan import ERASED
from dafka_pipeline.compact.files import vacuum
from dafka_pipeline.failures import UsageFailure
from dafka_pipeline.running.fail_points import fail_point
from dafka_pipeline.table import layout
from dafka_pipeline.table.archive import Archive
from dafka_pipeline.table.delta import as_delta
from dafka_pipeline.table.numbered import NumberedTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PLACE: Final = ("topic", "topic_id", "partition")
Committing = Callable[[], AbstractContextManager[None]]


def erase(archive: Archive, condition: str, committing: Committing) -> int:
    """Erase the records for which `condition` (SQL over an archive's columns) is true; how many there were.

    Raises UsageFailure for a condition that is none.
    """
    from pyspark.errors import AnalysisException, ParseException

    try:
        found = archive.read().where(condition)
        count = int(found.count())
    except (AnalysisException, ParseException) as error:
        first = str(error).splitlines()[0]
        raise UsageFailure(
            f"--erase {condition}: {first} The columns are {layout.SCHEMA}; a key is "
            "binary: CAST(key AS STRING) = '...'."
        ) from error
    if count:
        with committing():
            _remember(archive, found)
    fail_point("erase-remembered")
    for table in (archive.records, *_derived(archive)):
        _erase_remembered(archive, table, committing)
        fail_point("erase-deleted")
    for table in (archive.records, *_derived(archive)):
        # Erasing needs a lock, or somebody's word that nobody else writes.
        vacuum(archive.spark, table, 0.0, committing, alone=True)
    return count


def runs(rows: DataFrame) -> DataFrame:
    """Offsets of each partition as runs: (topic, topic_id, partition, first_offset, end_offset)."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    place = sql.row_number().over(Window.partitionBy(*PLACE).orderBy("offset"))
    numbered = rows.select(*PLACE, "offset", (sql.col("offset") - place).alias("run"))
    return numbered.groupBy(*PLACE, "run").agg(
        sql.min("offset").alias("first_offset"), (sql.max("offset") + 1).alias("end_offset")
    )


def _remember(archive: Archive, found: DataFrame) -> None:
    from pyspark.sql import functions as sql

    archive.gaps.create(layout.GAPS_SCHEMA)
    told = runs(found).select(
        *PLACE,
        "first_offset",
        "end_offset",
        sql.lit(ERASED).alias("reason"),
        sql.current_timestamp().alias("found_at"),
    )
    archive.gaps.add(told)


def _erase_remembered(archive: Archive, table: NumberedTable, committing: Committing) -> None:
    """Delete what the table of gaps calls erased, be it from this call or one that was killed: by offsets, so
    that a condition that changes with time cannot mean other records the second time.
    """
    from pyspark.sql import functions as sql

    if not archive.gaps.exists():
        return
    same = " AND ".join(f"there.{name} <=> gone.{name}" for name in PLACE)
    with committing():
        archive.gaps.read().where(sql.col("reason") == ERASED).createOrReplaceTempView("dafka_erased")
        archive.spark.sql(
            f"MERGE INTO {as_delta(table).sql} AS there USING dafka_erased AS gone ON {same} "
            "AND there.offset >= gone.first_offset AND there.offset < gone.end_offset "
            "WHEN MATCHED THEN DELETE"
        ).collect()


def _derived(archive: Archive) -> list[NumberedTable]:
    return [table for table in (archive.dead_letters, *archive.decoded()) if table.exists()]
