"""Produce (key 0) versions 3 to 13: requests in, responses out, by hand because this is the hot path.

Version notes (Kafka's ``ProduceRequest.json``, ``ProduceResponse.json``): 5 answers the log start offset; 8
answers record errors and an error message; 9 is flexible; 10 adds the tags CurrentLeader and NodeEndpoints
to the response (we send none); 13 names topics by id instead of by name.

Records are slices of the frame, not copies: whoever keeps one keeps the whole frame in memory.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Final, NoReturn

from wireproto.kafka.decoding import TOPIC_IS_NULL, decodes
from wireproto.kafka.errors import MalformedRequest
from wireproto.kafka.leaders import CurrentLeader, NodeEndpoint, current_leader, node_endpoints
from wireproto.kafka.primitives import (
    MAX_REQUEST_ELEMENTS,
    compact_string,
    read_compact_string,
    read_string,
    read_uvarint,
    skip_tags,
    spend,
    string,
    uvarint,
)

MAX_PRODUCED_ELEMENTS: Final = 20_000
"""Topics and partitions of one Produce request: a record for each of 10,000 partitions, be they in one topic
or in as many. The answer is made in one go, which takes 20 ms for so many; Java's default request of 1 MB has
no room for more with records in them."""

MAX_DECODED_AT_ONCE_ELEMENTS: Final = 256
"""Topics and partitions of a request that is decoded on the loop: some hundred microseconds."""

MIN_VERSION: Final = 3
MAX_VERSION: Final = 13
_LOG_START_FROM: Final = 5
_RECORD_ERRORS_FROM: Final = 8
_FLEXIBLE_FROM: Final = 9
LEADERS_FROM: Final = 10
"""Answers name the leader to who has asked another broker."""

_LEADER_TAG: Final = 0
_TOPIC_ID_FROM: Final = 13

_INT32: Final = Struct(">i")
_ACKS_TIMEOUT: Final = Struct(">hi")
_ACKS_TIMEOUT_COUNT: Final = Struct(">hii")
_INDEX_LENGTH: Final = Struct(">ii")
_SIZE_CORRELATION: Final = Struct(">ii")
_RESULT: Final = Struct(">ihqq")  # index, error, base offset, log append time
_RESULT_WITH_LOG_START: Final = Struct(">ihqqq")


@dataclass(slots=True)
class ProducePartition:
    """One partition of a Produce request.

    ``records`` is a slice of the frame, ``None`` if the client sent null.
    """

    index: int
    records: memoryview | None


@dataclass(slots=True)
class ProduceTopic:
    """One topic of a Produce request:

    ``name`` up to version 12, ``topic_id`` (16 bytes) from 13; the other is ``None``.
    """

    name: str | None
    topic_id: bytes | None
    partitions: list[ProducePartition]


@dataclass(slots=True)
class ProduceRequest:
    """A Produce request. Topics and partitions are in the client's order; the same one may come twice.

    ``elements``: how many topics and partitions it has, for who counts its memory.
    """

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[ProduceTopic]
    elements: int = field(default=0, compare=False)


class ManyPartitions(Exception):
    """A request of more partitions than are decoded at once: :func:`decode_produce` decodes it."""


@dataclass(slots=True)
class ProducePartitionResult:
    """The answer for one partition.

    ``record_errors`` are (index of the record in the batch, words) pairs. Offsets and the time
    (milliseconds since 1970) are -1 when they do not apply.
    """

    index: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    record_errors: Sequence[tuple[int, str | None]] = ()
    current_leader: CurrentLeader | None = None
    """Of one that is led by another broker; from version 10."""


@decodes("Produce", MIN_VERSION, MAX_VERSION)
def decode_produce(api_version: int, frame: memoryview, offset: int) -> tuple[ProduceRequest, int]:
    """Decode a Produce request of up to ``MAX_PRODUCED_ELEMENTS``."""
    return _decode(api_version, frame, offset, _Elements(MAX_PRODUCED_ELEMENTS, _refuse))


@decodes("Produce", MIN_VERSION, MAX_VERSION)
def decode_few_partitions(api_version: int, frame: memoryview, offset: int) -> tuple[ProduceRequest, int]:
    """As :func:`decode_produce`; raises :class:`ManyPartitions` besides, before it has taken long."""
    return _decode(api_version, frame, offset, _Elements(MAX_DECODED_AT_ONCE_ELEMENTS, _later))


def _refuse() -> NoReturn:
    raise MalformedRequest(f"a Produce of more than {MAX_PRODUCED_ELEMENTS} topics and partitions")


def _later() -> NoReturn:
    raise ManyPartitions


class _Elements:
    """Counts topics and partitions; ``too_many`` raises when there are more than ``most``."""

    __slots__ = ("_most", "_too_many", "count")

    def __init__(self, most: int, too_many: Callable[[], NoReturn]) -> None:
        self.count = 0
        self._most = most
        self._too_many = too_many

    def add(self, count: int, left: int, smallest: int) -> None:
        """An array of ``count`` elements begins; ``left`` bytes are left, an element has ``smallest``."""
        spend(MAX_REQUEST_ELEMENTS, count, left, smallest)
        self.count += count
        if self.count > self._most:
            self._too_many()


def _decode(
    api_version: int, frame: memoryview, offset: int, elements: _Elements
) -> tuple[ProduceRequest, int]:
    if api_version >= _FLEXIBLE_FROM:
        request, pos = _decode_flexible(api_version, frame, offset, elements)
    else:
        request, pos = _decode_old(frame, offset, elements)
    request.elements = elements.count
    return request, pos


def _decode_flexible(
    api_version: int, frame: memoryview, pos: int, elements: _Elements
) -> tuple[ProduceRequest, int]:
    tags_left = MAX_REQUEST_ELEMENTS
    transactional_id, pos = read_compact_string(frame, pos)
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(frame, pos)
    topic_count, pos = read_uvarint(frame, pos + _ACKS_TIMEOUT.size)
    elements.add(topic_count - 1, len(frame) - pos, 3)
    topics = []
    for _ in range(topic_count - 1):
        name: str | None = None
        topic_id: bytes | None = None
        if api_version >= _TOPIC_ID_FROM:
            topic_id = bytes(frame[pos : pos + 16])
            pos += 16
        else:
            name, pos = read_compact_string(frame, pos)
            if name is None:
                raise MalformedRequest(TOPIC_IS_NULL)
        partition_count, pos = read_uvarint(frame, pos)
        elements.add(partition_count - 1, len(frame) - pos, 6)
        partitions = []
        for _ in range(partition_count - 1):
            (index,) = _INT32.unpack_from(frame, pos)
            length, pos = read_uvarint(frame, pos + 4)
            records = None
            if length:
                end = pos + length - 1
                records = frame[pos:end]
                pos = end
            if frame[pos]:  # also refuses records that are longer than the frame
                pos, tags_left = skip_tags(frame, pos, tags_left)
            else:
                pos += 1
            partitions.append(ProducePartition(index, records))
        if frame[pos]:
            pos, tags_left = skip_tags(frame, pos, tags_left)
        else:
            pos += 1
        topics.append(ProduceTopic(name, topic_id, partitions))
    pos, tags_left = skip_tags(frame, pos, tags_left)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics), pos


def _decode_old(frame: memoryview, pos: int, elements: _Elements) -> tuple[ProduceRequest, int]:
    transactional_id, pos = read_string(frame, pos)
    acks, timeout_ms, topic_count = _ACKS_TIMEOUT_COUNT.unpack_from(frame, pos)
    pos += _ACKS_TIMEOUT_COUNT.size
    elements.add(topic_count, len(frame) - pos, 6)
    topics = []
    for _ in range(topic_count):
        name, pos = read_string(frame, pos)
        if name is None:
            raise MalformedRequest(TOPIC_IS_NULL)
        (partition_count,) = _INT32.unpack_from(frame, pos)
        pos += 4
        elements.add(partition_count, len(frame) - pos, 8)
        partitions = []
        for _ in range(partition_count):
            index, length = _INDEX_LENGTH.unpack_from(frame, pos)
            pos += _INDEX_LENGTH.size
            records = None
            if length != -1:
                end = pos + length
                if not pos <= end <= len(frame):
                    raise MalformedRequest(f"records have length {length} and {len(frame) - pos} bytes")
                records = frame[pos:end]
                pos = end
            partitions.append(ProducePartition(index, records))
        topics.append(ProduceTopic(name, None, partitions))
    return ProduceRequest(transactional_id, acks, timeout_ms, topics), pos


TopicResults = tuple[str | None, bytes | None, list[ProducePartitionResult]]
"""One topic of a response: its name or its id (whichever the request had), and its partitions' results."""


