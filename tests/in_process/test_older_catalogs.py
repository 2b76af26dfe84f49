"""A catalog that goes back in time is refused, whatever it has lost; a lost one comes back whole."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from kafka.protocol.admin import DeleteRecordsRequest, DeleteRecordsResponse
from kafka.protocol.producer import InitProducerIdRequest, InitProducerIdResponse

from dafka.processes.standalone import Standalone
from gateway.broker import Broker
from gateway.catalog import keys
from gateway.cluster.found_segments import CannotRebuild
from mesh.data_directory import DataDirectoryRefused
from tests.in_process import in_process
from tests.in_process.in_process import RawClient, running
from tests.in_process.several_stores import batch, cluster, incarnation, produce

Change = Callable[["Serving", RawClient], Awaitable[None]]

TRANSACTION_SECONDS = 5.0


class Serving(Standalone):
    """A standalone whose broker tests can reach."""

    broker: Broker

    def _register_metrics(self, broker: Broker) -> None:
        self.broker = broker


@asynccontextmanager
async def serving(
    data: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> AsyncIterator[tuple[Serving, RawClient]]:
    monkeypatch.setattr(in_process, "Standalone", Serving)
    async with (
        running(data, monkeypatch, **settings) as (server, port),
        await RawClient.connect(port) as client,
    ):
        assert isinstance(server, Serving)
        yield server, client


async def producer_id(client: RawClient) -> int:
    request = InitProducerIdRequest(version=1, transactional_id=None, transaction_timeout_ms=60_000)
    answer = await client.ask(request, InitProducerIdResponse)
    assert answer.error_code == 0
    return int(answer.producer_id)


async def delete_records(client: RawClient, offset: int) -> int:
    topic = DeleteRecordsRequest.DeleteRecordsTopic
    wanted = topic(
        version=1,
        name="orders",
        partitions=[topic.DeleteRecordsPartition(version=1, partition_index=0, offset=offset)],
    )
    request = DeleteRecordsRequest(version=1, topics=[wanted], timeout_ms=5000)
    answer = (await client.ask(request, DeleteRecordsResponse)).topics[0].partitions[0]
    assert answer.error_code == 0
    return int(answer.low_watermark)


async def a_topic(server: Serving, client: RawClient) -> None:
    await server.broker.create_topic("newer", 1, {}, 1)
    assert await produce(client, batch(), topic="newer") == (0, 0)
    await server.broker.remembered()


async def a_block_of_producer_ids(_server: Serving, client: RawClient) -> None:
    first = last = await producer_id(client)
    while last < first + 1000:
        last = await producer_id(client)


async def a_config(server: Serving, _client: RawClient) -> None:
    await server.broker.alter_broker(None, lambda _: {"log.retention.ms": "12345"})
    await server.broker.remembered()


async def several_changes(broker: Broker, count: int) -> None:
    for number in range(count):
        await broker.alter_broker(None, partial(_retention, number))


def _retention(number: int, _configs: Mapping[str, str]) -> dict[str, str]:
    return {"log.retention.ms": f"{number}"}


async def a_log_start(_server: Serving, client: RawClient) -> None:
    assert await delete_records(client, 1) == 1


@pytest.mark.parametrize("change", [a_topic, a_block_of_producer_ids, a_config, a_log_start])
def test_a_catalog_from_before_a_change_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    async def main() -> None:
        data, backup, newer = tmp_path / "data", tmp_path / "backup", tmp_path / "newer"
        async with serving(data, monkeypatch, topics=(("orders", 1),)) as (server, client):
            assert (await produce(client, batch()))[0] == 0
            assert await server.remembering.keep(TRANSACTION_SECONDS)
        shutil.copytree(data / "gateway", backup)
        async with serving(data, monkeypatch) as (server, client):
            await change(server, client)
        shutil.move(data / "gateway", newer)
        for _ in range(2):
            shutil.rmtree(data / "gateway", ignore_errors=True)
            shutil.copytree(backup, data / "gateway")
            refused = pytest.RaisesExc(DataDirectoryRefused, match="the catalog is older than store 1000")
            with pytest.RaisesGroup(refused, flatten_subgroups=True) as raised:
                async with serving(data, monkeypatch):
                    raise AssertionError("it serves")
            (error,) = leaves(raised.value)
            assert error.exit_code == 3
            assert "--rebuild-catalog" in str(error)
        shutil.rmtree(data / "gateway")
        shutil.move(newer, data / "gateway")
        async with serving(data, monkeypatch) as (_, client):
            assert (await produce(client, batch())) == (0, 1)

    trio.run(main)


def leaves(error: BaseException) -> list[Any]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in leaves(one)]
    return [error]


def test_a_fork_is_refused_however_far_it_went(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is away while an older catalog goes on, to more than the store remembers."""

    async def main() -> None:
        async with cluster(tmp_path, monkeypatch, stores=2) as made:
            async with made.gateway(monkeypatch) as (gateway, _):
                await gateway.until_live(0, 1)
                await gateway.broker.create_topic("orders", 1, {}, 1)
                assert await gateway.remembering.keep(TRANSACTION_SECONDS)
                await made.stop(1)
                backup = tmp_path / "backup"
                shutil.copytree(tmp_path / "gateway", backup)
                await several_changes(gateway.broker, 5)
                await trio.sleep(1.5)  # the store that is there is told within a second
            await made.stop(0)
            shutil.rmtree(tmp_path / "gateway")
            shutil.copytree(backup, tmp_path / "gateway")
            await made.start(1)
            async with made.gateway(monkeypatch) as (gateway, _):
                await several_changes(gateway.broker, 20)
            refused = pytest.RaisesExc(DataDirectoryRefused, match="in the catalog that life ends with")
            with pytest.RaisesGroup(refused, flatten_subgroups=True):
                async with made.gateway(monkeypatch):
                    # It serves, for the other store has vouched; until this one says more.
                    await made.start(0)
                    await trio.sleep(20)

    trio.run(main)


