"""Fetch (key 1) versions 4 to 18: requests in, responses out as a list of buffers, by hand: this is the hot
path.

Version notes (Kafka's ``FetchRequest.json``, ``FetchResponse.json``): 5 adds log start offsets; 7 fetch
sessions; 9 the current leader epoch; 11 the client's rack and the preferred read replica; 12 is flexible
and adds the last fetched epoch; 13 names topics by id; 15 moves the replica id into a tag; 17 and 18 add
tags that only followers send.

The list of aborted transactions is null for who reads everything, and beside an error; for who reads what
is committed it is empty if there are none. Not offered, on purpose: diverging epochs and a preferred replica
(always -1).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from struct import Struct, unpack_from
from typing import Final

from wireproto.kafka.decoding import decodes, read_count, read_topic
from wireproto.kafka.errors import MalformedRequest
from wireproto.kafka.leaders import CurrentLeader, NodeEndpoint, current_leader, node_endpoints
from wireproto.kafka.primitives import (
    MAX_REQUEST_ELEMENTS,
    compact_string,
    read_compact_string,
    read_string,
    skip_tags,
    string,
    uvarint,
)

MIN_VERSION: Final = 4
MAX_VERSION: Final = 18
_LOG_START_FROM: Final = 5
_SESSIONS_FROM: Final = 7
_CURRENT_EPOCH_FROM: Final = 9
_RACK_FROM: Final = 11
_FLEXIBLE_FROM: Final = 12
LEADERS_FROM: Final = 16
"""Answers name the leader to who has asked another broker."""

_LEADER_TAG: Final = 1
_TOPIC_ID_FROM: Final = 13
_REPLICA_STATE_FROM: Final = 15
_DIRECTORY_ID_FROM: Final = 17
_HIGH_WATERMARK_FROM: Final = 18

CONSUMER: Final = -1
"""`replica_id` of a consumer."""

_REPLICA_STATE: Final = Struct(">iq")  # replica id, replica epoch
_INT32: Final = Struct(">i")

Buffer = bytes | bytearray | memoryview
"""A buffer of record batches."""


@dataclass(slots=True)
class FetchPartition:
    """One partition of a Fetch request.

    Epochs and ``log_start_offset`` are -1 when not given; ``max_bytes`` is bytes.
    """

    index: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int


@dataclass(slots=True)
class FetchTopic:
    """One topic of a Fetch request:

    ``name`` up to version 12, ``topic_id`` (16 bytes) from 13; the other is ``None``.
    """

    name: str | None
    topic_id: bytes | None
    partitions: list[FetchPartition]


@dataclass(slots=True)
class ForgottenTopic:
    """Partitions that a session is to forget; ``name`` and ``topic_id`` as in :class:`FetchTopic`."""

    name: str | None
    topic_id: bytes | None
    partitions: tuple[int, ...]


@dataclass(slots=True)
class FetchRequest:
    """A Fetch request. Sizes are in bytes; topics and partitions are in the client's order, which matters.

    Before version 7 ``session_id`` is 0 and ``session_epoch`` -1: a full fetch without a session. Nothing in
    it refers to the frame.
    """

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    rack_id: str = ""
    forgotten: list[ForgottenTopic] = field(default_factory=list)


@dataclass(slots=True)
class FetchPartitionResult:
    """The answer for one partition. ``records`` are whole batches, in order, each buffer sent as it is."""

    index: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: Sequence[Buffer] = field(default=())
    aborted: Sequence[tuple[int, int]] | None = ()
    """(producer id, first offset) of aborted transactions."""
    current_leader: CurrentLeader | None = None
    """Of one that is led by another broker; from version 16."""


TopicResults = tuple[str | None, bytes | None, list[FetchPartitionResult]]
"""One topic of a response: its name or its id (whichever the request had), and its partitions' results."""


def _partition_struct(api_version: int) -> Struct:
    """Partition, current epoch, fetch offset, last fetched epoch, log start, max bytes; the count of tags."""
    return Struct(
        ">i"
        + ("i" if api_version >= _CURRENT_EPOCH_FROM else "")
        + "q"
        + ("i" if api_version >= _FLEXIBLE_FROM else "")
        + ("q" if api_version >= _LOG_START_FROM else "")
        + "i"
        + ("B" if api_version >= _FLEXIBLE_FROM else "")
    )


_PARTITION: Final = {version: _partition_struct(version) for version in range(MIN_VERSION, MAX_VERSION + 1)}


def _skip_directory_id(_: memoryview, pos: int) -> int:
    return pos + 16


def _skip_high_watermark(_: memoryview, pos: int) -> int:
    return pos + 8


_PARTITION_TAGS: Final = {
    version: {
        **({0: _skip_directory_id} if version >= _DIRECTORY_ID_FROM else {}),
        **({1: _skip_high_watermark} if version >= _HIGH_WATERMARK_FROM else {}),
    }
    for version in range(_FLEXIBLE_FROM, MAX_VERSION + 1)
}
"""What followers add: the replica's directory id (version 17) and its high watermark (18). Only their sizes
are checked."""
_LIMITS: Final = Struct(">iiib")  # max wait, min bytes, max bytes, isolation level
_SESSION: Final = Struct(">ii")


