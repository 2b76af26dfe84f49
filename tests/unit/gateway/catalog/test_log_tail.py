"""The end of SQLite's write-ahead log: cut by a power loss, or damaged."""

from __future__ import annotations

import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from gateway.catalog.log_tail import FRAME, HEADER, log_tail

PAGE_BYTES = 4096
FRAME_BYTES = FRAME.size + PAGE_BYTES
COMMITS = 12


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database and its log, as a SIGKILL leaves them: a commit of some frames for each number."""
    folder = tmp_path_factory.mktemp("killed")
    database = sqlite3.connect(folder / "live", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE numbers (number INTEGER PRIMARY KEY, content BLOB)")
    for number in range(COMMITS):
        database.execute("INSERT INTO numbers VALUES (?, ?)", (number, bytes([number]) * 5000))
    for suffix in ("", "-wal"):
        shutil.copy(folder / f"live{suffix}", folder / f"killed{suffix}")
    database.close()
    return folder / "killed"


def log_of(killed: Path) -> bytearray:
    return bytearray(killed.with_name("killed-wal").read_bytes())


def read_with(killed: Path, log: bytes | bytearray, folder: Path) -> int:
    """How many commits SQLite finds with this log; 0 where it finds no table."""
    path = folder / "copy"
    shutil.copy(killed, path)
    path.with_name("copy-wal").write_bytes(log)
    database = sqlite3.connect(path)
    try:
        (count,) = database.execute("SELECT count(*) FROM numbers").fetchone()
    except sqlite3.DatabaseError:
        count = 0
    finally:
        database.close()
    for suffix in ("", "-wal", "-shm"):
        path.with_name(f"copy{suffix}").unlink(missing_ok=True)
    return int(count)


def frame_ends(log: bytes | bytearray) -> list[int]:
    """Where each commit ends, in frames."""
    count = (len(log) - HEADER.size) // FRAME_BYTES
    return [n + 1 for n in range(count) if FRAME.unpack_from(log, HEADER.size + n * FRAME_BYTES)[1]]


def test_a_whole_log(killed: Path, tmp_path: Path) -> None:
    log = log_of(killed)
    tail = log_tail(killed.with_name("killed-wal"))
    assert tail == ((len(log) - HEADER.size) // FRAME_BYTES, 0, "")
    assert read_with(killed, log, tmp_path) == COMMITS


@pytest.mark.parametrize("content", [b"", bytes(HEADER.size)])
def test_a_log_without_frames(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "log").write_bytes(content)
    assert log_tail(tmp_path / "log") == (0, 0, "")
    assert log_tail(tmp_path / "absent") == (0, 0, "")


def test_each_flipped_bit_that_takes_acknowledged_commits_is_seen(killed: Path, tmp_path: Path) -> None:
    """The last commit's, too: no power loss leaves a frame with one wrong bit."""
    whole = log_of(killed)
    dice = random.Random(1)
    places = [(dice.randrange(len(whole)), dice.randrange(8)) for _ in range(60)]
    count = (len(whole) - HEADER.size) // FRAME_BYTES
    # All of the frames' headers, and the log's.
    heads = [0, *(HEADER.size + n * FRAME_BYTES for n in range(count))]
    places += [(head + dice.randrange(24), dice.randrange(8)) for head in heads for _ in range(2)]
    # What says that a transaction ends: one flip may make it nothing, if the database has 2^n pages.
    ends = [HEADER.size + (n - 1) * FRAME_BYTES for n in frame_ends(whole)]
    places += [(end + 7, bit) for end in ends for bit in range(8)]
    file = tmp_path / "log"
    lost = 0
    for place, bit in places:
        log = bytearray(whole)
        log[place] ^= 1 << bit
        found = read_with(killed, log, tmp_path)
        file.write_bytes(log)
        tail = log_tail(file)
        assert bool(tail.damage) == (found != COMMITS), (place, bit, found)
        lost += found != COMMITS
    assert lost > len(places) / 2


@pytest.mark.parametrize("at", [FRAME.size, FRAME.size + 2000, 16])
def test_more_than_a_bit_in_the_middle_is_told_by_the_transactions_behind_it(
    killed: Path, tmp_path: Path, at: int
) -> None:
    """Of a page, or of a checksum: sixteen bytes, as no single flip leaves them."""
    whole = log_of(killed)
    for end in frame_ends(whole)[1:-1]:
        log = bytearray(whole)
        place = HEADER.size + (end - 1) * FRAME_BYTES + at
        log[place : place + 8] = bytes(byte ^ 0x5A for byte in log[place : place + 8])
        (tmp_path / "log").write_bytes(log)
        assert read_with(killed, log, tmp_path) < COMMITS
        tail = log_tail(tmp_path / "log")
        assert tail.frames == end - 1
        assert "of transactions that were written later are not" in tail.damage


