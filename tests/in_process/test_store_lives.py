"""Who is not the store that acknowledged does not count as it: one that was restored from a copy, one whose
database was emptied, a second process on a copy.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from dafka.commands.exits import CommandFailed
from dafka.operators.restored import restored
from gateway.catalog import keys
from gateway.log.partition import PartitionState
from mesh.data_directory import DataDirectory, DataDirectoryRefused, Kind
from mesh.store.committer import Fsync
from mesh.store.db import Database
from mesh.store.identity import settle
from mesh.store.store import Store, StoreSettings
from tests.in_process.in_process import RawClient, running
from tests.in_process.several_stores import (
    Cluster,
    Gateway,
    batch,
    cluster,
    incarnation,
    produce,
    produce_until_taken,
)

TOPIC = {"min.insync.replicas": "2"}


@asynccontextmanager
async def running_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Cluster, Gateway, RawClient]]:
    """Three stores that fsync, and a gateway."""
    async with (
        cluster(tmp_path, monkeypatch, fsync=Fsync.ALWAYS) as made,
        made.gateway(monkeypatch) as (gateway, client),
    ):
        yield made, gateway, client


def copy_of(made: Cluster, number: int, name: str) -> Path:
    """A copy of a stopped store's database."""
    copy = made.path / name
    shutil.copytree(made.path / f"store-{number}", copy)
    return copy


def put_back(made: Cluster, number: int, copy: Path) -> None:
    shutil.rmtree(made.path / f"store-{number}")
    shutil.copytree(copy, made.path / f"store-{number}")


async def until_refused(gateway: Gateway, number: int) -> str:
    """Wait until a start under this store's name is refused; why."""
    refused = gateway.presence.vouching.refused
    with trio.fail_after(10):
        await gateway.presence.wait_for(lambda _: incarnation(number) in refused)
    return refused[incarnation(number)].reason


async def until_counted(gateway: Gateway, number: int, nonce: bytes) -> None:
    """Wait until this start is the one that counts under the store's name."""
    counts = gateway.presence.vouching.counts
    with trio.fail_after(10):
        await gateway.presence.wait_for(lambda _: counts.get(incarnation(number)) == nonce)


async def until_kept(gateway: Gateway, number: int, commit: int) -> None:
    """Wait until the catalog remembers that a store had this commit."""
    for _ in range(1000):
        entry = gateway.catalog.get(keys.store_life_key(incarnation(number)))
        if entry is not None and keys.unpack(entry.value)["commit"] >= commit:
            return
        await trio.sleep(0.01)
    raise AssertionError(commit)


def test_a_store_that_is_restored_from_a_copy_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Two stores acknowledge; then one of them is set back, and only it and the third one are there."""

    async def main() -> None:
        async with cluster(tmp_path, monkeypatch) as made:
            async with made.gateway(monkeypatch) as (gateway, client):
                await gateway.until_live(0, 1, 2)
                await gateway.broker.create_topic("orders", 1, TOPIC, 3)
                assert await produce(client, batch(b"0")) == (0, 0)
                await made.stop(0)
                copy = copy_of(made, 0, "copy")
                await made.start(0)
                await gateway.until_live(0, 1, 2)
                await made.stop(2)
                for number in range(1, 6):
                    await produce_until_taken(client, batch(b"%d" % number))
                assert gateway.partition().high_watermark == 6
            await made.stop(0, 1)
            put_back(made, 0, copy)
            await made.start(0, 2)
            async with made.gateway(monkeypatch) as (gateway, client):
                await until_refused(gateway, 0)
                await gateway.until_live(2)
                assert gateway.partition().state is not PartitionState.READY
                assert gateway.partition().high_watermark < 6
                await made.start(1)
                await gateway.until_ready(0)
                assert gateway.partition().high_watermark == 6
                assert await produce_until_taken(client, batch(b"6")) == 6
        assert sum("does not count" in record.getMessage() for record in caplog.records) == 1

    with caplog.at_level(logging.ERROR, "mesh.presence"):
        trio.run(main)


def test_a_store_that_is_set_back_while_it_ran_is_told_by_its_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy has the start that is remembered, and not all of it."""
    monkeypatch.setattr("gateway.cluster.store_lives.KEEP_SECONDS", 0.05)

    async def main() -> None:
        async with running_stores(tmp_path, monkeypatch) as (made, gateway, client):
            await gateway.until_live(0, 1, 2)
            await gateway.broker.create_topic("orders", 1, TOPIC, 3)
            assert await produce(client, batch(b"0")) == (0, 0)
            copy = copy_of(made, 0, "copy")  # as it runs: RocksDB recovers it as after a crash
            for number in range(1, 6):
                await produce_until_taken(client, batch(b"%d" % number))
            await until_kept(gateway, 0, made.stores[0].database.durable_commit)
            await made.stop(0)
            put_back(made, 0, copy)
            await made.start(0)
            assert "that start has" in await until_refused(gateway, 0)
            await gateway.until_live(1, 2)
            assert await produce_until_taken(client, batch(b"6")) == 6

    trio.run(main)


