"""The end of a replay: what is in the targets now, compared with what the archive has, record by record."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dafka_pipeline.audit.coverage import Kept
from dafka_pipeline.audit.job import audit_frames
from dafka_pipeline.audit.settings import AuditOptions
from dafka_pipeline.audit.sides import COLUMNS, frame_side
from dafka_pipeline.audit.verdict import Verdict
from dafka_pipeline.kafka.cluster import Cluster, TopicPartition
from dafka_pipeline.kafka.frames import read_spans
from dafka_pipeline.producing.stream_file import Stream
from dafka_pipeline.ranges import Span
from dafka_pipeline.replay.selection import KEEP
from dafka_pipeline.replay.source import Source, sql_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Landed:
    """What a replay has put into its targets, read back by its position headers."""

    spark: SparkSession
    cluster: Cluster
    stream: Stream
    spans: Sequence[Span]

    def records(self) -> DataFrame:
        """The own records: COLUMNS of the target, without the own header, and `position`."""
        found = read_spans(self.spark, self.cluster.options, self.spans)
        name, prefix = sql_text(self.stream.header), sql_text(f"{self.stream.stream}|")
        value = "CAST(element_at(headers, -1).value AS STRING)"
        own = f"size(headers) > 0 AND element_at(headers, -1).key = {name} AND startswith({value}, {prefix})"
        numbers = f"split(substring({value}, {len(self.stream.stream) + 2}), '[.]')"
        rest = "IF(size(headers) > 1, slice(headers, 1, size(headers) - 1), NULL)"
        return found.where(own).selectExpr(
            *(name for name in COLUMNS if name != "headers"),
            f"{rest} AS headers",
            f"transform({numbers}, n -> CAST(n AS BIGINT)) AS position",
        )


def landed(spark: SparkSession, cluster: Cluster, stream: Stream) -> Landed:
    """Everything from where the stream began in each target to where the targets end now."""
    floors = {
        TopicPartition(topic, n): floor
        for topic, target in stream.targets.items()
        for n, floor in enumerate(target.floors)
    }
    ends = cluster.end_offsets(floors)
    spans = [Span(*at, floor, ends[at]) for at, floor in sorted(floors.items()) if ends[at] > floor]
    return Landed(spark, cluster, stream, spans)


def audit_replay(source: Source, spans: Collection[Span], found: Landed, options: AuditOptions) -> Verdict:
    """Compare the archive's records with those in the targets, each under its archived place.

    Exactly the replay's own header is passed over, and whether a time was the producer's or the server's.
    """
    selection = source.selection
    kept = {TopicPartition(span.topic, span.partition): Kept(span.start, span.end) for span in spans}
    left = frame_side(source.side.name, source.records(spans), kept, pin=source.side.pin)
    right = frame_side(
        found.cluster.options.bootstrap,
        _as_archived(found, source),
        kept,
        pin={"spans": [list(span) for span in found.spans]},
    )
    del selection
    return audit_frames(found.spark, left, right, options)


def _as_archived(found: Landed, source: Source) -> DataFrame:
    cases = " ".join(
        f"WHEN {sql_text(target)} THEN {sql_text(topic)}"
        for topic, target in sorted(source.selection.targets.items())
    )
    keep = source.selection.partitions == KEEP
    places: Mapping[str, str] = {
        "topic": f"CASE topic {cases} END",
        "partition": "partition" if keep else "CAST(position[1] AS INT)",
        "offset": "position[0]" if keep else "position[2]",
    }
    return found.records().selectExpr(*(f"{places.get(name, name)} AS {name}" for name in COLUMNS))
