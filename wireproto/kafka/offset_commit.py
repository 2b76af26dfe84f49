"""OffsetCommit, versions 2 to 10, without kafka-python: every consumer commits every few seconds.

Source: ``OffsetCommitRequest.json`` and ``OffsetCommitResponse.json`` of Kafka 4.3.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from wireproto.kafka.decoding import MEMBER_IS_NULL, decodes, read_count, read_topic
from wireproto.kafka.errors import MalformedRequest
from wireproto.kafka.primitives import (
    MAX_REQUEST_ELEMENTS,
    compact_string,
    read_compact_string,
    read_string,
    skip_tags,
    string,
    uvarint,
)

MIN_VERSION: Final = 2
MAX_VERSION: Final = 10
_RETENTION_UNTIL: Final = 4
_THROTTLE_FROM: Final = 3
_LEADER_EPOCH_FROM: Final = 6
_INSTANCE_FROM: Final = 7
_FLEXIBLE_FROM: Final = 8
_TOPIC_ID_FROM: Final = 10

NO_EPOCH: Final = -1
"""A leader epoch that is not given."""

NO_RETENTION: Final = -1
"""A retention time that is not given (`OffsetCommitRequest.DEFAULT_RETENTION_TIME`)."""

_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")
_OFFSET: Final = Struct(">iq")  # partition, offset
_OFFSET_EPOCH: Final = Struct(">iqi")
_SIZE_CORRELATION: Final = Struct(">ii")
_SIZE_CORRELATION_TAGS_THROTTLE: Final = Struct(">iiBi")
_RESULT: Final = Struct(">ih")  # partition, error
_RESULT_TAGS: Final = Struct(">ihB")


class PartitionCommit(NamedTuple):
    """One partition of a request."""

    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None


@dataclass(slots=True)
class TopicCommit:
    """One topic of a request: by name before version 10, by id (16 bytes) from there on."""

    name: str | None
    topic_id: bytes | None
    partitions: list[PartitionCommit]


@dataclass(slots=True)
class OffsetCommitRequest:
    """An OffsetCommit request. What the version does not have is as if not given."""

    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None
    retention_time_ms: int
    topics: list[TopicCommit]


@decodes("OffsetCommit", MIN_VERSION, MAX_VERSION)
def decode_offset_commit(api_version: int, frame: memoryview, pos: int) -> tuple[OffsetCommitRequest, int]:
    """Decode an OffsetCommit request."""
    flexible = api_version >= _FLEXIBLE_FROM
    read = read_compact_string if flexible else read_string
    group_id, pos = read(frame, pos)
    (generation,) = _INT32.unpack_from(frame, pos)
    member_id, pos = read(frame, pos + 4)
    if group_id is None or member_id is None:
        raise MalformedRequest(MEMBER_IS_NULL)
    instance: str | None = None
    if api_version >= _INSTANCE_FROM:
        instance, pos = read(frame, pos)
    retention = NO_RETENTION
    if api_version <= _RETENTION_UNTIL:
        (retention,) = _INT64.unpack_from(frame, pos)
        pos += 8
    request = OffsetCommitRequest(group_id, generation, member_id, instance, retention, [])
    count, pos, budget = read_count(frame, pos, MAX_REQUEST_ELEMENTS, 6 - 3 * flexible, flexible)
    for _ in range(count):
        topic, pos, budget = _read_topic(api_version, frame, pos, budget)
        request.topics.append(topic)
    if flexible:
        pos, budget = skip_tags(frame, pos, budget)
    return request, pos


def _read_topic(api_version: int, frame: memoryview, pos: int, budget: int) -> tuple[TopicCommit, int, int]:
    flexible = api_version >= _FLEXIBLE_FROM
    read = read_compact_string if flexible else read_string
    name, topic_id, pos = read_topic(frame, pos, flexible, api_version >= _TOPIC_ID_FROM)
    layout = _OFFSET_EPOCH if api_version >= _LEADER_EPOCH_FROM else _OFFSET
    smallest = layout.size + 2  # and null for the metadata: a byte and one of tags, or a length of two bytes
    count, pos, budget = read_count(frame, pos, budget, smallest, flexible)
    partitions: list[PartitionCommit] = []
    epoch = NO_EPOCH
    for _ in range(count):
        if layout is _OFFSET:
            index, offset = layout.unpack_from(frame, pos)
        else:
            index, offset, epoch = layout.unpack_from(frame, pos)
        metadata, pos = read(frame, pos + layout.size)
        if flexible:
            if frame[pos]:
                pos, budget = skip_tags(frame, pos, budget)
            else:
                pos += 1
        partitions.append(PartitionCommit(index, offset, epoch, metadata))
    if flexible:
        if frame[pos]:
            pos, budget = skip_tags(frame, pos, budget)
        else:
            pos += 1
    return TopicCommit(name, topic_id, partitions), pos, budget


@dataclass(slots=True)
class TopicResult:
    """One topic of an answer, named as in the request; `partitions` are (index, error code)."""

    name: str | None
    topic_id: bytes | None
    partitions: list[tuple[int, int]]


def encode_offset_commit_response(
    api_version: int, correlation_id: int, topics: Sequence[TopicResult]
) -> bytes:
    """The framed response, size field and header included.

    Fields that the version does not have are left out.
    """
    parts = [b""]
    if api_version >= _FLEXIBLE_FROM:
        parts.append(uvarint(len(topics) + 1))
        for topic in topics:
            key = (
                (topic.topic_id or bytes(16)) if api_version >= _TOPIC_ID_FROM else compact_string(topic.name)
            )
            parts += [key, uvarint(len(topic.partitions) + 1)]
            parts += [_RESULT_TAGS.pack(index, error, 0) for index, error in topic.partitions]
            parts.append(b"\x00")
        parts.append(b"\x00")
        size = sum(map(len, parts))
        parts[0] = _SIZE_CORRELATION_TAGS_THROTTLE.pack(9 + size, correlation_id, 0, 0)
        return b"".join(parts)
    if api_version >= _THROTTLE_FROM:
        parts.append(bytes(4))
    parts.append(_INT32.pack(len(topics)))
    for topic in topics:
        parts += [string(topic.name), _INT32.pack(len(topic.partitions))]
        parts += [_RESULT.pack(index, error) for index, error in topic.partitions]
    parts[0] = _SIZE_CORRELATION.pack(4 + sum(map(len, parts)), correlation_id)
    return b"".join(parts)
