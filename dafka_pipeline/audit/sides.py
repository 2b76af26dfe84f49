"""A side of an audit: what it has, pinned, and how its records are read.

Sides are made by `archive_side`, `kafka_side`, or from any frame by `frame_side`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from dafka_pipeline.audit.coverage import Covered, Kept, clipped
from dafka_pipeline.kafka.cluster import TopicPartition
from dafka_pipeline.ranges import Span

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

COLUMNS: Final = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestamp_type",
    "key",
    "value",
    "headers",
)
"""The columns of every side's records, with the types of `dafka_pipeline.table.layout.SCHEMA`."""
SCHEMA: Final = (
    "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestamp_type INT, key BINARY, "
    "value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
GAPS_SCHEMA: Final = "topic STRING, partition INT, first_offset BIGINT, end_offset BIGINT, reason STRING"

ARCHIVE: Final = "archive"
KAFKA: Final = "kafka"
FRAME: Final = "frame"

Begins = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]]


@dataclass(frozen=True)
class Side:
    """One side. Topics have the names by which both sides are compared, which may not be its own.

    name: as reports call it. kind: ARCHIVE, KAFKA or FRAME.
    topics: those that exist on this side. kept: what it has of each partition.
    records: the records (COLUMNS) of some spans, of which a partition may have several; called more than
        once, with the
        same result each time.
    pin: what repeats the same audit later; goes into the report as it is.
    lags: whether a partition that is not in `kept` may come to it later, as to an archive.
    gaps: offsets that the side is known not to have (GAPS_SCHEMA), with reasons.
    begins: where logs begin at this moment: what retention takes while they are read is told from what is
        missing.
        None where nothing can go. Raises PipelineError when what is read is no more what was pinned.
    strays: records where it says that it has none yet, behind `kept`: how many. They are no record's and
        differ.
    notes: what the report shall say of it.
    """

    name: str
    kind: str
    topics: Collection[str]
    kept: Mapping[TopicPartition, Kept]
    records: Callable[[Sequence[Span]], DataFrame]
    pin: Mapping[str, Any] = field(default_factory=dict)
    lags: bool = False
    gaps: DataFrame | None = None
    begins: Begins | None = None
    strays: Mapping[TopicPartition, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def covered(self) -> Covered:
        """What it has, without how it is read."""
        return Covered(self.topics, self.kept, self.lags)

    def read(self, spark: SparkSession, spans: Collection[Span]) -> DataFrame:
        """The records of the parts of these spans that the side has; nothing is asked about others."""
        parts = clipped(spans, self.kept)
        return self.records(parts) if parts else spark.createDataFrame([], SCHEMA)


def frame_side(
    name: str,
    frame: DataFrame,
    kept: Mapping[TopicPartition, Kept],
    *,
    pin: Mapping[str, Any] | None = None,
    topics: Collection[str] | None = None,
    begins: Begins | None = None,
) -> Side:
    """A side out of any frame that has COLUMNS and gives the same rows each time it is read.

    kept: what the frame is said to have of each partition. A record in these spans that it lacks is a
        difference.
    topics: those that exist; by default those of `kept`.
    """

    def records(spans: Sequence[Span]) -> DataFrame:
        return frame.select(*COLUMNS).where(within(spans))

    return Side(
        name=name,
        kind=FRAME,
        topics={place.topic for place in kept} if topics is None else topics,
        kept=kept,
        records=records,
        pin=pin or {},
        begins=begins,
    )


def within(spans: Collection[Span]) -> Column:
    """Whether a row is in one of these spans, as a condition that tables skip files by."""
    from pyspark.sql import functions as sql

    if not spans:
        return sql.lit(False)
    by_topic: dict[str, dict[int, list[Span]]] = {}
    for span in spans:
        by_topic.setdefault(span.topic, {}).setdefault(span.partition, []).append(span)
    offset = sql.col("offset")
    topics = []
    for topic, partitions in sorted(by_topic.items()):
        parts = [
            (sql.col("partition") == number)
            & either([(offset >= span.start) & (offset < span.end) for span in those])
            for number, those in sorted(partitions.items())
        ]
        topics.append((sql.col("topic") == topic) & either(parts))
    if len(topics) == 1:
        return topics[0]
    # Parquet's readers know nothing of the topic, which is in the names of an archive's folders: alternatives
    # with it in are not pushed down to them, and this is.
    outer = sql.col("topic").isin(sorted(by_topic))
    outer &= (offset >= min(span.start for span in spans)) & (offset < max(span.end for span in spans))
    return outer & either(topics)


def either(conditions: Sequence[Column]) -> Column:
    """Whether one of them holds, as a balanced tree: a chain of a thousand is too deep for Spark."""
    from pyspark.sql import functions as sql

    if len(conditions) < 2:
        return conditions[0] if conditions else sql.lit(False)
    half = len(conditions) // 2
    return either(conditions[:half]) | either(conditions[half:])
