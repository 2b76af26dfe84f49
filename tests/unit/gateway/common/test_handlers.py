"""Registering APIs."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from gateway.common.budget import Budget
from gateway.common.handlers import DEFAULT_REGISTRY, Registry, Request, Response
from gateway.front.registry import load_apis
from wireproto.kafka.errors import MalformedRequest
from wireproto.kafka.headers import RequestHeader


async def handler(request: Request, broker: Any) -> Response:
    return None


def test_what_is_registered_is_found_and_advertised() -> None:
    registry = Registry()
    assert registry.api(key=3, name="Metadata", min_version=0, max_version=13)(handler) is handler
    registry.api(key=0, name="Produce", min_version=3, max_version=13, advertised_min=0, begin=True)(handler)
    assert registry.advertised_versions() == [(0, 0, 13), (3, 0, 13)]
    metadata, produce = registry.lookup(3), registry.lookup(0)
    assert metadata is not None
    assert produce is not None
    assert (metadata.handler, metadata.begin, metadata.min_version) == (handler, None, 0)
    assert (produce.handler, produce.begin, produce.min_version) == (None, handler, 3)
    assert registry.lookup(1) is None
    assert [api.name for api in registry.all()] == ["Produce", "Metadata"]


def test_a_key_is_registered_once() -> None:
    registry = Registry()
    registry.api(key=3, name="Metadata", min_version=0, max_version=13)(handler)
    with pytest.raises(ValueError, match="registered twice: Metadata and Other"):
        registry.api(key=3, name="Other", min_version=0, max_version=1)(handler)


@pytest.mark.parametrize(("lowest", "highest"), [(2, 1), (-1, 1)])
def test_versions_must_make_sense(lowest: int, highest: int) -> None:
    with pytest.raises(ValueError, match="versions"):
        Registry().api(key=3, name="Metadata", min_version=lowest, max_version=highest)


def test_bodies_are_decoded_by_the_schema_of_their_version() -> None:
    registry = Registry()
    registry.api(key=3, name="Metadata", min_version=0, max_version=13)(handler)
    metadata = registry.lookup(3)
    assert metadata is not None
    body = metadata.decoder(1, memoryview(b"xx\0\0\0\1\0\3abc"), 2)
    assert [topic.name for topic in body.topics] == ["abc"]
    with pytest.raises(MalformedRequest):
        metadata.decoder(1, memoryview(b"xx\0\0\0\1\0\3abcd"), 2)


def test_loading_finds_every_api_of_the_package() -> None:
    assert load_apis() is DEFAULT_REGISTRY
    before = DEFAULT_REGISTRY.advertised_versions()
    assert (18, 0, 4) in before
    load_apis()
    assert DEFAULT_REGISTRY.advertised_versions() == before


def test_the_memory_of_an_answer_is_reserved_once_and_never_more_than_there_is() -> None:
    async def main() -> None:
        memory = Budget(100)
        header = RequestHeader(1, 4, 1, None, 0, False)
        request = Request(header, None, memoryview(b""), ("h", 1), "c", trio.Event(), memory)
        await request.reserve(1000)
        assert (request.reserved, memory.used) == (100, 100)
        with pytest.raises(RuntimeError, match="once"):
            await request.reserve(1)
        unbounded = Request(header, None, memoryview(b""), ("h", 1), "c", trio.Event())
        await unbounded.reserve(1000)
        assert unbounded.reserved == 0

    trio.run(main)
