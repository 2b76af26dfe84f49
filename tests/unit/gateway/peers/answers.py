"""Questions and answers of the tests about other gateways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.peers.question import Question
from wireproto.kafka.responses import encode_response
from wireproto.kafka.schemas import REQUEST_CLASSES, RESPONSE_CLASSES

_Asked = REQUEST_CLASSES[2]
_Answered = RESPONSE_CLASSES[2]


def ends_question(**topics: Sequence[int]) -> Question:
    """Where these partitions end, by topic."""
    topic, partition = _Asked.ListOffsetsTopic, _Asked.ListOffsetsTopic.ListOffsetsPartition
    named = [
        topic(
            name=name,
            partitions=[
                partition(partition_index=index, current_leader_epoch=-1, timestamp=-1) for index in indexes
            ],
        )
        for name, indexes in topics.items()
    ]
    return Question(_Asked(replica_id=-1, isolation_level=0, topics=named, timeout_ms=0))


def ends_answer(errors: Mapping[int, int] | None = None, **topics: Mapping[int, int]) -> Any:
    """The offsets of these partitions, by topic; `errors` by partition."""
    topic = _Answered.ListOffsetsTopicResponse
    named = [
        topic(
            name=name,
            partitions=[
                topic.ListOffsetsPartitionResponse(
                    partition_index=index,
                    error_code=(errors or {}).get(index, 0),
                    timestamp=-1,
                    offset=offset,
                    leader_epoch=1,
                )
                for index, offset in offsets.items()
            ],
        )
        for name, offsets in topics.items()
    ]
    return _Answered(throttle_time_ms=0, topics=named)


def versions_answer(error: int = 0, **_: int) -> Any:
    """ApiVersions of a gateway that has ListOffsets in versions 1 to 9."""
    return versions_of({2: (1, 9), 18: (0, 4)}, error)


def versions_of(table: Mapping[int, tuple[int, int]], error: int = 0) -> Any:
    answered = RESPONSE_CLASSES[18]
    keys = [
        answered.ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in table.items()
    ]
    return answered(error_code=error, api_keys=keys, throttle_time_ms=0)


def framed(answer: Any, version: int, correlation_id: int) -> bytes:
    return encode_response(answer, version, correlation_id)
