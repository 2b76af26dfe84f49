"""When a file of the log may be written over, and what happens when RocksDB cannot go on."""

from __future__ import annotations

import os
import shutil
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mesh.store import rocksdb
from mesh.store.db import LOG_DIRECTORY, Database, StoreFailed
from mesh.store.write_ahead import files
from mesh.store.write_ahead.files import FILE_BYTES, LogFile, make, names
from mesh.store.write_ahead.keeper import Keeper

PATIENCE_SECONDS = 20


class Scene:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.free: deque[LogFile] = deque()
        self.flushing, self.may_end, self.has_ended = threading.Event(), threading.Event(), threading.Event()
        self.flushes = 0
        self.error: Exception | None = None
        self.keeper = Keeper(directory, self.free, self.flush)

    def flush(self) -> None:
        self.flushes += 1
        self.flushing.set()
        assert self.may_end.wait(PATIENCE_SECONDS)
        if self.error is not None:
            raise self.error

    def until_made(self) -> None:
        """The thread has come to a flush, which it is asked for last."""
        self.may_end.set()
        self.keeper.take(make(self.directory))
        assert self.flushing.wait(PATIENCE_SECONDS)
        self.settle()
        self.free.pop()

    def settle(self) -> None:
        """The thread has done all it was asked."""
        self.keeper.close()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """One that something is written to."""
    database = Database(tmp_path / "db")
    database.put_now({b"a": b""})
    yield database
    database.close()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.may_end.set()
    scene.keeper.close()


def test_a_file_is_free_after_a_flush_that_began_when_it_was_full(scene: Scene) -> None:
    one, two = make(scene.directory), make(scene.directory)
    scene.keeper.take(one)
    assert scene.flushing.wait(PATIENCE_SECONDS)
    assert not scene.free
    scene.flushing.clear()
    scene.keeper.take(two)  # too late for the flush that runs
    scene.may_end.set()
    assert scene.flushing.wait(PATIENCE_SECONDS)
    scene.settle()
    assert list(scene.free) == [one, two]
    assert scene.flushes == 2


def test_a_flush_that_fails_gives_nothing_back_and_is_told(scene: Scene) -> None:
    scene.error = RuntimeError("IO error: No space left on device")
    scene.may_end.set()
    scene.keeper.take(make(scene.directory))
    assert scene.flushing.wait(PATIENCE_SECONDS)
    scene.settle()
    assert not scene.free
    assert scene.keeper.failure == "IO error: No space left on device"


def test_a_file_that_one_large_commit_made_longer_is_cut(scene: Scene) -> None:
    file = make(scene.directory)
    os.truncate(file.path, 3 * FILE_BYTES)
    scene.may_end.set()
    scene.keeper.take(file)
    assert scene.flushing.wait(PATIENCE_SECONDS)
    scene.settle()
    assert file.path.stat().st_size == FILE_BYTES


def test_the_next_file_is_made_ahead_with_all_its_bytes(scene: Scene) -> None:
    scene.keeper.make_one()
    scene.keeper.make_one()
    scene.until_made()
    (file,) = scene.free
    assert len(names(scene.directory)) == 2, "it, and the one that was full"
    assert file.path.stat().st_size == FILE_BYTES