def test_an_emptied_log_goes_on_where_it_was_after_a_rebuild(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        data = tmp_path / "data"
        async with serving(data, monkeypatch, topics=(("orders", 1),)) as (_, client):
            for number in range(20):
                assert await produce(client, batch(producer=(7, 0, number))) == (0, number)
        async with serving(data, monkeypatch) as (server, client):  # closes the segment
            assert await delete_records(client, -1) == 20
            for _ in range(1000):
                if not server.catalog.range(keys.SEGMENT_TOMBSTONES):
                    break
                await trio.sleep(0.01)
            assert not server.catalog.range(keys.SEGMENTS)
        shutil.rmtree(data / "gateway")
        async with serving(data, monkeypatch, rebuild_catalog=True) as (_, client):
            assert await produce(client, batch(producer=(7, 0, 19))) == (0, 19)  # a retry is not stored twice
            assert await produce(client, batch(producer=(7, 0, 20))) == (0, 20)

    trio.run(main)


def test_what_only_the_catalog_knew_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        data = tmp_path / "data"
        async with serving(data, monkeypatch, topics=(("orders", 1),)) as (server, client):
            for number in range(10):
                assert await produce(client, batch()) == (0, number)
            await server.broker.create_topic("never-written", 5, {"retention.ms": "77"}, 1)
            orders = server.broker.topics.get("orders")
            assert orders is not None
            await server.broker.alter_topic(orders, lambda _: {"max.message.bytes": "4321"})
            await a_config(server, client)
            assert await delete_records(client, 7) == 7
            given = await producer_id(client)
        shutil.rmtree(data / "gateway")
        async with serving(data, monkeypatch, rebuild_catalog=True) as (server, client):
            never = server.broker.topics.get("never-written")
            orders = server.broker.topics.get("orders")
            assert never is not None
            assert orders is not None
            assert (len(never.partitions), never.configs) == (5, {"retention.ms": "77"})
            assert orders.configs == {"max.message.bytes": "4321"}
            assert server.broker.dynamic.cluster == {"log.retention.ms": "12345"}
            assert orders.partitions[0].log_start_offset == 7
            assert await producer_id(client) > given
            assert await produce(client, batch()) == (0, 10)
            assert await produce(client, batch(), topic="never-written") == (0, 0)
            (lineage,) = server.catalog.range(keys.LINEAGE)
            assert keys.unpack(lineage.value)["parent"]
            assert await server.remembering.keep(TRANSACTION_SECONDS)
        async with serving(data, monkeypatch) as (server, client):  # the store has taken the new lineage
            assert await produce(client, batch()) == (0, 11)

    trio.run(main)


def test_a_topic_whose_only_store_is_away_is_not_left_out_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with cluster(tmp_path, monkeypatch) as made:
            async with made.gateway(monkeypatch) as (gateway, client):
                await gateway.until_live(0, 1, 2)
                await gateway.broker.create_topic("orders", 1, {}, 3)
                await gateway.broker.create_topic("single", 1, {}, 1)
                assert (await produce(client, batch()))[0] == 0
                assert (await produce(client, batch(), topic="single")) == (0, 0)
                assert await gateway.remembering.keep(TRANSACTION_SECONDS)
                keeper = next(
                    n for n in range(3) if gateway.partition(0, "single").members[0] == incarnation(n)
                )
            await made.stop(keeper)
            refused = pytest.RaisesExc(CannotRebuild, match=rf"store-{keeper} may have .*\(single\)")
            with pytest.RaisesGroup(refused, flatten_subgroups=True):
                async with made.gateway(monkeypatch, data="rebuilt", rebuild_catalog=True):
                    raise AssertionError("it serves")

    trio.run(main)


def test_stores_that_were_away_for_a_rebuild_take_the_new_lineage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with cluster(tmp_path, monkeypatch) as made:
            async with made.gateway(monkeypatch) as (gateway, client):
                await gateway.until_live(0, 1, 2)
                await gateway.broker.create_topic("orders", 1, {}, 3)
                assert (await produce(client, batch()))[0] == 0
                assert await gateway.remembering.keep(TRANSACTION_SECONDS)
            await made.stop(2)
            async with made.gateway(monkeypatch, data="rebuilt", rebuild_catalog=True) as (gateway, client):
                await gateway.until_ready(0)
                assert await produce(client, batch()) == (0, 1)
            async with made.gateway(monkeypatch, data="again", rebuild_catalog=True) as (gateway, client):
                await gateway.until_ready(0)
                await made.start(2)
                memory = made.stores[2].ingest.catalog_memory
                for _ in range(1000):
                    if memory.memory.lineage == made.stores[0].ingest.catalog_memory.memory.lineage:
                        break
                    await trio.sleep(0.01)
                await gateway.until_live(0, 1, 2)
                assert await produce(client, batch()) == (0, 2)
            lineages = {store.ingest.catalog_memory.memory.lineage for store in made.stores.values()}
            assert len(lineages) == 1

    trio.run(main)
