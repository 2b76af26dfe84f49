"""What the archive does not have, in a table of its own, and how a batch finds out that records are missing.

Offsets without a record are nothing unusual: compaction and the markers of transactions leave them, and
Spark's reader passes over them without a word. It does the same, where it is told to, over records that
retention has taken while it read. So a batch with fewer rows than offsets is looked at: what lies before the
log's beginning now was lost; all else was never there.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from dafka_pipeline.archive.plan import RETENTION, Gap
from dafka_pipeline.kafka.cluster import Cluster, TopicPartition
from dafka_pipeline.ranges import Span, holes, span_sum
from dafka_pipeline.table import layout
from dafka_pipeline.table.archive import Archive
from dafka_pipeline.table.log import Commit
from dafka_pipeline.table.state import State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def lost_in(archive: Archive, cluster: Cluster, commit: Commit, state: State) -> list[Gap]:
    """What of the commit's spans was gone before it could be read."""
    if commit.rows == span_sum(state.spans):
        return []
    topics = cluster.topics({span.topic for span in state.spans})
    # A topic that is gone, or another one by now, says nothing about what was lost of this one.
    same = [
        TopicPartition(span.topic, span.partition)
        for span in state.spans
        if (topic := topics.get(span.topic)) is not None
        and span.partition < topic.partitions
        and topic.topic_id == state.topics[span.topic].topic_id
    ]
    first = cluster.first_offsets(same)
    gaps = []
    for span in state.spans:
        begins = first.get(TopicPartition(span.topic, span.partition), span.start)
        if begins <= span.start:
            continue
        gone = span._replace(end=min(span.end, begins))
        topic_id = state.topics[span.topic].topic_id
        gaps += [Gap(hole, topic_id, RETENTION) for hole in _holes(archive, gone, topic_id)]
    return gaps


def _holes(archive: Archive, span: Span, topic_id: str | None) -> list[Span]:
    """Runs without a record; only the ends of runs with one are brought to the driver."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    rows = of_partition(archive.read(), span.topic, topic_id, span.partition)
    rows = rows.where((sql.col("offset") >= span.start) & (sql.col("offset") < span.end)).select("offset")
    # A run of records has the same difference between an offset and its place.
    place = sql.row_number().over(Window.orderBy("offset"))
    runs = rows.select("offset", (sql.col("offset") - place).alias("run")).groupBy("run")
    ends = runs.agg(sql.min("offset").alias("first"), sql.max("offset").alias("last")).orderBy("first")
    found: list[Span] = []
    expected = span.start
    for run in ends.toLocalIterator():
        found += holes(span._replace(start=expected, end=run["first"]), [])
        expected = run["last"] + 1
    return found + holes(span._replace(start=expected), [])


def of_partition(frame: DataFrame, topic: str, topic_id: str | None, partition: int) -> DataFrame:
    """The rows of one partition of one life of a topic."""
    from pyspark.sql import functions as sql

    same_id = sql.col("topic_id").eqNullSafe(sql.lit(topic_id))
    return frame.where((sql.col("topic") == topic) & same_id & (sql.col("partition") == partition))


def record(archive: Archive, gaps: Collection[Gap]) -> None:
    """Add to the table of gaps what is not in it yet. A gap is a fact: it may be told again, and stays one
    row.
    """
    from pyspark.sql import functions as sql

    if not gaps:
        return
    archive.gaps.create(layout.GAPS_SCHEMA)
    rows = [(*gap.span[:2], gap.topic_id, gap.span.start, gap.span.end, gap.reason) for gap in gaps]
    columns = (
        "topic STRING, partition INT, topic_id STRING, first_offset BIGINT, end_offset BIGINT, reason STRING"
    )
    told = archive.spark.createDataFrame(rows, columns)
    there = archive.gaps.read()
    same = [told[name].eqNullSafe(there[name]) for name in told.columns]
    new = told.join(there, same, "left_anti").withColumn("found_at", sql.current_timestamp())
    names = [one.split()[0] for one in layout.GAPS_SCHEMA.split(", ")]
    archive.gaps.add(new.select(*names))
