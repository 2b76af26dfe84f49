"""The write-ahead log as the database uses it: fsynced, and never cut in silence."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from mesh.protocol.ingest import Ingest
from mesh.store.db import LOG_DIRECTORY, Database, LogDamaged, StoreFailed
from tests.unit.mesh.store.sample import ADDRESS, STORE, fill


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(tmp_path / "db")
    yield opened
    opened.close()


def test_a_flush_is_an_fsync(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    fsynced: list[int] = []
    database.put_now({b"z": b"there is a file"})
    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", lambda descriptor: fsynced.append(os.fstat(descriptor).st_ino))
        database.flush()
    (log,) = (Path(database._db.path()) / LOG_DIRECTORY).glob("*.log")
    assert fsynced == [log.stat().st_ino]


def test_an_fsync_that_failed_is_never_tried_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system may say that all is well, and have forgotten what it could not write."""
    database.put_now({b"y": b""})
    with monkeypatch.context() as patched:

        def fail(_descriptor: int) -> None:
            raise OSError(5, "Input/output error")

        patched.setattr(os, "fdatasync", fail)
        with pytest.raises(StoreFailed, match="Input/output error"):
            database.put_now({b"z": b""})
    with pytest.raises(StoreFailed):
        database.flush()
    assert database.durable_commit == 1
    database._log._has_failed = False  # so that the fixture can close it


def test_a_log_that_is_damaged_in_the_middle_is_not_opened(database: Database, tmp_path: Path) -> None:
    ingest = Ingest(STORE, database)
    fill(ingest, database, ADDRESS)
    database.flush()
    shutil.copytree(tmp_path / "db", tmp_path / "left")
    (log,) = (tmp_path / "left" / LOG_DIRECTORY).glob("*.log")
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)
    for _ in range(2):
        with pytest.raises(LogDamaged, match=f"{log} is corrupt from byte"):
            Database(tmp_path / "left")
    assert log.read_bytes() == bytes(content)


def test_rocksdb_logs_nothing_itself(database: Database, tmp_path: Path) -> None:
    fill(Ingest(STORE, database), database, ADDRESS)
    assert [file.stat().st_size for file in (tmp_path / "db").glob("*.log")] == [0]


def test_only_the_owner_reads_the_log(database: Database, tmp_path: Path) -> None:
    fill(Ingest(STORE, database), database, ADDRESS)
    folder = tmp_path / "db" / LOG_DIRECTORY
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
