"""What a gateway shows to Prometheus of its topics, of groups' lag, and of partitions that lack something.

All of it is what the last round of the survey found (`dafka.processes.survey`): a scrape reads it and sums
nothing up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from dafka.processes.survey import GroupTopic, Survey, TopicFigures
from gateway.common.metrics import Counter, Figure, Gauge, Metrics
from gateway.groups.lag import PartitionLag, TopicLag


def register_survey(metrics: Metrics, survey: Survey) -> None:
    """Register all that the survey finds; what is shown by partition too, if it is to be found."""
    metrics.register(PARTITIONS, survey)
    metrics.register(TOPICS, survey)
    metrics.register(LAG, survey)
    if survey.by_partition:
        metrics.register(LAG_BY_PARTITION, survey)


def _topics(read: Callable[[TopicFigures], float]) -> Callable[[Survey], Iterator[tuple[tuple[str], float]]]:
    return lambda survey: ((name, read(topic)) for name, topic in survey.found.topics.items())


def _groups(read: Callable[[TopicLag], float]) -> Callable[[Survey], Iterator[tuple[GroupTopic, float]]]:
    return lambda survey: ((key, read(lag)) for key, lag in survey.found.groups.items())


def _lags(read: Callable[[TopicLag], float]) -> Callable[[Survey], Iterator[tuple[GroupTopic, float]]]:
    """Of those only of which anything is known: what is not known is not 0."""
    return lambda survey: ((key, read(lag)) for key, lag in survey.found.groups.items() if lag.partitions)


def _each(
    read: Callable[[PartitionLag], float],
) -> Callable[[Survey], Iterator[tuple[tuple[str, str, str], float]]]:
    return lambda survey: ((key, read(lag)) for key, lag in survey.found.partitions)


PARTITIONS: Final[Sequence[Figure[Survey]]] = (
    Gauge("dafka_partitions", "Partitions of all topics.", lambda survey: survey.found.partition_count),
    Gauge(
        "dafka_partitions_offline",
        "Partitions that take no records: they are being recovered, or wait for stores.",
        lambda survey: survey.found.offline,
    ),
    Gauge(
        "dafka_partitions_under_replicated",
        "Partitions some of whose stores are away, or that have fewer stores than their topic wants.",
        lambda survey: survey.found.under_replicated,
    ),
    Gauge(
        "dafka_partitions_under_min_copies",
        "Partitions of which so many stores are away that acks=all is refused.",
        lambda survey: survey.found.under_min,
    ),
    Gauge(
        "dafka_dropped_series",
        "Topics, groups and partitions of groups that are not shown by name, because there are too many.",
        lambda survey: survey.found.dropped,
        ("kind",),
    ),
)
"""What partitions lack, and what is not shown."""

TOPICS: Final[Sequence[Figure[Survey]]] = (
    Counter(
        "dafka_topic_in_records_total",
        "Records appended, by topic.",
        _topics(lambda topic: topic.in_records),
        ("topic",),
    ),
    Counter(
        "dafka_topic_in_bytes_total",
        "Bytes of their batches, as they were sent.",
        _topics(lambda topic: topic.in_bytes),
        ("topic",),
    ),
    Counter(
        "dafka_topic_out_bytes_total",
        "Bytes of batches that consumers were given, by topic.",
        _topics(lambda topic: topic.out_bytes),
        ("topic",),
    ),
    Gauge(
        "dafka_topic_log_bytes",
        "Bytes of the batches that a topic keeps, each counted once however many stores have it.",
        _topics(lambda topic: topic.log_bytes),
        ("topic",),
    ),
)
"""What goes in and out of topics."""

LAG: Final[Sequence[Figure[Survey]]] = (
    Gauge("dafka_group_members", "Members of a group.", lambda survey: survey.found.members, ("group",)),
    Gauge(
        "dafka_group_lag_records",
        "Records that a group has not committed, of all partitions of the topic that it has committed in.",
        _lags(lambda lag: lag.records),
        ("group", "topic"),
    ),
    Gauge(
        "dafka_group_lag_seconds",
        "Age of the oldest record that a group has not committed, of the partition where it is oldest.",
        _lags(lambda lag: lag.seconds),
        ("group", "topic"),
    ),
    Gauge(
        "dafka_group_lost_records",
        "Records that were deleted before the group has committed them: its offset is below the log's start.",
        _lags(lambda lag: lag.lost),
        ("group", "topic"),
    ),
    Gauge(
        "dafka_group_position_records",
        "Sum of a group's committed offsets over the partitions of a topic: how fast it grows is its pace.",
        _groups(lambda lag: lag.position),
        ("group", "topic"),
    ),
    Gauge(
        "dafka_group_lag_unknown_partitions",
        "Partitions in which a group has committed, and whose log's end is not known at present: they are in "
        "no sum of its lag.",
        _groups(lambda lag: lag.unknown),
        ("group", "topic"),
    ),
)
"""How far groups are behind."""

LAG_BY_PARTITION: Final[Sequence[Figure[Survey]]] = (
    Gauge(
        "dafka_group_partition_lag_records",
        "Records that a group has not committed, by partition.",
        _each(lambda lag: lag.records),
        ("group", "topic", "partition"),
    ),
    Gauge(
        "dafka_group_partition_lag_seconds",
        "Age of the oldest record that a group has not committed, by partition.",
        _each(lambda lag: lag.seconds),
        ("group", "topic", "partition"),
    ),
    Gauge(
        "dafka_group_partition_committed_offset",
        "The offset that a group has committed, by partition.",
        _each(lambda lag: lag.committed),
        ("group", "topic", "partition"),
    ),
)
"""The same by partition: many series, so only where it is asked for."""