def test_without_room_for_a_file_ahead_the_room_is_left_to_others(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pwrite

    def full(descriptor: int, data: Any, position: int) -> int:
        if position >= 3 * len(files.ZEROS):
            raise OSError(28, "No space left on device")
        return real(descriptor, data, position)

    monkeypatch.setattr(os, "pwrite", full)
    scene.keeper.make_one()
    scene.until_made()
    (file,) = scene.free
    assert file.path.stat().st_size == 0


def test_two_threads_that_make_files_make_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = make(tmp_path)
    monkeypatch.setattr(files, "names", lambda _directory: [])  # as the other thread saw it before
    assert make(tmp_path).path != one.path


def test_a_store_whose_memtables_cannot_go_into_tables_ends(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Keeper, "failure", "Corruption: block checksum mismatch")
    with pytest.raises(
        StoreFailed, match=r"moving what was written into tables failed: Corr.*dafka store replace"
    ):
        database.put_now({b"b": b""})


def test_nothing_is_lost_where_the_next_file_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(tmp_path / "db")
    database.put_now({b"a": bytes(FILE_BYTES - 1000)})
    database._log._free.clear()

    def full(_directory: Path) -> LogFile:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("mesh.store.write_ahead.log.make", full)
        with pytest.raises(StoreFailed, match=r"write-ahead log failed: .*No space left"):
            database.put_now({b"b": bytes(2000)})
    with pytest.raises(StoreFailed, match="an earlier write or fsync of the log failed"):
        database.put_now({b"c": bytes(2000)})
    copy = Database(Path(shutil.copytree(tmp_path / "db", tmp_path / "copy")))
    assert copy.get(b"a") == bytes(FILE_BYTES - 1000)
    copy.close()


def test_a_disk_without_room_ends_the_store_and_keeps_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(tmp_path / "db")
    database.put_now({b"a": b"first"})
    with monkeypatch.context() as patched:

        def full(_descriptor: int, _parts: Any, _position: int) -> int:
            raise OSError(28, "No space left on device")

        patched.setattr(os, "pwritev", full)
        with pytest.raises(StoreFailed, match=r"write-ahead log failed: .*No space left"):
            database.put_now({b"b": b"second"})
    with pytest.raises(StoreFailed, match="an earlier write or fsync of the log failed"):
        database.put_now({b"c": b"there is room again"})
    with pytest.raises(StoreFailed):
        database.flush()
    assert database.durable_commit == 1
    database._log._has_failed = False
    database.close()
    again = Database(tmp_path / "db")
    assert again.get(b"a") == b"first"
    again.close()


def test_a_write_of_which_the_system_takes_a_part_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pwritev
    database = Database(tmp_path / "db")

    def short(descriptor: int, parts: list[bytes], position: int) -> int:
        return real(descriptor, [b"".join(parts)[:1000]], position)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwritev", short)
        database.put_now({b"a": bytes(range(256)) * 1000})
    examined = Database(tmp_path / "db", read_only=True)
    assert examined.get(b"a") == bytes(range(256)) * 1000
    examined.close()
    database.close()
    assert names(tmp_path / "db" / LOG_DIRECTORY) != []


def test_a_flush_that_fails_at_a_start_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever closing what cannot be used says then."""
    database = Database(tmp_path / "db")
    database.put_now({b"a": b"first"})
    copy = Path(shutil.copytree(tmp_path / "db", tmp_path / "copy"))
    database.close()

    def full(_self: Database, _examined: object) -> None:
        raise RuntimeError("IO error: No space left on device")

    class Closing:
        def close(self) -> None:
            raise RuntimeError("no room to close either")

    with monkeypatch.context() as patched:
        patched.setattr(Database, "_replay", full)
        patched.setattr(Database, "_commit_in_tables", lambda _self: 0)
        patched.setattr(rocksdb, "open_database", lambda *_arguments, **_options: Closing())
        patched.setattr(rocksdb, "unchecked_handle", lambda database: database)
        with pytest.raises(StoreFailed, match="cannot be opened: IO error: No space left"):
            Database(copy)
    again = Database(copy)
    assert again.get(b"a") == b"first"
    again.close()


def test_a_failed_flush_is_told_before_rocksdb_asks_to_wait(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Keeper, "failure", "IO error")

    class Stalling:
        def write(self, *_: object) -> None:
            raise RuntimeError("Write stall")

    with monkeypatch.context() as patched:
        patched.setattr(database, "_db", Stalling())
        with pytest.raises(StoreFailed, match="moving what was written into tables failed: IO error"):
            database.put_now({b"b": b""})


def test_an_end_waits_for_an_fsync_that_is_under_way_and_not_for_ever(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = threading.Event(), threading.Event()
    real = os.fdatasync

    def slow(descriptor: int) -> None:
        begun.set()
        assert may_end.wait(PATIENCE_SECONDS)
        real(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", slow)
        patched.setattr("mesh.store.write_ahead.log.FSYNC_SECONDS", 0.01)
        thread = threading.Thread(target=database.flush)
        thread.start()
        assert begun.wait(PATIENCE_SECONDS)
        with pytest.raises(StoreFailed, match=r"an fsync of the log hangs for more than 0.01 s"):
            database.flush()
        may_end.set()
        thread.join()
