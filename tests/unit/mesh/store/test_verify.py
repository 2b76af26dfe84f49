"""`dafka store verify`: what is whole passes and is not changed; every kind of damage is found and named."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from mesh.data_directory import DataDirectory, DataDirectoryRefused, Kind
from mesh.protocol.ingest import Ingest
from mesh.store import keys
from mesh.store.db import LOG_DIRECTORY, Database
from mesh.store.verify import EXIT_DAMAGED, EXIT_GOOD, MAX_PROBLEMS, Report, verify, verify_database
from tests.unit.mesh.store.sample import ADDRESS, BATCHES, OTHER, STORE, batch, fill, record, request, settle
from wireproto.dafka.messages import Record

FORMATS = Path(__file__).parents[3] / "data" / "formats"
NATIVE = "C" * 32
LAST = BATCHES - 1


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store's directory: an open segment, a closed one, a deleted one, and native records."""
    with DataDirectory(tmp_path / "data", Kind.STORE):
        pass
    database = Database(tmp_path / "data" / "db")
    ingest = Ingest(STORE, database)
    fill(ingest, database, ADDRESS, OTHER, "D" * 32)
    ingest.on_request(request(b"C", OTHER, LAST))
    ingest.on_request(request(b"X", "D" * 32))
    for sequence in range(5):
        ingest.on_record(Record(NATIVE, "noise", sequence, b"native %d" % sequence), 0.0)
    settle(ingest, database)
    database.close()
    return tmp_path / "data"


def files(path: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def damaged(path: Path, damage: Callable[[Database], None]) -> Report:
    database = Database(path / "db")
    damage(database)
    database.close()
    return verify(path)


def record_key(sequence: int, address: str = ADDRESS) -> bytes:
    return keys.record_prefix(address) + keys.sequence_bytes(sequence)


def row_key(sequence: int, address: str = ADDRESS) -> bytes:
    return keys.row_prefix(address) + keys.sequence_bytes(sequence)


def test_a_whole_store_passes_and_not_a_byte_of_it_changes(path: Path) -> None:
    before = files(path)
    read: list[int] = []
    report = verify(path, read.append)
    assert files(path) == before
    assert report.exit_code == EXIT_GOOD
    assert list(report.lines()) == [f"4 addresses, 25 records, {report.bytes} bytes read: all is well"]
    assert {(one.address, one.phase.name, one.head) for one in report.addresses} == {
        (ADDRESS, "OPEN", LAST),
        (OTHER, "CLOSED", LAST),
        (NATIVE, "NATIVE", 4),
        ("D" * 32, "DELETED", -1),
    }
    assert read[-1] == report.bytes == sum(len(batch(number)) for number in range(BATCHES)) * 2 + 8 * 5
    digests = {one.address: one.digest for one in report.addresses}
    expected = hashlib.sha256()
    for number in range(BATCHES):
        expected.update(len(batch(number)).to_bytes(8, "big") + batch(number))
    assert digests[ADDRESS] == digests[OTHER] == expected.hexdigest()


def test_standalones_store_is_found_below_its_directory(path: Path) -> None:
    (path.parent / "standalone").mkdir()
    path.rename(path.parent / "standalone" / "store")
    assert len(verify(path.parent / "standalone").addresses) == 4


def altered(content: bytes, position: int) -> bytes:
    return content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :]


def put(key: bytes, value: bytes) -> Callable[[Database], None]:
    return lambda database: database._db.put(key, value)


def drop(*gone: bytes) -> Callable[[Database], None]:
    def delete(database: Database) -> None:
        for key in gone:
            database._db.delete(key)

    return delete


def other_row(database: Database) -> None:
    database._db.put(row_key(3), database._db.get(row_key(4)))


def short_head(database: Database) -> None:
    database._db.put(keys.head_key(ADDRESS), database._db.get(keys.head_key(NATIVE)))


