"""Heartbeat, versions 0 to 4, without kafka-python: it is what idle consumers send, all the time.

Source: ``HeartbeatRequest.json`` and ``HeartbeatResponse.json`` of Kafka 4.3.
"""

from struct import Struct
from typing import Final, NamedTuple

from wireproto.kafka.errors import MalformedRequest
from wireproto.kafka.primitives import (
    MAX_REQUEST_ELEMENTS,
    read_compact_string,
    read_string,
    refuses_bad_bytes,
    skip_tags,
)

MAX_VERSION: Final = 4
_THROTTLE_FROM: Final = 1
_INSTANCE_FROM: Final = 3
_FLEXIBLE_FROM: Final = 4

_INT32: Final = Struct(">i")
_ERROR: Final = Struct(">iih")  # size, correlation id, error
_THROTTLE_ERROR: Final = Struct(">iiih")
_TAGS_THROTTLE_ERROR_TAGS: Final = Struct(">iiBihB")


class HeartbeatRequest(NamedTuple):
    """A Heartbeat request."""

    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None


@refuses_bad_bytes
def decode_heartbeat(api_version: int, frame: memoryview, pos: int) -> HeartbeatRequest:
    """Decode the body that starts at ``pos`` and fills the rest of the frame.

    Raises :class:`MalformedRequest` when it is not a Heartbeat request of that version, to the last byte.
    """
    if not 0 <= api_version <= MAX_VERSION:
        raise MalformedRequest(f"Heartbeat has no version {api_version}")
    read = read_compact_string if api_version >= _FLEXIBLE_FROM else read_string
    group_id, pos = read(frame, pos)
    (generation,) = _INT32.unpack_from(frame, pos)
    member_id, pos = read(frame, pos + 4)
    if group_id is None or member_id is None:
        raise MalformedRequest("a group id or member id is null")
    instance: str | None = None
    if api_version >= _INSTANCE_FROM:
        instance, pos = read(frame, pos)
    if api_version >= _FLEXIBLE_FROM:
        pos, _ = skip_tags(frame, pos, MAX_REQUEST_ELEMENTS)
    if pos != len(frame):
        raise MalformedRequest(f"{len(frame) - pos} bytes are left over after the request")
    return HeartbeatRequest(group_id, generation, member_id, instance)


def encode_heartbeat_response(api_version: int, correlation_id: int, error_code: int) -> bytes:
    """The framed response, size field and header included."""
    if api_version >= _FLEXIBLE_FROM:
        return _TAGS_THROTTLE_ERROR_TAGS.pack(12, correlation_id, 0, 0, error_code, 0)
    if api_version >= _THROTTLE_FROM:
        return _THROTTLE_ERROR.pack(10, correlation_id, 0, error_code)
    return _ERROR.pack(6, correlation_id, error_code)
