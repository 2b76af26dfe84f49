"""The archive's side of a replay: one version of it, and what is asked for of that."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from dafka_pipeline.audit.archive_side import archive_side
from dafka_pipeline.audit.sides import Side
from dafka_pipeline.failures import Refused
from dafka_pipeline.kafka.cluster import TopicPartition
from dafka_pipeline.ranges import Span
from dafka_pipeline.replay.selection import Selection
from dafka_pipeline.table.location import Location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Facts(NamedTuple):
    """What the records of one topic are like. Times in milliseconds; zeros: records of the time 0."""

    records: int
    oldest_ms: int
    newest_ms: int
    zeros: int


@dataclass(frozen=True)
class Source:
    """Records of an archive, the same ones each time they are read."""

    spark: SparkSession
    side: Side
    selection: Selection

    @property
    def version(self) -> int:
        return int(self.side.pin["version"])

    @property
    def topic_ids(self) -> dict[str, str]:
        return {topic: one["id"] or "" for topic, one in self.side.pin["topics"].items()}

    def spans(self) -> list[Span]:
        """All that is asked for."""
        there = [Span(*place, kept.start, kept.end) for place, kept in sorted(self.side.kept.items())]
        return self.selection.spans(there)

    def places(self) -> set[TopicPartition]:
        """Partitions that are replayed, those without a record, too."""
        if self.selection.offsets:
            return {TopicPartition(span.topic, span.partition) for span in self.spans()}
        return set(self.side.kept)

    def records(self, spans: Collection[Span]) -> DataFrame:
        """In the columns of `audit.sides.COLUMNS`, with the times that are sent."""
        found = self.side.read(self.spark, spans)
        milliseconds = "unix_millis(timestamp)"
        if self.selection.start_ms is not None:
            found = found.where(f"{milliseconds} >= {self.selection.start_ms}")
        if self.selection.end_ms is not None:
            found = found.where(f"{milliseconds} < {self.selection.end_ms}")
        if self.selection.zero_as_ms is not None:
            sent = f"IF({milliseconds} = 0, timestamp_millis({self.selection.zero_as_ms}), timestamp)"
            found = found.selectExpr(
                *(f"{sent} AS timestamp" if name == "timestamp" else name for name in found.columns)
            )
        return found

    def kept(self, spans: Collection[Span]) -> DataFrame:
        """The rows of a replay into the same partitions, as `producing` wants them."""
        return self.records(spans).selectExpr(
            f"{self.target_sql()} AS target",
            "partition AS target_partition",
            "array(offset) AS position",
            "timestamp",
            "key",
            "value",
            "headers",
        )

    def target_sql(self) -> str:
        """An expression for where a record of `topic` goes."""
        cases = " ".join(
            f"WHEN {sql_text(topic)} THEN {sql_text(target)}"
            for topic, target in sorted(self.selection.targets.items())
        )
        return f"CASE topic {cases} END"

    def facts(self, spans: Collection[Span]) -> dict[str, Facts]:
        """One pass over the times."""
        times = self.records(spans).selectExpr("topic", "unix_millis(timestamp) AS time")
        found = times.groupBy("topic").agg(
            *(_expr(text) for text in ("count(1)", "min(time)", "max(time)", "count_if(time = 0)"))
        )
        return {row[0]: Facts(*row[1:]) for row in found.collect()}


def open_source(spark: SparkSession, location: Location, selection: Selection, version: int | None) -> Source:
    """Raises Refused where the archive has no such topic, UsageFailure where it has no such version."""
    topics = sorted(selection.targets)
    side = archive_side(spark, location, topics, version=version, topic_ids=selection.topic_ids)
    missing = sorted(set(topics) - set(side.topics))
    if missing:
        raise Refused(f"{location} has no topic {', '.join(missing)}. {_there(spark, location)}")
    return Source(spark, side, selection)


def _there(spark: SparkSession, location: Location) -> str:
    names: Sequence[str] = sorted(archive_side(spark, location).topics)
    return f"It has {', '.join(names[:20])}{' and others' if len(names) > 20 else ''}." if names else ""


def sql_text(text: str) -> str:
    """A text as a literal of Spark's SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _expr(text: str) -> object:
    from pyspark.sql.functions import expr

    return expr(text)
