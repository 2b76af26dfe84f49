"""Topics become a table: every record once, byte for byte, run after run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.clients.sample import T0, records, small_records
from tests.clients.stored import create_topic, put
from tests.differential.batches import Record
from tests.pipelines.archiving import all_rows, archive_once
from tests.pipelines.dumps import archive_rows, topic_rows

pytestmark = pytest.mark.slow
YEAR_30000 = 884_541_600_000_000


def test_every_kind_of_record(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Null and empty keys and values, headers of all kinds, a megabyte, times that go back or are none."""
    topic = new_topic(message_timestamp_after_max_ms=str(2**63 - 1))
    put(bootstrap, topic, records(), per_batch=1)
    put(bootstrap, topic, [Record(b"no time", None, -1), Record(b"late", None, YEAR_30000)], per_batch=1)
    archive_once(spark, bootstrap, tmp_path / "a", topic)
    assert archive_rows(tmp_path / "a") == topic_rows(bootstrap, topic)
    protocol = DeltaTable(tmp_path / "a").protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2), "everything can read it"


def test_goes_on_where_the_table_ends(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """In small batches, with several partitions, with nothing new, with a partition that is empty."""
    topics = {new_topic(partitions=3): 3, new_topic(partitions=1): 1}
    for first, last in [(0, 200), (200, 450), (450, 450), (450, 460)]:
        for topic, partitions in topics.items():
            for partition in range(max(1, partitions - 1)):
                wanted = small_records(460, f"{topic}{partition}")[first:last]
                put(bootstrap, topic, wanted, partition=partition, codec="zstd", per_batch=20)
        archive_once(spark, bootstrap, tmp_path / "a", *topics, max_batch_bytes=20_000)
        assert archive_rows(tmp_path / "a") == all_rows(bootstrap, **topics)


def test_a_pattern_takes_topics_up_when_they_come(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """By their whole name, from their beginning, whatever --from says of the first ones."""
    name = new_topic()
    pattern = f"{name}(-late)?"
    put(bootstrap, name, small_records(5))
    archive_once(spark, bootstrap, tmp_path / "a", pattern=pattern, start="latest")
    put(bootstrap, name, small_records(5, "more"))
    late = create_topic(bootstrap, f"{name}-late")
    create_topic(bootstrap, f"{name}-late-too")
    put(bootstrap, late, small_records(3))
    archive_once(spark, bootstrap, tmp_path / "a", pattern=pattern, start="latest")
    expected = [*topic_rows(bootstrap, name)[5:], *topic_rows(bootstrap, late)]
    assert archive_rows(tmp_path / "a") == expected


def test_from_a_time(spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path) -> None:
    put(bootstrap, topic, small_records(30))
    archive_once(spark, bootstrap, tmp_path / "a", topic, start=T0 + 12)
    assert archive_rows(tmp_path / "a") == topic_rows(bootstrap, topic)[12:]


def test_few_files(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Forty partitions with a record each are one file, not forty."""
    topic = new_topic(partitions=40)
    for partition in range(40):
        put(bootstrap, topic, small_records(1, str(partition)), partition=partition)
    archive_once(spark, bootstrap, tmp_path / "a", topic)
    assert len(archive_rows(tmp_path / "a")) == 40
    assert len(DeltaTable(tmp_path / "a").file_uris()) == 1
