"""Every config that is said to take effect does: seen by a client, on a topic in use, at once.

A topic config is set for the topic, and then as the default that the broker has of it. What a gateway is
started with is in `test_settings_take_effect.py`.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from functools import partial
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

from dafka.processes.standalone import Standalone
from gateway.broker import Broker
from gateway.catalog import keys
from gateway.configs.topic_configs import TOPIC_CONFIGS
from gateway.log import retention
from gateway.log.partition import Partition
from mesh.protocol.published_address import published_address
from tests.in_process.in_process import RawClient, produce_request, running
from tests.in_process.natives import native_consumer, native_producer
from wireproto.records.builder import build_batch
from wireproto.records.header import read_header
from wireproto.records.iteration import iter_records

TOPIC = "orders"
TOO_LARGE, NOT_ENOUGH, INVALID_TIMESTAMP, INVALID_CONFIG, INVALID_RECORD = 10, 19, 32, 40, 87
DAY_MS = 86_400_000


TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4


class Scene:
    """A topic that holds a record, on a running gateway, and a client of it.

    `by_default` is a topic config that is not set for the topic but as the default of all topics.
    """

    server: Standalone

    def __init__(
        self, broker: Broker, client: RawClient, by_default: str | None = None, topic: str = TOPIC
    ) -> None:
        self.broker, self.client, self.by_default, self.topic = broker, client, by_default, topic

    @property
    def partition(self) -> Partition:
        topic = self.broker.topics.get(self.topic)
        assert topic is not None
        return topic.partitions[0]

    async def set(self, name: str, value: str) -> int:
        """Changes a config of the topic, or of all topics, as a client does; the error code."""
        resource_type, resource_name = TOPIC_RESOURCE, self.topic
        if name == self.by_default:
            resource_type, resource_name = BROKER_RESOURCE, ""
            name = TOPIC_CONFIGS[name].broker_config or ""
        of = IncrementalAlterConfigsRequest.AlterConfigsResource
        config = of.AlterableConfig(name=name, config_operation=0, value=value)
        resource = of(resource_type=resource_type, resource_name=resource_name, configs=[config])
        request = IncrementalAlterConfigsRequest(version=1, resources=[resource], validate_only=False)
        answer = await self.client.ask(request, IncrementalAlterConfigsResponse)
        return int(answer.responses[0].error_code)

    async def produce(
        self, value: bytes | None = b"x", timestamp_ms: int | None = None, *, key: bytes | None = None
    ) -> int:
        """Produces one record; the error code."""
        now_ms = self.broker.context.now_ms()
        records: list[Any] = [(key, value, [], now_ms if timestamp_ms is None else timestamp_ms)]
        answer = await self.client.ask(
            produce_request(bytes(build_batch(records)), topic=self.topic), ProduceResponse
        )
        return int(answer.responses[0].partition_responses[0].error_code)

    async def first_offset(self) -> int:
        """Where the log begins, as a consumer is told."""
        of = ListOffsetsRequest.ListOffsetsTopic
        partition = of.ListOffsetsPartition(partition_index=0, timestamp=-2)
        request = ListOffsetsRequest(
            version=5, replica_id=-1, isolation_level=0, topics=[of(name=self.topic, partitions=[partition])]
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
            topics=[of(topic=self.topic, partitions=[partition])],
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
    # A change of the topic's own closed one, and then each took one record.
    assert len(scene.partition.chain.segments()) == (4 if scene.by_default is None else 3)


async def segment_ms(scene: Scene) -> None:
    assert await scene.set("segment.ms", "1") == 0
    assert await scene.produce() == 0
    chain = len(scene.partition.chain.segments())
    while scene.broker.context.now_ms() <= scene.partition.chain.segments()[-1].opened_ms:
        await trio.lowlevel.checkpoint()
    assert await scene.produce() == 0
    assert len(scene.partition.chain.segments()) == chain + 1


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
    scene.broker.stores.own_disk_bytes = 10_000_000
    await scene.broker.retention.check()
    assert await scene.first_offset() == 0
    assert await scene.set("retention.disk.percent", "15") == 0
    await scene.broker.retention.check()
    assert await scene.first_offset() == 2


async def native_subject(scene: Scene) -> None:
    async with native_producer(scene.server, "readings") as producer:
        await producer.produce(b"published before")
        await producer.drained()
        assert await scene.set("dafka.native.subject", "readings") == 0
        for _ in range(1000):
            if scene.partition.high_watermark > 1:
                break
            await trio.sleep(0.02)
    (record,) = iter_records(await scene.fetched(1))
    assert record.value == b"published before"


async def native_partition(scene: Scene) -> None:
    """The topic has one partition: nothing else can be named, and all comes into that one anyway."""
    assert await scene.set("dafka.native.partition", "1") == INVALID_CONFIG
    assert await scene.set("dafka.native.partition", "0") == 0
    await native_subject(scene)


async def native_retention(scene: Scene) -> None:
    keeping = scene.server.store.native.keeping
    assert await scene.set("dafka.native.retention.ms", "-2") == INVALID_CONFIG
    assert await scene.set("dafka.native.retention.ms", "0") == 0
    await native_subject(scene)
    for _ in range(1000):
        if not keeping.bytes:
            break
        await trio.sleep(0.05)
    assert keeping.bytes == 0
    assert keeping.trimmed_bytes > 0


async def native_key(scene: Scene) -> None:
    assert await scene.set("dafka.native.key", "address") == 0
    await native_subject(scene)
    (record,) = iter_records(await scene.fetched(1))
    assert record.key == dict(record.headers)["dafka.address"]


async def publish(scene: Scene) -> None:
    await published_under(scene, f"{scene.topic}.values")


async def publish_subject(scene: Scene) -> None:
    assert await scene.set("dafka.publish.subject", scene.topic) == 0  # it counts only with the other config
    assert await scene.set("dafka.publish", "values") == INVALID_CONFIG
    assert await scene.set("dafka.publish.subject", "news") == 0
    await published_under(scene, "news")


async def published_under(scene: Scene, subject: str) -> None:
    start = scene.partition.high_watermark
    async with native_consumer(scene.server, subject) as consumer:
        assert await scene.produce(b"for everybody") == 0
        assert await scene.set("dafka.publish", "values") == 0
        while (record := await consumer.receive()).sequence < start:
            pass
    assert record == (published_address(scene.partition.topic.id, 0), start, b"for everybody")


# what is compacted ----------------------------------------------------------------------------------------


async def pairs(scene: Scene) -> list[tuple[bytes | None, bytes | None]]:
    """Key and value of every record, as a consumer reads them."""
    found: list[tuple[bytes | None, bytes | None]] = []
    offset = await scene.first_offset()
    while data := memoryview(await scene.fetched(offset)):
        while data:
            header = read_header(data)
            if header.last_offset >= offset:
                found += [(one.key, one.value) for one in iter_records(data[: header.size])]
                offset = header.last_offset + 1
            data = data[header.size :]
    return found


async def compacted(scene: Scene) -> bool:
    """Whether something is to be compacted now; then it is done. What lies in closed segments counts."""
    for _ in range(4000):
        if not scene.broker.context.catalog.range(keys.CLOSING):
            return await scene.broker.compaction.compact_one()
        await trio.sleep(0.005)
    raise AssertionError("a store has not heard where a segment ends")


async def close_segment(scene: Scene, *, key: bytes) -> None:
    """Another value of some config that does nothing: the next record begins the next segment."""
    flush_ms = int(scene.partition.topic.configs.get("flush.ms", "0")) + 1
    assert await scene.set("flush.ms", str(flush_ms)) == 0
    assert await scene.produce(b"later", key=key) == 0


async def two_values(scene: Scene, ratio: str) -> None:
    """A compacted topic with a closed segment that has two values of one key."""
    assert await scene.set("cleanup.policy", "compact") == 0
    assert await scene.set("min.cleanable.dirty.ratio", ratio) == 0
    for value in (b"old", b"new"):
        assert await scene.produce(value, key=b"k") == 0
    await close_segment(scene, key=b"l")


AFTER = [(b"k", b"new"), (b"l", b"later")]


async def cleanup_policy(scene: Scene) -> None:
    await two_values(scene, "0")
    assert await scene.produce(b"no key") == INVALID_RECORD
    assert await pairs(scene) == [(None, b"x"), (b"k", b"old"), *AFTER]
    assert await compacted(scene)
    assert await pairs(scene) == AFTER
    assert await scene.set("cleanup.policy", "delete") == 0
    assert await scene.produce(b"no key") == 0


async def min_cleanable_dirty_ratio(scene: Scene) -> None:
    await two_values(scene, "1")
    assert not await compacted(scene)
    assert await scene.set("min.cleanable.dirty.ratio", "0.5") == 0
    assert await compacted(scene)
    assert await pairs(scene) == AFTER


async def min_compaction_lag_ms(scene: Scene) -> None:
    assert await scene.set("min.compaction.lag.ms", str(DAY_MS)) == 0
    await two_values(scene, "0")
    assert not await compacted(scene)
    assert await scene.set("min.compaction.lag.ms", "0") == 0
    assert await compacted(scene)
    assert await pairs(scene) == AFTER


async def max_compaction_lag_ms(scene: Scene) -> None:
    await two_values(scene, "1")
    assert not await compacted(scene)
    assert await scene.set("max.compaction.lag.ms", "1") == 0
    await next_millisecond(scene)
    assert await compacted(scene)
    assert (await pairs(scene))[:1] == AFTER[:1]


async def next_millisecond(scene: Scene) -> None:
    since = scene.broker.context.now_ms() + 1
    for _ in range(4000):
        if scene.broker.context.now_ms() > since:
            return
        await trio.sleep(0.001)


async def delete_retention_ms(scene: Scene) -> None:
    """Counted from the first compaction that keeps a tombstone, as the config is then."""
    await two_values(scene, "0")
    assert await scene.produce(None, key=b"kept") == 0
    await close_segment(scene, key=b"l")
    assert await compacted(scene)
    assert await scene.set("delete.retention.ms", "0") == 0
    assert await scene.produce(None, key=b"dropped") == 0
    await close_segment(scene, key=b"l")
    assert await compacted(scene)
    tombstones = [(b"kept", None), (b"dropped", None)]
    assert [pair for pair in await pairs(scene) if pair[1] is None] == tombstones
    await next_millisecond(scene)
    await close_segment(scene, key=b"l")
    assert await compacted(scene)
    assert [pair for pair in await pairs(scene) if pair[1] is None] == tombstones[:1]


# how it is stored -----------------------------------------------------------------------------------------

GZIP, LZ4, ZSTD = 1, 3, 4


def prose() -> bytes:
    """30 KB that compress better the more a codec looks for."""
    chance = random.Random(7)
    words = [bytes(chance.choices(b"abcdefghijklmnop", k=chance.randrange(2, 9))) for _ in range(400)]
    return b" ".join(chance.choices(words, k=5000))


async def stored(scene: Scene, value: bytes) -> tuple[int, int]:
    """Codec and size of the batch that a record comes in."""
    offset = scene.partition.next_offset
    assert await scene.produce(value) == 0
    header = read_header(await scene.fetched(offset))
    return header.attributes & 7, header.size


async def compression_type(scene: Scene) -> None:
    value = prose()
    codec, size = await stored(scene, value)
    assert (codec, size > len(value)) == (0, True)
    for name, expected in (("gzip", GZIP), ("lz4", LZ4), ("zstd", ZSTD)):
        assert await scene.set("compression.type", name) == 0
        codec, size = await stored(scene, value)
        assert (codec, size < len(value) * 2 // 3) == (expected, True)


async def level(scene: Scene, codec: str, number: int, low: int, high: int) -> None:
    value = prose()
    assert await scene.set("compression.type", codec) == 0
    sizes = []
    for chosen in (low, high):
        assert await scene.set(f"compression.{codec}.level", str(chosen)) == 0
        found, size = await stored(scene, value)
        assert found == number
        sizes.append(size)
    assert sizes[1] < sizes[0]


EFFECTS: dict[str, Callable[[Scene], Awaitable[None]]] = {
    "cleanup.policy": cleanup_policy,
    "dafka.native.key": native_key,
    "dafka.native.partition": native_partition,
    "dafka.native.retention.ms": native_retention,
    "dafka.native.subject": native_subject,
    "dafka.publish": publish,
    "dafka.publish.subject": publish_subject,
    "compression.gzip.level": partial(level, codec="gzip", number=GZIP, low=1, high=9),
    "compression.lz4.level": partial(level, codec="lz4", number=LZ4, low=1, high=17),
    "compression.type": compression_type,
    "compression.zstd.level": partial(level, codec="zstd", number=ZSTD, low=-50, high=19),
    "delete.retention.ms": delete_retention_ms,
    "max.compaction.lag.ms": max_compaction_lag_ms,
    "max.message.bytes": max_message_bytes,
    "message.timestamp.after.max.ms": message_timestamp_after_max_ms,
    "message.timestamp.before.max.ms": message_timestamp_before_max_ms,
    "message.timestamp.type": message_timestamp_type,
    "min.cleanable.dirty.ratio": min_cleanable_dirty_ratio,
    "min.compaction.lag.ms": min_compaction_lag_ms,
    "min.insync.replicas": min_insync_replicas,
    "remote.storage.enable": remote_storage_enable,
    "retention.bytes": retention_bytes,
    "retention.disk.percent": retention_disk_percent,
    "retention.ms": retention_ms,
    "segment.bytes": segment_bytes,
    "segment.ms": segment_ms,
}

DEFAULTS = [name for name in EFFECTS if TOPIC_CONFIGS[name].broker_config is not None]
"""Topic configs with an effect whose default can be set for the broker."""


def test_every_config_that_is_said_to_take_effect_has_a_test() -> None:
    said = {config.name for config in TOPIC_CONFIGS.values() if config.effect}
    assert said == EFFECTS.keys()


@pytest.mark.parametrize("name", EFFECTS)
def test_takes_effect(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _see_effect(name, tmp_path, monkeypatch, as_default=False)


@pytest.mark.parametrize("name", DEFAULTS)
def test_takes_effect_as_the_default_of_all_topics(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _see_effect(name, tmp_path, monkeypatch, as_default=True)


def _see_effect(name: str, data: Path, monkeypatch: pytest.MonkeyPatch, *, as_default: bool) -> None:
    brokers: list[Broker] = []
    monkeypatch.setattr(Standalone, "_register_metrics", lambda _self, broker: brokers.append(broker))
    monkeypatch.setattr(retention, "SECOND_LOOK_SECONDS", 0.05)
    configs = {} if as_default and name == "retention.ms" else {"retention.ms": "-1"}

    async def main() -> None:
        with trio.fail_after(60):
            async with (
                running(data, monkeypatch) as (server, port),
                await RawClient.connect(port) as client,
            ):
                await brokers[0].create_topic(TOPIC, 1, configs, 1)
                scene = Scene(brokers[0], client, name if as_default else None)
                scene.server = server
                assert await scene.produce() == 0
                await EFFECTS[name](scene)

    trio.run(main)
