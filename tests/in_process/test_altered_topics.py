"""Topics that are altered while they are used: partitions, configs; over restarts and a lost catalog."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from kafka.protocol.consumer import FetchRequest, FetchResponse

from gateway.configs.alteration import Alteration, Operation, altered, topic_list_default
from gateway.log.partition import PartitionState
from tests.in_process.in_process import RawClient
from tests.in_process.several_stores import (
    Cluster,
    Gateway,
    WithStores,
    batch,
    caught_up,
    produce,
    produce_until_taken,
)
from wireproto.kafka.errors import ErrorCode, KafkaError

NOT_ENOUGH, TOO_LARGE = 19, 10


def topic_of(gateway: Gateway) -> Any:
    found = gateway.broker.topics.get("orders")
    assert found is not None
    return found


async def alter(gateway: Gateway, name: str, value: str | None) -> None:
    operation = Operation.DELETE if value is None else Operation.SET
    change = [Alteration(name, operation, value)]
    await gateway.broker.alter_topic(
        topic_of(gateway), lambda configs: altered(configs, change, topic_list_default)
    )


def values(contents: list[bytes]) -> list[bytes]:
    """What of a batch does not depend on its offset."""
    return [content[21:] for content in contents]


def test_partitions_are_added_under_a_producer_and_last(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(made: Cluster) -> None:
        sent: dict[int, list[bytes]] = {0: [], 1: [], 2: []}

        async def send(client: Any, count: int) -> None:
            for _ in range(count):
                content = batch()
                assert await produce(client, content) == (0, len(sent[0]))
                sent[0].append(content)

        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            await gateway.broker.create_topic("orders", 1, {}, 3)
            await send(client, 3)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send, client, 10)
                await gateway.broker.add_partitions(topic_of(gateway), 3)
            partitions = topic_of(gateway).partitions
            assert [one.state for one in partitions] == [PartitionState.READY] * 3
            sent[2].append(batch())
            assert await produce(client, sent[2][0], partition=2) == (0, 0)
            with pytest.raises(KafkaError) as error:
                await gateway.broker.add_partitions(topic_of(gateway), 3)
            assert error.value.code == ErrorCode.INVALID_PARTITIONS
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_ready(0, 1, 2)
            sent[1].append(batch())
            assert await produce_until_taken(client, sent[1][0], partition=1) == 0
            for index, contents in sent.items():
                assert values(await made.contents(gateway, index)) == values(contents)

    stores(body)


@pytest.mark.parametrize("clock_goes_back_ms", [0, 3_600_000])
def test_partitions_and_configs_come_back_from_the_stores(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch, clock_goes_back_ms: int
) -> None:
    """Also partitions that were never written to, and whatever segment seems to be the newest."""

    async def body(made: Cluster) -> None:
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            await gateway.broker.create_topic("orders", 2, {"retention.ms": "60000"}, 3)
            assert await produce(client, batch(), partition=0) == (0, 0)
            assert await produce(client, batch(), partition=1) == (0, 0)
            await gateway.broker.add_partitions(topic_of(gateway), 5)
            await alter(gateway, "retention.ms", "-1")
            now_ms = gateway.broker.context.now_ms() - clock_goes_back_ms
            monkeypatch.setattr(gateway.broker.context, "now_ms", lambda: now_ms)
            assert await produce(client, batch(), partition=1) == (0, 1)
            assert len(gateway.partition(1).chain.segments()) == 2
        async with made.gateway(monkeypatch, data="another", rebuild_catalog=True) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            await gateway.until_ready(0, 1)
            assert len(topic_of(gateway).partitions) == 5
            if not clock_goes_back_ms:
                assert topic_of(gateway).configs == {"retention.ms": "-1"}
            assert await produce_until_taken(client, batch(), partition=1) == 2
            assert await produce_until_taken(client, batch(), partition=4) == 0

    stores(body)


def test_min_insync_replicas_holds_for_the_next_batch(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The open segment, whose w is fixed, is closed."""

    async def body(made: Cluster) -> None:
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            await gateway.broker.create_topic("orders", 1, {}, 3)
            sent = [batch() for _ in range(4)]
            assert await produce(client, sent[0]) == (0, 0)
            await alter(gateway, "min.insync.replicas", "3")
            assert await produce(client, sent[1]) == (0, 1)
            assert [segment.w for segment in gateway.partition().chain.segments()] == [2, 3]
            assert await produce(client, sent[2]) == (0, 2)
            assert len(gateway.partition().chain.segments()) == 2
            await made.stop(2)
            await gateway.until_live(0, 1)
            assert await produce(client, batch()) == (NOT_ENOUGH, -1)
            await alter(gateway, "min.insync.replicas", None)
            assert await produce_until_taken(client, sent[3]) == 3
            assert [segment.w for segment in gateway.partition().chain.segments()] == [2, 3, 2]
            await made.start(2)
            await gateway.until_live(0, 1, 2)
            await gateway.until_told()
            await caught_up(made, gateway)
            assert values(await made.contents(gateway)) == values(sent)

    stores(body)


