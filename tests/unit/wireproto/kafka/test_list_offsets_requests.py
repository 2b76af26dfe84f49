"""ListOffsets requests by hand, against the generic walk."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.wireproto.kafka.messages import damaged, messages
from wireproto.kafka.errors import MalformedRequest
from wireproto.kafka.list_offsets import (
    MAX_VERSION,
    MIN_VERSION,
    AskedOffsets,
    ListOffsetsRequest,
    decode_list_offsets,
)
from wireproto.kafka.primitives import MAX_ARRAY_ELEMENTS
from wireproto.kafka.requests import decode_request
from wireproto.kafka.schemas import REQUEST_CLASSES

LIST_OFFSETS = 2
VERSIONS = range(MIN_VERSION, MAX_VERSION + 1)
Request = REQUEST_CLASSES[LIST_OFFSETS]
Topic = Request.ListOffsetsTopic
Partition = Topic.ListOffsetsPartition


def decode(version: int, body: bytes) -> ListOffsetsRequest:
    return decode_list_offsets(version, memoryview(body), 0)


def from_kafka_python(request: Any) -> ListOffsetsRequest:
    """What :func:`decode_list_offsets` has to give for a request in kafka-python's form."""
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


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
@settings(max_examples=20)
def test_every_field_arrives(version: int, data: st.DataObject) -> None:
    request = data.draw(messages(Request, version))
    assert decode(version, bytes(request.encode(version=version))) == from_kafka_python(request)


@pytest.mark.parametrize("version", VERSIONS)
def test_many_partitions_arrive_in_order(version: int) -> None:
    asked = [
        Partition(partition_index=n, timestamp=-1 - n % 2, current_leader_epoch=n if version >= 4 else -1)
        for n in range(1000)
    ]
    request = Request(
        version=version,
        replica_id=-1,
        isolation_level=1,
        timeout_ms=5,
        topics=[Topic(name="t", partitions=asked)],
    )
    found = decode(version, bytes(request.encode(version=version)))
    assert found.isolation_level == (1 if version >= 2 else 0)
    (topic,) = found.topics
    assert topic.partitions == [(n, n if version >= 4 else -1, -1 - n % 2) for n in range(1000)]


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
@settings(max_examples=3)
def test_a_request_cut_short_or_too_long_is_refused(version: int, data: st.DataObject) -> None:
    body = bytes(data.draw(messages(Request, version)).encode(version=version))
    for length in range(len(body)):
        with pytest.raises(MalformedRequest):
            decode(version, body[:length])
    with pytest.raises(MalformedRequest, match="1 bytes are left over"):
        decode(version, body + b"\x00")


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
@settings(max_examples=60)
def test_damaged_requests_are_read_as_by_the_generic_walk_or_refused_by_both(
    version: int, data: st.DataObject
) -> None:
    valid = bytes(data.draw(messages(Request, version)).encode(version=version))
    body = data.draw(st.one_of(damaged(valid), st.binary(max_size=60)))
    try:
        expected = from_kafka_python(decode_request(LIST_OFFSETS, version, memoryview(body), 0))
    except MalformedRequest:
        with pytest.raises(MalformedRequest):
            decode(version, body)
    else:
        assert decode(version, body) == expected


@pytest.mark.parametrize("version", [5, 6])
def test_counts_are_checked_before_anything_is_made_of_them(version: int) -> None:
    many = [Partition(partition_index=0, timestamp=-1, current_leader_epoch=-1)] * (MAX_ARRAY_ELEMENTS + 1)
    request = Request(
        version=version,
        replica_id=-1,
        isolation_level=0,
        timeout_ms=0,
        topics=[Topic(name="t", partitions=many)],
    )
    with pytest.raises(MalformedRequest, match=f"{MAX_ARRAY_ELEMENTS + 1} elements"):
        decode(version, bytes(request.encode(version=version)))


@pytest.mark.parametrize("version", [0, 12, -1])
def test_other_versions_are_refused(version: int) -> None:
    with pytest.raises(MalformedRequest, match=f"no version {version}"):
        decode(version, bytes(100))
