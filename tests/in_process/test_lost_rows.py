"""A catalog that has lost the row of one segment: its partition serves nothing, and says what to do; reading
the catalog back from the store brings everything back.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from dafka.processes.standalone import Standalone
from gateway.broker import Broker
from gateway.catalog import keys
from gateway.catalog.sqlite import SqliteCatalog
from gateway.log.partition import Partition, PartitionState
from tests.in_process.in_process import RawClient, running
from tests.in_process.several_stores import batch, produce

LIVES, RECORDS = 3, 10
NOT_LEADER = 6


class Crashed:
    """A data directory as lives leave it that are killed: each begins with a copy of the one before."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lives = 0

    def next(self) -> Path:
        before, self._lives = self._path / str(self._lives), self._lives + 1
        data = self._path / str(self._lives)
        if before.exists():
            shutil.copytree(before, data)
        return data


async def write(crashed: Crashed, monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed segment of each life but the last one, whose segment is open."""
    for life in range(LIVES):
        async with (
            running(crashed.next(), monkeypatch, topics=(("orders", 1),)) as (_, port),
            await RawClient.connect(port) as client,
        ):
            for number in range(RECORDS):
                while (answer := await produce(client, batch())) == (NOT_LEADER, -1):  # noqa: ASYNC110
                    await trio.sleep(0.01)  # a slow machine serves before it has recovered all
                assert answer == (0, life * RECORDS + number)


async def lose(crashed: Crashed, place: int) -> None:
    """One segment's row goes; all that the file itself checks is as after any transaction."""
    catalog = SqliteCatalog(crashed.next() / "gateway" / "catalog.sqlite")
    rows = catalog.range(keys.SEGMENTS)
    assert len(rows) == LIVES
    await catalog.transact([], {}, [rows[place].key])
    await catalog.aclose()


@asynccontextmanager
async def serving(
    crashed: Crashed, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> AsyncIterator[tuple[Partition, RawClient]]:
    """The partition, and a client of it."""
    brokers: list[Broker] = []
    monkeypatch.setattr(Standalone, "_register_metrics", lambda _self, broker: brokers.append(broker))
    data = crashed.next()
    async with running(data, monkeypatch, **options) as (_, port), await RawClient.connect(port) as client:
        topic = brokers[0].topics.get("orders")
        assert topic is not None
        yield topic.partitions[0], client


@pytest.mark.parametrize("place", range(LIVES))
def test_a_lost_segment_is_noticed_and_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    async def main() -> None:
        crashed = Crashed(tmp_path)
        await write(crashed, monkeypatch)
        await lose(crashed, place)
        for accept_loss in (False, True):
            async with serving(crashed, monkeypatch, accept_loss=accept_loss) as (partition, client):
                assert (partition.state, partition.withheld) == (PartitionState.FAILED, True)
                assert "--rebuild-catalog" in partition.reason
                assert (await produce(client, batch()))[0] == NOT_LEADER
        async with serving(crashed, monkeypatch, rebuild_catalog=True) as (partition, client):
            assert partition.state is PartitionState.READY
            assert await produce(client, batch()) == (0, LIVES * RECORDS)
            assert [segment.start_offset for segment in partition.chain.segments()] == [0, 10, 20, 30]

    trio.run(main)
