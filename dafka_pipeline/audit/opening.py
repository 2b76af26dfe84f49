"""From what a user asked for to two pinned sides, and the audit of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dafka_pipeline.audit.archive_side import archive_side
from dafka_pipeline.audit.coverage import SIDES
from dafka_pipeline.audit.failing import explained
from dafka_pipeline.audit.job import audit_frames
from dafka_pipeline.audit.kafka_side import kafka_side
from dafka_pipeline.audit.limits import Limits, limits_of
from dafka_pipeline.audit.naming import Named, named
from dafka_pipeline.audit.settings import RANGE_OFFSETS, ROWS, AuditOptions
from dafka_pipeline.audit.sides import ARCHIVE, Side
from dafka_pipeline.audit.verdict import Verdict
from dafka_pipeline.failures import Stopped, UsageFailure
from dafka_pipeline.kafka.cluster import Cluster
from dafka_pipeline.kafka.options import KafkaOptions
from dafka_pipeline.running.waiting import patiently
from dafka_pipeline.table.location import Location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dafka_pipeline.commands.options import Run


@dataclass(frozen=True)
class Asked:
    """What the command was given; see its options."""

    left: str
    right: str
    topics: tuple[str, ...] = ()
    mapped: Mapping[str, str] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    right_topic_ids: Mapping[str, str] = field(default_factory=dict)
    right_kafka: Mapping[str, str] = field(default_factory=dict)
    start: str | None = None
    end: str | None = None
    lagging: str = ""
    range_offsets: int = RANGE_OFFSETS
    compacted: bool = False
    ignore_type: bool = False
    strong: bool = False
    rows: int = ROWS
    contents: bool = True


def audited(spark: SparkSession, asked: Asked, run: Run) -> Verdict:
    """The verdict. Raises KafkaAway when the patience with a Kafka is over, Stopped when the end is asked
    for.
    """

    def check() -> None:
        if run.stop.asked:
            raise Stopped("The audit was asked to stop.")

    def whole() -> Verdict:
        check()
        with explained():
            left, right, limits = both_sides(spark, asked, run.kafka)
            options = AuditOptions(
                topics=asked.topics,
                range_offsets=asked.range_offsets,
                strong=asked.strong,
                compacted=asked.compacted,
                ignore_type=asked.ignore_type,
                rows=asked.rows,
                contents=asked.contents,
                limits=limits,
                say=run.report.say,
                check=check,
            )
            return audit_frames(spark, left, right, options)

    # A Kafka that goes away in the middle costs a new start: sums of half a log are worth nothing.
    return patiently(whole, run.stop, run.report, run.patience_seconds)


def both_sides(spark: SparkSession, asked: Asked, kafka: KafkaOptions) -> tuple[Side, Side, Limits]:
    """Both sides, pinned, archives first: what an archive has, its topic has. And what `--from` and `--to`
    mean.

    Raises Refused, UsageFailure, KafkaAway.
    """
    given = [named(one, _is_directory) for one in (asked.left, asked.right)]
    names: list[Mapping[str, str]] = [{}, asked.mapped]
    sides = [
        None if one.bootstrap else _archive(spark, one, asked.topics, names[number], ids)
        for number, (one, ids) in enumerate(zip(given, _ids(asked, given), strict=True))
    ]
    clusters = [
        Cluster(_reached(kafka, one.bootstrap, asked.right_kafka if number else {}))
        if one.bootstrap
        else None
        for number, one in enumerate(given)
    ]
    topics = asked.topics or _all_topics(sides, clusters, asked.mapped)
    for number, cluster in enumerate(clusters):
        if cluster is not None:
            lags = asked.lagging in {"both", SIDES[number]}
            sides[number] = kafka_side(spark, cluster, topics, names=names[number], lags=lags)
    left, right = (side for side in sides if side is not None)
    first = left if left.kind == ARCHIVE or right.kind != ARCHIVE else right
    return left, right, limits_of(spark, first, asked.start, asked.end)


def _ids(asked: Asked, given: Sequence[Named]) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Which lives of topics are asked for, of each side."""
    left, right = given
    if left.archive:
        return asked.topic_ids, asked.right_topic_ids
    if right.archive:
        return {}, {**asked.topic_ids, **asked.right_topic_ids}
    if asked.topic_ids or asked.right_topic_ids:
        raise UsageFailure("--topic-id chooses among what an archive has, and no side is one.")
    return {}, {}


def _archive(
    spark: SparkSession, one: Named, topics: Collection[str], names: Mapping[str, str], ids: Mapping[str, str]
) -> Side:
    location = Location.of(one.archive)
    if not topics and names:
        # All of them, each under the name that the other side has for it.
        everything = archive_side(spark, location, version=one.version).topics
        called = {name: topic for topic, name in names.items()}
        topics = [called.get(name, name) for name in everything]
    return archive_side(spark, location, topics, version=one.version, names=names, topic_ids=ids)


def _all_topics(
    sides: Sequence[Side | None], clusters: Sequence[Cluster | None], mapped: Mapping[str, str]
) -> list[str]:
    """The topics of the archives; where there is none, those of both Kafkas, by the left one's names."""
    archives = [side for side in sides if side is not None]
    if archives:
        return sorted({topic for side in archives for topic in side.topics})
    left, right = (cluster.names() for cluster in clusters if cluster is not None)
    called = {name: topic for topic, name in mapped.items()}
    return sorted({*left, *(called.get(name, name) for name in right)})


def _reached(kafka: KafkaOptions, bootstrap: str, properties: Mapping[str, str]) -> KafkaOptions:
    return KafkaOptions(bootstrap, properties or kafka.properties, {} if properties else kafka.librdkafka)


def _is_directory(name: str) -> bool:
    return Path(name).is_dir()
