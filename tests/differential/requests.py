"""Requests that several files of cases build: Produce and Fetch by name or by id, as the version wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafka.protocol.consumer import FetchRequest
from kafka.protocol.producer import ProduceRequest

from tests.differential.side import Side

PRODUCE_BY_ID = 13
FETCH_BY_ID = 13
NO_EPOCH = -1
PLENTY = 8 * 1024 * 1024


def produce(
    side: Side,
    version: int,
    wanted: Mapping[str, Mapping[int, bytes | None]] | Sequence[tuple[str, Mapping[int, bytes | None]]],
    *,
    acks: int = -1,
    transactional_id: str | None = None,
    timeout_ms: int = 10_000,
) -> Any:
    """A Produce of `{topic: {partition: records}}`."""
    topic = ProduceRequest.TopicProduceData
    data = []
    for name, partitions in wanted.items() if isinstance(wanted, Mapping) else wanted:
        parts = [
            topic.PartitionProduceData(index=index, records=records) for index, records in partitions.items()
        ]
        by_id = version >= PRODUCE_BY_ID
        which = {"topic_id": side.id_of(name)} if by_id else {"name": name}
        data.append(topic(partition_data=parts, **which))
    return ProduceRequest(
        version=version, transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=data
    )


def fetch_partition(index: int, offset: int, **fields: Any) -> Any:
    values = {
        "partition": index,
        "current_leader_epoch": NO_EPOCH,
        "fetch_offset": offset,
        "last_fetched_epoch": NO_EPOCH,
        "log_start_offset": -1,
        "partition_max_bytes": PLENTY,
    }
    return FetchRequest.FetchTopic.FetchPartition(**(values | fields))


def fetch(side: Side, version: int, wanted: Mapping[str, Sequence[Any]], **fields: Any) -> Any:
    """A Fetch of `{topic: [fetch_partition(...)]}`, sessionless, that does not wait."""
    topics = []
    for name, partitions in wanted.items():
        by_id = version >= FETCH_BY_ID
        which = {"topic_id": side.id_of(name)} if by_id else {"topic": name}
        topics.append(FetchRequest.FetchTopic(partitions=list(partitions), **which))
    values = {
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": PLENTY,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": topics,
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    if version <= 14:
        values["replica_id"] = -1
    return FetchRequest(version=version, **(values | fields))


def read_back(side: Side, topic: str, *partitions: int, version: int = 12, label: str = "read back") -> Any:
    """Records what a Fetch from the beginning finds."""
    wanted = {topic: [fetch_partition(index, 0) for index in partitions or (0,)]}
    return side.ask(fetch(side, version, wanted), label)
