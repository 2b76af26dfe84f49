"""A gateway with its HTTP side in a test's process, and a Kafka client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dafka.processes.standalone import Standalone
from gateway.front.listeners import ListenerSpec
from tests.in_process.in_process import RawClient, running

HTTP = ListenerSpec("HTTP", "127.0.0.1", 0)


class Pages(NamedTuple):
    """What a test needs of them: the process, a client of its Kafka port, and both ports."""

    process: Standalone
    client: RawClient
    kafka_port: int
    port: int


@asynccontextmanager
async def with_pages(data: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> AsyncIterator[Pages]:
    """Settings as `running` has them."""
    async with (
        running(data, monkeypatch, **({"http": HTTP} | settings)) as (process, kafka_port),
        await RawClient.connect(kafka_port) as client,
    ):
        assert process.pages is not None
        port = int(process.pages.addresses[0].rpartition(":")[2])
        yield Pages(process, client, kafka_port, port)
