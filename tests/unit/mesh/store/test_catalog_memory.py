"""What a store remembers of the catalog, on RocksDB: after a start, in pages, and where it cannot be read."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mesh.protocol.ingest import MAX_WAITING_KEEPS, Ingest
from mesh.store import catalog_memory
from mesh.store.catalog_memory import HEAD_KEY, read_head
from mesh.store.db import Database
from mesh.store.server import Server
from wireproto.dafka.additions import (
    KEEP_CHANGES,
    KEEP_LAST_PIECE,
    KEEP_PIECE,
    KEEP_QUESTION,
    KEPT_DONE,
    KEPT_STORAGE_ERROR,
    NOTHING_REMEMBERED,
    Keep,
    Kept,
    Recall,
    Recalled,
    Remembered,
)
from wireproto.dafka.messages import decode


class Store:
    """The database, the machine and the server of one store."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.requests = 0
        self.open()

    def open(self) -> None:
        self.database = Database(self.path)
        self.ingest = Ingest("S1", self.database, self.database.cluster_id())
        self.ingest.catalog_memory.begin(read_head(self.database))
        self.server = Server(cast(Any, SimpleNamespace()), "S1", self.ingest, self.database)

    def start_again(self) -> None:
        self.database.close()
        self.open()

    def keep(self, kind: int, sequence: int = -1, base: int = 0, **changes: Any) -> Kept:
        self.requests += 1
        place = Remembered("H1", "G1", sequence) if sequence >= 0 else NOTHING_REMEMBERED
        self.ingest.on_keep(Keep("S1", f"R{self.requests}", "C1", kind, place, base=base, **changes))
        commit = self.ingest.take_commit()
        assert commit is not None
        self.database.write(commit)
        (answer,) = self.ingest.committed(commit)
        assert isinstance(answer, Kept)
        return answer

    def recall(self, after: str = "") -> Recalled:
        (frames,) = self.server._recall(Recall("S1", "R7", after))
        answer = decode([bytes(frame) for frame in frames])
        assert isinstance(answer, Recalled)
        return answer


@pytest.fixture
def store(tmp_path: Path) -> Any:
    made = Store(tmp_path / "db")
    yield made
    made.database.close()


def test_what_is_kept_is_there_after_a_start(store: Store) -> None:
    assert store.keep(KEEP_QUESTION).memory == NOTHING_REMEMBERED
    assert store.database.cluster_id() == ""
    store.keep(KEEP_PIECE, 5, puts={"/t/a": b"1", "/t/b": b"2"})
    store.keep(KEEP_LAST_PIECE, 5, 1, puts={"/t/\u00e9": b"3" * 5000})
    store.keep(KEEP_CHANGES, 7, 5, puts={"/t/c": b""}, deletes=("/t/a",))
    for _ in range(2):
        answer = store.keep(KEEP_QUESTION)
        assert (answer.status, answer.cluster_id, answer.memory) == (
            KEPT_DONE,
            "C1",
            Remembered("H1", "G1", 7),
        )
        recalled = store.recall()
        assert recalled == Recalled(
            "R7", "S1", KEPT_DONE, "C1", Remembered("H1", "G1", 7),
            {"/t/b": b"2", "/t/c": b"", "/t/\u00e9": b"3" * 5000},
        )  # fmt: skip
        store.start_again()


def test_a_copy_replaces_all_of_the_one_before(store: Store) -> None:
    store.keep(KEEP_LAST_PIECE, 5, puts={"/t/a": b"1"})
    store.keep(KEEP_PIECE, 6, puts={"/t/lost": b"1"})
    store.start_again()
    store.keep(KEEP_LAST_PIECE, 7, puts={"/t/b": b"2"})
    assert store.recall().entries == {"/t/b": b"2"}
    kept = [key for key, _ in store.database.scan(b"k", b"l")]
    assert len(kept) == 2


def test_entries_are_told_in_pages(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {f"/t/{number:02d}": b"%d" % number for number in range(10)}
    store.keep(KEEP_LAST_PIECE, 5, puts=entries)
    monkeypatch.setattr(catalog_memory, "PAGE_ENTRIES", 4)
    pages, after = [], ""
    while True:
        page = store.recall(after)
        pages.append(dict(page.entries))
        after = list(page.entries)[-1]
        if not page.more:
            break
    assert [len(page) for page in pages] == [4, 4, 2]
    assert {key: value for page in pages for key, value in page.items()} == entries
    monkeypatch.setattr(catalog_memory, "PIECE_BYTES", 10)
    assert len(store.recall().entries) == 1


def test_few_keeps_wait_for_a_commit_and_the_others_are_to_be_asked_again(store: Store) -> None:
    place = Remembered("H1", "G1", 5)
    for number in range(MAX_WAITING_KEEPS + 3):
        store.ingest.on_keep(Keep("S1", f"A{number}", "C1", KEEP_LAST_PIECE, place, puts={"/t/a": b"1"}))
    assert store.ingest.refused_requests == 3
    commit = store.ingest.take_commit()
    assert commit is not None
    assert len(store.ingest.committed(commit)) == MAX_WAITING_KEEPS
    assert store.keep(KEEP_QUESTION).memory == place


def test_a_head_that_cannot_be_read_is_said(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    store.keep(KEEP_LAST_PIECE, 5, puts={"/t/a": b"1"})
    store.database._db.put(HEAD_KEY, b"\1garbage")
    store.start_again()
    assert "what is remembered of the catalog cannot be read" in caplog.text
    assert store.keep(KEEP_QUESTION).status == KEPT_STORAGE_ERROR
    assert store.recall() == Recalled("R7", "S1", KEPT_STORAGE_ERROR, "C1", NOTHING_REMEMBERED)
    assert store.keep(KEEP_LAST_PIECE, 6, puts={"/t/b": b"2"}).status == KEPT_DONE
    assert store.recall().entries == {"/t/b": b"2"}
