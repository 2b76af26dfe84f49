"""The database keeps exactly what a commit says: truncations, deletions, epochs, and what a close leaves."""

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mesh.protocol.address_state import Phase
from mesh.protocol.commit import Commit
from mesh.protocol.copying import Taken
from mesh.protocol.disk import StoreCorrupt
from mesh.protocol.ingest import Ingest
from mesh.store import keys
from mesh.store.db import Database, StoreFailed
from mesh.store.ranges import read_records
from mesh.store.rocksdb import BLOB_BYTES
from mesh.store.verify import verify_database
from tests.unit.mesh.store.sample import (
    ADDRESS,
    BATCHES,
    OTHER,
    STORE,
    announcement,
    batch,
    fill,
    finish,
    record,
    request,
    settle,
)
from wireproto.dafka.additions import STATUS_DONE, OpenEntry
from wireproto.dafka.messages import Record
from wireproto.records.batch import assign_offsets
from wireproto.records.builder import build_batch
from wireproto.records.row import Row, row_of


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(tmp_path / "db")
    yield opened
    opened.close()


@pytest.mark.parametrize("committed_before", [0, 4, BATCHES])
def test_a_truncation_leaves_the_row_of_its_end_wherever_that_was(
    database: Database, committed_before: int
) -> None:
    ingest = Ingest(STORE, database)
    ingest.on_request(request(b"O"))
    for sequence in range(BATCHES):
        if sequence == committed_before:
            settle(ingest, database)
        ingest.on_record(record(sequence), 0.0)
    if committed_before == BATCHES:
        settle(ingest, database)
    ingest.on_request(request(b"C", sequence=5))
    settle(ingest, database)
    state = database.load(ADDRESS)
    assert state is not None
    assert (state.phase, state.head, state.end, state.running_max) == (Phase.CLOSED, 5, 5, 1005)
    assert Row.unpack(state.last_row) == row_of(batch(5), 1004)
    assert read_records(database, ADDRESS, 0, 5, 1 << 20) == [batch(number) for number in range(6)]
    behind = [keys.record_prefix(ADDRESS) + keys.sequence_bytes(number) for number in range(6, BATCHES)]
    assert database.get_many(behind) == [None] * len(behind)


def test_a_deletion_keeps_nothing_but_that_it_was(database: Database) -> None:
    ingest = Ingest(STORE, database)
    fill(ingest, database, ADDRESS, OTHER)
    ingest.on_request(request(b"X"))
    settle(ingest, database)
    state = database.load(ADDRESS)
    assert state is not None
    assert (state.phase, state.head, state.announcement) == (Phase.DELETED, -1, None)
    for prefix in (keys.record_prefix(ADDRESS), keys.row_prefix(ADDRESS)):
        wanted = [prefix + keys.sequence_bytes(number) for number in range(BATCHES)]
        assert database.get_many(wanted) == [None] * BATCHES
    assert database.get(keys.head_key(ADDRESS)) is None
    assert read_records(database, OTHER, 0, 9, 1 << 20) == [batch(number) for number in range(BATCHES)]


def test_an_epoch_is_kept_with_the_life_that_announced_it(database: Database) -> None:
    ingest = Ingest(STORE, database)
    assert database.highest_epoch(f"log/{ADDRESS}") == (-1, "")
    assert database.highest_epoch_of_all() == -1
    ingest.on_request(request(b"O")._replace(entries=(OpenEntry(announcement(epoch=7)).pack(),)))
    settle(ingest, database)
    assert database.highest_epoch(f"log/{ADDRESS}") == (7, ADDRESS[:16])
    assert database.highest_epoch_of_all() == 7


@pytest.mark.parametrize(
    ("key", "value", "read"),
    [
        (keys.epoch_key("log"), b"\0\0", lambda database: database.highest_epoch("log")),
        (keys.epoch_key("log"), b"\0\0", lambda database: database.highest_epoch_of_all()),
        (keys.epoch_key("log"), b"\0\0\0\1\xff", lambda database: database.highest_epoch("log")),
        (keys.row_prefix(ADDRESS) + keys.sequence_bytes(3), b"?", lambda database: database.row(ADDRESS, 3)),
        (keys.meta_key(ADDRESS), b"?", lambda database: database.load(ADDRESS)),
        (keys.head_key(ADDRESS), b"?", lambda database: database.load(ADDRESS)),
    ],
    ids=["short epoch", "short epoch of any log", "no life's name", "row", "meta", "head"],
)
def test_what_cannot_be_read_back_is_corrupt(
    database: Database, key: bytes, value: bytes, read: Callable[[Database], Any]
) -> None:
    database._db.put(key, value)
    with pytest.raises(StoreCorrupt):
        read(database)


