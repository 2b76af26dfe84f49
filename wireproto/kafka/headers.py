"""Request headers v1 and v2 (Kafka's ``RequestHeader.json``; v0 was only ControlledShutdown's and is gone).

The client id keeps its two-byte length in v2 as well, so that an ApiVersions request of any version can be
read.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from wireproto.kafka.api_keys import FLEXIBLE_FROM
from wireproto.kafka.primitives import MAX_REQUEST_ELEMENTS, read_string, refuses_bad_bytes, skip_tags

_FIXED: Final = Struct(">hhi")  # API key, API version, correlation id

UNKNOWN_BODY: Final = -1
"""`body_offset` of a request whose API key is unknown: where its header ends cannot be known."""


@dataclass(slots=True)
class RequestHeader:
    """The header of one request.

    ``body_offset`` is where the body starts in the frame, or :data:`UNKNOWN_BODY` for an unknown API key.
    ``flexible`` tells whether the body has compact fields and tags.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_offset: int
    flexible: bool


@refuses_bad_bytes
def parse_request_header(frame: memoryview) -> RequestHeader:
    """Read the header at the start of a frame. The version is not checked: unsupported ones need answers too.

    Raises :class:`MalformedRequest` when the frame is too short, the client id not UTF-8 or the tags broken.
    """
    api_key, api_version, correlation_id = _FIXED.unpack_from(frame)
    client_id, pos = read_string(frame, _FIXED.size)
    flexible_from = FLEXIBLE_FROM.get(api_key)
    if flexible_from is None:
        return RequestHeader(api_key, api_version, correlation_id, client_id, UNKNOWN_BODY, False)
    flexible = api_version >= flexible_from
    if flexible and not frame[pos]:
        pos += 1
    elif flexible:
        pos, _ = skip_tags(frame, pos, MAX_REQUEST_ELEMENTS)
    return RequestHeader(api_key, api_version, correlation_id, client_id, pos, flexible)
