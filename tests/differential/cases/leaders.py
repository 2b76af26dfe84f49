"""ElectLeaders 0-2 and the reassignments: one node leads everything, so that nothing is to be done."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)

from tests.differential.case import case
from tests.differential.side import Side

PREFERRED, UNCLEAN = 0, 1
NOBODY = 4711


def elect(version: int, topics: dict[str, list[int]] | None, kind: int = PREFERRED) -> Any:
    one = ElectLeadersRequest.TopicPartitions
    wanted = None
    if topics is not None:
        wanted = [one(topic=name, partitions=indexes) for name, indexes in topics.items()]
    fields: dict[str, Any] = {"election_type": kind} if version >= 1 else {}
    return ElectLeadersRequest(version=version, topic_partitions=wanted, timeout_ms=10_000, **fields)


@case(ElectLeadersRequest)
def elections(side: Side, version: int) -> None:
    name = side.topic("t", partitions=2)
    for kind in (PREFERRED, UNCLEAN, 2, -1) if version >= 1 else (PREFERRED,):
        side.ask(elect(version, {name: [0, 1]}, kind), f"type {kind}")
    side.ask(elect(version, {name: [1, 2, -1], side.name("nowhere"): [0], "a/b": [0]}), "unknown")
    side.ask(elect(version, {name: []}), "no partitions")
    side.ask(elect(version, {}), "nothing")


def reassign(version: int, topics: dict[str, dict[int, list[int] | None]], ms: int = 10_000) -> Any:
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    part = topic.ReassignablePartition
    return AlterPartitionReassignmentsRequest(
        version=version,
        timeout_ms=ms,
        topics=[
            topic(
                name=name,
                partitions=[part(partition_index=index, replicas=ids) for index, ids in partitions.items()],
            )
            for name, partitions in topics.items()
        ],
    )


@case(AlterPartitionReassignmentsRequest)
def reassignments(side: Side, version: int) -> None:
    name = side.topic("t", partitions=2)
    attempts: dict[str, list[int] | None] = {
        "unknown broker": [NOBODY],
        "empty": [],
        "twice": [NOBODY, NOBODY],
        "negative": [-1],
        "cancelled": None,
    }
    for label, ids in attempts.items():
        side.ask(reassign(version, {name: {0: ids, 1: ids}}), label)
    wrong: dict[str, dict[int, list[int] | None]] = {
        name: {2: [NOBODY], -1: None},
        side.name("nowhere"): {0: [NOBODY]},
    }
    side.ask(reassign(version, wrong), "unknown")
    side.ask(reassign(version, {}), "nothing")
    side.ask(reassign(version, {name: {0: [NOBODY]}}, ms=-1), "no time")


@case(AlterPartitionReassignmentsRequest)
def to_itself(side: Side, version: int) -> None:
    own = side.server.node_id
    name = side.topic("t")
    side.ask_own_id(reassign(version, {name: {0: [own]}}), "as it is")
    side.ask_own_id(reassign(version, {name: {0: [own, own]}}), "twice")
    side.ask_own_id(reassign(version, {name: {0: [own, NOBODY]}}), "one more")


@case(ListPartitionReassignmentsRequest)
def ongoing(side: Side, version: int) -> None:
    one = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
    name = side.topic("t")
    for label, topics in {
        "all": None,
        "none": [],
        "one": [one(name=name, partition_indexes=[0, 1])],
        "unknown": [one(name=side.name("nowhere"), partition_indexes=[0])],
    }.items():
        side.ask(ListPartitionReassignmentsRequest(version=0, timeout_ms=10_000, topics=topics), label)
    side.ask(ListPartitionReassignmentsRequest(version=0, timeout_ms=-1, topics=None), "no time")
