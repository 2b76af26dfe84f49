"""Frames of a replay by key: which buckets there are, and the rows of a round with their places."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from dafka_pipeline.ranges import Span
from dafka_pipeline.replay.merging import BEFORE_ALL, Bucket, Merging, Place, Round, bucket_offsets
from dafka_pipeline.replay.murmur import partition_sql
from dafka_pipeline.replay.source import Source, sql_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def merging_of(source: Source, topic: str, spans: Sequence[Span], round_offsets: int) -> Merging:
    """The order of one topic's records: one pass over partition, offset and time."""
    from pyspark.sql.functions import expr

    size = bucket_offsets(spans, round_offsets)
    rows = source.records(spans).selectExpr(
        "partition", f"offset div {size} AS bucket", "unix_millis(timestamp) AS time"
    )
    found = rows.groupBy("partition", "bucket").agg(expr("count(1)"), expr("max(time)")).collect()
    return Merging.of(
        topic,
        (
            Bucket(partition, number * size, (number + 1) * size, records, newest)
            for partition, number, records, newest in found
        ),
    )


def rows_of(source: Source, one: Round, spans: Collection[Span], partitions: int) -> DataFrame:
    """The rows of a round, as `producing` wants them.

    spans: what is replayed at all; buckets reach over its ends. partitions: of the target.
    """
    limits = {span.partition: span for span in spans}
    parts = [
        part.span._replace(
            start=max(part.span.start, limits[part.span.partition].start),
            end=min(part.span.end, limits[part.span.partition].end),
        )
        for part in one.parts
    ]
    seeds = " ".join(f"WHEN {part.span.partition} THEN {_long(part.seed_ms)}" for part in one.parts)
    newest = (
        "max(unix_millis(timestamp)) OVER (PARTITION BY partition ORDER BY offset "
        "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    )
    placed = source.records(parts).selectExpr(
        "*", f"greatest(CASE partition {seeds} END, {newest}) AS newest"
    )
    place = "struct(newest, partition, offset)"
    if one.start is not None:
        placed = placed.where(f"{place} >= {_struct(one.start)}")
    if one.end is not None:
        placed = placed.where(f"{place} < {_struct(one.end)}")
    target = source.selection.targets[one.parts[0].span.topic]
    return placed.selectExpr(
        f"{sql_text(target)} AS target",
        f"{partition_sql('key', str(partitions), 'offset + partition')} AS target_partition",
        "array(newest, CAST(partition AS BIGINT), offset) AS position",
        "timestamp",
        "key",
        "value",
        "headers",
    )


def _struct(place: Place) -> str:
    return f"struct({_long(place.newest_ms)}, {place.partition}, {_long(place.offset)})"


def _long(number: int) -> str:
    # The least one has no literal.
    return "(-9223372036854775807L - 1L)" if number == BEFORE_ALL else f"CAST({number} AS BIGINT)"