Expected = list[tuple[str, int, str]]
HEAD_ROW = (ADDRESS, -1, "the row of its head is another record's")
DELETED = "D" * 32
STRANGER = "E" * 32


def behind(head: int, first: int) -> Expected:
    """Records that lie behind the head, from `first` on."""
    return [(ADDRESS, number, f"it lies behind the head {head}") for number in range(first, BATCHES)]


DAMAGE: dict[str, tuple[Callable[[Database], None], Expected]] = {
    "a byte of a batch": (
        put(record_key(3), altered(batch(3), 70)),
        [(ADDRESS, 3, "the CRC does not fit the batch")],
    ),
    "another batch": (
        put(record_key(3), batch(4)),
        [(ADDRESS, 3, "its row says something else")],
    ),
    "an epoch": (
        put(record_key(3), altered(batch(3), 15)),
        [(ADDRESS, 3, "leader epoch 1 in a segment of epoch 0")],
    ),
    "a record": (drop(record_key(3)), [(ADDRESS, 4, "3 to 3 are missing before it")]),
    "three records": (
        drop(*map(record_key, (3, 4, 5))),
        [(ADDRESS, 6, "3 to 5 are missing before it")],
    ),
    "the last record": (
        drop(record_key(LAST)),
        [(ADDRESS, -1, f"sequence {LAST} to {LAST} are missing")],
    ),
    "all records": (
        drop(*map(record_key, range(BATCHES))),
        [(ADDRESS, -1, f"sequence 0 to {LAST} are missing")],
    ),
    "a row": (drop(row_key(3)), [(ADDRESS, 3, "its row is missing")]),
    "another row": (other_row, [(ADDRESS, 3, "its row says something else")]),
    "a record too many": (
        put(record_key(BATCHES), batch(BATCHES)),
        [(ADDRESS, BATCHES, f"it lies behind the head {LAST}, its row is missing"), HEAD_ROW],
    ),
    "a row too many": (
        put(row_key(BATCHES + 3), b"row"),
        [(ADDRESS, -1, f"there is a row of sequence {BATCHES + 3}, and no record")],
    ),
    "the head": (drop(keys.head_key(ADDRESS)), [*behind(-1, 0), HEAD_ROW]),
    "another head": (short_head, [*behind(4, 5), HEAD_ROW]),
    "the meta": (
        put(keys.meta_key(ADDRESS), b"?"),
        [(ADDRESS, -1, f"the record of address {ADDRESS} cannot be read")],
    ),
    "a native record": (drop(record_key(2, NATIVE)), [(NATIVE, 3, "2 to 2 are missing before it")]),
    "a deleted one's records": (
        put(record_key(0, DELETED), b"x"),
        [(DELETED, 0, "it lies behind the head -1"), (DELETED, -1, "it was deleted, and has records")],
    ),
    "records of nobody": (
        put(record_key(0, STRANGER), b"x"),
        [(STRANGER, 0, "it lies behind the head -1")],
    ),
}


@pytest.mark.parametrize(("damage", "expected"), DAMAGE.values(), ids=DAMAGE)
def test_damage_is_named_and_the_rest_is_read(
    path: Path, damage: Callable[[Database], None], expected: Expected
) -> None:
    report = damaged(path, damage)
    assert report.exit_code == EXIT_DAMAGED
    assert [(one.address, one.sequence) for one in report.problems] == [one[:2] for one in expected]
    for problem, (_, _, text) in zip(report.problems, expected, strict=True):
        assert problem.text.startswith(text)
    assert [one.head for one in report.addresses if one.address == OTHER] == [LAST]
    assert "start an empty store" in list(report.lines())[-1]


def test_a_closed_segment_that_is_not_whole_is_said_and_is_no_damage(path: Path) -> None:
    database = Database(path / "db")
    ingest = Ingest(STORE, database, "cluster")
    ingest.on_request(request(b"C", ADDRESS, 99))
    settle(ingest, database)
    database.close()
    report = verify(path)
    assert report.exit_code == EXIT_GOOD
    assert next(report.lines()).startswith(f"address {ADDRESS} lacks the records from 10 to 99")


