"""Runs of the archive job in this process, whole ones and ones that die on the way."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dafka_pipeline.archive import batch, job, opening
from dafka_pipeline.archive.job import Archiver, Totals
from dafka_pipeline.archive.settings import ArchiveSettings
from dafka_pipeline.kafka.options import KafkaOptions
from dafka_pipeline.running.report import Report
from dafka_pipeline.running.stopping import Stop
from dafka_pipeline.table import delta, parquet
from dafka_pipeline.table.location import Location
from tests.pipelines.dumps import Row, topic_rows
from tests.pipelines.dying import Killed, dying_at

PATIENCE_SECONDS = 30.0


def archiver(
    spark: SparkSession,
    bootstrap: str,
    to: Path | Location,
    *topics: str,
    stop: Stop | None = None,
    **settings: Any,
) -> Archiver:
    """The job on these topics; what it says is in `said`, should somebody ask."""
    place = to if isinstance(to, Location) else Location.of(str(to))
    made = ArchiveSettings(to=place, topics=topics, **settings)
    report = Report("archive", out=io.StringIO())
    options = KafkaOptions(bootstrap)
    return Archiver(spark, options, made, report, stop or Stop(), patience_seconds=PATIENCE_SECONDS)


def archive_once(
    spark: SparkSession, bootstrap: str, to: Path | Location, *topics: str, **settings: Any
) -> Totals:
    """`archive --once`."""
    return archiver(spark, bootstrap, to, *topics, **settings).run()


@contextmanager
def killed_at(place: str, time: int = 1) -> Iterator[None]:
    """The block dies at the fail point, at that time of passing it."""
    with dying_at(place, time, (batch, job, opening, delta, parquet)), pytest.raises(Killed):
        yield


def all_rows(bootstrap: str, **partitions: int) -> list[Row]:
    """What the archive of these topics (name=partitions) has to hold."""
    rows = [row for topic, count in partitions.items() for row in topic_rows(bootstrap, topic, count)]
    return sorted(rows, key=lambda row: row[:3])