def test_a_store_that_starts_again_and_again_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with cluster(tmp_path, monkeypatch, fsync=Fsync.ALWAYS) as made:
            await starts_again_while_it_counts(made, monkeypatch)
            for number in range(3):  # while no gateway looks
                await made.stop(number)
                await made.start(number)
            async with made.gateway(monkeypatch) as (gateway, _):
                await gateway.until_live(0, 1, 2)
                await gateway.until_ready(0)
                assert gateway.partition().high_watermark == 5
                assert not gateway.presence.vouching.refused

    async def starts_again_while_it_counts(made: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        async with made.gateway(monkeypatch) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            await gateway.broker.create_topic("orders", 1, TOPIC, 3)
            for number in range(5):
                assert await produce_until_taken(client, batch()) == number
                await made.stop(number % 3)
                await made.start(number % 3)

    trio.run(main)


def test_a_store_whose_database_was_emptied_is_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is no member of what it does not have; it fetches all of that when it takes the old one's place."""

    async def main() -> None:
        async with cluster(tmp_path, monkeypatch) as made:
            async with made.gateway(monkeypatch) as (gateway, client):
                await gateway.until_live(0, 1, 2)
                await gateway.broker.create_topic("orders", 1, TOPIC, 3)
                for _ in range(10):
                    await produce_until_taken(client, batch())
                await made.stop(2)
                shutil.rmtree(tmp_path / "store-2")
                await made.start(2)
                assert made.stores[2].settings.incarnation != incarnation(2)
                assert "the database is empty" in caplog.text
            async with made.gateway(monkeypatch) as (gateway, client):
                await gateway.until_ready(0)
                new = made.stores[2].settings.incarnation
                with trio.fail_after(10):
                    await gateway.presence.wait_for(lambda presence: new in presence.live_stores)
                assert not gateway.presence.live(incarnation(2))
                stores = gateway.stores
                await stores.admit([(new, "new")])
                await gateway.broker.replacement.start(stores.find(incarnation(2)), stores.find(new))
                await gateway.until_replaced(2)
                assert len(await made.contents(gateway)) == 10
                assert all(new in segment.members for segment in gateway.partition().chain.segments())

    trio.run(main)


def test_of_two_processes_on_copies_of_one_directory_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with running_stores(tmp_path, monkeypatch) as (made, gateway, client):
            await gateway.until_live(0, 1, 2)
            await gateway.broker.create_topic("orders", 1, TOPIC, 3)
            assert await produce(client, batch(b"0")) == (0, 0)
            await made.stop(0)
            clone = copy_of(made, 0, "clone")
            await made.start(0)
            nonce = made.stores[0].starts.nonce
            await until_counted(gateway, 0, nonce)
            settings = StoreSettings(clone, incarnation(0), "clone", fsync=Fsync.ALWAYS)
            async with made.another(Store(made.context, settings)) as second:
                assert "never had" in await until_refused(gateway, 0)
                assert gateway.presence.vouching.refused[incarnation(0)].nonce == second.starts.nonce
                assert gateway.presence.vouching.counts[incarnation(0)] == nonce
                assert gateway.presence.name(incarnation(0)) == "store-0"
                await made.stop(1)
                assert await produce_until_taken(client, batch(b"1")) == 1
                await made.stop(0)  # the clone alone is not the second that a record needs
                await gateway.until_live(2)
                code, _ = await produce(client, batch(b"2"), timeout_ms=300)
                assert code != 0
            await made.start(0, 1)
            await gateway.until_live(0, 1, 2)

    trio.run(main)


def settled(directory: DataDirectory) -> str:
    """Who a start in this directory is."""
    database = Database(directory.path / "db")
    try:
        return settle(database, directory)
    finally:
        database.close()


def test_the_command_makes_another_store_of_one_that_was_put_back(tmp_path: Path) -> None:
    with DataDirectory(tmp_path / "data", Kind.STORE) as directory:
        old = directory.incarnation
        assert settled(directory) == old
    lines = list(restored(tmp_path / "data"))
    with DataDirectory(tmp_path / "data", Kind.STORE) as directory:
        new = directory.incarnation
        assert new != old
        assert f"dafka store replace {old} {new}" in lines[-1]
        assert settled(directory) == new
        directory.become(old)  # a crash between the two: the database knew before the identity did
        assert settled(directory) == directory.incarnation == new


def test_a_disk_that_is_mounted_again_takes_the_place_of_the_store_that_was_on_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not that of the store that the empty directory became meanwhile, which may never have been admitted."""
    with DataDirectory(tmp_path / "data", Kind.STORE) as directory:
        mounted = settled(directory)
        database, away = directory.path / "db", tmp_path / "away"
    database.rename(away)
    with DataDirectory(tmp_path / "data", Kind.STORE) as directory:
        emptied = settled(directory)
    assert f"dafka store replace {mounted} {emptied}" in caplog.text
    caplog.clear()
    shutil.rmtree(database)
    away.rename(database)
    with DataDirectory(tmp_path / "data", Kind.STORE) as directory:
        new = settled(directory)
    assert len({mounted, emptied, new}) == 3
    assert f"the database is that of store {mounted}" in caplog.text
    assert f"dafka store replace {mounted} {new}" in caplog.text
    assert f"take the place of {emptied} too" in caplog.text


def test_the_command_names_what_is_wrong_with_a_directory(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="there is no store in it"):
        list(restored(tmp_path))
    DataDirectory(tmp_path, Kind.STORE).close()
    with pytest.raises(CommandFailed, match="there is no database in it"):
        list(restored(tmp_path))


async def one_record(data: Path, monkeypatch: pytest.MonkeyPatch, offset: int) -> None:
    """One life of `dafka standalone`, in which a record gets this offset."""
    async with (
        running(data, monkeypatch, topics=(("orders", 1),)) as (_, port),
        await RawClient.connect(port) as client,
    ):
        assert await produce(client, batch()) == (0, offset)


async def not_started(data: Path, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    refusal = pytest.RaisesExc(DataDirectoryRefused, match=why)
    with pytest.RaisesGroup(refusal, flatten_subgroups=True, allow_unwrapped=True):
        async with running(data, monkeypatch):
            pass


def test_standalone_refuses_a_store_that_is_older_than_its_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        older, newer, mixed = (tmp_path / name for name in ("older", "newer", "mixed"))
        await one_record(tmp_path / "data", monkeypatch, 0)
        shutil.copytree(tmp_path / "data", older)
        shutil.copytree(older, newer)
        await one_record(newer, monkeypatch, 1)
        shutil.copytree(newer / "gateway", mixed / "gateway")
        shutil.copytree(older / "store", mixed / "store")
        await not_started(mixed, monkeypatch, "store/ is older than gateway/")
        await one_record(older, monkeypatch, 1)  # both of one copy

    trio.run(main)


def test_standalone_starts_nothing_where_its_stores_disk_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        data = tmp_path / "data"
        await one_record(tmp_path / "first", monkeypatch, 0)
        shutil.copytree(tmp_path / "first", data)
        disk = data / "store" / "db"
        disk.rename(tmp_path / "unmounted")
        await not_started(data, monkeypatch, "the database is empty")
        shutil.rmtree(disk)
        (tmp_path / "unmounted").rename(disk)
        await one_record(data, monkeypatch, 1)

    trio.run(main)