def test_a_close_cuts_a_reclaim_short_and_loses_nothing(tmp_path: Path) -> None:
    """Large enough that its compaction takes a while; the memtables are read back from the log."""
    database = Database(tmp_path / "db")
    ingest = Ingest(STORE, database)
    fill(ingest, database, ADDRESS, OTHER)
    started = threading.Event()
    done: list[bool] = []

    class Compacting:
        """The database's handle, which tells when its compaction begins, and waits to be cancelled."""

        def __init__(self, real: Any) -> None:
            self.real = real
            self.cancelled = threading.Event()

        def __getattr__(self, name: str) -> Any:
            return getattr(self.real, name)

        def compact_range(self, *arguments: Any) -> None:
            started.set()
            assert self.cancelled.wait(20), "close does not cut it short"
            self.real.compact_range(*arguments)

        def cancel_all_background(self, wait: bool) -> None:
            self.real.cancel_all_background(wait)
            self.cancelled.set()

    database._db = Compacting(database._db)
    ingest.on_request(request(b"X"))
    settle(ingest, database)

    def reclaim() -> None:
        database.reclaim(ADDRESS)
        done.append(True)

    thread = threading.Thread(target=reclaim)
    thread.start()
    assert started.wait(20)
    database.close()
    thread.join(20)
    assert done == [True]
    again = Database(tmp_path / "db")
    state = again.load(ADDRESS)
    assert state is not None
    assert state.phase is Phase.DELETED
    assert read_records(again, OTHER, 0, 9, 1 << 20) == [batch(number) for number in range(BATCHES)]
    again.close()


def test_after_a_close_no_reclaim_begins(tmp_path: Path) -> None:
    database = Database(tmp_path / "db")
    database.close()
    database.reclaim(ADDRESS)


def test_a_restarted_store_answers_close_of_what_it_lacks_with_incomplete(tmp_path: Path) -> None:
    database = Database(tmp_path / "db")
    fill(Ingest(STORE, database), database, ADDRESS)
    for _ in range(2):
        ingest = Ingest(STORE, database, "cluster")
        ingest.on_request(request(b"C", sequence=BATCHES + 3))
        commit = ingest.take_commit()
        assert commit is not None
        (status,) = finish(ingest, database, commit)
        assert status.status != STATUS_DONE
        assert status.sequence == BATCHES - 1
    database.close()


def test_what_a_segment_lacks_is_remembered_until_it_is_here(tmp_path: Path) -> None:
    database = Database(tmp_path / "db")
    ingest = Ingest(STORE, database)
    fill(ingest, database, ADDRESS, OTHER)
    ingest.on_request(request(b"C", sequence=BATCHES))
    ingest.on_request(request(b"C", OTHER, BATCHES - 1))
    settle(ingest, database)
    database.close()
    database = Database(tmp_path / "db")
    assert database.unfinished("", 10) == [ADDRESS]
    ingest = Ingest(STORE, database, "cluster")
    ingest.resume(ADDRESS)
    assert ingest.on_copy(ADDRESS, BATCHES, batch(BATCHES), OTHER, 0.0) is Taken.TAKEN
    settle(ingest, database)
    assert database.unfinished("", 10) == []
    database.close()


def test_a_damaged_table_that_is_merged_ends_the_store_with_the_next_step(tmp_path: Path) -> None:
    """What lies in it can be written again beside it; RocksDB reads it all the same when it merges."""
    database = Database(tmp_path / "db")
    fill(Ingest(STORE, database), database, ADDRESS)
    database._db.flush()
    database.put_now({b"z": b"the number of the last commit is in another table"})
    database.close()
    (table,) = (file for file in (tmp_path / "db").glob("*.sst") if batch(3) in file.read_bytes())
    content = bytearray(table.read_bytes())
    content[content.index(batch(3))] ^= 1
    table.write_bytes(content)
    database = Database(tmp_path / "db")
    key = keys.record_prefix(ADDRESS) + keys.sequence_bytes(3)
    with pytest.raises(StoreCorrupt):
        database.get(key)
    database._db.put(key, batch(3))
    assert database.get(key) == batch(3)
    database._db.flush()
    database.reclaim(ADDRESS)
    commit = Commit()
    commit.metas[OTHER] = b"anything"
    with pytest.raises(StoreFailed, match=r"damaged: start an empty store.*dafka store replace"):
        database.write(commit)
    with pytest.raises(StoreFailed):
        database.close()


