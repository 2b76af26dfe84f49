"""ListOffsets requests by hand: many partitions."""

import pytest

from wireproto.kafka.errors import MalformedRequest
from wireproto.kafka.list_offsets import MAX_VERSION, MIN_VERSION, ListOffsetsRequest, decode_list_offsets
from wireproto.kafka.primitives import MAX_ARRAY_ELEMENTS
from wireproto.kafka.schemas import REQUEST_CLASSES

LIST_OFFSETS = 2
VERSIONS = range(MIN_VERSION, MAX_VERSION + 1)
Request = REQUEST_CLASSES[LIST_OFFSETS]
Topic = Request.ListOffsetsTopic
Partition = Topic.ListOffsetsPartition


def decode(version: int, body: bytes) -> ListOffsetsRequest:
    return decode_list_offsets(version, memoryview(body), 0)


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
