"""ApiVersions: every version, decoded by kafka-python."""

from __future__ import annotations

import struct
from typing import Any

import pytest
import trio
from kafka.protocol.metadata import ApiVersionsResponse

from gateway.api import api_versions
from gateway.common.handlers import Registry, Request
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


def ask(registry: Registry, version: int, body: bytes, correlation_id: int = -7) -> bytes:
    api = registry.lookup(18)
    assert api is not None
    assert api.handler is not None
    header = RequestHeader(18, version, correlation_id, "t", 0, version >= 3)
    decoded = decode_request(18, version, memoryview(body), 0)
    request = Request(header, decoded, memoryview(body), ("h", 1), "c", trio.Event())

    async def main() -> Any:
        assert api.handler is not None
        return await api.handler(request, None)

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
    same = ApiVersionsResponse(error_code=0, api_keys=decoded.api_keys, throttle_time_ms=0)
    assert encode_response(same, version, 5)[8:] == body


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
