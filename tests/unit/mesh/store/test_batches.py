"""Batches that are read without RocksDB's checksum: a bit that a file loses, wherever it lies, gives an error
or the right bytes, and nothing that is read later is fooled by it.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest

from mesh.protocol.address_state import AddressState
from mesh.protocol.disk import StoreCorrupt
from mesh.protocol.ingest import Ingest
from mesh.store import batches, keys, ranges
from mesh.store.batches import BatchReads
from mesh.store.db import Database, StoreFailed
from mesh.store.verify import verify_database
from tests.entries import entry_of
from tests.unit.mesh.store.sample import ADDRESS, STORE, announcement, settle
from wireproto.dafka.additions import OpenEntry, Request
from wireproto.dafka.messages import Record
from wireproto.records.batch import assign_offsets
from wireproto.records.builder import build_batch
from wireproto.records.header import HEADER_BYTES
from wireproto.records.row import row_of

EPOCH = 3
COUNT = 40
ALL = 1 << 30
TABLE_STEP = 61
"""Every so-manieth byte of a table is damaged: all of its blocks and of their parts."""


def large(number: int, *, epoch: int = EPOCH) -> bytes:
    size = 4 * batches.CHECKED_HERE_BYTES
    content = bytearray(build_batch([(None, b"%07d" % number * (size // 7), [], 1000 + number)]))
    assign_offsets(content, number, epoch)
    return bytes(content)


def written(path: Path, contents: list[bytes]) -> Database:
    """A closed segment with these batches, in files."""
    database = Database(path)
    ingest = Ingest(STORE, database)
    opened = OpenEntry(announcement(ADDRESS, epoch=EPOCH)).pack()
    ingest.on_request(Request(b"O", STORE, "R1", (opened,)))
    for number, content in enumerate(contents):
        ingest.on_record(Record(ADDRESS, "orders", number, content), 0.0)
    settle(ingest, database)
    ingest.on_request(Request(b"C", STORE, "R2", (entry_of(b"C", ADDRESS, len(contents) - 1),)))
    settle(ingest, database)
    database._db.flush()
    return database


def state_of(database: Database) -> AddressState:
    state = database.load(ADDRESS)
    assert state is not None
    return state


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "db"
    written(path, [large(number) for number in range(COUNT)]).close()
    return path


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many values each read without RocksDB's checksum took."""
    taken: list[int] = []
    get_unchecked = Database.get_unchecked

    def counting(database: Database, wanted: Any) -> list[bytes | None]:
        taken.append(len(wanted))
        return get_unchecked(database, wanted)

    monkeypatch.setattr(Database, "get_unchecked", counting)
    return taken


def flipped(whole: Path, to: Path, suffix: str, before: bytes, place: int) -> Path:
    """A copy with one bit flipped `place` bytes from where `before` begins."""
    shutil.copytree(whole, to)
    (file,) = (one for one in to.glob(f"*{suffix}") if before in one.read_bytes())
    data = bytearray(file.read_bytes())
    data[data.index(before) + place] ^= 1
    file.write_bytes(data)
    return to


@pytest.mark.parametrize(
    "place",
    [0, 7, 8, 11, 12, 15, 16, 17, 20, 21, 26, 34, 42, 60, HEADER_BYTES, 10_000, -1],
)
def test_a_bit_that_a_blob_file_loses_is_no_batch(
    whole: Path, tmp_path: Path, unchecked: list[int], place: int
) -> None:
    content = large(7)
    path = flipped(whole, tmp_path / "db", ".blob", content, place % len(content))
    database = Database(path)
    reads, state = BatchReads(database), state_of(database)
    assert reads.read(state, 0, 6, ALL) == [large(number) for number in range(7)]
    for first in (0, 7):
        with pytest.raises(StoreCorrupt):
            reads.read(state, first, 9, ALL)
    assert reads.read(state, 8, COUNT - 1, ALL) == [large(number) for number in range(8, COUNT)]
    assert unchecked == [7, 10, 3, COUNT - 8]
    database.close()
    assert verify_database(path).problem_count > 0


