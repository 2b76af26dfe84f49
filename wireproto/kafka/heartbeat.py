"""Heartbeat, versions 0 to 4, without kafka-python: it is what idle consumers send, all the time.

Source: ``HeartbeatRequest.json`` and ``HeartbeatResponse.json`` of Kafka 4.3.
"""

from struct import Struct
from typing import Final, NamedTuple

from wireproto.kafka.decoding import MEMBER_IS_NULL, decodes
from wireproto.kafka.errors import MalformedRequest
from wireproto.kafka.primitives import MAX_REQUEST_ELEMENTS, read_compact_string, read_string, skip_tags

MIN_VERSION: Final = 0
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


@decodes("Heartbeat", MIN_VERSION, MAX_VERSION)
def decode_heartbeat(api_version: int, frame: memoryview, pos: int) -> tuple[HeartbeatRequest, int]:
    """Decode a Heartbeat request."""
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
    if flexible:
        pos, _ = skip_tags(frame, pos, MAX_REQUEST_ELEMENTS)
    return HeartbeatRequest(group_id, generation, member_id, instance), pos


def encode_heartbeat_response(api_version: int, correlation_id: int, error_code: int) -> bytes:
    """The framed response, size field and header included."""
    if api_version >= _FLEXIBLE_FROM:
        return _TAGS_THROTTLE_ERROR_TAGS.pack(12, correlation_id, 0, 0, error_code, 0)
    if api_version >= _THROTTLE_FROM:
        return _THROTTLE_ERROR.pack(10, correlation_id, 0, error_code)
    return _ERROR.pack(6, correlation_id, error_code)
