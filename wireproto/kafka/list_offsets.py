"""ListOffsets, versions 1 to 11, without kafka-python: Spark asks thousands of times per task, for all
partitions of a topic at once.

Source: ``ListOffsetsRequest.json`` and ``ListOffsetsResponse.json`` of Kafka 4.3.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from wireproto.kafka.decoding import decodes, read_count, read_topic_name
from wireproto.kafka.primitives import (
    MAX_REQUEST_ELEMENTS,
    compact_string,
    skip_tags,
    string,
    uvarint,
)

MIN_VERSION: Final = 1
MAX_VERSION: Final = 11
_ISOLATION_FROM: Final = 2
_TIMEOUT_FROM: Final = 10
_THROTTLE_FROM: Final = 2
_LEADER_EPOCH_FROM: Final = 4
_FLEXIBLE_FROM: Final = 6

_INT32: Final = Struct(">i")
_SIZE_CORRELATION: Final = Struct(">ii")
_OFFSET: Final = Struct(">ihqq")  # partition, error, timestamp, offset
_OFFSET_EPOCH: Final = Struct(">ihqqi")
_OFFSET_EPOCH_TAGS: Final = Struct(">ihqqiB")


_ASKED: Final = Struct(">iq")  # partition, timestamp
_ASKED_EPOCH: Final = Struct(">iiq")  # partition, current leader epoch, timestamp
_ASKED_EPOCH_TAGS: Final = Struct(">iiqB")

NO_EPOCH: Final = -1
"""A leader epoch that is not given."""

AskedOffset = tuple[int, int, int]
"""What is asked of one partition: its index, the leader epoch that the client knows, the timestamp in ms (or
a special one below 0).
"""


@dataclass(slots=True)
class AskedOffsets:
    """One topic of a request."""

    name: str
    partitions: list[AskedOffset]


@dataclass(slots=True)
class ListOffsetsRequest:
    """A ListOffsets request. What the version does not have is as if not given."""

    replica_id: int
    isolation_level: int
    topics: list[AskedOffsets]


@decodes("ListOffsets", MIN_VERSION, MAX_VERSION)
def decode_list_offsets(api_version: int, frame: memoryview, pos: int) -> tuple[ListOffsetsRequest, int]:
    """Decode a ListOffsets request."""
    flexible = api_version >= _FLEXIBLE_FROM
    (replica_id,) = _INT32.unpack_from(frame, pos)
    pos += 4
    isolation_level = 0
    if api_version >= _ISOLATION_FROM:
        isolation_level = frame[pos] - ((frame[pos] & 0x80) << 1)  # signed
        pos += 1
    request = ListOffsetsRequest(replica_id, isolation_level, [])
    count, pos, budget = read_count(frame, pos, MAX_REQUEST_ELEMENTS, 6 - 3 * flexible, flexible)
    for _ in range(count):
        name, pos = read_topic_name(frame, pos, flexible)
        partitions, pos, budget = _read_partitions(api_version, frame, pos, budget)
        if flexible:
            pos, budget = skip_tags(frame, pos, budget)
        request.topics.append(AskedOffsets(name, partitions))
    if api_version >= _TIMEOUT_FROM:
        _INT32.unpack_from(frame, pos)
        pos += 4
    if flexible:
        pos, budget = skip_tags(frame, pos, budget)
    return request, pos


def _read_partitions(
    api_version: int, frame: memoryview, pos: int, budget: int
) -> tuple[list[AskedOffset], int, int]:
    if api_version < _FLEXIBLE_FROM:
        layout = _ASKED_EPOCH if api_version >= _LEADER_EPOCH_FROM else _ASKED
        count, pos, budget = read_count(frame, pos, budget, layout.size, False)
        end = pos + count * layout.size
        if layout is _ASKED:
            asked = [(index, NO_EPOCH, time) for index, time in layout.iter_unpack(frame[pos:end])]
        else:
            asked = list(layout.iter_unpack(frame[pos:end]))
        return asked, end, budget
    layout = _ASKED_EPOCH_TAGS
    count, pos, budget = read_count(frame, pos, budget, layout.size, True)
    end = pos + count * layout.size
    if not any(frame[pos + layout.size - 1 : end : layout.size]):  # none has tags, so all have one size
        return [(i, epoch, time) for i, epoch, time, _ in layout.iter_unpack(frame[pos:end])], end, budget
    asked = []
    for _ in range(count):
        index, epoch, time, _ = layout.unpack_from(frame, pos)
        pos, budget = skip_tags(frame, pos + layout.size - 1, budget)
        asked.append((index, epoch, time))
    return asked, pos, budget


class PartitionOffset(NamedTuple):
    """One partition's answer. -1 stands for an unknown timestamp (ms), offset or leader epoch."""

    partition: int
    error_code: int
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


OffsetFields = tuple[int, int, int, int, int]
"""The fields of a :class:`PartitionOffset`."""


def encode_list_offsets_response(
    api_version: int,
    correlation_id: int,
    topics: Sequence[tuple[str, Iterable[OffsetFields]]],
    throttle_ms: int = 0,
) -> bytes:
    """The framed response, size field and header included.

    Fields that the version does not have are left out.
    """
    parts = [b""]
    if api_version >= _FLEXIBLE_FROM:
        parts.append(b"\x00" + _INT32.pack(throttle_ms) + uvarint(len(topics) + 1))
        for name, offsets in topics:
            pack = _OFFSET_EPOCH_TAGS.pack
            packed = [pack(i, error, time, at, epoch, 0) for i, error, time, at, epoch in offsets]
            parts += [compact_string(name), uvarint(len(packed) + 1), *packed, b"\x00"]
        parts.append(b"\x00")
    else:
        if api_version >= _THROTTLE_FROM:
            parts.append(_INT32.pack(throttle_ms))
        parts.append(_INT32.pack(len(topics)))
        for name, offsets in topics:
            if api_version >= _LEADER_EPOCH_FROM:
                pack = _OFFSET_EPOCH.pack
                packed = [pack(i, error, time, at, epoch) for i, error, time, at, epoch in offsets]
            else:
                pack = _OFFSET.pack
                packed = [pack(i, error, time, at) for i, error, time, at, _ in offsets]
            parts += [string(name), _INT32.pack(len(packed)), *packed]
    parts[0] = _SIZE_CORRELATION.pack(4 + sum(map(len, parts)), correlation_id)
    return b"".join(parts)
