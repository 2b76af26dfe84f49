"""ApiVersions (key 18), versions 0 to 4: which APIs and versions this gateway has.

Behaviour
  The first request on almost every connection. The list is the registry's: what has a handler is offered. A
  version above ours is answered with a v0 body: error 35 and the whole list (KIP-511 asks for the
  ApiVersions entry at least; clients then come back with a version that is in it).

  Features (KIP-584): those that this gateway can, and their levels in the cluster. Of Kafka's own
  `metadata.version` and `transaction.version`: by `group.version` and others clients would change to
  protocols that are not here. The epoch goes up by one with each change of levels.

Version notes
  v1 adds the throttle time. v3 is flexible, the client names its software and is told features; those whose
  lowest level is 0 only in v4 (KAFKA-17011: clients of v3 fail on them). The response header is v0 in every
  version.

Differs from Kafka
  The client's software name and version may be any printable text; Kafka answers 42 (INVALID_REQUEST)
  unless it is letters, digits, dots and hyphens (`ApiVersionsRequest.isValid`). We refuse only what could
  not be logged.

Skipped
  The cluster and node id of v5 (KIP-1242): no released client sends it.

The answer is written here by hand, without a schema: it is three numbers per API, sent before anything else
works.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gateway.common.handlers import DEFAULT_REGISTRY, Handler, Registry, Request, Response
from wireproto.kafka.errors import ErrorCode

if TYPE_CHECKING:
    from gateway.cluster.features import Features

API_VERSIONS_KEY = 18
MAX_VERSION = 4
FLEXIBLE_FROM_VERSION = 3

MAX_SOFTWARE_NAME_CHARS = 255
"""Characters of the client's software name, and of its version. Kafka's pattern has no limit; names have
20."""

ZERO_LEVELS_FROM_VERSION = 4

_FRAME = Struct(">iih")  # size, correlation id, error code
_ENTRY = Struct(">hhh")  # API key, lowest version, highest version


_LEVELS = Struct(">hh")
_EPOCH = Struct(">q")


class ToldFeatures(NamedTuple):
    """What clients are told of features: the lowest and highest level of each that this gateway can; the
    number of changes so far (-1: nothing is told); the levels that are in effect.
    """

    supported: Mapping[str, tuple[int, int]] = {}
    epoch: int = -1
    finalized: Mapping[str, int] = {}


NO_FEATURES: Final = ToldFeatures()


def encode_api_versions(
    version: int,
    correlation_id: int,
    error: ErrorCode,
    versions: list[tuple[int, int, int]],
    features: ToldFeatures = NO_FEATURES,
) -> bytes:
    """The framed ApiVersions answer of `version` (`ApiVersionsResponse.json`)."""
    if version >= FLEXIBLE_FROM_VERSION:
        body = bytearray(_unsigned_varint(len(versions) + 1))
        for entry in versions:
            body += _ENTRY.pack(*entry)
            body += b"\0"  # no tagged fields
        body += b"\0\0\0\0"  # throttle time
        body += _tagged(version, features)
    else:
        body = bytearray(len(versions).to_bytes(4, "big"))
        for entry in versions:
            body += _ENTRY.pack(*entry)
        if version >= 1:
            body += b"\0\0\0\0"  # throttle time
    return _FRAME.pack(_FRAME.size - 4 + len(body), correlation_id, error) + body


def _tagged(version: int, features: ToldFeatures) -> bytes:
    """The tagged fields: 0 supported features, 1 epoch of the finalized ones, 2 those (KIP-584)."""
    supported = [
        _feature(name, lowest, highest)
        for name, (lowest, highest) in features.supported.items()
        if lowest or version >= ZERO_LEVELS_FROM_VERSION
    ]
    finalized = [_feature(name, level, level) for name, level in features.finalized.items() if level]
    fields: dict[int, bytes] = {}
    if supported:
        fields[0] = _array(supported)
    if features.epoch >= 0:
        fields[1] = _EPOCH.pack(features.epoch)
    if finalized:
        fields[2] = _array(finalized)
    packed = (_unsigned_varint(tag) + _unsigned_varint(len(one)) + one for tag, one in fields.items())
    return _unsigned_varint(len(fields)) + b"".join(packed)


def _feature(name: str, lower: int, higher: int) -> bytes:
    """Of those that are finalized the higher level comes first: both are equal."""
    encoded = name.encode()
    return _unsigned_varint(len(encoded) + 1) + encoded + _LEVELS.pack(lower, higher) + b"\0"


def _array(elements: list[bytes]) -> bytes:
    return _unsigned_varint(len(elements) + 1) + b"".join(elements)


def unsupported_version_handler(registry: Registry) -> Handler:
    """What answers an ApiVersions request of a version that is not offered; its body is not looked at."""

    async def unsupported_api_versions(request: Request, _broker: Any) -> Response:
        correlation_id = request.header.correlation_id
        return encode_api_versions(
            0, correlation_id, ErrorCode.UNSUPPORTED_VERSION, registry.advertised_versions()
        )

    return unsupported_api_versions


def register(registry: Registry) -> None:
    """Registers ApiVersions, as answered from `registry`."""

    @registry.api(key=API_VERSIONS_KEY, name="ApiVersions", min_version=0, max_version=MAX_VERSION)
    async def api_versions(request: Request, broker: Any) -> Response:
        header = request.header
        error, versions, features = ErrorCode.NONE, registry.advertised_versions(), _told(broker.features)
        if header.api_version >= FLEXIBLE_FROM_VERSION and not (
            _is_acceptable(request.body.client_software_name)
            and _is_acceptable(request.body.client_software_version)
        ):
            error, versions, features = ErrorCode.INVALID_REQUEST, [], NO_FEATURES
        return encode_api_versions(header.api_version, header.correlation_id, error, versions, features)


def _told(features: Features) -> ToldFeatures:
    return ToldFeatures(features.supported, features.finalized.epoch, features.finalized.levels)


def _is_acceptable(name: str) -> bool:
    return len(name) <= MAX_SOFTWARE_NAME_CHARS and name.isprintable()


def _unsigned_varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


register(DEFAULT_REGISTRY)
