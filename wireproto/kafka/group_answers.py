"""Answers to JoinGroup, versions 0 to 9, and SyncGroup, 0 to 5, without kafka-python: all members of a group
are answered at the same moment.

Source: ``JoinGroupResponse.json`` and ``SyncGroupResponse.json`` of Kafka 4.3.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final

from wireproto.kafka.primitives import compact_string, string, uvarint

JOIN_THROTTLE_FROM: Final = 2
JOIN_INSTANCE_FROM: Final = 5
JOIN_FLEXIBLE_FROM: Final = 6
JOIN_PROTOCOL_TYPE_FROM: Final = 7
JOIN_SKIP_FROM: Final = 9
SYNC_THROTTLE_FROM: Final = 1
SYNC_FLEXIBLE_FROM: Final = 4
SYNC_PROTOCOL_FROM: Final = 5

_INT32: Final = Struct(">i")
_SIZE_CORRELATION: Final = Struct(">ii")
_ERROR: Final = Struct(">h")
_ERROR_GENERATION: Final = Struct(">hi")

JoinedFields = tuple[str, str | None, bytes]
"""A member as the leader is told of it: its id, its instance id, what it sent for the protocol."""


def encode_join_group_response(
    api_version: int,
    correlation_id: int,
    *,
    error_code: int,
    generation: int,
    protocol_type: str | None,
    protocol: str | None,
    leader: str,
    skip_assignment: bool,
    member_id: str,
    members: Iterable[JoinedFields],
) -> bytes:
    """The framed response, size field and header included.

    Fields that the version does not have are left out. Before version 7 the protocol may not be None.
    """
    flexible = api_version >= JOIN_FLEXIBLE_FROM
    text = compact_string if flexible else string
    parts = _begin(flexible=flexible, throttle=api_version >= JOIN_THROTTLE_FROM)
    parts.append(_ERROR_GENERATION.pack(error_code, generation))
    if api_version >= JOIN_PROTOCOL_TYPE_FROM:
        parts.append(text(protocol_type))
    parts += [text(protocol), text(leader)]
    if api_version >= JOIN_SKIP_FROM:
        parts.append(b"\x01" if skip_assignment else b"\x00")
    parts.append(text(member_id))
    encoded: list[bytes] = []
    count = 0
    for one_id, instance_id, metadata in members:
        count += 1
        encoded.append(text(one_id))
        if api_version >= JOIN_INSTANCE_FROM:
            encoded.append(text(instance_id))
        encoded += [_length(len(metadata), flexible=flexible), metadata]
        if flexible:
            encoded.append(b"\x00")
    parts.append(_length(count, flexible=flexible))
    return _framed(correlation_id, parts + encoded, flexible=flexible)


def encode_sync_group_response(
    api_version: int,
    correlation_id: int,
    *,
    error_code: int,
    protocol_type: str | None,
    protocol: str | None,
    assignment: bytes,
) -> bytes:
    """The framed response, size field and header included.

    Fields that the version does not have are left out.
    """
    flexible = api_version >= SYNC_FLEXIBLE_FROM
    parts = _begin(flexible=flexible, throttle=api_version >= SYNC_THROTTLE_FROM)
    parts.append(_ERROR.pack(error_code))
    if api_version >= SYNC_PROTOCOL_FROM:
        parts += [compact_string(protocol_type), compact_string(protocol)]
    parts += [_length(len(assignment), flexible=flexible), assignment]
    return _framed(correlation_id, parts, flexible=flexible)


def _begin(*, flexible: bool, throttle: bool) -> list[bytes]:
    """Room for size and correlation id, the header's tags, and no throttling."""
    return [b"", b"\x00" if flexible else b"", bytes(4) if throttle else b""]


def _length(length: int, *, flexible: bool) -> bytes:
    return uvarint(length + 1) if flexible else _INT32.pack(length)


def _framed(correlation_id: int, parts: list[bytes], *, flexible: bool) -> bytes:
    if flexible:
        parts.append(b"\x00")
    parts[0] = _SIZE_CORRELATION.pack(4 + sum(map(len, parts)), correlation_id)
    return b"".join(parts)
