"""Many small files become few large ones, a day of a topic at a time; files that no version needs any more
go.

Days that are closed are compacted: nobody appends to them. Each is a commit of its own, so that an archiver
on the same machine waits for one of them at most. Compaction changes no row, and says nothing about how far
the archive is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import date
from typing import TYPE_CHECKING, Final, NamedTuple

from dafka_pipeline.running.stopping import Stop
from dafka_pipeline.table.delta import as_delta
from dafka_pipeline.table.numbered import NumberedTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE_BYTES: Final = 128 << 20
"""What a compacted file has: large enough that opening it costs nothing, small enough for a task's memory."""
SMALL: Final = FILE_BYTES * 3 // 4
"""A file below this is small; a day with two of them is worth a rewrite."""
HOUR: Final = 3600.0
SAFE_SECONDS: Final = 86400.0
"""No batch takes a day: files that are older belong to a commit, or to none."""


class Day(NamedTuple):
    """A closed day of a topic with small files."""

    topic: str
    archived_on: date
    files: int


def days_to_compact(table: NumberedTable, before: date) -> list[Day]:
    """Those before that day which have two small files or more, oldest first."""
    from pyspark.sql import functions as sql

    files = as_delta(table).files()
    day = sql.col("partitionValues")["archived_on"].cast("date")
    small = files.where((sql.col("size") < SMALL) & (day < sql.lit(before)))
    topic, topic_id = (sql.col("partitionValues")[name].alias(name) for name in ("topic", "topic_id"))
    # Lives of a topic lie apart, and their files are never joined.
    several = small.groupBy(topic, topic_id, day.alias("archived_on")).count().where("count > 1")
    days = several.groupBy("topic", "archived_on").agg(sql.sum("count").alias("files"))
    rows = days.orderBy("archived_on", "topic").collect()
    return [Day(row["topic"], row["archived_on"], row["files"]) for row in rows]


def compact_days(
    spark: SparkSession,
    table: NumberedTable,
    before: date,
    committing: Callable[[], AbstractContextManager[None]],
    stop: Stop,
) -> list[Day]:
    """Rewrite the small files of closed days; the days that were compacted."""
    spark.conf.set("spark.databricks.delta.optimize.maxFileSize", str(FILE_BYTES))
    spark.conf.set("spark.databricks.delta.optimize.minFileSize", str(SMALL))
    done = []
    for day in days_to_compact(table, before):
        if stop.asked:
            break
        topic = day.topic.replace("\\", "\\\\").replace("'", "\\'")
        where = f"topic = '{topic}' AND archived_on = DATE '{day.archived_on}'"
        with committing():
            spark.sql(f"OPTIMIZE {as_delta(table).sql} WHERE {where}").collect()
        done.append(day)
    return done


def vacuum(
    spark: SparkSession,
    table: NumberedTable,
    retain_seconds: float,
    committing: Callable[[], AbstractContextManager[None]],
    *,
    alone: bool,
) -> None:
    """Remove files that no version of the last `retain_seconds` needs. Older versions cannot be read any
    more.

    alone: nobody writes a batch meanwhile. Then what killed tasks have left goes at once, too.
    """
    # Delta refuses less than a week unless it is told that this is meant. An archive's writers hold a lock
    # (or are one process), so that no file of an unfinished commit is taken for an old one.
    check = "spark.databricks.delta.retentionDurationCheck.enabled"
    before = spark.conf.get(check, "true")
    spark.conf.set(check, "false")
    try:
        with committing():
            spark.sql(f"VACUUM {as_delta(table).sql} RETAIN {retain_seconds / HOUR} HOURS").collect()
            as_delta(table).remove_unfinished(0.0 if alone else SAFE_SECONDS)
    finally:
        spark.conf.set(check, before)
