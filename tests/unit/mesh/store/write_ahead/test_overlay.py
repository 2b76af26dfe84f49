"""A database that is only read is, with its log laid over its tables, what it would be if it were opened."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import rocksdict
from hypothesis import given, settings
from hypothesis import strategies as st

from mesh.store.db import Database
from mesh.store.logged_batch import LoggedBatch

keys = st.binary(min_size=1, max_size=2).map(lambda key: bytes(byte % 4 + 97 for byte in key))
operations = st.one_of(
    st.tuples(st.just("put"), keys, st.binary(max_size=5)),
    st.tuples(st.just("delete"), keys),
    st.tuples(st.just("delete_range"), keys, keys).filter(lambda one: one[1] < one[2]),
)
commits = st.lists(st.lists(operations, min_size=1, max_size=5), max_size=6)


def write(database: Database, wanted: list[list[tuple[Any, ...]]]) -> None:
    for one in wanted:
        batch = LoggedBatch(rocksdict.WriteBatch(raw_mode=True))
        for name, *arguments in one:
            getattr(batch, name)(*arguments)
        database._write(batch)


@settings(deadline=None)
@given(commits, commits, st.lists(keys, min_size=1, max_size=6))
def test_both_have_the_same(
    in_tables: list[list[tuple[Any, ...]]], in_log: list[list[tuple[Any, ...]]], wanted: list[bytes]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        running = Database(Path(folder) / "running")
        write(running, in_tables)
        running._db.flush()
        write(running, in_log)
        path = Path(shutil.copytree(Path(folder) / "running", Path(folder) / "killed"))
        before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
        read = Database(path, read_only=True)
        assert len(read.examined.verdict.replayed) == len(in_log)
        assert read.last_commit == running.last_commit
        assert read.get_many(wanted) == running.get_many(wanted)
        assert list(read.scan(b"\0", b"\xff")) == list(running.scan(b"\0", b"\xff"))
        for key in wanted:
            assert list(read.scan(key, b"c")) == list(running.scan(key, b"c"))
            assert at_or_before(read, key) == at_or_before(running, key)
        read.close()
        assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before
        opened = Database(path)
        assert list(opened.scan(b"\0", b"\xff")) == list(running.scan(b"\0", b"\xff"))
        opened.close()
        running.close()


def at_or_before(database: Database, key: bytes) -> tuple[bytes, bytes] | None:
    iterator = database._db.iter()
    iterator.seek_for_prev(key)
    found = (iterator.key(), iterator.value()) if iterator.valid() else None
    iterator.status()
    return found