def test_defaults_that_are_set_for_the_broker_hold_for_topics_without_their_own(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(made: Cluster) -> None:
        small, large = batch(b"x"), batch(b"x" * 3000)
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            await gateway.broker.create_topic("orders", 1, {}, 3)
            await gateway.broker.create_topic("own", 1, {"max.message.bytes": "5000"}, 3)
            assert await produce(client, large) == (0, 0)
            await gateway.broker.alter_broker(None, lambda _: {"message.max.bytes": "2000"})
            assert (await produce(client, large))[0] == TOO_LARGE
            assert await produce(client, small) == (0, 1)
            assert await produce(client, large, topic="own") == (0, 0)
            assert len(gateway.partition().chain.segments()) == 1
            await gateway.broker.alter_broker(1, lambda _: {"message.max.bytes": "4000"})
            assert await produce(client, large) == (0, 2)
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_ready(0)
            await gateway.broker.create_topic("later", 1, {}, 3)
            assert await produce_until_taken(client, large, topic="later") == 0
            await gateway.broker.alter_broker(1, lambda _: {})
            assert (await produce(client, large, topic="later"))[0] == TOO_LARGE

    stores(body)


def test_changes_at_one_time_are_all_kept_and_a_deleted_topic_takes_none(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(made: Cluster) -> None:
        outcomes: list[ErrorCode] = []

        async def grow(gateway: Gateway, topic: Any, count: int) -> None:
            try:
                await gateway.broker.add_partitions(topic, count)
                outcomes.append(ErrorCode.NONE)
            except KafkaError as error:
                outcomes.append(error.code)

        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            topic = await gateway.broker.create_topic("orders", 1, {}, 3)
            wanted = {"retention.ms": "1", "segment.ms": "2", "retention.bytes": "3", "flush.ms": "4"}
            async with trio.open_nursery() as nursery:
                for name, value in wanted.items():
                    nursery.start_soon(alter, gateway, name, value)
                for count in (3, 3, 2):
                    nursery.start_soon(grow, gateway, topic, count)
            assert topic.configs == wanted
            assert len(topic.partitions) == 3
            assert sorted(outcomes) in (
                [ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS, ErrorCode.INVALID_PARTITIONS],
                [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS],  # two before three
            )
            await gateway.broker.delete_topic(topic)
            again = await gateway.broker.create_topic("orders", 1, {}, 3)
            outcomes.clear()
            await grow(gateway, topic, 5)
            with pytest.raises(KafkaError) as error:
                await gateway.broker.alter_topic(topic, lambda _: {"flush.ms": "9"})
            assert [error.value.code, *outcomes] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
            assert (again.configs, len(again.partitions)) == ({}, 1)
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_ready(0)
            assert (topic_of(gateway).configs, len(topic_of(gateway).partitions)) == ({}, 1)
            assert await produce_until_taken(client, batch()) == 0

    stores(body)


async def until_parked(gateway: Gateway) -> None:
    for _ in range(2000):
        if gateway.broker.parked:
            return
        await trio.sleep(0.01)
    raise AssertionError("no Fetch waits")


def test_a_consumer_that_waits_goes_on_and_reads_the_new_partitions(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(made: Cluster) -> None:
        async def fetch(port_client: RawClient, partition: int, wait_ms: int) -> Any:
            of = FetchRequest.FetchTopic
            wanted = of.FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20)
            request = FetchRequest(
                version=11,
                max_wait_ms=wait_ms,
                min_bytes=1,
                max_bytes=1 << 20,
                topics=[of(topic="orders", partitions=[wanted])],
            )
            answer = await port_client.ask(request, FetchResponse)
            return answer.responses[0].partitions[0]

        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            await gateway.broker.create_topic("orders", 1, {}, 3)
            host, port = client.stream.socket.getpeername()[:2]
            assert host == "127.0.0.1"
            async with await RawClient.connect(port) as consumer:
                found: list[Any] = []

                async def wait() -> None:
                    found.append(await fetch(consumer, 0, 30_000))

                assert (await fetch(client, 1, 0)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(wait)
                    await until_parked(gateway)
                    await gateway.broker.add_partitions(topic_of(gateway), 2)
                    new = await fetch(client, 1, 0)
                    assert (new.error_code, new.high_watermark) == (0, 0)
                    assert await produce(client, batch(), partition=1) == (0, 0)
                    assert not found
                    assert await produce(client, batch(), partition=0) == (0, 0)
                (waited,) = found
                assert (waited.error_code, waited.high_watermark) == (0, 1)
                assert (await fetch(consumer, 1, 30_000)).high_watermark == 1

    stores(body)


def test_more_in_sync_than_there_are_is_refused_before_anything_is_appended(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The open segment could still take the batch, and the one that it belongs into could not."""

    async def body(made: Cluster) -> None:
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            await gateway.broker.create_topic("orders", 1, {}, 3)
            assert await produce(client, batch()) == (0, 0)
            await made.stop(2)
            await gateway.until_live(0, 1)
            assert await produce(client, batch()) == (0, 1)
            await alter(gateway, "min.insync.replicas", "3")
            for acks in (-1, 1):
                assert await produce(client, batch(), acks=acks, timeout_ms=2000) == (NOT_ENOUGH, -1)
            assert gateway.partition().next_offset == 2
            await alter(gateway, "min.insync.replicas", "2")
            assert await produce(client, batch()) == (0, 2)

    stores(body)


def test_no_topic_and_no_partition_is_added_to_a_catalog_that_is_too_large_for_the_stores(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(made: Cluster) -> None:
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            broker = gateway.broker
            await broker.create_topic("orders", 1, {}, 3)
            copies: Any = broker.context.copies
            copies.too_large |= {"A": 1}
            await broker.create_topic("one-store-alone-says-so", 1, {}, 3)
            copies.too_large |= {"B": 1}
            for refused in (
                broker.create_topic("later", 1, {}, 3),
                broker.add_partitions(topic_of(gateway), 2),
            ):
                with pytest.raises(KafkaError, match="delete topics") as error:
                    await refused
                assert error.value.code == ErrorCode.POLICY_VIOLATION
            await alter(gateway, "retention.ms", "60000")
            assert await produce(client, batch()) == (0, 0)
            copies.too_large.clear()
            await broker.create_topic("later", 1, {}, 3)

    stores(body)