def test_a_database_of_two_pages_whose_commit_lost_its_mark(tmp_path: Path) -> None:
    """The one bit of the field that says how many pages there are is flipped in the last commit but one."""
    database = sqlite3.connect(tmp_path / "live", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE numbers (number INTEGER PRIMARY KEY)")
    for number in range(3):
        database.execute("INSERT INTO numbers VALUES (?)", (number,))
    log = bytearray((tmp_path / "live-wal").read_bytes())
    database.close()
    (pages,) = {FRAME.unpack_from(log, HEADER.size + (n - 1) * FRAME_BYTES)[1] for n in frame_ends(log)}
    assert pages == 2
    log[HEADER.size + (frame_ends(log)[-2] - 1) * FRAME_BYTES + 7] ^= 2
    (tmp_path / "log").write_bytes(log)
    assert log_tail(tmp_path / "log").damage


def test_a_commit_that_a_power_loss_cut_is_no_damage(killed: Path, tmp_path: Path) -> None:
    """Any of its frames may be on disk, in any order: all that came before it is there."""
    whole = log_of(killed)
    ends = frame_ends(whole)
    first, last = HEADER.size + ends[-2] * FRAME_BYTES, HEADER.size + ends[-1] * FRAME_BYTES
    frames = ends[-1] - ends[-2]
    assert frames > 1
    file = tmp_path / "log"
    for written in range(2**frames - 1):
        log = bytearray(whole)
        for n in range(frames):
            if not written >> n & 1:
                log[first + n * FRAME_BYTES : first + (n + 1) * FRAME_BYTES] = bytes(FRAME_BYTES)
        file.write_bytes(log)
        tail = log_tail(file)
        assert not tail.damage, written
        assert tail.frames >= ends[-2]
        assert read_with(killed, log, tmp_path) == COMMITS - 1
    for end in range(first, last, 1997):
        file.write_bytes(whole[:end])
        assert not log_tail(file).damage, end


def test_frames_of_an_earlier_use_of_the_log_are_none(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "live", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE numbers (number INTEGER PRIMARY KEY, content BLOB)")
    for number in range(COMMITS):
        database.execute("INSERT INTO numbers VALUES (?, ?)", (number, bytes(5000)))
    database.execute("PRAGMA wal_checkpoint(RESTART)")
    database.execute("INSERT INTO numbers VALUES (-1, x'00')")
    log = (tmp_path / "live-wal").read_bytes()
    (tmp_path / "log").write_bytes(log)
    database.close()
    tail = log_tail(tmp_path / "log")
    assert (tail.cut, tail.damage) == (0, "")
    assert 0 < tail.frames < (len(log) - HEADER.size) // FRAME_BYTES


def test_a_page_of_the_disk_that_a_power_loss_left_as_it_was_is_no_damage(tmp_path: Path) -> None:
    """It may have the first half of a frame's header, from an earlier use of the log, which ended there."""
    place = 169  # of this frame, bytes 0 to 7 lie in one page of the disk, and the rest in the next one
    assert (HEADER.size + place * FRAME_BYTES) % PAGE_BYTES == PAGE_BYTES - 8
    for before in range(150, 200):
        log, first, last = log_used_twice(tmp_path / f"{before}", before)
        if not first <= place < last or FRAME.unpack_from(log[0], HEADER.size + place * FRAME_BYTES)[1] == 0:
            continue
        page = (HEADER.size + place * FRAME_BYTES) // PAGE_BYTES * PAGE_BYTES
        torn = bytearray(log[1])
        torn[page : page + PAGE_BYTES] = log[0][page : page + PAGE_BYTES]
        assert torn != log[1]
        (tmp_path / "log").write_bytes(torn)
        tail = log_tail(tmp_path / "log")
        assert not tail.damage
        assert tail.cut
        return
    raise AssertionError("no transaction of the first use ended there")


def log_used_twice(path: Path, commits: int) -> tuple[tuple[bytes, bytes], int, int]:
    """(a log before and after its last transaction, where that begins and ends in frames): it was used up to
    some frame, and again from its beginning.
    """
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA wal_autocheckpoint = 0")
    database.execute("CREATE TABLE numbers (number INTEGER PRIMARY KEY, content BLOB)")
    for number in range(commits):
        database.execute("INSERT INTO numbers VALUES (?, ?)", (number, bytes([number % 200]) * 500))
    database.execute("PRAGMA wal_checkpoint(RESTART)")
    log = path.with_name(f"{path.name}-wal")
    for number in range(20):
        database.execute("INSERT INTO numbers VALUES (?, ?)", (1000 + number, bytes(5000)))
    before, first = log.read_bytes(), log_tail(log).frames
    database.execute("INSERT INTO numbers VALUES (5000, ?)", (bytes(200 * PAGE_BYTES),))
    after, last = log.read_bytes(), log_tail(log).frames
    database.close()
    return (before, after), first, last
