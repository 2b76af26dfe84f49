"""What lies on the disks of several stores, as they say, and what is to lie there."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)

from gateway.api import describe_log_dirs
from gateway.log.segment import UNKNOWN
from tests.in_process.several_stores import Cluster, WithStores, batch, produce, produce_until_taken

NO_ERROR, UNKNOWN_PARTITION, INVALID_REPLICA_ASSIGNMENT = 0, 3, 39
STORAGE_ERROR, LOG_DIR_NOT_FOUND = 56, 57


async def ask(client: Any, topics: dict[str, list[int]] | None = None, version: int = 5) -> dict[str, Any]:
    """Results by directory."""
    one = DescribeLogDirsRequest.DescribableLogDirTopic
    wanted = None
    if topics is not None:
        wanted = [one(topic=name, partitions=indexes) for name, indexes in topics.items()]
    answer = await client.ask(DescribeLogDirsRequest(version=version, topics=wanted), DescribeLogDirsResponse)
    return {result.log_dir: result for result in answer.results}


def sizes(result: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, one.partition_index): one.partition_size
        for topic in result.topics
        for one in topic.partitions
    }


def test_sizes_are_those_of_the_batches_that_each_store_keeps(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(made: Cluster) -> None:
        contents = [batch(b"x" * length) for length in (1000, 2000, 3000)]
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            await gateway.broker.create_topic("orders", 2, {}, 3)
            await gateway.broker.create_topic("one", 1, {}, 1)
            for content in contents:
                assert (await produce(client, content))[0] == 0
            assert (await produce(client, contents[0], topic="one"))[0] == 0
            (keeper,) = gateway.partition(0, "one").members
            total = sum(map(len, contents))
            found = await ask(client)
            assert sorted(found) == [f"store {1000 + n} (store-{n})" for n in range(3)]
            for number, (_, result) in enumerate(sorted(found.items())):
                assert (result.error_code, result.is_cordoned) == (0, False)
                assert 0 < result.usable_bytes < result.total_bytes
                expected = {("orders", 0): total, ("orders", 1): 0}
                if keeper == f"{number}" * 32:
                    expected["one", 0] = len(contents[0])
                assert sizes(result) == expected
            # The same over versions, for what is asked and nothing else.
            for version in range(1, 6):
                found = await ask(client, {"orders": [0, 7, -1], "nowhere": [0]}, version)
                assert {tuple(sizes(one).items()) for one in found.values()} == {((("orders", 0), total),)}
            assert all(not one.topics for one in (await ask(client, {})).values())
        # A start closes the segment, and nobody has noted how large it is.
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_ready(0, 1)
            partition = gateway.partition()
            for segment in partition.chain.closed:
                partition.chain.set_size(segment.address, UNKNOWN)
            assert await produce_until_taken(client, contents[1]) == 3
            found = await ask(client, {"orders": [0]})
            total += len(contents[1])
            assert [sizes(one) for one in found.values()] == [{("orders", 0): total}] * 3
            assert [segment.size for segment in partition.chain.closed] == [total - len(contents[1])]

    stores(body)


def test_a_store_that_is_away_is_told_so(stores: WithStores, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(made: Cluster) -> None:
        monkeypatch.setattr(describe_log_dirs, "DISK_SECONDS", 0.3)
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            await gateway.broker.create_topic("orders", 1, {}, 3)
            assert (await produce(client, batch()))[0] == 0
            await made.stop(1)
            found = await ask(client)
            away = found.pop("store 1001 (store-1)")
            assert (away.error_code, away.topics, away.total_bytes) == (STORAGE_ERROR, [], -1)
            assert [one.error_code for one in found.values()] == [0, 0]
            assert all(sizes(one)["orders", 0] > 0 for one in found.values())

    stores(body)


def test_what_another_gateway_leads_is_told_by_that_one(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tools ask each gateway, and add up what they say; each says how full the disks are."""

    async def body(made: Cluster) -> None:
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            await gateway.broker.create_topic("orders", 2, {}, 3)
            assert (await produce(client, batch()))[0] == 0
            monkeypatch.setattr(gateway.broker.gateways, "leads", lambda partition: partition.index == 0)
            for asked in (None, {"orders": [0, 1]}):
                found = await ask(client, asked)
                assert [list(sizes(one)) for one in found.values()] == [[("orders", 0)]] * 3
                assert all(one.total_bytes > 0 for one in found.values())

    stores(body)


def test_a_partition_stays_in_the_directories_where_it_is_told_to_be(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def move(client: Any, path: str, partitions: list[int]) -> list[int]:
        directory = AlterReplicaLogDirsRequest.AlterReplicaLogDir
        topic = directory.AlterReplicaLogDirTopic(name="one", partitions=partitions)
        request = AlterReplicaLogDirsRequest(version=2, dirs=[directory(path=path, topics=[topic])])
        (result,) = (await client.ask(request, AlterReplicaLogDirsResponse)).results
        return [one.error_code for one in result.partitions]

    async def body(made: Cluster) -> None:
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            await gateway.broker.create_topic("one", 1, {}, 1)
            assert (await produce(client, batch(), topic="one"))[0] == 0
            found = await ask(client)
            for path, result in found.items():
                expected = NO_ERROR if sizes(result) else INVALID_REPLICA_ASSIGNMENT
                assert await move(client, path, [0, 1]) == [expected, UNKNOWN_PARTITION]
            assert sorted(len(sizes(result)) for result in found.values()) == [0, 0, 1]
            assert await move(client, "/nowhere", [0, 1]) == [LOG_DIR_NOT_FOUND] * 2
            await made.stop(0)
            await gateway.until_live(1, 2)
            assert await move(client, "store 1000 (store-0)", [0]) == [STORAGE_ERROR]

    stores(body)
