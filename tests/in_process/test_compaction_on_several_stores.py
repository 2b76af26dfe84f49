"""Compaction where a log has several stores, one of them away, and after the catalog was lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from gateway.catalog import keys
from gateway.log import partition as partition_module
from gateway.log.compaction import run as compaction_run
from mesh.protocol.address_state import Phase
from tests.in_process.several_stores import Cluster, Gateway, cluster, produce_until_taken
from wireproto.records.builder import build_batch
from wireproto.records.iteration import iter_records

COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "retention.ms": "-1"}


def keyed(key: bytes, value: bytes) -> bytes:
    records: Any = [(key, value, [], 1_700_000_000_000)]
    return build_batch(records)


async def contents(made: Cluster, gateway: Gateway) -> list[tuple[int, bytes | None, bytes | None]]:
    """The records of the log; every member's copy was compared."""
    batches = await made.contents(gateway)
    return [(r.offset, r.key, r.value) for content in batches for r in iter_records(content)]


async def read(gateway: Gateway) -> list[tuple[int, bytes | None, bytes | None]]:
    """The records of the log, as a consumer is given them."""
    partition = gateway.partition()
    found: list[tuple[int, bytes | None, bytes | None]] = []
    offset = 0
    while offset < partition.high_watermark:
        for content in await partition.read_cold(offset, 1):
            found += [(r.offset, r.key, r.value) for r in iter_records(content)]
            offset = found[-1][0] + 1
    return found


def kept(made: Cluster, number: int) -> set[str]:
    """The addresses that a store has not been told to forget."""
    database = made.stores[number].database
    return {
        address
        for address in database.addresses("", 1000)
        if (state := database.load(address)) is not None and state.phase is not Phase.DELETED
    }


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_module, "MAX_SEGMENT_BATCHES", 3)
    monkeypatch.setattr(compaction_run, "MAX_FULL_OUTPUTS", 100)


async def write(gateway: Gateway, client: Any, numbers: range) -> None:
    await gateway.until_ready(0)
    for number in numbers:
        await produce_until_taken(client, keyed(b"k%d" % (number % 4), b"%d" % number))


def newest(count: int) -> list[tuple[int, bytes, bytes]]:
    return [(n, b"k%d" % (n % 4), b"%d" % n) for n in range(count - 4, count)]


@pytest.mark.parametrize("away", [None, 0, 2])
def test_every_member_has_what_is_left_and_forgets_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away: int | None
) -> None:
    """Two gateway lives have written; a third compacts; the fourth reads the catalog back from two stores."""

    async def main() -> None:
        async with cluster(tmp_path, monkeypatch) as made:
            async with made.gateway(monkeypatch) as (gateway, client):
                await gateway.until_live(0, 1, 2)
                await gateway.broker.create_topic("orders", 1, COMPACT, 3)
                await write(gateway, client, range(10))
            async with made.gateway(monkeypatch) as (gateway, client):
                await write(gateway, client, range(10, 20))
            async with made.gateway(monkeypatch) as (gateway, _):
                await gateway.until_ready(0)
                await gateway.until_told()
                if away is not None:
                    await made.stop(away)
                    await gateway.until_live(*({0, 1, 2} - {away}))
                assert await gateway.broker.compaction.compact_one()
                assert gateway.broker.compaction.failures == 0, gateway.broker.compaction.last_error
                if away is not None:
                    assert gateway.catalog.range(keys.SEGMENT_TOMBSTONES), "one has to be told yet"
                    monkeypatch.setattr("gateway.cluster.deletion.RETRY_SECONDS", 0.1)
                    await made.start(away)
                    await gateway.until_live(0, 1, 2)
                await gateway.until_told()
                assert await contents(made, gateway) == newest(20)
                await until_forgotten(made, gateway)
                assert gateway.catalog.range(keys.COMPACTING) == []
            await made.stop(1)
            async with made.gateway(monkeypatch, data="rebuilt", rebuild_catalog=True) as (gateway, client):
                await gateway.until_ready(0)
                assert gateway.partition().high_watermark == 20
                await produce_until_taken(client, keyed(b"new", b"20"))
                assert await read(gateway) == [*newest(20), (20, b"new", b"20")]

    async def until_forgotten(made: Cluster, gateway: Gateway) -> None:
        chain = {segment.address for segment in gateway.partition().chain.segments()}
        for _ in range(1200):
            if not any(kept(made, number) - chain for number in range(3)):
                return
            await trio.sleep(0.05)
        raise AssertionError([kept(made, number) - chain for number in range(3)])

    trio.run(main)
