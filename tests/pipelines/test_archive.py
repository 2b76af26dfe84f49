"""Topics become a table: every record once, byte for byte, over restarts, by whatever way it ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dafka_pipeline.archive.job import Archiver, Totals
from dafka_pipeline.archive.settings import ArchiveSettings
from dafka_pipeline.kafka.options import KafkaOptions
from dafka_pipeline.running.report import Report
from dafka_pipeline.running.stopping import Stop
from dafka_pipeline.table.location import Location
from tests.clients.sample import records, small_records
from tests.clients.stored import put
from tests.pipelines.dumps import archive_rows, topic_rows

pytestmark = pytest.mark.slow


def archive_once(
    spark: SparkSession, bootstrap: str, to: Path, *topics: str, stop: Stop | None = None, **settings: object
) -> Totals:
    """One run of `archive --once` in this process."""
    made = ArchiveSettings(to=Location.of(str(to)), topics=topics, **settings)  # type: ignore[arg-type]
    report = Report("archive")
    return Archiver(spark, KafkaOptions(bootstrap), made, report, stop or Stop(), patience_seconds=30).run()


def test_every_kind_of_record(spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path) -> None:
    """Null and empty keys and values, headers of all kinds, a megabyte, times that go back."""
    put(bootstrap, topic, records(), per_batch=1)
    archive_once(spark, bootstrap, tmp_path / "a", topic)
    assert archive_rows(tmp_path / "a") == topic_rows(bootstrap, topic)


def test_goes_on_where_the_table_ends(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topics = [new_topic(partitions=3), new_topic(partitions=1)]
    for first, last in [(0, 200), (200, 450), (450, 450), (450, 460)]:
        for topic, partitions in zip(topics, (3, 1), strict=True):
            for partition in range(partitions):
                wanted = small_records(460, f"{topic}{partition}")[first:last]
                put(bootstrap, topic, wanted, partition=partition, codec="zstd", per_batch=20)
        archive_once(spark, bootstrap, tmp_path / "a", *topics, max_batch_bytes=20_000)
        expected = [row for topic, n in zip(topics, (3, 1), strict=True) for row in topic_rows(bootstrap, topic, n)]
        assert archive_rows(tmp_path / "a") == sorted(expected, key=lambda row: row[:3])
