"""One batch: the records of some spans, from Kafka into the archive, in one commit.

It runs on a state and leaves the next. Everything is read once, by one action; whatever goes wrong in it, the
table has all of the batch or nothing.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from dafka_pipeline.archive.settings import FILE_BYTES
from dafka_pipeline.failures import Refused
from dafka_pipeline.kafka.frames import read_spans
from dafka_pipeline.kafka.options import KafkaOptions
from dafka_pipeline.ranges import Span
from dafka_pipeline.running.fail_points import fail_point
from dafka_pipeline.spark.observed import Observed
from dafka_pipeline.table.archive import Archive
from dafka_pipeline.table.data_files import NULL
from dafka_pipeline.table.log import Commit
from dafka_pipeline.table.state import State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

UNKNOWN_WEIGHT: Final = 100_000.0
"""Bytes that a record counts for when no sample came in time: the first batch of the topic is small then."""
NEWEST_WEIGHT: Final = 0.5
"""How much a batch's own average moves the one that is kept."""


@dataclass(frozen=True)
class Done:
    """A batch that is in the table. seconds: how long reading and writing took together."""

    commit: Commit
    state: State
    seconds: float


def run_batch(
    archive: Archive, kafka: KafkaOptions, state: State, spans: Collection[Span], *, loss_is_fine: bool
) -> Done:
    """Add the records of `spans` and commit the state after them.

    Raises Superseded, or what Spark raises; then the table has nothing of it, unless a later look at its
    newest commit says otherwise.
    """
    from pyspark.sql import functions as sql

    began = time.monotonic()
    if not spans:
        after = state.after(())
        return Done(archive.records.append(None, after.number, after.to_json()), after, 0.0)
    measured = Observed()
    lengths = [sql.coalesce(sql.octet_length(name), sql.lit(0)) for name in ("key", "value")]
    # The driver's day, the same in all tasks and for as long as this batch takes.
    day = time.strftime("%Y-%m-%d", time.gmtime())
    frame = measured.over(
        _records(archive, kafka, state, spans, day, loss_is_fine=loss_is_fine),
        sql.sum(lengths[0] + lengths[1]).alias("bytes"),
        sql.count(sql.lit(1)).alias("rows"),
    )
    after = state.after(spans)
    fail_point("archive-before-commit")
    commit = archive.records.append(
        frame,
        after.number,
        after.to_json(),
        _constant(state, spans, day),
        measured.rows,
    )
    fail_point("archive-after-commit")
    seen = measured.get()
    weights = _weights(state, {span.topic for span in spans}, seen["bytes"] or 0, seen["rows"])
    return Done(commit, replace(after, weights=weights), time.monotonic() - began)


def cost(state: State, topics: Collection[str]) -> dict[str, float]:
    """Bytes that an offset of each topic is reckoned with."""
    return {name: state.weights.get(name, UNKNOWN_WEIGHT) for name in topics}


def files_for(expected_bytes: float) -> int:
    """How many files a batch becomes: one for a trickle, more for a load."""
    return max(1, int(expected_bytes // FILE_BYTES) + 1)


def _records(
    archive: Archive,
    kafka: KafkaOptions,
    state: State,
    spans: Collection[Span],
    day: str,
    *,
    loss_is_fine: bool,
) -> DataFrame:
    from pyspark.sql import functions as sql

    weights = cost(state, {span.topic for span in spans})
    files = files_for(sum(weights[span.topic] * span.length for span in spans))
    frame = read_spans(
        archive.spark,
        kafka,
        spans,
        tasks=min(files, archive.spark.sparkContext.defaultParallelism),
        fail_on_loss=not loss_is_fine,
        group=_group(state, {span.topic for span in spans}),
    )
    if len(spans) > files:
        frame = frame.coalesce(files)
    ids = {span.topic: state.topics[span.topic].topic_id for span in spans}
    topic_id = sql.create_map(*[sql.lit(text) for pair in ids.items() for text in pair])[sql.col("topic")]
    if len(ids) == 1:
        topic_id = sql.lit(next(iter(ids.values())))
    return frame.select(
        "topic",
        topic_id.cast("string").alias("topic_id"),
        *("partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers"),
        sql.lit(day).cast("date").alias("archived_on"),
    )


def _constant(state: State, spans: Collection[Span], day: str) -> dict[str, str | None]:
    """The values of the archive's partition columns that all rows of a batch have. The day is the first, so
    that folders lie in the same order in all batches.
    """
    topics = {span.topic for span in spans}
    if NULL in topics:
        raise Refused(
            f"A topic cannot be archived under the name {NULL}, which stands for no topic: leave it out."
        )
    if len(topics) > 1:
        return {"archived_on": day}
    topic = topics.pop()
    return {"archived_on": day, "topic": topic, "topic_id": state.topics[topic].topic_id}


def _group(state: State, topics: Collection[str]) -> str:
    """Executors keep consumers, and what these have fetched, by this name: another topic of a name has
    another.
    """
    ids = ",".join(f"{name}={state.topics[name].topic_id}" for name in sorted(topics))
    return f"dafka-archive-{state.archive}-{zlib.crc32(ids.encode()):08x}"


def _weights(state: State, topics: Collection[str], bytes_: int, rows: int) -> dict[str, float]:
    weights = dict(state.weights)
    if rows:
        average = max(1.0, bytes_ / rows)
        for name in topics:
            weights[name] = average + (weights.get(name, average) - average) * (1 - NEWEST_WEIGHT)
    return weights
