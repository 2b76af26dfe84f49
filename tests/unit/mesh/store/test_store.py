"""A store is stopped while something is under way: it ends without an error and keeps what it had."""

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.lowlevel

from mesh.links import Context
from mesh.protocol.address_state import Phase
from mesh.protocol.ingest import Ingest
from mesh.store import ranges
from mesh.store.committer import Committer
from mesh.store.db import Database, WriteStalled
from mesh.store.store import FREE_BYTES_SECONDS, Store, StoreSettings
from tests.unit.mesh.store.sample import ADDRESS, BATCHES, STORE, batch, fill, record, request
from wireproto.dafka.additions import Digest, GetRows, Ping, Pong
from wireproto.dafka.messages import Fetch
from wireproto.records.row import Row

PATIENCE_SECONDS = 20


def run(path: Path, scenario: Callable[[Store], Any]) -> None:
    """Run a store, and `scenario` with it; the store is cancelled when that returns."""

    async def main() -> None:
        context = Context()
        try:
            with trio.fail_after(PATIENCE_SECONDS):
                async with trio.open_nursery() as nursery:
                    store = Store(context, StoreSettings(path, STORE))
                    await nursery.start(store.run)
                    await scenario(store)
                    nursery.cancel_scope.cancel()
        finally:
            context.close()

    trio.run(main)


def take_records(store: Store) -> None:
    store.ingest.on_request(request(b"O"))
    for sequence in range(BATCHES):
        store.ingest.on_record(record(sequence), 0.0)
    store._pump()


def heads(path: Path) -> int:
    database = Database(path)
    state = database.load(ADDRESS)
    database.close()
    return -1 if state is None else state.head


def test_a_commit_whose_fsync_ends_behind_the_sockets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its report reaches the loop when the sockets are closed; what waits behind it is not written."""
    closed = threading.Event()
    flush, stop, write = Database.flush, Committer.stop, Database.write
    written: list[bool] = []

    def late_flush(database: Database) -> None:
        assert closed.wait(PATIENCE_SECONDS)
        flush(database)

    def late_stop(committer: Committer) -> None:
        closed.set()
        stop(committer)

    def seen_write(database: Database, commit: Any) -> None:
        written.append(closed.is_set())
        write(database, commit)

    monkeypatch.setattr(Database, "flush", late_flush)
    monkeypatch.setattr(Committer, "stop", late_stop)
    monkeypatch.setattr(Database, "write", seen_write)

    async def scenario(store: Store) -> None:
        take_records(store)
        store.ingest.on_record(record(BATCHES), 0.0)
        await trio.lowlevel.checkpoint()

    run(tmp_path / "db", scenario)
    assert written == [False]
    assert heads(tmp_path / "db") == BATCHES - 1


def test_a_stopped_store_sends_and_writes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        context = Context()
        store = Store(context, StoreSettings(tmp_path / "db", STORE))
        with trio.fail_after(PATIENCE_SECONDS):
            async with trio.open_nursery() as nursery:
                await nursery.start(store.run)
                take_records(store)
                while store.ingest.heads() != {ADDRESS: BATCHES - 1}:
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
        store.ingest.on_record(record(0), 0.0)
        store.ingest.on_record(record(BATCHES), 0.0)
        store._pump()
        context.close()

    trio.run(main)
    assert heads(tmp_path / "db") == BATCHES - 1


def test_a_commit_that_rocksdb_had_put_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stalled(_database: Database, _commit: Any) -> None:
        raise WriteStalled

    monkeypatch.setattr(Database, "write", stalled)

    async def scenario(store: Store) -> None:
        take_records(store)
        while store.committer.statistics.stalls < 3:
            await trio.lowlevel.checkpoint()

    run(tmp_path / "db", scenario)
    assert heads(tmp_path / "db") == -1


def test_a_read_that_ends_behind_the_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Meanwhile a commit is reported, too."""
    database = Database(tmp_path / "db")
    fill(Ingest(STORE, database), database, ADDRESS)
    database.close()
    reading, closed = threading.Event(), threading.Event()
    rows_within, flush = ranges.rows_within, Database.flush

    def slow_read(*arguments: Any) -> list[Row]:
        reading.set()
        assert closed.wait(PATIENCE_SECONDS)
        return rows_within(*arguments)

    def late_flush(database: Database) -> None:
        assert closed.wait(PATIENCE_SECONDS)
        flush(database)

    monkeypatch.setattr(ranges, "rows_within", slow_read)
    monkeypatch.setattr(Database, "flush", late_flush)

    async def scenario(store: Store) -> None:
        close = store.node.publisher.close

        def close_and_tell() -> None:
            close()
            closed.set()

        monkeypatch.setattr(store.node.publisher, "close", close_and_tell)
        store.server._enqueue(store.server._fetch, Fetch(ADDRESS, "R1", "orders", 0, 3, STORE, 1000))
        await trio.to_thread.run_sync(reading.wait)
        store.ingest.on_record(record(BATCHES), 0.0)
        store._pump()

    run(tmp_path / "db", scenario)
    assert heads(tmp_path / "db") == BATCHES


