"""Every answer of every API that has a place for it says for how long its client is throttled."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.api.api_versions import ToldFeatures, encode_api_versions
from gateway.front.registry import load_apis
from wireproto.kafka.api_keys import API_NAMES, ApiKey
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.fetch import FetchPartitionResult, encode_fetch_response
from wireproto.kafka.responses import encode_response
from wireproto.kafka.schemas import RESPONSE_CLASSES
from wireproto.kafka.throttle import throttled

REGISTRY = load_apis()
CORRELATION_ID = 4711
THROTTLE_MS = 0x01020304

VERSIONS = [
    pytest.param(api.key, version, id=f"{API_NAMES[api.key]} {version}")
    for api in REGISTRY.all()
    for version in range(api.min_version, api.max_version + 1)
    if api.key != ApiKey.PRODUCE  # its encoder is asked: tests/unit/wireproto/kafka/test_produce.py
]


def has_throttle_time(response: Any, version: int) -> bool:
    """By Kafka's schema."""
    field = type(response).fields.get("throttle_time_ms")
    return field is not None and bool(field.for_version_q(version))


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_is_told(key: int, version: int) -> None:
    response = RESPONSE_CLASSES[key](version=version)
    plain = encode_response(response, version, CORRELATION_ID)
    told = plain
    if has_throttle_time(response, version):
        response.throttle_time_ms = THROTTLE_MS
        told = encode_response(response, version, CORRELATION_ID)
        assert told != plain
    assert throttled(key, version, plain, THROTTLE_MS) == told


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("apis", [0, 1, 62, 127, 300])
def test_api_versions_have_it_behind_the_apis(version: int, apis: int) -> None:
    entries = [(key, 0, key % 7) for key in range(apis)]
    features = ToldFeatures({"metadata.version": (7, 20)}, 3, {"metadata.version": 20})
    plain = encode_api_versions(version, CORRELATION_ID, ErrorCode.NONE, entries, features)
    kafka = RESPONSE_CLASSES[ApiKey.API_VERSIONS]
    patched = throttled(ApiKey.API_VERSIONS, version, plain, THROTTLE_MS)
    told = kafka.decode(patched, version=version, header=True, framed=True)
    expected = kafka.decode(plain, version=version, header=True, framed=True)
    if version:
        expected.throttle_time_ms = THROTTLE_MS
    assert told.to_dict() == expected.to_dict()


@pytest.mark.parametrize("version", [4, 7, 11, 12, 18])
def test_fetch_has_it_in_its_first_piece_and_the_records_are_not_copied(version: int) -> None:
    records = memoryview(b"records")
    results = [("t", bytes(16), [FetchPartitionResult(0, 0, 9, 9, 0, [records])])]

    def answer(throttle_ms: int) -> list[Any]:
        return encode_fetch_response(version, CORRELATION_ID, results, throttle_ms=throttle_ms)

    plain = answer(0)
    told = throttled(ApiKey.FETCH, version, plain, THROTTLE_MS)
    assert isinstance(told, list)
    assert b"".join(told) == b"".join(answer(THROTTLE_MS))
    assert any(piece is records for piece in told)
    assert b"".join(plain) == b"".join(answer(0))