def encode_produce_response(
    api_version: int,
    correlation_id: int,
    topics: Sequence[TopicResults],
    throttle_ms: int = 0,
    nodes: Sequence[NodeEndpoint] = (),
) -> bytes:
    """The framed response, size field and header included. ``throttle_ms``: how long the client is to wait;
    ``nodes``: where the leaders are that it names.

    Fields that the version does not have are left out.
    """
    parts = [b""]
    if api_version >= _FLEXIBLE_FROM:
        parts.append(b"\x00" + uvarint(len(topics) + 1))
        for name, topic_id, results in topics:
            if api_version >= _TOPIC_ID_FROM:
                parts.append(_topic_id(topic_id))
            else:
                parts.append(compact_string(name))
            parts.append(uvarint(len(results) + 1))
            for result in results:
                _append_flexible_result(parts, result, api_version)
            parts.append(b"\x00")
        told = nodes if api_version >= LEADERS_FROM else ()
        parts.append(_INT32.pack(throttle_ms) + node_endpoints(told))
    else:
        parts.append(_INT32.pack(len(topics)))
        for name, _, results in topics:
            parts.append(string(name))
            parts.append(_INT32.pack(len(results)))
            for result in results:
                _append_old_result(parts, result, api_version)
        parts.append(_INT32.pack(throttle_ms))
    parts[0] = _SIZE_CORRELATION.pack(4 + sum(map(len, parts)), correlation_id)
    return b"".join(parts)


