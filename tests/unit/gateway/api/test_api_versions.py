"""ApiVersions: every version, decoded by kafka-python."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from kafka.protocol.metadata import ApiVersionsResponse

from gateway.api import api_versions
from gateway.cluster.feature_levels import LEVELS_BEFORE
from gateway.common.handlers import Registry, Request
from gateway.leadership.records import FinalizedFeatures
from wireproto.kafka.headers import RequestHeader
from wireproto.kafka.requests import decode_request
from wireproto.kafka.responses import encode_response


def a_registry(apis: int = 3) -> Registry:
    registry = Registry()
    api_versions.register(registry)

    async def handler(request: Request, broker: Any) -> None:
        return None

    registry.api(key=0, name="Produce", min_version=3, max_version=13, advertised_min=0)(handler)
    for key in range(1000, 1000 + apis):
        registry.api(key=key, name=f"Api{key}", min_version=1, max_version=key - 990)(handler)
    return registry


def the_features(finalized: FinalizedFeatures | None = None) -> Any:
    supported = {"metadata.version": (30, 30), "dafka.first": (0, 300)}
    return SimpleNamespace(supported=supported, finalized=finalized or LEVELS_BEFORE)


def ask(
    registry: Registry, version: int, body: bytes, correlation_id: int = -7, features: Any = None
) -> bytes:
    api = registry.lookup(18)
    assert api is not None
    assert api.handler is not None
    header = RequestHeader(18, version, correlation_id, "t", 0, version >= 3)
    decoded = decode_request(18, version, memoryview(body), 0)
    request = Request(header, decoded, memoryview(body), ("h", 1), "c", trio.Event())

    async def main() -> Any:
        assert api.handler is not None
        return await api.handler(request, SimpleNamespace(features=features or the_features()))

    response = trio.run(main)
    assert isinstance(response, bytes)
    assert struct.unpack_from(">ii", response) == (len(response) - 4, correlation_id)
    return response[8:]


def flexible(name: str = "apache-kafka-java", version: str = "4.3.1") -> bytes:
    encoded = b""
    for text in (name, version):
        length = len(text.encode()) + 1
        assert length < 2**14
        encoded += bytes([length]) if length < 128 else bytes([length & 0x7F | 0x80, length >> 7])
        encoded += text.encode()
    return encoded + b"\0"


@pytest.mark.parametrize("apis", [0, 1, 70, 200], ids=lambda n: f"{n} more APIs")
@pytest.mark.parametrize("version", range(5))
def test_every_registered_api_is_listed(version: int, apis: int) -> None:
    registry = a_registry(apis)
    body = ask(registry, version, flexible() if version >= 3 else b"")
    decoded = ApiVersionsResponse.decode(body, version=version)
    assert decoded.error_code == 0
    assert [(a.api_key, a.min_version, a.max_version) for a in decoded.api_keys] == [
        (0, 0, 13), (18, 0, 4), *((key, 1, key - 990) for key in range(1000, 1000 + apis)),
    ]  # fmt: skip
    # To the last byte what kafka-python would have written.
    told = {name: getattr(decoded, name) for name in TOLD if version >= 3}
    same = ApiVersionsResponse(error_code=0, api_keys=decoded.api_keys, throttle_time_ms=0, **told)
    assert encode_response(same, version, 5)[8:] == body


TOLD = ("supported_features", "finalized_features_epoch", "finalized_features")


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("level", [0, 1, 300])
def test_features_are_told_and_their_levels(version: int, level: int) -> None:
    """Clients of v3 fail on features whose lowest level is 0; nobody is told of levels that are 0."""
    finalized = FinalizedFeatures(7, {"metadata.version": 30, "dafka.first": level})
    body = ask(a_registry(200), version, flexible(), features=the_features(finalized))
    decoded = ApiVersionsResponse.decode(body, version=version)
    supported = [(one.name, one.min_version, one.max_version) for one in decoded.supported_features]
    assert supported == [("metadata.version", 30, 30), ("dafka.first", 0, 300)][: version - 2]
    told = [(one.name, one.min_version_level, one.max_version_level) for one in decoded.finalized_features]
    assert told == [("metadata.version", 30, 30), ("dafka.first", level, level)][: 2 if level else 1]
    assert decoded.finalized_features_epoch == 7


@pytest.mark.parametrize(
    ("name", "version", "accepted"),
    [
        ("librdkafka", "2.15.0", True),
        ("", "", True),
        ("my client (β)", "1", True),
        ("-x-", "..", True),
        ("a" * 255, "1", True),
        ("a" * 256, "1", False),
        ("a", "1" * 256, False),
        ("two\nlines", "1", False),
        ("a", "\x1b[31m", False),
    ],
)
def test_only_client_names_that_cannot_be_logged_are_refused(name: str, version: str, accepted: bool) -> None:
    body = ask(a_registry(), 3, flexible(name, version))
    if accepted:
        assert len(ApiVersionsResponse.decode(body, version=3).api_keys) == 5
    else:
        # Error 42, no APIs (compact), no throttle time, no tags: as Kafka, in the version that was asked for.
        assert body == bytes.fromhex("002a 01 00000000 00")
