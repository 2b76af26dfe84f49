"""`--from` and `--to`: offsets for all partitions, or times that each side pins as offsets once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dafka_pipeline.audit.coverage import Kept
from dafka_pipeline.audit.sides import Side
from dafka_pipeline.kafka.cluster import TopicPartition
from dafka_pipeline.ranges import Span
from dafka_pipeline.units import milliseconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Limits = Mapping[TopicPartition, tuple[int | None, int | None]]


def limits_of(spark: SparkSession, side: Side, start: str | None, end: str | None) -> Limits:
    """From where and up to where each partition is compared, by what `side` has.

    A time means the first offset whose record is of that time or later, as it does for Kafka's own look-up.
    Raises UsageFailure for what is neither an offset nor a time.
    """
    if start is None and end is None:
        return {}
    first = _offsets(spark, side, start, "--from")
    last = _offsets(spark, side, end, "--to")
    return {place: (first.get(place), last.get(place)) for place in side.kept}


def _offsets(spark: SparkSession, side: Side, given: str | None, flag: str) -> Mapping[TopicPartition, int]:
    if given is None:
        return {}
    if given.isdecimal():
        return dict.fromkeys(side.kept, int(given))
    at = milliseconds(given, flag)
    found = _first_since(spark, side, at)
    return {place: found.get(place, kept.end) for place, kept in side.kept.items()}


def _first_since(spark: SparkSession, side: Side, at: int) -> Mapping[TopicPartition, int]:
    """The first offset of a record that is not older, where there is one."""
    from pyspark.sql import functions as sql

    spans = [Span(*place, kept.start, kept.end) for place, kept in side.kept.items() if _some(kept)]
    frame = side.read(spark, spans).where(f"unix_millis(timestamp) >= {at}")
    rows = frame.groupBy("topic", "partition").agg(sql.min("offset").alias("first")).collect()
    return {TopicPartition(row["topic"], row["partition"]): row["first"] for row in rows}


def _some(kept: Kept) -> bool:
    return kept.end > kept.start
