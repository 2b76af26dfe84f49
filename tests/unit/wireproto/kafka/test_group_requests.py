"""OffsetCommit and Heartbeat by hand, against the generic walk and kafka-python's encoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.wireproto.kafka.messages import damaged, messages
from wireproto.kafka.errors import MalformedRequest
from wireproto.kafka.group_answers import encode_join_group_response, encode_sync_group_response
from wireproto.kafka.heartbeat import HeartbeatRequest, decode_heartbeat, encode_heartbeat_response
from wireproto.kafka.offset_commit import (
    OffsetCommitRequest,
    PartitionCommit,
    TopicCommit,
    TopicResult,
    decode_offset_commit,
    encode_offset_commit_response,
)
from wireproto.kafka.primitives import MAX_ARRAY_ELEMENTS
from wireproto.kafka.requests import decode_request
from wireproto.kafka.responses import encode_response
from wireproto.kafka.schemas import REQUEST_CLASSES, RESPONSE_CLASSES

CORRELATION_ID = 4711


def commit_of(request: Any) -> OffsetCommitRequest:
    """What the decoder has to give for a request in kafka-python's form."""
    version = request.version
    return OffsetCommitRequest(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id if version >= 7 else None,
        request.retention_time_ms if version <= 4 else -1,
        [
            TopicCommit(
                topic.name if version < 10 else None,
                (topic.topic_id or UUID(int=0)).bytes if version >= 10 else None,
                [
                    PartitionCommit(
                        one.partition_index,
                        one.committed_offset,
                        one.committed_leader_epoch if version >= 6 else -1,
                        one.committed_metadata,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def heartbeat_of(request: Any) -> HeartbeatRequest:
    instance = request.group_instance_id if request.version >= 3 else None
    return HeartbeatRequest(request.group_id, request.generation_id, request.member_id, instance)


class Codec(NamedTuple):
    key: int
    version: int
    decode: Callable[[int, memoryview, int], Any]
    expected: Callable[[Any], Any]


CODECS = [
    *(Codec(8, version, decode_offset_commit, commit_of) for version in range(2, 11)),
    *(Codec(12, version, decode_heartbeat, heartbeat_of) for version in range(5)),
]
each = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: f"{codec.key}v{codec.version}")


def decode(codec: Codec, body: bytes) -> Any:
    return codec.decode(codec.version, memoryview(b"header" + body), 6)


def encoded(codec: Codec, data: st.DataObject) -> tuple[Any, bytes]:
    request = data.draw(messages(REQUEST_CLASSES[codec.key], codec.version))
    return request, bytes(request.encode(version=codec.version))


@each
@given(data=st.data())
@settings(max_examples=15)
def test_every_field_arrives(codec: Codec, data: st.DataObject) -> None:
    request, body = encoded(codec, data)
    assert decode(codec, body) == codec.expected(request)


@each
@given(data=st.data())
@settings(max_examples=2)
def test_a_request_cut_short_or_too_long_is_refused(codec: Codec, data: st.DataObject) -> None:
    _, body = encoded(codec, data)
    for length in range(len(body)):
        with pytest.raises(MalformedRequest):
            decode(codec, body[:length])
    with pytest.raises(MalformedRequest, match="1 bytes are left over"):
        decode(codec, body + b"\x00")


@each
@given(data=st.data())
@settings(max_examples=40)
def test_damaged_requests_are_read_as_by_the_generic_walk_or_refused_by_both(
    codec: Codec, data: st.DataObject
) -> None:
    _, valid = encoded(codec, data)
    body = data.draw(st.one_of(damaged(valid), st.binary(max_size=60)))
    try:
        expected = codec.expected(decode_request(codec.key, codec.version, memoryview(body), 0))
    except MalformedRequest:
        with pytest.raises(MalformedRequest):
            decode(codec, body)
    else:
        assert decode(codec, body) == expected


@pytest.mark.parametrize("version", [7, 8])
def test_counts_are_checked_before_anything_is_made_of_them(version: int) -> None:
    request = REQUEST_CLASSES[8]
    topic = request.OffsetCommitRequestTopic
    partition = topic.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=0, committed_leader_epoch=-1, committed_metadata=None
    )
    many = request(
        version=version,
        group_id="g",
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[topic(name="t", partitions=[partition] * (MAX_ARRAY_ELEMENTS + 1))],
    )
    with pytest.raises(MalformedRequest, match="elements"):
        decode_offset_commit(version, memoryview(bytes(many.encode(version=version))), 0)


@pytest.mark.parametrize("version", [-1, 1, 11])
def test_other_versions_are_refused(version: int) -> None:
    with pytest.raises(MalformedRequest, match="has no version"):
        decode_offset_commit(version, memoryview(bytes(100)), 0)


RESULTS: list[list[tuple[str, list[tuple[int, int]]]]] = [
    [],
    [("t", [])],
    [("", [(0, 0)]), ("é" * 100, [(2**31 - 1, 2**15 - 1), (-(2**31), -(2**15))])],
    # At 127 elements a compact length takes a second byte.
    [("t" * 126, [(index, 0) for index in range(126)]), ("t" * 127, [(index, 25) for index in range(127)])],
    [(str(index), [(index, 3)]) for index in range(200)],
]


@pytest.mark.parametrize("version", range(2, 11))
@pytest.mark.parametrize("results", RESULTS)
def test_commits_are_answered_as_kafka_python_encodes_it(
    version: int, results: list[tuple[str, list[tuple[int, int]]]]
) -> None:
    response = RESPONSE_CLASSES[8]
    of_topic = response.OffsetCommitResponseTopic
    ids = [UUID(int=number + 1) for number in range(len(results))]
    theirs = response(
        throttle_time_ms=0,
        topics=[
            of_topic(
                name=name,
                topic_id=topic_id,
                partitions=[
                    of_topic.OffsetCommitResponsePartition(partition_index=index, error_code=error)
                    for index, error in found
                ],
            )
            for topic_id, (name, found) in zip(ids, results, strict=True)
        ],
    )
    ours = [
        TopicResult(None if version >= 10 else name, topic_id.bytes if version >= 10 else None, found)
        for topic_id, (name, found) in zip(ids, results, strict=True)
    ]
    framed = encode_offset_commit_response(version, CORRELATION_ID, ours)
    assert framed == encode_response(theirs, version, CORRELATION_ID)


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("error", [0, 27, -1])
def test_heartbeats_are_answered_as_kafka_python_encodes_it(version: int, error: int) -> None:
    theirs = RESPONSE_CLASSES[12](throttle_time_ms=0, error_code=error)
    framed = encode_heartbeat_response(version, CORRELATION_ID, error)
    assert framed == encode_response(theirs, version, CORRELATION_ID)


TEXTS = ["", "m", "é" * 100, "x" * 127]
BLOBS = [b"", b"\x00\x01", bytes(127), bytes(1000)]


@pytest.mark.parametrize("version", range(10))
@pytest.mark.parametrize("count", [0, 1, 127])
def test_joins_are_answered_as_kafka_python_encodes_it(version: int, count: int) -> None:
    response = RESPONSE_CLASSES[11]
    members = [
        (f"{TEXTS[n % 4]}{n}", [None, *TEXTS][n % 5] if version >= 5 else None, BLOBS[n % 4])
        for n in range(count)
    ]
    protocol_type, protocol = (None, None) if version >= 7 and not count else ("consumer", TEXTS[count % 4])
    theirs = response(
        throttle_time_ms=0,
        error_code=-1 if count else 79,
        generation_id=count - 1,
        protocol_type=protocol_type,
        protocol_name=protocol,
        leader=TEXTS[2],
        skip_assignment=bool(count),
        member_id=TEXTS[3],
        members=[
            response.JoinGroupResponseMember(member_id=one, group_instance_id=instance, metadata=metadata)
            for one, instance, metadata in members
        ],
    )
    framed = encode_join_group_response(
        version,
        CORRELATION_ID,
        error_code=-1 if count else 79,
        generation=count - 1,
        protocol_type=protocol_type,
        protocol=protocol,
        leader=TEXTS[2],
        skip_assignment=bool(count),
        member_id=TEXTS[3],
        members=members,
    )
    assert framed == encode_response(theirs, version, CORRELATION_ID)


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("assignment", BLOBS)
@pytest.mark.parametrize(("protocol_type", "protocol"), [(None, None), ("consumer", "é" * 100)])
def test_syncs_are_answered_as_kafka_python_encodes_it(
    version: int, assignment: bytes, protocol_type: str | None, protocol: str | None
) -> None:
    theirs = RESPONSE_CLASSES[14](
        throttle_time_ms=0,
        error_code=27,
        protocol_type=protocol_type,
        protocol_name=protocol,
        assignment=assignment,
    )
    framed = encode_sync_group_response(
        version,
        CORRELATION_ID,
        error_code=27,
        protocol_type=protocol_type,
        protocol=protocol,
        assignment=assignment,
    )
    assert framed == encode_response(theirs, version, CORRELATION_ID)
