"""RocksDB's write-ahead log as the database uses it: fsynced, and never cut in silence."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from mesh.protocol.ingest import Ingest
from mesh.store.db import Database, StoreFailed
from tests.unit.mesh.store.sample import ADDRESS, STORE, fill


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(tmp_path / "db")
    yield opened
    opened.close()


def test_a_flush_is_an_fsync(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """RocksDB's `flush_wal` writes to the page cache, unless it is told to sync."""
    asked: list[bool] = []
    with monkeypatch.context() as patched:
        patched.setattr(database, "_db", SimpleNamespace(flush_wal=asked.append))
        database.flush()
    assert asked == [True]


def test_a_log_that_is_damaged_in_the_middle_is_not_opened(database: Database, tmp_path: Path) -> None:
    """Nor cut there in silence, which is what RocksDB does if nobody tells it otherwise."""
    ingest = Ingest(STORE, database)
    fill(ingest, database, ADDRESS)
    shutil.copytree(tmp_path / "db", tmp_path / "left")
    (log,) = (tmp_path / "left").glob("*.log")
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)
    with pytest.raises(StoreFailed, match="Corruption"):
        Database(tmp_path / "left")
