"""A lost catalog read back from several stores, one of them away or late."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from gateway.cluster.found_segments import CannotRebuild
from gateway.cluster.rebuild import SPARE_EPOCHS
from tests.in_process.several_stores import Cluster, Gateway, batch, cluster, produce, produce_until_taken

PARTITIONS = 3


def tails(contents: list[bytes]) -> list[bytes]:
    return [content[21:] for content in contents]


async def write_lives(made: Cluster, monkeypatch: pytest.MonkeyPatch) -> dict[int, list[bytes]]:
    """Three gateway lives, in each of which another store is away for a while; what each partition holds."""
    sent: dict[int, list[bytes]] = {index: [] for index in range(PARTITIONS)}
    for away in range(3):
        async with made.gateway(monkeypatch) as (gateway, client):
            if away == 0:
                await gateway.until_live(0, 1, 2)
                await gateway.broker.create_topic("orders", PARTITIONS, {"retention.ms": "-1"}, 3)
                await gateway.broker.create_topic("gone", 1, {}, 3)
                assert await produce(client, batch(), topic="gone") == (0, 0)
            await gateway.until_ready(*range(PARTITIONS))
            for index in range(PARTITIONS):
                for number in range(4):
                    if number == 2 and index == 0:
                        await made.stop(away)
                    sent[index].append(batch())
                    await produce_until_taken(client, sent[index][-1], partition=index)
            if away == 2:
                gone = gateway.broker.topics.get("gone")
                assert gone is not None
                await gateway.broker.delete_topic(gone)
                await gateway.broker.remembered()
                await trio.sleep(0.2)
        if away < 2:
            await made.start(away)
    return sent


@pytest.mark.parametrize("late", [True, False])
def test_everything_comes_back_also_without_one_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    async def main() -> None:
        async with cluster(tmp_path, monkeypatch) as made:
            sent = await write_lives(made, monkeypatch)
            if not late:
                await made.start(2)
            async with made.gateway(monkeypatch, data="rebuilt", rebuild_catalog=True) as (gateway, client):
                await gateway.until_ready(*range(PARTITIONS))
                for index in range(PARTITIONS):
                    assert gateway.partition(index).high_watermark == len(sent[index])
                assert gateway.broker.topics.get("gone") is None
                orders = gateway.broker.topics.get("orders")
                assert orders is not None
                assert (orders.configs, orders.replication_factor) == ({"retention.ms": "-1"}, 3)
                if late:
                    await made.start(2)
                await gateway.until_told()
                await equal(made, gateway, sent)
                told = epochs(gateway)
                # Clients ignore what is below the epochs of the three lives before.
                assert min(told) > SPARE_EPOCHS
                sent[0].append(batch())
                assert await produce_until_taken(client, sent[0][-1]) == len(sent[0]) - 1
            async with made.gateway(monkeypatch, data="rebuilt") as (gateway, client):
                await gateway.until_ready(*range(PARTITIONS))
                await gateway.until_told()
                await equal(made, gateway, sent)
                assert all(later >= before for before, later in zip(told, epochs(gateway), strict=True))
                assert epochs(gateway)[0] > told[0]

    trio.run(main)


def epochs(gateway: Gateway) -> list[int]:
    return [gateway.partition(index).leader_epoch for index in range(PARTITIONS)]


async def equal(made: Cluster, gateway: Gateway, sent: dict[int, list[bytes]]) -> None:
    for index in range(PARTITIONS):
        assert tails(await made.contents(gateway, index)) == tails(sent[index])


def test_with_two_of_three_stores_missing_nothing_is_rebuilt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with cluster(tmp_path, monkeypatch) as made:
            await write_lives(made, monkeypatch)
            await made.stop(0)
            refused = pytest.RaisesExc(CannotRebuild, match="2 stores are missing")
            with pytest.RaisesGroup(refused, flatten_subgroups=True):
                async with made.gateway(monkeypatch, data="rebuilt", rebuild_catalog=True):
                    raise AssertionError("it serves")

    trio.run(main)
