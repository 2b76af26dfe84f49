"""A topic that a client asks for: unknown in the first answer, there soon after, connected or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from tests.in_process.in_process import RawClient, running

UNKNOWN_TOPIC = 3
SECONDS = 20


def asked(*names: str, create: bool = True) -> Any:
    topics = [MetadataRequest.MetadataRequestTopic(name=name, topic_id=None) for name in names]
    return MetadataRequest(version=9, topics=topics, allow_auto_topic_creation=create)


async def found(client: RawClient, *names: str, create: bool = True) -> list[int]:
    """The error of each topic, or the number of its partitions."""
    answer = await client.ask(asked(*names, create=create), MetadataResponse)
    return [-topic.error_code or len(topic.partitions) for topic in answer.topics]


async def until_found(client: RawClient, *names: str, partitions: int) -> None:
    with trio.fail_after(SECONDS):
        while await found(client, *names, create=False) != [partitions] * len(names):
            pass


def test_a_topic_is_unknown_first_and_there_soon_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with (
            running(tmp_path, monkeypatch, partitions=2) as (_, port),
            await RawClient.connect(port) as client,
        ):
            assert await found(client, "a", "b") == [-UNKNOWN_TOPIC] * 2
            await until_found(client, "a", "b", partitions=2)
            assert await found(client, "a", "c") == [2, -UNKNOWN_TOPIC]

    trio.run(main)


def test_it_is_created_although_the_client_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"topic-{number}" for number in range(50)]

    async def main() -> None:
        async with running(tmp_path, monkeypatch) as (_, port):
            async with await RawClient.connect(port) as client:
                assert await found(client, *names) == [-UNKNOWN_TOPIC] * len(names)
            async with await RawClient.connect(port) as client:
                await until_found(client, *names, partitions=1)

    trio.run(main)
