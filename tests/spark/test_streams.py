"""Structured Streaming: availableNow, patterns, Kafka to Kafka."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.clients.sample import small_records
from tests.clients.stored import create_topic, put, stored_records
from tests.spark.frames import as_records, numbered, read_stream

pytestmark = pytest.mark.slow
SECONDS = 60


def to_parquet(frame: DataFrame, folder: Path, **trigger: Any) -> StreamingQuery:
    writer = frame.writeStream.format("parquet").option("path", str(folder / "sink"))
    return writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(**trigger).start()


def finish(query: StreamingQuery) -> int:
    """Waits for an availableNow query to end by itself; the number of batches it ran."""
    assert query.awaitTermination(SECONDS)
    assert query.exception() is None
    return len([p for p in query.recentProgress if p["numInputRows"]])


def sink(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.read.parquet(str(folder / "sink"))


def test_available_now(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """In several batches, then again with more: each record once."""
    topic = new_topic(partitions=2)
    wanted = small_records(300)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "100"}
    frame = read_stream(spark, bootstrap, **options)
    for first, last in [(0, 200), (200, 300)]:
        for partition in (0, 1):
            put(bootstrap, topic, wanted[first:last], partition=partition, codec="lz4")
        batches = finish(to_parquet(frame, tmp_path, availableNow=True))
        assert batches >= 2
        expected = {(topic, partition): numbered(wanted[:last]) for partition in (0, 1)}
        assert as_records(sink(spark, tmp_path)) == expected


def test_starts_at_the_end_by_default(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    wanted = small_records(30)
    put(bootstrap, topic, wanted[:10])
    frame = read_stream(spark, bootstrap, subscribe=topic)
    finish(to_parquet(frame, tmp_path, availableNow=True))
    put(bootstrap, topic, wanted[10:])
    finish(to_parquet(frame, tmp_path, availableNow=True))
    assert as_records(sink(spark, tmp_path)) == {(topic, 0): numbered(wanted[10:], 10)}


def test_subscribe_pattern(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """A topic that is made while the query runs is read from its beginning."""
    first = new_topic(suffix="-first")
    prefix = first.removesuffix("-first")
    wanted = small_records(20)
    put(bootstrap, first, wanted)
    options = {
        "subscribePattern": f"{prefix}-.*",
        "startingOffsets": "earliest",
        "kafka.metadata.max.age.ms": "500",
    }
    query = to_parquet(read_stream(spark, bootstrap, **options), tmp_path, processingTime="100 milliseconds")
    try:
        query.processAllAvailable()
        second = create_topic(bootstrap, f"{prefix}-second", 2)
        create_topic(bootstrap, f"x{prefix}-third")
        put(bootstrap, second, wanted, partition=1)
        put(bootstrap, first, wanted)
        query.processAllAvailable()
    finally:
        query.stop()
    expected = {(first, 0): numbered(wanted + wanted), (second, 1): numbered(wanted)}
    assert as_records(sink(spark, tmp_path)) == expected


def test_kafka_to_kafka(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, target = new_topic(suffix="-source"), new_topic(suffix="-target")
    wanted = small_records(500)
    put(bootstrap, source, wanted, codec="zstd", per_batch=50)
    frame = read_stream(
        spark, bootstrap, subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="200"
    )
    writer = frame.selectExpr("key", "upper(cast(value as string)) as value").writeStream.format("kafka")
    writer = writer.option("kafka.bootstrap.servers", bootstrap).option("topic", target)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    finish(writer.start())
    found = [(record.key, record.value) for _, record in stored_records(bootstrap, target)]
    assert found == [(record.key, (record.value or b"").upper()) for record in wanted]


def test_counts_by_key(spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path) -> None:
    """State over a restart of the query: counts are exact."""
    frame = read_stream(spark, bootstrap, subscribe=topic, startingOffsets="earliest")
    counts = frame.selectExpr("cast(cast(key as string) as int) % 7 as key").groupBy("key").count()
    for n in (1, 2):
        put(bootstrap, topic, small_records(70))
        writer = counts.writeStream.format("memory").queryName(f"counts{n}").outputMode("complete")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        finish(writer.trigger(availableNow=True).start())
        found = {row.key: row["count"] for row in spark.table(f"counts{n}").collect()}
        assert found == dict.fromkeys(range(7), 10 * n)