def test_what_is_asked_for_again_before_it_is_answered_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Fetch(ADDRESS, "R1", "orders", 0, 3, STORE, 1000)
    alike = GetRows(STORE, "R1", ADDRESS, 0, 3)
    digest = Digest(*alike)
    reads: list[tuple[str, Any]] = []

    async def scenario(store: Store) -> None:
        server = store.server
        read = trio.Event()

        def note(name: str) -> None:
            def answer(request: Any) -> list[Any]:
                reads.append((name, request))
                if len(reads) in {3, 4}:
                    trio.from_thread.run_sync(read.set)
                return []

            monkeypatch.setattr(server, name, answer)

        for name in ("_fetch", "_rows", "_digest"):
            note(name)
        for _ in range(3):
            server.on_fetch(asked)
            server.on_get_rows(alike)
            server.on_digest(digest)
        await read.wait()
        # A thread that has read may not have come back yet: until then it is the same question.
        while server._pending:  # noqa: ASYNC110 - nobody tells of that
            await trio.sleep(0.001)
        assert sorted(reads) == [("_digest", digest), ("_fetch", asked), ("_rows", alike)]
        read = trio.Event()
        server.on_fetch(asked)
        await read.wait()
        assert reads[3:] == [("_fetch", asked)]

    run(tmp_path / "db", scenario)


def test_a_reclaim_that_fails_does_not_end_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = threading.Event()

    def failing(_database: Database, _address: str) -> None:
        tried.set()
        raise RuntimeError("the disk is on fire")

    monkeypatch.setattr(Database, "reclaim", failing)

    async def scenario(store: Store) -> None:
        take_records(store)
        store.ingest.on_request(request(b"X"))
        store._pump()
        await trio.to_thread.run_sync(tried.wait)
        store.ingest.on_request(request(b"O", "C" * 32))
        store.ingest.on_record(record(0, "C" * 32), 0.0)
        store._pump()
        while store.ingest.heads().get("C" * 32) != 0:
            await trio.lowlevel.checkpoint()

    run(tmp_path / "db", scenario)
    database = Database(tmp_path / "db")
    state = database.load(ADDRESS)
    assert state is not None
    assert state.phase is Phase.DELETED
    assert ranges.read_records(database, "C" * 32, 0, 0, 1000) == [batch(0)]
    database.close()


def test_pong_tells_what_is_free_and_looks_once_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Path] = []

    def usage(path: Path) -> Any:
        looked.append(path)
        if len(looked) == 3:
            raise OSError("the disk is gone")
        return SimpleNamespace(free=len(looked) * 1000, total=9000)

    monkeypatch.setattr("mesh.store.store.shutil.disk_usage", usage)

    async def scenario(store: Store) -> None:
        sent: list[Pong] = []
        monkeypatch.setattr(store.node, "send", sent.append)
        for _ in range(3):
            for _ in range(2):
                store.on_ping(Ping(STORE, "R1"))
            store._disk_seen_at -= FREE_BYTES_SECONDS
        await trio.lowlevel.checkpoint()
        assert [pong.free_bytes for pong in sent] == [1000, 1000, 2000, 2000, 0, 0]
        assert [pong.disk_bytes for pong in sent] == [9000] * 4 + [0, 0]

    run(tmp_path / "db", scenario)
    assert looked == [tmp_path / "db"] * 3
