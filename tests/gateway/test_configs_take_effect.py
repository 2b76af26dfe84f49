"""Every topic config that is said to take effect does: seen by a client, on a topic in use, at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from kafka.protocol.admin import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from kafka.protocol.producer import ProduceResponse

from gateway.broker import Broker
from gateway.configs.topic_configs import TOPIC_CONFIGS
from gateway.log import retention
from gateway.log.partition import Partition
from gateway.standalone import Standalone
from tests.gateway.in_process import RawClient, produce_request, running
from wireproto.records.builder import build_batch
from wireproto.records.header import read_header

TOPIC = "orders"
TOO_LARGE, NOT_ENOUGH, INVALID_TIMESTAMP, INVALID_CONFIG = 10, 19, 32, 40
DAY_MS = 86_400_000


class Scene:
    """A topic that holds a record, on a running gateway, and a client of it."""

    def __init__(self, broker: Broker, client: RawClient) -> None:
        self.broker, self.client = broker, client

    @property
    def partition(self) -> Partition:
        topic = self.broker.topics.get(TOPIC)
        assert topic is not None
        return topic.partitions[0]

    async def set(self, name: str, value: str) -> int:
        """Changes a config of the topic as a client does; the error code."""
        of = IncrementalAlterConfigsRequest.AlterConfigsResource
        config = of.AlterableConfig(name=name, config_operation=0, value=value)
        resource = of(resource_type=2, resource_name=TOPIC, configs=[config])
        request = IncrementalAlterConfigsRequest(version=1, resources=[resource], validate_only=False)
        answer = await self.client.ask(request, IncrementalAlterConfigsResponse)
        return int(answer.responses[0].error_code)

    async def produce(self, value: bytes = b"x", timestamp_ms: int | None = None) -> int:
        """Produces one record; the error code."""
        now_ms = self.broker.context.now_ms()
        records: list[Any] = [(None, value, [], now_ms if timestamp_ms is None else timestamp_ms)]
        answer = await self.client.ask(
            produce_request(bytes(build_batch(records)), topic=TOPIC), ProduceResponse
        )
        return int(answer.responses[0].partition_responses[0].error_code)

    async def first_offset(self) -> int:
        """Where the log begins, as a consumer is told."""
        of = ListOffsetsRequest.ListOffsetsTopic
        partition = of.ListOffsetsPartition(partition_index=0, timestamp=-2)
        request = ListOffsetsRequest(
            version=5, replica_id=-1, isolation_level=0, topics=[of(name=TOPIC, partitions=[partition])]
        )
        answer = await self.client.ask(request, ListOffsetsResponse)
        return int(answer.topics[0].partitions[0].offset)

    async def fetched(self, offset: int) -> bytes:
        """The batch at an offset, as a consumer gets it."""
        of = FetchRequest.FetchTopic
        partition = of.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            version=11,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 20,
            topics=[of(topic=TOPIC, partitions=[partition])],
        )
        answer = await self.client.ask(request, FetchResponse)
        return bytes(answer.responses[0].partitions[0].records)


async def max_message_bytes(scene: Scene) -> None:
    assert await scene.produce(b"x" * 1000) == 0
    assert await scene.set("max.message.bytes", "500") == 0
    assert await scene.produce(b"x" * 1000) == TOO_LARGE
    assert await scene.produce() == 0


async def message_timestamp_type(scene: Scene) -> None:
    assert await scene.set("message.timestamp.type", "LogAppendTime") == 0
    before_ms = scene.broker.context.now_ms()
    assert await scene.produce(timestamp_ms=before_ms - DAY_MS) == 0
    header = read_header(await scene.fetched(1))
    assert header.max_timestamp >= before_ms
    assert header.attributes & 0x08


async def message_timestamp_before_max_ms(scene: Scene) -> None:
    old_ms = scene.broker.context.now_ms() - DAY_MS
    assert await scene.produce(timestamp_ms=old_ms) == 0
    assert await scene.set("message.timestamp.before.max.ms", str(DAY_MS // 2)) == 0
    assert await scene.produce(timestamp_ms=old_ms) == INVALID_TIMESTAMP
    assert await scene.produce() == 0


async def message_timestamp_after_max_ms(scene: Scene) -> None:
    later_ms = scene.broker.context.now_ms() + DAY_MS
    assert await scene.produce(timestamp_ms=later_ms) == INVALID_TIMESTAMP
    assert await scene.set("message.timestamp.after.max.ms", str(2 * DAY_MS)) == 0
    assert await scene.produce(timestamp_ms=later_ms) == 0


async def min_insync_replicas(scene: Scene) -> None:
    """There is one store."""
    assert await scene.set("min.insync.replicas", "2") == 0
    assert await scene.produce() == NOT_ENOUGH
    assert await scene.set("min.insync.replicas", "1") == 0
    assert await scene.produce() == 0


async def segment_bytes(scene: Scene) -> None:
    assert await scene.set("segment.bytes", "1048576") == 0
    for _ in range(3):
        assert await scene.produce(b"x" * 600_000) == 0
    assert len(scene.partition.chain()) == 4  # the change closed one, and then each took one record


async def segment_ms(scene: Scene) -> None:
    assert await scene.set("segment.ms", "1") == 0
    assert await scene.produce() == 0
    chain = len(scene.partition.chain())
    while scene.broker.context.now_ms() <= scene.partition.chain()[-1].opened_ms:
        await trio.lowlevel.checkpoint()
    assert await scene.produce() == 0
    assert len(scene.partition.chain()) == chain + 1


async def remote_storage_enable(scene: Scene) -> None:
    assert await scene.set("remote.storage.enable", "true") == INVALID_CONFIG
    assert await scene.set("remote.storage.enable", "false") == 0


async def retention_ms(scene: Scene) -> None:
    old_ms = scene.broker.context.now_ms() - DAY_MS
    assert await scene.produce(timestamp_ms=old_ms) == 0
    await scene.broker.retention.check()
    assert await scene.first_offset() == 0
    assert await scene.set("retention.ms", str(DAY_MS // 2)) == 0
    assert await scene.produce() == 0  # the change closed the segment of those before
    await scene.broker.retention.check()
    assert await scene.first_offset() == 0  # the first record of them is young
    assert await scene.set("retention.ms", "0") == 0
    await scene.broker.retention.check()
    assert await scene.first_offset() == 3


async def retention_bytes(scene: Scene) -> None:
    for _ in range(3):
        assert await scene.set("segment.bytes", "1048576") == 0
        assert await scene.produce(b"x" * 600_000) == 0
    await scene.broker.retention.check()
    assert await scene.first_offset() == 0
    assert await scene.set("retention.bytes", "1000000") == 0
    await scene.broker.retention.check()
    assert await scene.first_offset() == 2  # what is left is more than that, without its first one it is less


async def retention_disk_percent(scene: Scene) -> None:
    for _ in range(3):
        assert await scene.set("segment.bytes", "1048576") == 0
        assert await scene.produce(b"x" * 600_000) == 0
    scene.broker.context.stores.own_disk_bytes = 10_000_000
    await scene.broker.retention.check()
    assert await scene.first_offset() == 0
    assert await scene.set("retention.disk.percent", "15") == 0
    await scene.broker.retention.check()
    assert await scene.first_offset() == 2


EFFECTS: dict[str, Callable[[Scene], Awaitable[None]]] = {
    "max.message.bytes": max_message_bytes,
    "message.timestamp.after.max.ms": message_timestamp_after_max_ms,
    "message.timestamp.before.max.ms": message_timestamp_before_max_ms,
    "message.timestamp.type": message_timestamp_type,
    "min.insync.replicas": min_insync_replicas,
    "remote.storage.enable": remote_storage_enable,
    "retention.bytes": retention_bytes,
    "retention.disk.percent": retention_disk_percent,
    "retention.ms": retention_ms,
    "segment.bytes": segment_bytes,
    "segment.ms": segment_ms,
}

SEEN_ELSEWHERE: dict[str, str] = {}
"""Configs whose effect another test sees from a client, and which."""


def test_every_config_that_is_said_to_take_effect_has_a_test() -> None:
    said = {config.name for config in TOPIC_CONFIGS.values() if config.effect}
    assert said == EFFECTS.keys() | SEEN_ELSEWHERE.keys()


@pytest.mark.parametrize("name", EFFECTS)
def test_takes_effect(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers: list[Broker] = []
    monkeypatch.setattr(Standalone, "_register_metrics", lambda _self, broker: brokers.append(broker))

    monkeypatch.setattr(retention, "SECOND_LOOK_SECONDS", 0.05)

    async def main() -> None:
        with trio.fail_after(60):
            async with (
                running(tmp_path, monkeypatch) as (_, port),
                await RawClient.connect(port) as client,
            ):
                await brokers[0].create_topic(TOPIC, 1, {"retention.ms": "-1"}, 1)
                scene = Scene(brokers[0], client)
                assert await scene.produce() == 0
                await EFFECTS[name](scene)

    trio.run(main)
