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
    """But one in the last commit: that cannot be told from a power loss, and is said to be cut."""
    whole = log_of(killed)
    dice = random.Random(1)
    places = [(dice.randrange(len(whole)), dice.randrange(8)) for _ in range(60)]
    count = (len(whole) - HEADER.size) // FRAME_BYTES
    # All of the frames' headers, and the log's.
    heads = [0, *(HEADER.size + n * FRAME_BYTES for n in range(count))]
    places += [(head + dice.randrange(24), dice.randrange(8)) for head in heads for _ in range(2)]
    file = tmp_path / "log"
    lost = 0
    for place, bit in places:
        log = bytearray(whole)
        log[place] ^= 1 << bit
        found = read_with(killed, log, tmp_path)
        file.write_bytes(log)
        tail = log_tail(file)
        if found == COMMITS:
            assert not tail.damage, (place, bit)
        elif found == COMMITS - 1 and not tail.damage:
            assert tail.cut, (place, bit)
        else:
            assert tail.damage, (place, bit, found)
            lost += 1
    assert lost > len(places) / 2


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
