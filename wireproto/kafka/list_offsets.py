"""ListOffsets answers, versions 1 to 11, without kafka-python: Spark asks thousands of times per task.

Source: ``ListOffsetsResponse.json`` of Kafka 4.3.
"""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final, NamedTuple

from wireproto.kafka.primitives import compact_string, string, uvarint

_THROTTLE_FROM: Final = 2
_LEADER_EPOCH_FROM: Final = 4
_FLEXIBLE_FROM: Final = 6

_INT32: Final = Struct(">i")
_SIZE_CORRELATION: Final = Struct(">ii")
_OFFSET: Final = Struct(">ihqq")  # partition, error, timestamp, offset
_OFFSET_EPOCH: Final = Struct(">ihqqi")
_OFFSET_EPOCH_TAGS: Final = Struct(">ihqqiB")


class PartitionOffset(NamedTuple):
    """One partition's answer. -1 stands for an unknown timestamp (ms), offset or leader epoch."""

    partition: int
    error_code: int
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


def encode_list_offsets_response(
    api_version: int,
    correlation_id: int,
    topics: Sequence[tuple[str, Iterable[PartitionOffset]]],
    throttle_ms: int = 0,
) -> bytes:
    """The framed response, size field and header included.

    Fields that the version does not have are left out.
    """
    parts = [b""]
    if api_version >= _FLEXIBLE_FROM:
        parts.append(b"\x00" + _INT32.pack(throttle_ms) + uvarint(len(topics) + 1))
        for name, offsets in topics:
            packed = [_OFFSET_EPOCH_TAGS.pack(*offset, 0) for offset in offsets]
            parts += [compact_string(name), uvarint(len(packed) + 1), *packed, b"\x00"]
        parts.append(b"\x00")
    else:
        if api_version >= _THROTTLE_FROM:
            parts.append(_INT32.pack(throttle_ms))
        parts.append(_INT32.pack(len(topics)))
        for name, offsets in topics:
            if api_version >= _LEADER_EPOCH_FROM:
                packed = [_OFFSET_EPOCH.pack(*offset) for offset in offsets]
            else:
                packed = [_OFFSET.pack(*offset[:4]) for offset in offsets]
            parts += [string(name), _INT32.pack(len(packed)), *packed]
    parts[0] = _SIZE_CORRELATION.pack(4 + sum(map(len, parts)), correlation_id)
    return b"".join(parts)
