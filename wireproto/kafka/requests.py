"""Requests of every API but Produce and Fetch: bytes to kafka-python's request objects, strictly.

Fields have kafka-python's names (Kafka's in snake_case). A field that the version does not have reads as
its default. Do not change a decoded list in place unless the version has the field: defaults are shared.
"""

from functools import cache
from struct import error as struct_error
from typing import Any, Final

from wireproto.kafka.api_keys import FLEXIBLE_FROM, ApiKey
from wireproto.kafka.codegen import Decoder, compile_decoder
from wireproto.kafka.errors import MalformedRequest
from wireproto.kafka.primitives import ends_badly
from wireproto.kafka.schemas import REQUEST_CLASSES, schema_versions

COPY_BYTES: Final = 64 * 1024
"""Bodies up to so many bytes are copied, since bytes are read faster than a memoryview. Of a bigger one
nothing is copied before it has been checked."""

LEFT_OVER_BYTES: Final = 3
"""Bytes that are passed over behind a Metadata request of version 9 and later. librdkafka (2.16) asks for all
topics with a count of four bytes where these versions have one, so three bytes of its own are left behind
what was read. Kafka passes over whatever is left of any request."""

SCRAM_LEFT_OVER_BYTES: Final = 1
"""The same behind AlterUserScramCredentials: librdkafka (2.16) ends it with its tagged fields twice."""


def _left_over_bytes(api_key: int, api_version: int) -> int:
    if api_key == ApiKey.ALTER_USER_SCRAM_CREDENTIALS:
        return SCRAM_LEFT_OVER_BYTES
    return LEFT_OVER_BYTES if api_key == ApiKey.METADATA and api_version >= FLEXIBLE_FROM[api_key] else 0


@cache  # as many entries as there are versions of APIs: about 200
def _decoder(api_key: int, api_version: int) -> Decoder | None:
    versions = schema_versions(api_key)
    if versions is None or not versions[0] <= api_version <= versions[1]:
        return None
    return compile_decoder(REQUEST_CLASSES[api_key], api_version)


def decode_request(api_key: int, api_version: int, frame: memoryview, offset: int) -> Any:
    """Decode the body that starts at ``offset`` and fills the rest of the frame.

    The result is an instance of kafka-python's class for the API (as ``MetadataRequest``) whose ``version``
    is set; it shares no memory with the frame. A zero uuid is ``None``, other uuids are ``uuid.UUID``.

    Raises :class:`MalformedRequest` when it is not a request of that version, to the last byte (but for
    ``LEFT_OVER_BYTES``), or when there is no such API or version.
    """
    decode = _decoder(api_key, api_version)
    if decode is None:
        raise MalformedRequest(f"there is no API {api_key} version {api_version}")
    data: bytes | memoryview = frame[offset:]
    if len(data) <= COPY_BYTES:
        data = bytes(data)
    try:
        request, end = decode(data, 0)
    except (IndexError, struct_error, UnicodeDecodeError) as error:
        raise ends_badly(error) from None
    if end > len(data):
        raise MalformedRequest("the request ends in the middle of a field")
    if end < len(data) and len(data) - end > _left_over_bytes(api_key, api_version):
        raise MalformedRequest(f"{len(data) - end} bytes are left over after the request")
    return request