def test_native_records_may_begin_later(path: Path) -> None:
    """The oldest go when there are too many."""
    report = damaged(path, drop(record_key(0, NATIVE), record_key(1, NATIVE)))
    assert list(report.problems) == []


def test_what_rocksdb_cannot_read_is_passed_over(path: Path) -> None:
    """A flipped byte in a table or a blob file: what lies in the block is lost, and the rest is checked."""
    database = Database(path / "db")
    ingest = Ingest(STORE, database, "cluster")
    for sequence in range(BATCHES, BATCHES + 3):
        ingest.on_record(record(sequence), 0.0)
    settle(ingest, database)
    database._db.flush(True)
    database.close()
    (table, *_) = sorted((path / "db").glob("*.sst"), key=lambda file: file.stat().st_size, reverse=True)
    data = bytearray(table.read_bytes())
    at = data.find(b"value 5")
    assert at > 0
    data[at] ^= 1
    table.write_bytes(bytes(data))
    report = verify(path)
    assert report.exit_code == EXIT_DAMAGED
    assert any("cannot be read" in problem.text for problem in report.problems)
    assert len(report.problems) < 100


def test_a_corrupt_write_ahead_log_is_named_with_file_and_offset(path: Path) -> None:
    database = Database(path / "db")
    ingest = Ingest(STORE, database, "cluster")
    for sequence in range(BATCHES, BATCHES + 50):
        ingest.on_record(record(sequence), 0.0)
        settle(ingest, database)
    database.flush()
    copy = path.parent / "copy"
    shutil.copytree(path / "db", copy / "db")
    database.close()
    (copy / "identity.json").write_bytes((path / "identity.json").read_bytes())
    log = max((copy / "db" / LOG_DIRECTORY).glob("*.log"))
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(bytes(data))
    report = verify(copy)
    assert report.exit_code == EXIT_DAMAGED
    assert f"{log} is corrupt from byte" in str(report.problems[0])


def test_problems_are_listed_up_to_a_bound() -> None:
    report = Report()
    for number in range(MAX_PROBLEMS + 5):
        report.add("A", number, "bad")
    lines = list(report.lines())
    assert len(lines) == MAX_PROBLEMS + 2
    assert lines[-2] == "and 5 more"
    assert f"{MAX_PROBLEMS + 5} problems" in lines[-1]


def test_directories_that_are_no_stores_or_in_use_are_refused(path: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for wrong in (tmp_path / "empty", tmp_path / "nothing"):
        with pytest.raises(DataDirectoryRefused, match="no store in it"):
            verify(wrong)
        assert not wrong.exists() or not list(wrong.iterdir())
    with DataDirectory(tmp_path / "gateway", Kind.GATEWAY):
        pass
    with pytest.raises(DataDirectoryRefused, match="dafka-gateway"):
        verify(tmp_path / "gateway")
    with DataDirectory(path, Kind.STORE), pytest.raises(DataDirectoryRefused, match="is using it"):
        verify(path)


def test_a_store_that_was_never_started_is_empty(tmp_path: Path) -> None:
    with DataDirectory(tmp_path, Kind.STORE):
        pass
    assert verify(tmp_path).exit_code == EXIT_GOOD
    (tmp_path / "db").mkdir()
    report = verify_database(tmp_path / "db")
    assert report.exit_code == EXIT_DAMAGED
    assert "db cannot be opened: " in report.problems[0].text


@pytest.mark.parametrize("archive", sorted(FORMATS.glob("*.tar.gz")), ids=lambda archive: archive.name)
def test_directories_of_every_format_pass(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    (store,) = tmp_path.rglob("store")
    report = verify(store.parent)
    assert report.exit_code == EXIT_GOOD, list(report.lines())
    assert report.records