def interleaved(database: Database, *, sequences: int = 40) -> bytes:
    """Two addresses whose contents lie in the same blob files; the content of each record."""
    content = bytes(range(256)) * 256
    for sequence in range(sequences):
        for address in (ADDRESS, OTHER):
            database._db.put(keys.record_prefix(address) + keys.sequence_bytes(sequence), content)
    database._db.flush()
    return content


def blob_bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in path.glob("*.blob"))


def contents(database: Database, address: str, sequences: int = 40) -> list[bytes | None]:
    prefix = keys.record_prefix(address)
    return database.get_many([prefix + keys.sequence_bytes(number) for number in range(sequences)])


def test_what_is_left_is_written_to_new_files_and_the_old_ones_go(tmp_path: Path) -> None:
    database = Database(tmp_path / "db")
    content = interleaved(database)
    before = blob_bytes(tmp_path / "db")
    prefix = keys.record_prefix(OTHER)
    database._db.delete_range(prefix, keys.prefix_end(prefix))
    database.reclaim(OTHER)
    garbage, size = database.garbage()
    assert 0.45 * before < garbage < 0.55 * before <= size
    database.rewrite(ADDRESS)
    assert database.garbage()[0] == 0
    assert blob_bytes(tmp_path / "db") < 0.55 * before
    assert contents(database, ADDRESS) == [content] * 40
    database.close()
    again = Database(tmp_path / "db")
    assert contents(again, ADDRESS) == [content] * 40
    assert contents(again, OTHER) == [None] * 40
    again.close()


def test_contents_that_cannot_be_read_are_found_before_they_are_moved(tmp_path: Path) -> None:
    database = Database(tmp_path / "db")
    content = interleaved(database)
    database.check_contents(ADDRESS)
    database.check_contents(OTHER)
    database.check_contents("D" * 32)
    database.close()
    (blobs,) = (tmp_path / "db").glob("*.blob")
    damaged = bytearray(blobs.read_bytes())
    damaged[damaged.rindex(content) + 70] ^= 1
    blobs.write_bytes(damaged)
    database = Database(tmp_path / "db")
    database.check_contents(ADDRESS)
    with pytest.raises(StoreCorrupt):
        database.check_contents(OTHER)
    database.close()


@pytest.mark.parametrize(
    ("size", "suffix"), [(0, ".sst"), (2 * BLOB_BYTES, ".blob"), (2 * BLOB_BYTES, ".log"), (0, ".log")]
)
@pytest.mark.parametrize("place", [7, 15, -1], ids=["base offset", "leader epoch", "under the CRC"])
def test_a_bit_that_a_file_loses_is_noticed_whether_a_batch_covers_it_or_not(
    tmp_path: Path, size: int, suffix: str, place: int
) -> None:
    """A batch's CRC covers neither base offset nor leader epoch: RocksDB's own checksums do, in each file."""
    path = tmp_path / "db"
    contents = [long_batch(number, size) for number in range(BATCHES)]
    database = Database(path)
    ingest = Ingest(STORE, database)
    ingest.on_request(request(b"O"))
    for number, content in enumerate(contents):
        ingest.on_record(Record(ADDRESS, "orders", number, content), 0.0)
    settle(ingest, database)
    if suffix != ".log":
        database._db.flush()
        assert read_records(database, ADDRESS, 7, 7, 1 << 20) == [contents[7]]
        database.put_now({b"z": b"the number of the last commit is in another table"})
        database._db.flush()
    database.flush()
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    database.close()
    (file,) = (one for one in copy.rglob(f"*{suffix}") if contents[7] in one.read_bytes())
    data = bytearray(file.read_bytes())
    data[data.index(contents[7]) + place % len(contents[7])] ^= 1
    file.write_bytes(data)
    report = verify_database(copy)
    assert report.problem_count > 0
    if suffix != ".log":
        database = Database(copy)
        with pytest.raises(StoreCorrupt):
            read_records(database, ADDRESS, 7, 7, 1 << 20)
        database.close()


def long_batch(number: int, size: int) -> bytes:
    content = bytearray(build_batch([(None, b"value %d" % number + bytes(size), [], 1000 + number)]))
    assign_offsets(content, number, 0)
    return bytes(content)
