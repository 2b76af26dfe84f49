"""OffsetForLeaderEpoch 2-4: where an epoch ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from tests.differential.batches import batch_of
from tests.differential.case import case
from tests.differential.side import Side


def partition(index: int, epoch: int, current: int = -1) -> Any:
    one = OffsetForLeaderEpochRequest.OffsetForLeaderTopic.OffsetForLeaderPartition
    return one(partition=index, leader_epoch=epoch, current_leader_epoch=current)


def ask(
    side: Side, version: int, wanted: Mapping[str, Sequence[Any]], label: str = "", replica: int | None = None
) -> None:
    one = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    topics = [one(topic=name, partitions=list(partitions)) for name, partitions in wanted.items()]
    fields: dict[str, Any] = {} if version < 3 else {"replica_id": -1 if replica is None else replica}
    side.ask(OffsetForLeaderEpochRequest(version=version, topics=topics, **fields), label)


def written(side: Side) -> str:
    topic = side.topic("t", partitions=2)
    side.once(topic, batch_of(b"a", b"b"), batch_of(b"c"))
    return topic


@case(OffsetForLeaderEpochRequest)
def epochs(side: Side, version: int) -> None:
    topic = written(side)
    for epoch in [0, 1, 1000, -1, -2]:
        ask(side, version, {topic: [partition(0, epoch), partition(1, epoch)]}, f"epoch {epoch}")


@case(OffsetForLeaderEpochRequest)
def current_epoch(side: Side, version: int) -> None:
    topic = written(side)
    for current in [-1, 0, 1, 1000, -2]:
        ask(side, version, {topic: [partition(0, 0, current)]}, f"current epoch {current}")


@case(OffsetForLeaderEpochRequest)
def unknown(side: Side, version: int) -> None:
    topic, nowhere = written(side), side.name("nowhere")
    ask(side, version, {nowhere: [partition(0, 0)]}, "topic")
    ask(side, version, {topic: [partition(5, 0), partition(0, 0)]}, "partition")
    ask(side, version, {}, "no topics")
    ask(side, version, {topic: []}, "no partitions")


@case(OffsetForLeaderEpochRequest, range(3, 5))
def replicas(side: Side, version: int) -> None:
    topic = written(side)
    for replica in [-2, 4711]:
        ask(side, version, {topic: [partition(0, 0)]}, f"replica {replica}", replica=replica)