def test_what_lies_around_a_batch_in_a_blob_file_harms_no_reader_and_a_look_finds_it(
    whole: Path, tmp_path: Path
) -> None:
    path = flipped(whole, tmp_path / "db", ".blob", large(7), -len(keys.record_prefix(ADDRESS)) - 12)
    database = Database(path)
    assert BatchReads(database).read(state_of(database), 7, 7, ALL) == [large(7)]
    database.close()
    assert verify_database(path).problem_count > 0


def test_every_bit_of_a_header_counts() -> None:
    content = large(7)
    row = row_of(content, -1)
    assert batches._epoch_of_whole(content, row) == EPOCH
    for bit in range(8 * HEADER_BYTES):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        assert batches._epoch_of_whole(bytes(damaged), row) != EPOCH


def test_a_bit_that_a_table_loses_fools_nobody(whole: Path, tmp_path: Path) -> None:
    """Neither this read nor a later one of what is voted with: heads, metas, rows."""
    path = tmp_path / "db"
    shutil.copytree(whole, path)
    (table,) = path.glob("*.sst")
    good = table.read_bytes()
    contents = [large(number) for number in range(COUNT)]
    intact = Database(path, read_only=True)
    expected = state_of(intact)
    rows = ranges.read_rows(intact, ADDRESS, 0, COUNT - 1)
    intact.close()
    refused = 0
    for place in range(0, len(good), TABLE_STEP):
        table.write_bytes(good[:place] + bytes([good[place] ^ 1 << place % 8]) + good[place + 1 :])
        try:
            database = Database(path, read_only=True)
        except StoreFailed:
            refused += 1
            continue
        for _ in range(2):
            try:
                assert BatchReads(database).read(expected, 0, COUNT - 1, ALL) == contents
            except StoreCorrupt:
                refused += 1
            try:
                state = state_of(database)
                assert (state.head, state.end, state.phase) == (COUNT - 1, COUNT - 1, expected.phase)
                assert ranges.read_rows(database, ADDRESS, 0, COUNT - 1) == rows
            except StoreCorrupt:
                refused += 1
        database.close()
    assert refused > 10


def test_small_batches_and_natives_are_left_to_rocksdb(tmp_path: Path, unchecked: list[int]) -> None:
    small = bytearray(build_batch([(None, b"small", [], 1000)]))
    assign_offsets(small, 0, EPOCH)
    database = written(tmp_path / "db", [bytes(small)])
    assert BatchReads(database).read(state_of(database), 0, 0, ALL) == [bytes(small)]
    database._db.put(keys.record_prefix("n1") + keys.sequence_bytes(0), large(0))
    assert BatchReads(database).read(AddressState("n1", "news"), 0, 0, ALL) == [large(0)]
    assert not unchecked
    database.close()


def test_a_compacted_segments_batches_are_left_to_rocksdb_once_known(
    tmp_path: Path, unchecked: list[int]
) -> None:
    """Nothing but RocksDB's checksum says which older epoch a batch has."""
    contents = [large(0, epoch=1), large(1, epoch=2), large(2)]
    database = written(tmp_path / "db", contents)
    reads, state = BatchReads(database), state_of(database)
    assert reads.read(state, 2, 2, ALL) == contents[2:]
    assert unchecked == [1]
    for _ in range(3):
        assert reads.read(state, 0, 2, ALL) == contents
    assert unchecked == [1, 3]
    database.close()


def test_a_damaged_epoch_of_a_compacted_segment_is_refused(tmp_path: Path) -> None:
    contents = [large(0, epoch=1), large(1, epoch=2), large(2)]
    written(tmp_path / "whole", contents).close()
    path = flipped(tmp_path / "whole", tmp_path / "db", ".blob", contents[1], 15)
    database = Database(path)
    with pytest.raises(StoreCorrupt):
        BatchReads(database).read(state_of(database), 0, 2, ALL)
    database.close()


def test_a_closed_database_is_open_to_the_next(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "db")
    for _ in range(3):
        database = Database(tmp_path / "db")
        assert len(BatchReads(database).read(state_of(database), 0, 3, ALL)) == 4
        database.close()
        with pytest.raises(StoreCorrupt):
            database.get_unchecked([b"m"])
