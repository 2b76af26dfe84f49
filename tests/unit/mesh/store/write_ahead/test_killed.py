"""The logs of processes that were killed: every commit is there, and every damaged byte is found."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import rocksdict

from mesh.protocol.commit import Commit
from mesh.store import keys, values
from mesh.store.committer import Committer, Fsync
from mesh.store.db import LOG_DIRECTORY, Database, LogDamaged, StoreFailed
from mesh.store.identity import learn
from mesh.store.verify import verify_database
from mesh.store.write_ahead import reading
from mesh.store.write_ahead.entries import Entry, entry_at, file_header
from mesh.store.write_ahead.files import FILE_BYTES
from mesh.store.write_ahead.mark import NAME
from mesh.store.write_ahead.reading import content_of, read_files
from mesh.store.write_ahead.replaying import cut

MIB = 1024 * 1024

WRITER = """
import os, signal, sys, time
from pathlib import Path
from mesh.protocol.commit import Commit
from mesh.store.committer import Committer, Fsync
from mesh.store.db import Database, StoreFailed

path, count, size = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
database = Database(path)
first = database.last_commit
for number in range(first, first + count):
    values = {b"k%08d" % number: (b"%d " % number).ljust(size, b"v"), b"last": b"%d" % number}
    while True:
        try:
            database.put_now(values)
            break
        except StoreFailed as error:
            if "asks to wait" not in str(error):
                raise
            time.sleep(0.001)
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(path: Path, count: int, size: int) -> Path:
    """The database after so many commits more, and a SIGKILL."""
    command = [sys.executable, "-c", WRITER, str(path), str(count), str(size)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return path


def left_of(database: Database, to: Path) -> Path:
    """What a SIGKILL would leave of an open database now; it is closed."""
    path = Path(shutil.copytree(database._db.path(), to))
    database.close()
    return path


def flip(path: Path, place: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << bit
    path.write_bytes(content)


def check(database: Database, count: int, size: int) -> None:
    assert database.last_commit == count
    assert database.get(b"last") == b"%d" % (count - 1)
    found = list(database.scan(b"k", b"l"))
    assert found == [(b"k%08d" % number, (b"%d " % number).ljust(size, b"v")) for number in range(count)]


@pytest.mark.parametrize(("count", "size"), [(1, 0), (30, 100), (200, 100_000), (9, 3 * MIB), (3, 20 * MIB)])
def test_every_commit_is_there_after_kills(tmp_path: Path, count: int, size: int) -> None:
    path = tmp_path / "db"
    for lives in (1, 2, 3):
        killed(path, count, size)
        reader = Database(path, read_only=True)
        check(reader, lives * count, size)
        reader.close()
    database = Database(path)
    check(database, 3 * count, size)
    assert len(list((path / LOG_DIRECTORY).glob("*.log"))) <= 4
    database.close()
    database = Database(path, read_only=True)
    assert database.examined.files == [], "a stopped store has everything in tables"
    check(database, 3 * count, size)
    database.close()


def test_files_are_written_over_and_over(tmp_path: Path) -> None:
    """Twenty times what one file holds, in a few files."""
    path = killed(tmp_path / "db", 1_700, 100_000)
    logs = list((path / LOG_DIRECTORY).glob("*.log"))
    assert len(logs) <= 10
    assert sum(log.stat().st_size for log in logs) <= 10 * FILE_BYTES + MIB
    assert [log.stat().st_size for log in path.glob("*.log")] == [0], (
        "RocksDB has its own, and writes nothing there"
    )
    database = Database(path)
    check(database, 1_700, 100_000)
    database.close()


def test_a_start_reads_only_what_may_not_be_in_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(tmp_path / "running")
    for number in range(3):
        database.put_now({b"k%d" % number: bytes(FILE_BYTES // 2)})
    database._db.flush()
    database.put_now({b"k3": b""})
    path = left_of(database, tmp_path / "killed")
    read: list[str] = []

    def note(file: Path) -> bytes:
        read.append(file.name)
        return content_of(file)

    monkeypatch.setattr(reading, "content_of", note)
    database = Database(path, read_only=True)
    assert len(list((path / LOG_DIRECTORY).glob("*.log"))) >= 2
    assert len(read) == 1
    assert [entry.number for _, entry in database.examined.verdict.replayed] == [4]
    assert database.get(b"k3") == b""
    database.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return killed(tmp_path_factory.mktemp("killed") / "db", 20, 300)


def log_of(path: Path) -> Path:
    (log,) = (path / LOG_DIRECTORY).glob("*.log")
    return log


def test_no_flipped_bit_goes_unnoticed(whole: Path, tmp_path: Path) -> None:
    """Of every seventh byte of the log; and nothing is changed."""
    size = log_of(whole).stat().st_size
    for place in range(0, size, 7):
        path = Path(shutil.copytree(whole, tmp_path / "db"))
        flip(log_of(path), place, place % 8)
        content = log_of(path).read_bytes()
        with pytest.raises(LogDamaged, match="is corrupt from byte"):
            Database(path)
        assert log_of(path).read_bytes() == content
        shutil.rmtree(path)


@pytest.mark.parametrize("part", [0.0, 0.3, 0.999])
def test_no_log_that_is_cut_goes_unnoticed(whole: Path, tmp_path: Path, part: float) -> None:
    path = Path(shutil.copytree(whole, tmp_path / "db"))
    os.truncate(log_of(path), int(part * log_of(path).stat().st_size))
    with pytest.raises(LogDamaged):
        Database(path)


def test_no_log_that_is_gone_goes_unnoticed(whole: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(whole, tmp_path / "db"))
    log_of(path).unlink()
    with pytest.raises(LogDamaged, match=f"{path / LOG_DIRECTORY} is corrupt from byte 0 on"):
        Database(path)


@pytest.mark.parametrize("page", [b"", b"of a power loss", bytes(4096)], ids=["gone", "short", "zeros"])
def test_without_the_page_a_flipped_bit_is_found_where_something_stands_behind_it(
    whole: Path, tmp_path: Path, page: bytes
) -> None:
    """Of the last commit nobody can say then that it was ever whole."""
    for place, is_refused in ((0.1, True), (0.5, True), (0.97, False)):
        path = Path(shutil.copytree(whole, tmp_path / str(place)))
        (path / LOG_DIRECTORY / NAME).write_bytes(page)
        if not page:
            (path / LOG_DIRECTORY / NAME).unlink()
        flip(log_of(path), int(place * log_of(path).stat().st_size))
        if is_refused:
            with pytest.raises(LogDamaged):
                Database(path)
        else:
            database = Database(path)
            check(database, 19, 300)
            database.close()


def test_a_log_of_another_boot_may_lack_what_was_not_fsynced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory outlives a process and not the machine."""
    running = Database(tmp_path / "running")
    committer = Committer(running, Fsync.NEVER, 1.0, lambda _commit, _error: None)
    for number in range(20):
        commit = Commit()
        commit.metas[f"{number:032X}"] = b"anything"
        assert committer.write(commit)
    path = left_of(running, tmp_path / "db")
    os.truncate(log_of(path), log_of(path).stat().st_size - 10)
    with pytest.raises(LogDamaged, match="the log went to commit 20 at least, and commit 20 cannot be read"):
        Database(path)
    monkeypatch.setattr("mesh.store.write_ahead.mark.boot_id", lambda: "11111111-2222-3333-4444-555555555555")
    database = Database(path)
    assert database.last_commit == 19
    database.close()


def test_a_damaged_commit_that_is_in_tables_is_no_loss(tmp_path: Path) -> None:
    """Nor are those behind it, which are not."""
    running = Database(tmp_path / "running")
    for number in range(100):
        running.put_now({b"k%08d" % number: (b"%d " % number).ljust(300, b"v"), b"last": b"%d" % number})
        if number == 50:
            running._db.flush()
    path = left_of(running, tmp_path / "db")
    flip(log_of(path), log_of(path).read_bytes().index(b"20 vvv"))
    database = Database(path)
    check(database, 100, 300)
    database.close()


def test_a_header_without_commits_hides_no_later_file(tmp_path: Path) -> None:
    """The salt of a file's only commit is damaged, its loss accepted; later that commit's number is given
    again, in another file.
    """
    path = tmp_path / "db"
    database = Database(path)
    database.put_now({b"a": bytes(FILE_BYTES // 2)})
    database._db.flush()
    database.put_now({b"b": bytes(FILE_BYTES // 2)})  # begins the second file
    copy = left_of(database, tmp_path / "copy")
    (second,) = (file for file in read_files(copy / LOG_DIRECTORY, 1) if file.first == 2)
    flip(second.path, second.entries[0].start)
    with pytest.raises(LogDamaged) as damaged:
        Database(copy)
    cut(damaged.value.examined)
    database = Database(copy)
    database.put_now({b"c": b"another second"})
    killed_copy = left_of(database, tmp_path / "again")
    database = Database(killed_copy)
    assert (database.last_commit, database.get(b"c")) == (2, b"another second")
    database.close()


def test_a_cut_leaves_no_witness_of_what_it_gave_up(whole: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(whole, tmp_path / "db"))
    flip(log_of(path), log_of(path).stat().st_size // 2)
    with pytest.raises(LogDamaged) as damaged:
        Database(path)
    cut(damaged.value.examined)
    assert (path / LOG_DIRECTORY / NAME).read_bytes() == bytes(4096)
    database = Database(path)
    assert 5 < database.last_commit < 15
    database.close()


OF_BEFORE = """
import os, signal, sys, rocksdict

options = rocksdict.Options(raw_mode=True)
options.create_if_missing(True)
database = rocksdict.Rdict(sys.argv[1], options)
for number in range(1000):
    batch = rocksdict.WriteBatch(raw_mode=True)
    batch.put(b"k%08d" % number, b"value %d" % number)
    batch.put(b"i\x06commit", (number + 1).to_bytes(8, "big"))
    database.write(batch)
database.flush_wal(True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_log_that_rocksdb_wrote_is_replayed_and_not_cut_in_silence(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", OF_BEFORE, str(tmp_path / "db")], check=False)
    assert done.returncode == -signal.SIGKILL
    damaged = Path(shutil.copytree(tmp_path / "db", tmp_path / "damaged"))
    (log,) = damaged.glob("*.log")
    flip(log, log.stat().st_size // 2)
    with pytest.raises(StoreFailed, match="Corruption"):
        Database(damaged)
    for number in (1001, 1002):
        database = Database(tmp_path / "db")
        assert len(list(database.scan(b"k", b"l"))) == 1000
        database.put_now({b"z": b"ours"})
        assert database.durable_commit == number
        database.close()


def test_an_older_version_refuses_this_format(tmp_path: Path) -> None:
    """It reads no log of ours, so the format is in tables from the first moment on."""
    running = Database(tmp_path / "running")
    learn(running, "A" * 32)
    copy = left_of(running, tmp_path / "copy")
    shutil.rmtree(copy / LOG_DIRECTORY)
    tables = rocksdict.Rdict(str(copy), rocksdict.Options(raw_mode=True))
    assert tables.get(keys.FORMAT_KEY) == values.pack_number(4)
    tables.close()


def test_a_log_that_is_gone_as_a_whole_is_missed(tmp_path: Path) -> None:
    running = Database(tmp_path / "running")
    learn(running, "A" * 32)
    running.put_now({b"z": b"in the log alone"})
    copy = left_of(running, tmp_path / "copy")
    shutil.rmtree(copy / LOG_DIRECTORY)
    for _ in range(2):
        with pytest.raises(StoreFailed, match=f"there is no {copy / LOG_DIRECTORY}. Put it back; to go on"):
            Database(copy)
    assert "there is no" in str(verify_database(copy).problems[0])
    (copy / LOG_DIRECTORY).mkdir()
    database = Database(copy)
    assert database.get(b"z") is None
    database.close()


def test_a_file_full_of_beginnings_is_read_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    salt = b"01234567"
    header = file_header(salt, 1)
    entry = salt + bytes(4) + (1 << 20).to_bytes(4, "little") + bytes(16)
    looked: list[int] = []

    def note(content: bytes, position: int, salt: bytes) -> Entry | None:
        looked.append(position)
        return entry_at(content, position, salt)

    monkeypatch.setattr(reading, "entry_at", note)
    read = reading.read_content(Path("1.log"), header + entry * 40_000)
    assert read is not None
    assert read.entries == ()
    assert 0 < len(looked) < 10
