"""Committed offsets of archived groups, mapped to where their next record is in the targets."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dafka_pipeline.failures import Refused
from dafka_pipeline.kafka.cluster import ANSWER_SECONDS, Cluster, TopicPartition, asked
from dafka_pipeline.replay.auditing import Landed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PLACES_AT_MOST: Final = 100_000
"""Pairs of group and partition: they are looked up at a time, on the driver."""


class Committed(NamedTuple):
    """What a group had committed in a source partition; `target` is where that partition went."""

    group: str
    target: TopicPartition
    offset: int
    metadata: str


class Mapped(NamedTuple):
    """What a group is to have committed in the target."""

    group: str
    target: TopicPartition
    offset: int
    metadata: str


def archived_groups(
    text: str | None, targets: Mapping[str, str], replayed: Collection[TopicPartition]
) -> list[Committed]:
    """From `_pipeline/groups.json`: what groups had committed in these partitions. Pure.

    Raises Refused where the archive knows nothing of groups.
    """
    if text is None:
        raise Refused(
            "--groups: the archive has no committed offsets (_pipeline/groups.json). It was written without "
            "the right to see groups, or by hand: leave --groups out."
        )
    found: dict[str, Any] = json.loads(text)["groups"]
    made = [
        Committed(group, TopicPartition(targets[topic], int(partition)), one["offset"], one["metadata"])
        for group, topics in sorted(found.items())
        for topic, partitions in sorted(topics.items())
        for partition, one in partitions.items()
        if TopicPartition(topic, int(partition)) in replayed
    ]
    if len(made) > PLACES_AT_MOST:
        raise Refused(f"--groups: {len(made):,} committed offsets are more than {PLACES_AT_MOST:,}.")
    return sorted(made)


def mapped(committed: Collection[Committed], found: Landed) -> list[Mapped]:
    """For each the offset of the first record in the target that the group had not read; else the end."""
    if not committed:
        return []
    wanted = sorted({(*one.target, one.offset) for one in committed})
    firsts = {(row.topic, row.partition, row.wanted): row.first for row in _firsts(found, wanted).collect()}
    ends = {TopicPartition(span.topic, span.partition): span.end for span in found.spans}
    floors = {
        TopicPartition(topic, n): floor
        for topic, target in found.stream.targets.items()
        for n, floor in enumerate(target.floors)
    }
    return [
        Mapped(
            one.group,
            one.target,
            firsts.get((*one.target, one.offset), ends.get(one.target, floors[one.target])),
            one.metadata,
        )
        for one in committed
    ]


def _firsts(found: Landed, wanted: Collection[tuple[str, int, int]]) -> DataFrame:
    from pyspark.sql import functions as sql

    asked_for = found.spark.createDataFrame(sorted(wanted), "topic STRING, partition INT, wanted BIGINT")
    records = found.records().selectExpr("topic", "partition", "offset", "position[0] AS position")
    same = ["topic", "partition"]
    behind = records.join(sql.broadcast(asked_for), same).where("position >= wanted")
    return behind.groupBy(*same, "wanted").agg(sql.min("offset").alias("first"))


def check_inactive(cluster: Cluster, groups: Collection[str]) -> None:
    """Raises Refused for groups with members: what is committed for them they would overwrite, or refuse."""
    from confluent_kafka import ConsumerGroupState

    if not groups:
        return
    with asked("for its consumer groups", cluster.options):
        futures = cluster.admin.describe_consumer_groups(sorted(groups), request_timeout=ANSWER_SECONDS)
        active = [
            group
            for group, future in futures.items()
            if future.result().state not in {ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD}
        ]
    if active:
        raise Refused(
            f"--groups: {', '.join(sorted(active))} have members now. Stop them and start the same command "
            "again: nothing is sent twice."
        )


def commit(cluster: Cluster, wanted: Collection[Mapped], *, overwrite: bool) -> tuple[int, list[Mapped]]:
    """Commit them; how many, and those that were left as the group has committed something else there."""
    by_group: dict[str, list[Mapped]] = {}
    for one in wanted:
        by_group.setdefault(one.group, []).append(one)
    committed, left = 0, []
    for group, those in sorted(by_group.items()):
        there = {} if overwrite else _committed(cluster, group, [one.target for one in those])
        left += [one for one in those if there.get(one.target, one.offset) != one.offset]
        new = [one for one in those if one.target not in there]
        if new:
            _alter(cluster, group, new)
            committed += len(new)
    return committed, left


def _committed(cluster: Cluster, group: str, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    from confluent_kafka import ConsumerGroupTopicPartitions
    from confluent_kafka import TopicPartition as Asked

    wanted = [ConsumerGroupTopicPartitions(group, [Asked(*place) for place in places])]
    with asked("for committed offsets", cluster.options):
        futures = cluster.admin.list_consumer_group_offsets(wanted, request_timeout=ANSWER_SECONDS)
        answer = futures[group].result().topic_partitions
    return {TopicPartition(one.topic, one.partition): one.offset for one in answer if one.offset >= 0}


def _alter(cluster: Cluster, group: str, wanted: Collection[Mapped]) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions
    from confluent_kafka import TopicPartition as Place

    places = [Place(*one.target, offset=one.offset, metadata=one.metadata) for one in wanted]
    with asked(f"to commit for {group}", cluster.options):
        request = [ConsumerGroupTopicPartitions(group, places)]
        futures = cluster.admin.alter_consumer_group_offsets(request, request_timeout=ANSWER_SECONDS)
        for place in futures[group].result().topic_partitions:
            if place.error is not None:
                from confluent_kafka import KafkaException

                raise KafkaException(place.error)
