"""Responses of every API but Produce and Fetch: kafka-python's response objects to framed bytes."""

from struct import Struct
from typing import Any, Final

from wireproto.kafka.api_keys import ApiKey, is_flexible

_SIZE_CORRELATION: Final = Struct(">ii")
_SIZE_CORRELATION_TAGS: Final = Struct(">iiB")


def encode_response(response: Any, api_version: int, correlation_id: int) -> bytes:
    """The framed response: size field, header v0 or v1, body.

    ``response`` is an instance of kafka-python's class for the API (as ``MetadataResponse``). Fields that
    the version does not have are left out. ApiVersions always has header v0 (KIP-511), since the client
    does not know yet what the broker speaks; for an unsupported version of it pass version 0 here.

    Raises :class:`ValueError` when the API has no such version, and what :mod:`struct` raises for numbers
    out of range.
    """
    body = response.encode(version=api_version)
    api_key = response.API_KEY
    if api_key != ApiKey.API_VERSIONS and is_flexible(api_key, api_version):
        return _SIZE_CORRELATION_TAGS.pack(5 + len(body), correlation_id, 0) + bytes(body)
    return _SIZE_CORRELATION.pack(4 + len(body), correlation_id) + bytes(body)