def _topic_id(topic_id: bytes | None) -> bytes:
    if topic_id is None or len(topic_id) != 16:
        raise ValueError("a topic id of 16 bytes is needed from Produce 13")
    return topic_id


def _append_flexible_result(parts: list[bytes], result: ProducePartitionResult, api_version: int) -> None:
    parts.append(
        _RESULT_WITH_LOG_START.pack(
            result.index,
            result.error_code,
            result.base_offset,
            result.log_append_time_ms,
            result.log_start_offset,
        )
    )
    leader = result.current_leader if api_version >= LEADERS_FROM else None
    if not result.record_errors and result.error_message is None and leader is None:
        parts.append(b"\x01\x00\x00")  # no record errors, null message, no tags
        return
    parts.append(uvarint(len(result.record_errors) + 1))
    for index, message in result.record_errors:
        parts.append(_INT32.pack(index) + compact_string(message) + b"\x00")
    parts.append(compact_string(result.error_message) + current_leader(_LEADER_TAG, leader))


def _append_old_result(parts: list[bytes], result: ProducePartitionResult, api_version: int) -> None:
    fixed = (result.index, result.error_code, result.base_offset, result.log_append_time_ms)
    if api_version < _LOG_START_FROM:
        parts.append(_RESULT.pack(*fixed))
        return
    parts.append(_RESULT_WITH_LOG_START.pack(*fixed, result.log_start_offset))
    if api_version < _RECORD_ERRORS_FROM:
        return
    parts.append(_INT32.pack(len(result.record_errors)))
    for index, message in result.record_errors:
        parts.append(_INT32.pack(index) + string(message))
    parts.append(string(result.error_message))
