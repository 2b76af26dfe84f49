"""Kafka's rows in Spark, and the records that they should be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.differential.batches import Record

# The executors' consumer gives up sooner than its two minutes, so that a failure is seen.
READER = {"kafkaConsumer.pollTimeoutMs": "20000"}


def read(spark: SparkSession, bootstrap: str, **options: Any) -> DataFrame:
    """A batch read; options as Spark names them."""
    made = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).options(**READER)
    return made.options(**options).load()


def read_stream(spark: SparkSession, bootstrap: str, **options: Any) -> DataFrame:
    made = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).options(**READER)
    return made.options(**options).load()


def topic_stream(spark: SparkSession, bootstrap: str, topic: str, per_batch: str, **more: str) -> DataFrame:
    """A topic from its beginning, so many records a batch."""
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": per_batch}
    return read_stream(spark, bootstrap, **options, **more)


def milliseconds(time: datetime) -> int:
    """Spark's naive local time, in milliseconds since 1970."""
    return round(time.astimezone(UTC).timestamp() * 1000)


def as_records(frame: DataFrame) -> dict[tuple[str, int], list[tuple[int, Record]]]:
    """The (offset, record) pairs of a frame by topic and partition, in offset order."""
    found: dict[tuple[str, int], list[tuple[int, Record]]] = {}
    for row in sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset)):
        headers = tuple((h.key, _bytes(h.value)) for h in row["headers"] or ()) if "headers" in row else ()
        record = Record(_bytes(row.value), _bytes(row.key), milliseconds(row.timestamp), headers)
        found.setdefault((row.topic, row.partition), []).append((row.offset, record))
    return found


def numbered(records: Sequence[Record], start: int = 0) -> list[tuple[int, Record]]:
    return [(start + n, record) for n, record in enumerate(records)]


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def without_headers(records: Iterable[Record]) -> list[Record]:
    return [Record(record.value, record.key, record.timestamp) for record in records]
