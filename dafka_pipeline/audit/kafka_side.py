"""A Kafka as a side: its logs as they are at one moment, for readers of committed records."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from dafka_pipeline.audit.coverage import Kept
from dafka_pipeline.audit.sides import COLUMNS, KAFKA, Side, within
from dafka_pipeline.failures import PipelineError
from dafka_pipeline.kafka.cluster import Cluster, Topic, TopicPartition
from dafka_pipeline.kafka.frames import read_spans
from dafka_pipeline.kafka.options import KafkaOptions
from dafka_pipeline.ranges import Span

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

READS: Final = 4
"""Into how many reads the spans of one partition are divided: each is a plan and consumers of its own, and
what lies between the spans of one read is read with them and dropped."""


def kafka_side(
    spark: SparkSession,
    cluster: Cluster,
    topics: Collection[str],
    *,
    names: Mapping[str, str] | None = None,
    lags: bool = False,
    name: str = "",
) -> Side:
    """The topics of a Kafka, from where each log begins now to where it ends now.

    names: what a topic is called here, by the name that both sides are compared by, where they differ.
    lags: whether records that are missing at the end may come yet, as to a mirror.
    Raises KafkaAway.
    """
    own = {topic: (names or {}).get(topic, topic) for topic in topics}
    there = cluster.topics(set(own.values()))
    found = {topic: there[here] for topic, here in own.items() if here in there}
    places = {
        TopicPartition(topic, number): TopicPartition(one.name, number)
        for topic, one in found.items()
        for number in range(one.partitions)
    }
    first = cluster.first_offsets(places.values())
    end = cluster.end_offsets(places.values())
    kept = {place: Kept(first[here], max(first[here], end[here]), lags) for place, here in places.items()}

    def records(spans: Sequence[Span]) -> DataFrame:
        return _read(spark, cluster.options, spans, own)

    def begins(asked: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        _refuse_others(cluster, found)
        now = cluster.first_offsets([places[place] for place in asked if place in places])
        return {place: now[places[place]] for place in asked if place in places}

    return Side(
        name=name or cluster.options.bootstrap,
        kind=KAFKA,
        topics=found,
        kept=kept,
        records=records,
        pin={
            "bootstrap": cluster.options.bootstrap,
            "topics": {
                topic: {
                    "name": one.name,
                    "id": one.topic_id,
                    "offsets": [list(kept[TopicPartition(topic, n)][:2]) for n in range(one.partitions)],
                }
                for topic, one in sorted(found.items())
            },
        },
        lags=lags,
        begins=begins,
    )


def _read(
    spark: SparkSession, options: KafkaOptions, spans: Sequence[Span], own: Mapping[str, str]
) -> DataFrame:
    """Records of any spans, several of a partition in a few reads."""
    wide = in_few(spans, READS)
    by_place: dict[TopicPartition, list[Span]] = {}
    for span in wide:
        by_place.setdefault(TopicPartition(span.topic, span.partition), []).append(span)
    frames = []
    for number in range(max(len(those) for those in by_place.values())):
        portion = [
            those[number]._replace(topic=own[place.topic])
            for place, those in by_place.items()
            if number < len(those)
        ]
        # A long log is read by all processors, and not by one.
        tasks = len(portion) + spark.sparkContext.defaultParallelism
        # What retention takes meanwhile is told from what is missing by the logs' beginnings after it.
        frames.append(read_spans(spark, options, portion, tasks=tasks, fail_on_loss=False))
    frame = reduce(lambda one, other: one.unionByName(other), frames)
    renamed = {here: topic for topic, here in own.items() if here != topic}
    if renamed:
        frame = frame.replace(renamed, subset=["topic"])
    return frame.select(*COLUMNS) if wide == sorted(spans) else frame.select(*COLUMNS).where(within(spans))


def in_few(spans: Collection[Span], most: int) -> list[Span]:
    """Spans that cover these, no more than so many of each partition: neighbours are joined."""
    by_place: dict[tuple[str, int], list[Span]] = {}
    for span in sorted(spans):
        by_place.setdefault(span[:2], []).append(span)
    return [span for those in by_place.values() for span in _joined(those, most)]


def _joined(spans: list[Span], most: int) -> list[Span]:
    between = sorted(range(1, len(spans)), key=lambda n: spans[n].start - spans[n - 1].end)
    apart = sorted(between[len(spans) - most :]) if len(spans) > most else list(range(1, len(spans)))
    edges = [0, *apart, len(spans)]
    return [spans[first]._replace(end=spans[last - 1].end) for first, last in pairwise(edges)]


def _refuse_others(cluster: Cluster, pinned: Mapping[str, Topic]) -> None:
    """Raises PipelineError when a topic is gone, or is another one under the same name."""
    now = cluster.topics([one.name for one in pinned.values()])
    for one in pinned.values():
        there = now.get(one.name)
        if there is None or (None not in (one.topic_id, there.topic_id) and there.topic_id != one.topic_id):
            what = "deleted" if there is None else "deleted and made again"
            raise PipelineError(f"{one.name} was {what} while it was audited: audit again.")
