"""The answer of a request that is to fail: the same error wherever its API has a place for one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gateway.common.handlers import Request, Response
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.fetch import FetchPartitionResult, encode_fetch_response
from wireproto.kafka.offset_commit import TopicResult, encode_offset_commit_response
from wireproto.kafka.produce import ProducePartitionResult, encode_produce_response
from wireproto.kafka.responses import encode_response
from wireproto.kafka.schemas import RESPONSE_CLASSES

SAID: Final = "ordered by dafka chaos"


def failed_produce(request: Request, error: ErrorCode) -> Response:
    header = request.header
    results = [
        (
            topic.name,
            topic.topic_id,
            [ProducePartitionResult(one.index, error, error_message=SAID) for one in topic.partitions],
        )
        for topic in request.body.topics
    ]
    return encode_produce_response(header.api_version, header.correlation_id, results)


def failed_fetch(request: Request, error: ErrorCode) -> Response:
    header = request.header
    results = [
        (topic.name, topic.topic_id, [FetchPartitionResult(one.index, error) for one in topic.partitions])
        for topic in request.body.topics
    ]
    return encode_fetch_response(header.api_version, header.correlation_id, results)


def failed_offset_commit(request: Request, error: ErrorCode) -> Response:
    header = request.header
    results = [
        TopicResult(topic.name, topic.topic_id, [(one.partition, error) for one in topic.partitions])
        for topic in request.body.topics
    ]
    return encode_offset_commit_response(header.api_version, header.correlation_id, results)


def failed_as_a_whole(request: Request, error: ErrorCode) -> Response:
    """Of an API whose answer has one error for all."""
    header = request.header
    response = RESPONSE_CLASSES[header.api_key](error_code=error)
    return encode_response(response, header.api_version, header.correlation_id)


FAILED: Final[Mapping[str, Callable[[Request, ErrorCode], Response]]] = {
    "Produce": failed_produce,
    "Fetch": failed_fetch,
    "OffsetCommit": failed_offset_commit,
    "JoinGroup": failed_as_a_whole,
    "SyncGroup": failed_as_a_whole,
    "Heartbeat": failed_as_a_whole,
    "LeaveGroup": failed_as_a_whole,
    "InitProducerId": failed_as_a_whole,
}
"""By the API's name: those that can be made to fail with an error."""

WITH_TOPICS: Final = frozenset({"Produce", "Fetch", "OffsetCommit"})
"""APIs of which a fault can be narrowed to a topic."""