@decodes("Fetch", MIN_VERSION, MAX_VERSION)
def decode_fetch(api_version: int, frame: memoryview, offset: int) -> tuple[FetchRequest, int]:
    """Decode a Fetch request."""
    request, pos, budget = _read_head(api_version, frame, offset)
    pos, budget = _read_topics(api_version, frame, pos, budget, request.topics)
    if api_version >= _SESSIONS_FROM:
        pos, budget = _read_forgotten(api_version, frame, pos, budget, request.forgotten)
    if api_version >= _RACK_FROM:
        read = read_compact_string if api_version >= _FLEXIBLE_FROM else read_string
        rack_id, pos = read(frame, pos)
        if rack_id is None:
            raise MalformedRequest("the rack id is null")
        request.rack_id = rack_id
    if api_version >= _FLEXIBLE_FROM:
        pos = _read_request_tags(api_version, frame, pos, budget, request)
    return request, pos


def _read_head(api_version: int, frame: memoryview, pos: int) -> tuple[FetchRequest, int, int]:
    replica_id = CONSUMER
    if api_version < _REPLICA_STATE_FROM:
        (replica_id,) = _INT32.unpack_from(frame, pos)
        pos += _INT32.size
    max_wait_ms, min_bytes, max_bytes, isolation_level = _LIMITS.unpack_from(frame, pos)
    pos += _LIMITS.size
    session_id, session_epoch = 0, -1
    if api_version >= _SESSIONS_FROM:
        session_id, session_epoch = _SESSION.unpack_from(frame, pos)
        pos += _SESSION.size
    request = FetchRequest(
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, []
    )
    return request, pos, MAX_REQUEST_ELEMENTS


def _read_topics(
    api_version: int, frame: memoryview, pos: int, budget: int, topics: list[FetchTopic]
) -> tuple[int, int]:
    flexible, by_id = api_version >= _FLEXIBLE_FROM, api_version >= _TOPIC_ID_FROM
    count, pos, budget = read_count(frame, pos, budget, 6 - 3 * flexible, flexible)
    for _ in range(count):
        name, topic_id, pos = read_topic(frame, pos, flexible, by_id)
        partitions: list[FetchPartition] = []
        pos, budget = _read_partitions(api_version, frame, pos, budget, partitions)
        if flexible:
            pos, budget = skip_tags(frame, pos, budget)
        topics.append(FetchTopic(name, topic_id, partitions))
    return pos, budget


def _read_partitions(
    api_version: int, frame: memoryview, pos: int, budget: int, partitions: list[FetchPartition]
) -> tuple[int, int]:
    layout = _PARTITION[api_version]
    size = layout.size
    flexible = api_version >= _FLEXIBLE_FROM
    count, pos, budget = read_count(frame, pos, budget, size, flexible)
    end = pos + count * size
    if flexible and not any(frame[pos + size - 1 : end : size]):  # none has tags, so all have one size
        partitions += [
            FetchPartition(i, epoch, at, last_epoch, start, limit)
            for i, epoch, at, last_epoch, start, limit, _ in layout.iter_unpack(frame[pos:end])
        ]
        return end, budget
    if flexible:
        for _ in range(count):
            index, epoch, offset, last_epoch, log_start, max_bytes, tags = layout.unpack_from(frame, pos)
            pos += size
            if tags:
                pos, budget = skip_tags(frame, pos - 1, budget, _PARTITION_TAGS[api_version])
            partitions.append(FetchPartition(index, epoch, offset, last_epoch, log_start, max_bytes))
        return pos, budget
    fields = layout.iter_unpack(frame[pos:end])
    if api_version >= _CURRENT_EPOCH_FROM:
        partitions += [
            FetchPartition(i, epoch, at, -1, start, limit) for i, epoch, at, start, limit in fields
        ]
    elif api_version >= _LOG_START_FROM:
        partitions += [FetchPartition(i, -1, at, -1, start, limit) for i, at, start, limit in fields]
    else:
        partitions += [FetchPartition(i, -1, at, -1, -1, limit) for i, at, limit in fields]
    return end, budget


def _read_forgotten(
    api_version: int, frame: memoryview, pos: int, budget: int, forgotten: list[ForgottenTopic]
) -> tuple[int, int]:
    flexible, by_id = api_version >= _FLEXIBLE_FROM, api_version >= _TOPIC_ID_FROM
    count, pos, budget = read_count(frame, pos, budget, 6 - 3 * flexible, flexible)
    for _ in range(count):
        name, topic_id, pos = read_topic(frame, pos, flexible, by_id)
        partition_count, pos, budget = read_count(frame, pos, budget, 4, flexible)
        forgotten.append(ForgottenTopic(name, topic_id, unpack_from(f">{partition_count}i", frame, pos)))
        pos += 4 * partition_count
        if flexible:
            pos, budget = skip_tags(frame, pos, budget)
    return pos, budget


