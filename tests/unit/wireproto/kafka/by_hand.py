"""The requests that are decoded by hand, each with what its decoder has to give."""

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from uuid import UUID

from wireproto.kafka import fetch, list_offsets, produce
from wireproto.kafka.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from wireproto.kafka.list_offsets import AskedOffsets, ListOffsetsRequest
from wireproto.kafka.produce import ProducePartition, ProduceRequest, ProduceTopic


@dataclass(frozen=True)
class ByHand:
    """A decoder, and what a request in kafka-python's form is to it."""

    name: str
    api_key: int
    versions: range
    decode: Callable[[int, memoryview, int], Any]
    expected: Callable[[Any], Any]

    def read(self, version: int, body: bytes) -> Any:
        return self.decode(version, memoryview(body), 0)


def _versions(module: ModuleType) -> range:
    return range(module.MIN_VERSION, module.MAX_VERSION + 1)


def _produce(request: Any) -> ProduceRequest:
    """What :func:`produce.decode_produce` has to give for a request in kafka-python's form."""
    by_id = request.version >= 13
    return ProduceRequest(
        request.transactional_id,
        request.acks,
        request.timeout_ms,
        [
            ProduceTopic(
                None if by_id else topic.name,
                (topic.topic_id or UUID(int=0)).bytes if by_id else None,
                [
                    ProducePartition(
                        partition.index, None if partition.records is None else memoryview(partition.records)
                    )
                    for partition in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ],
    )


def _replica_of(request: Any) -> int:
    if request.version < 15:
        return int(request.replica_id)
    return -1 if request.replica_state is None else int(request.replica_state.replica_id)


def _fetch(request: Any) -> FetchRequest:
    """What :func:`fetch.decode_fetch` has to give for a request in kafka-python's form."""
    by_id = request.version >= 13
    return FetchRequest(
        _replica_of(request),
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.session_epoch,
        [
            FetchTopic(
                None if by_id else topic.topic,
                (topic.topic_id or UUID(int=0)).bytes if by_id else None,
                [
                    FetchPartition(
                        partition.partition,
                        partition.current_leader_epoch,
                        partition.fetch_offset,
                        partition.last_fetched_epoch,
                        partition.log_start_offset,
                        partition.partition_max_bytes,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
        request.rack_id,
        [
            ForgottenTopic(
                None if by_id else topic.topic,
                (topic.topic_id or UUID(int=0)).bytes if by_id else None,
                tuple(topic.partitions),
            )
            for topic in request.forgotten_topics_data or []
        ],
    )


def _list_offsets(request: Any) -> ListOffsetsRequest:
    """What :func:`list_offsets.decode_list_offsets` has to give for a request in kafka-python's form."""
    return ListOffsetsRequest(
        request.replica_id,
        request.isolation_level if request.version >= 2 else 0,
        [
            AskedOffsets(
                topic.name,
                [
                    (
                        one.partition_index,
                        one.current_leader_epoch if request.version >= 4 else -1,
                        one.timestamp,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


DECODERS = [
    ByHand("Produce", 0, _versions(produce), produce.decode_produce, _produce),
    ByHand("Fetch", 1, _versions(fetch), fetch.decode_fetch, _fetch),
    ByHand("ListOffsets", 2, _versions(list_offsets), list_offsets.decode_list_offsets, _list_offsets),
]