def _read_request_tags(
    api_version: int, frame: memoryview, pos: int, budget: int, request: FetchRequest
) -> int:
    """The cluster id (tag 0) is checked and dropped;

    From version 15 a follower's replica id comes in tag 1.
    """

    def read_replica_state(frame: memoryview, pos: int) -> int:
        (request.replica_id, _) = _REPLICA_STATE.unpack_from(frame, pos)
        return skip_tags(frame, pos + _REPLICA_STATE.size, budget)[0]

    known = {0: _skip_compact_string}
    if api_version >= _REPLICA_STATE_FROM:
        known[1] = read_replica_state
    return skip_tags(frame, pos, budget, known)[0]


def _skip_compact_string(frame: memoryview, pos: int) -> int:
    return read_compact_string(frame, pos)[1]


def encode_fetch_response(
    api_version: int,
    correlation_id: int,
    topics: Sequence[TopicResults],
    *,
    throttle_ms: int = 0,
    error_code: int = 0,
    session_id: int = 0,
    nodes: Sequence[NodeEndpoint] = (),
) -> list[Buffer]:
    """Buffers that joined are the framed response, size field and header included.

    Record buffers are in the list as they were given: neither copied nor joined. ``records`` is never null,
    the preferred replica -1. ``throttle_ms``: how long the client is to wait; ``nodes``: where the leaders
    are that it names.
    """
    flexible = api_version >= _FLEXIBLE_FROM
    out: list[Buffer] = []
    head = bytearray(4)  # for the size
    head += _INT32.pack(correlation_id)
    if flexible:
        head.append(0)
    head += _INT32.pack(throttle_ms)
    if api_version >= _SESSIONS_FROM:
        head += _ERROR_SESSION.pack(error_code, session_id)
    head += uvarint(len(topics) + 1) if flexible else _INT32.pack(len(topics))
    for name, topic_id, results in topics:
        if api_version >= _TOPIC_ID_FROM:
            head += _checked_id(topic_id)
        else:
            head += compact_string(name) if flexible else string(name)
        head += uvarint(len(results) + 1) if flexible else _INT32.pack(len(results))
        for result in results:
            head += _result_head(api_version, result)
            if result.records:
                out.append(head)
                out += result.records
                head = bytearray()
            if flexible:
                leader = result.current_leader
                if leader is None or api_version < LEADERS_FROM:
                    head.append(0)
                else:
                    head += current_leader(_LEADER_TAG, leader)
        if flexible:
            head.append(0)
    if flexible:
        head += node_endpoints(nodes if api_version >= LEADERS_FROM else ())
    if head:
        out.append(head)
    first = out[0]
    assert isinstance(first, bytearray)
    _INT32.pack_into(first, 0, sum(map(len, out)) - 4)
    return out


_ERROR_SESSION: Final = Struct(">hi")
_RESULT: Final = Struct(">ihqq")  # index, error, high watermark, last stable offset
_RESULT_WITH_LOG_START: Final = Struct(">ihqqq")


def _result_head(api_version: int, result: FetchPartitionResult) -> bytes:
    """Everything of one partition before its record bytes, the length of those included."""
    size = sum(map(len, result.records))
    fixed = (result.index, result.error_code, result.high_watermark, result.last_stable_offset)
    flexible = api_version >= _FLEXIBLE_FROM
    aborted = result.aborted
    if not aborted:
        listed = _NO_LIST[flexible] if aborted is None else _EMPTY_LIST[flexible]
    elif flexible:
        listed = uvarint(len(aborted) + 1) + b"".join(_ABORTED.pack(*one) + b"\0" for one in aborted)
    else:
        listed = _INT32.pack(len(aborted)) + b"".join(_ABORTED.pack(*one) for one in aborted)
    if api_version >= _LOG_START_FROM:
        head = _RESULT_WITH_LOG_START.pack(*fixed, result.log_start_offset)
    else:
        head = _RESULT.pack(*fixed)
    if flexible:
        return head + listed + _NO_REPLICA + uvarint(size + 1)
    if api_version >= _RACK_FROM:
        return head + listed + _NO_REPLICA + _INT32.pack(size)
    return head + listed + _INT32.pack(size)


_ABORTED: Final = Struct(">qq")  # producer id, first offset
_NO_LIST: Final = (_INT32.pack(-1), b"\0")
_EMPTY_LIST: Final = (_INT32.pack(0), b"\1")
"""Without compact arrays, and with."""
_NO_REPLICA: Final = _INT32.pack(-1)


def _checked_id(topic_id: bytes | None) -> bytes:
    if topic_id is None or len(topic_id) != 16:
        raise ValueError("a topic id of 16 bytes is needed from Fetch 13")
    return topic_id
