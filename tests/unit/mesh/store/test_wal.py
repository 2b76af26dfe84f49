"""`mesh.store.wal` against real RocksDB directories, left behind by a process that was killed.

What RocksDB itself makes of each damage is asserted beside it: that is why the module exists.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import rocksdict
from hypothesis import given
from hypothesis import strategies as st

from mesh.store.wal import WalReport, cut, examine
from mesh.store.wal_salvage import entries_behind

BLOCK = 32 * 1024
HEADER = 7

WRITER = """
import sys, rocksdict
path, batches, value_bytes, buffer_bytes, merged = sys.argv[1], *map(int, sys.argv[2:])
options = rocksdict.Options(raw_mode=True)
options.create_if_missing(True)
options.set_wal_recovery_mode(rocksdict.DBRecoveryMode.tolerate_corrupted_tail_records())
options.set_write_buffer_size(buffer_bytes)
options.set_max_write_buffer_number(2 * merged)
options.set_min_write_buffer_number_to_merge(merged)
database = rocksdict.Rdict(path, options)
write_options = rocksdict.WriteOptions()
write_options.sync = False
for number in range(batches):
    batch = rocksdict.WriteBatch(raw_mode=True)
    batch.put(b"%06d" % number, (b"%06d" % number * (value_bytes // 6 + 1))[:value_bytes])
    batch.put(b"head", b"%06d" % number)
    database.write(batch, write_options)
    database.flush_wal(True)
print("written", flush=True)
sys.stdin.read()
"""


def killed(path: Path, *arguments: int, script: str = WRITER) -> Path:
    """A database in `path`, written by a process that SIGKILL ended while it was open."""
    command = [sys.executable, "-c", script, str(path), *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"written\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
    return path


class Sample:
    """One killed database of a single log, never opened again; tests damage copies of it."""

    def __init__(self, path: Path, batches: int) -> None:
        (self.log,) = path.glob("*.log")
        self.path = path
        self.batches = batches
        self.data = self.log.read_bytes()
        self.physical = list(physical_records(self.data))
        """(start, end) of each physical record."""
        self.logical = list(logical_records(self.data))
        """(start, end) of each logical record, which is a batch."""

    def damaged(self, directory: Path, change: Callable[[bytearray], bytes | bytearray]) -> Path:
        """A copy in `directory` whose log was changed."""
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(self.path, directory)
        (directory / self.log.name).write_bytes(change(bytearray(self.data)))
        return directory

    def whole_before(self, offset: int) -> int:
        """The end of the last batch that ends at or before this offset of the log."""
        return max((end for _, end in self.logical if end <= offset), default=0)

    def batches_before(self, offset: int) -> int:
        return sum(end <= offset for _, end in self.logical)


def physical_records(data: bytes) -> Iterator[tuple[int, int]]:
    """An independent walk, which trusts every length."""
    start = 0
    while start + HEADER <= len(data):
        left = BLOCK - start % BLOCK
        if left < HEADER:
            start += left
            continue
        end = start + HEADER + int.from_bytes(data[start + 4 : start + 6], "little")
        yield start, end
        start = end


def logical_records(data: bytes) -> Iterator[tuple[int, int]]:
    first = 0
    for start, end in physical_records(data):
        kind = data[start + 6]
        if kind in (1, 2):
            first = start
        if kind in (1, 4):
            yield first, end


def opened(path: Path) -> list[int] | str:
    """The batches that RocksDB finds in this directory, or what it says."""
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(False)
    options.set_paranoid_checks(True)
    options.set_wal_recovery_mode(rocksdict.DBRecoveryMode.tolerate_corrupted_tail_records())
    try:
        database = rocksdict.Rdict(str(path), options)
    except Exception as error:  # noqa: BLE001  rocksdict raises nothing more specific
        return str(error)
    iterator = database.iter()
    iterator.seek_to_first()
    found: list[int] = []
    while iterator.valid():
        key: Any = iterator.key()
        if key != b"head":
            value: Any = iterator.value()
            assert value == (key * (len(value) // 6 + 1))[: len(value)]
            found.append(int(key))
        iterator.next()
    iterator.status()
    del iterator
    database.close()
    return found


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """200 batches of 642 bytes: most blocks end within one, so there are FIRST and LAST, too."""
    path = killed(tmp_path_factory.mktemp("small") / "db", 200, 600, 8 << 20, 1)
    sample = Sample(path, 200)
    assert len(sample.logical) == 200
    assert len(sample.physical) > 200
    return sample


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """Six batches of 100,000 bytes, each over four or five blocks."""
    path = killed(tmp_path_factory.mktemp("large") / "db", 6, 100_000, 8 << 20, 1)
    return Sample(path, 6)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 batches in nine logs, none of which is in tables yet."""
    path = killed(tmp_path_factory.mktemp("several") / "db", 400, 6000, 300 * 1024, 15)
    assert len(logs_of(path)) == 9
    return path


def logs_of(path: Path) -> list[Path]:
    return sorted(path.glob("*.log"))


def test_a_killed_process_leaves_whole_logs(small: Sample, tmp_path: Path) -> None:
    path = small.damaged(tmp_path / "db", lambda data: data)
    log = path / small.log.name
    assert examine(path) == WalReport(log, len(small.data), "none", -1, 0, "whole")
    assert opened(path) == list(range(200))


# torn tails: RocksDB opens them by itself -------------------------------------------------------------------


def test_every_cut_is_found_exactly(small: Sample, tmp_path: Path) -> None:
    size = len(small.data)
    path = small.damaged(tmp_path / "db", lambda data: data)
    log = path / small.log.name
    block = size // BLOCK * BLOCK
    for length in [*range(size - 1, size - 202, -1), *range(block + 20, block - 20, -1)]:
        os.truncate(log, length)
        end = small.whole_before(length)
        kind = "none" if end == length else "torn"
        assert examine(path)[:5] == (log, end, kind, -1, length - end)


@pytest.mark.parametrize("cut_bytes", [1, 6, 7, 8, 37, 199, 200, 635, 636, 641, 642, 643])
def test_a_torn_tail_opens_by_itself_and_after_the_cut_with_the_batches_before(
    small: Sample, tmp_path: Path, cut_bytes: int
) -> None:
    path = small.damaged(tmp_path / "db", lambda data: data[:-cut_bytes])
    before = small.batches_before(len(small.data) - cut_bytes)
    assert before < 200
    report = examine(path)
    assert opened(small.damaged(tmp_path / "other", lambda data: data[:-cut_bytes])) == list(range(before))
    assert report.file is not None
    cut(report.file, report.last_whole_record_end)
    assert examine(path).remainder_kind == "none"
    assert opened(path) == list(range(before))


@pytest.mark.parametrize("cut_bytes", [1, 20_000, 60_000, 99_000])
def test_a_batch_of_many_blocks_is_cut_off_whole(large: Sample, tmp_path: Path, cut_bytes: int) -> None:
    path = large.damaged(tmp_path / "db", lambda data: data[:-cut_bytes])
    report = examine(path)
    assert report.remainder_kind == "torn"
    assert report.last_whole_record_end == large.logical[-2][1]
    assert report.bytes_behind_it == len(large.data) - cut_bytes - large.logical[-2][1]
    cut(path / large.log.name, report.last_whole_record_end)
    assert opened(path) == list(range(5))


# zeros ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zeros", [1, 6, 7, 8, 100, 4096, 40_000, 70_000])
def test_zeros_behind_the_last_batch_are_cut_off(small: Sample, tmp_path: Path, zeros: int) -> None:
    path = small.damaged(tmp_path / "db", lambda data: data + bytes(zeros))
    log = path / small.log.name
    report = examine(path)
    assert report == WalReport(log, len(small.data), "zeros", -1, zeros, report.reason)
    assert opened(small.damaged(tmp_path / "other", lambda data: data + bytes(zeros))) == list(range(200))
    cut(log, report.last_whole_record_end)
    assert log.read_bytes() == small.data
    assert opened(path) == list(range(200))


@pytest.mark.parametrize("batches", [1, 2, 30])
def test_whole_batches_that_became_zeros_are_cut_off(small: Sample, tmp_path: Path, batches: int) -> None:
    start = small.logical[-batches][0]
    path = small.damaged(tmp_path / "db", lambda data: data[:start] + bytes(len(data) - start))
    report = examine(path)
    assert (report.last_whole_record_end, report.remainder_kind) == (start, "zeros")
    cut(path / small.log.name, report.last_whole_record_end)
    assert opened(path) == list(range(200 - batches))


def test_zeros_from_a_block_on_within_a_batch_stop_rocksdb_and_are_cut_off(
    large: Sample, tmp_path: Path
) -> None:
    start, _ = large.logical[-1]
    block = (start // BLOCK + 2) * BLOCK

    def zeroed(data: bytearray) -> bytearray:
        return data[:block] + bytes(len(data) - block)

    assert opened(large.damaged(tmp_path / "other", zeroed)) == "Corruption: error in middle of record"
    path = large.damaged(tmp_path / "db", zeroed)
    report = examine(path)
    assert (report.last_whole_record_end, report.remainder_kind) == (start, "zeros")
    cut(path / large.log.name, report.last_whole_record_end)
    assert opened(path) == list(range(5))


@pytest.mark.parametrize("zeros", [1, 37, 200, 600])
def test_a_batch_that_ends_in_zeros_is_corrupt(small: Sample, tmp_path: Path, zeros: int) -> None:
    def zeroed(data: bytearray) -> bytearray:
        return data[:-zeros] + bytes(zeros)

    assert opened(small.damaged(tmp_path / "other", zeroed)) == "Corruption: checksum mismatch"
    path = small.damaged(tmp_path / "db", zeroed)
    log, start = path / small.log.name, small.logical[-1][0]
    report = examine(path)
    assert report[:5] == (log, start, "corrupt", start, 642)
    assert ("zeros as a power loss leaves them" in report.reason) == (zeros >= 512)
    assert report.cause.startswith(f"{log} is corrupt from byte {start} on: checksum mismatch")
    assert report.cause.endswith("(642 bytes to the end of the log)")
    assert "--accept-loss" in report.next_step
    cut(log, report.last_whole_record_end)
    assert opened(path) == list(range(199))


def test_zeros_with_data_behind_them_are_corrupt_though_rocksdb_passes_over_them(tmp_path: Path) -> None:
    # Four batches of 8191 bytes fill a block but for 4 bytes, so every fourth starts one.
    sample = Sample(killed(tmp_path / "aligned", 12, 8149, 8 << 20, 1), 12)
    assert [start for start, _ in sample.logical[::4]] == [0, BLOCK, 2 * BLOCK]
    start = sample.logical[6][0]

    def zeroed(data: bytearray) -> bytearray:
        data[start : 2 * BLOCK] = bytes(2 * BLOCK - start)
        return data

    assert opened(sample.damaged(tmp_path / "other", zeroed)) == [0, 1, 2, 3, 4, 5, 8, 9, 10, 11]
    report = examine(sample.damaged(tmp_path / "db", zeroed))
    assert report[1:5] == (start, "corrupt", start, len(sample.data) - start)


# damage -----------------------------------------------------------------------------------------------------

FIELDS = {"checksum": 0, "low length": 4, "type": 6, "sequence": 7, "count": 15, "payload": 40}


@pytest.mark.parametrize("place", ["first block", "middle", "last block"])
@pytest.mark.parametrize("field", FIELDS)
def test_a_flipped_byte_is_refused_by_both_and_named_by_one(
    small: Sample, tmp_path: Path, place: str, field: str
) -> None:
    number = {"first block": 3, "middle": 100, "last block": 190}[place]
    start = small.logical[number][0]

    def flipped(data: bytearray) -> bytearray:
        data[start + FIELDS[field]] ^= 2
        return data

    assert opened(small.damaged(tmp_path / "other", flipped)) == "Corruption: checksum mismatch"
    path = small.damaged(tmp_path / "db", flipped)
    report = examine(path)
    assert report[:5] == (path / small.log.name, start, "corrupt", start, len(small.data) - start)
    cut(path / small.log.name, report.last_whole_record_end)
    assert opened(path) == list(range(number))


def test_a_flipped_length_in_the_last_block_hides_fsynced_batches_from_rocksdb(
    small: Sample, tmp_path: Path
) -> None:
    start = small.logical[170][0]
    assert start // BLOCK == len(small.data) // BLOCK

    def flipped(data: bytearray) -> bytearray:
        data[start + 5] ^= 0x80
        return data

    path = small.damaged(tmp_path / "db", flipped)
    report = examine(path)
    assert report[1:5] == (start, "corrupt", start, len(small.data) - start)
    assert opened(path) == list(range(170))


def test_a_flipped_type_of_the_first_record_hides_everything_from_rocksdb(
    small: Sample, tmp_path: Path
) -> None:
    def flipped(data: bytearray) -> bytearray:
        data[6] ^= 4
        return data

    path = small.damaged(tmp_path / "db", flipped)
    assert examine(path)[1:5] == (0, "corrupt", 0, len(small.data))
    assert opened(path) == []


@given(data=st.data())
def test_any_flipped_bit_is_corrupt_and_located(small: Sample, data: st.DataObject) -> None:
    start, end = data.draw(st.sampled_from(small.physical))
    offset = data.draw(st.integers(start, end - 1))
    bit = data.draw(st.integers(0, 7))
    log = bytearray(small.data)
    log[offset] ^= 1 << bit
    report = examine(small.damaged(small.path.with_name("flipped"), lambda _: log))
    # MIDDLE and LAST belong to the batch that began before them.
    logical = max(s for s, _ in small.logical if s <= start)
    assert report[1:5] == (logical, "corrupt", start, len(log) - start)


@given(data=st.data())
def test_any_length_with_zeros_behind_it_is_zeros_or_corrupt(large: Sample, data: st.DataObject) -> None:
    boundaries = st.sampled_from([end for _, end in large.physical])
    length = data.draw(st.one_of(boundaries, st.integers(0, len(large.data))))
    zeros = data.draw(st.integers(1, 50_000))
    log = large.data[:length] + bytes(zeros)
    report = examine(large.damaged(large.path.with_name("zeroed"), lambda _: log))
    start, end = next(
        (s, e) for s, e in [*large.physical, (len(large.data), len(log))] if length <= max(s, e - 1)
    )
    assert report.last_whole_record_end == large.whole_before(length)
    if not any(log[start:]):
        assert (report.remainder_kind, report.corrupt_offset) == ("zeros", -1)
    elif len(log) < start + HEADER or (length >= start + HEADER and len(log) < end):
        assert (report.remainder_kind, report.corrupt_offset) == ("torn", -1)
    else:
        assert (report.remainder_kind, report.corrupt_offset) == ("corrupt", start)


# several logs -----------------------------------------------------------------------------------------------


def copy_of(path: Path, target: Path) -> list[Path]:
    shutil.copytree(path, target)
    return logs_of(target)


def test_all_logs_are_followed(several: Path, tmp_path: Path) -> None:
    logs = copy_of(several, tmp_path / "db")
    assert examine(tmp_path / "db") == WalReport(logs[-1], logs[-1].stat().st_size, "none", -1, 0, "whole")
    assert opened(tmp_path / "db") == list(range(400))


@pytest.mark.parametrize("cut_bytes", [100, 20_000])
def test_an_older_log_that_was_cut_is_a_hole_that_rocksdb_does_not_see(
    several: Path, tmp_path: Path, cut_bytes: int
) -> None:
    logs = copy_of(several, tmp_path / "db")
    whole = list(logical_records(logs[0].read_bytes()))
    size = logs[0].stat().st_size - cut_bytes
    os.truncate(logs[0], size)
    end = max(end for _, end in whole if end <= size)
    kept = sum(end <= size for _, end in whole)
    report = examine(tmp_path / "db")
    behind = size - end + sum(log.stat().st_size for log in logs[1:])
    assert report[:5] == (logs[0], end, "corrupt", end, behind)
    assert f"in {logs[1].name} entry {2 * len(whole) + 1} follows entry {2 * kept}" in report.reason
    assert opened(tmp_path / "db") == [*range(kept), *range(len(whole), 400)]


def test_what_lies_behind_a_damaged_place_is_read_from_the_later_logs_too(
    several: Path, tmp_path: Path
) -> None:
    logs = copy_of(several, tmp_path / "db")
    ends = [end for _, end in logical_records(logs[0].read_bytes())]
    damaged = len(ends) // 2
    flip(logs[0], ends[damaged] - 1)
    keys = [key for key, value in entries_behind(tmp_path / "db", examine(tmp_path / "db")) if value]
    assert keys == [key for number in range(damaged + 1, 400) for key in (b"%06d" % number, b"head")], (
        "everything but what the damaged place holds"
    )


def flip(file: Path, place: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


def test_an_older_log_that_was_emptied_is_a_hole(several: Path, tmp_path: Path) -> None:
    logs = copy_of(several, tmp_path / "db")
    os.truncate(logs[0], 0)
    report = examine(tmp_path / "db")
    assert report[:4] == (logs[1], 0, "corrupt", 0)
    assert report.bytes_behind_it == sum(log.stat().st_size for log in logs)
    assert "follows entry 0" in report.reason


def test_a_log_that_is_gone_is_a_hole(several: Path, tmp_path: Path) -> None:
    logs = copy_of(several, tmp_path / "db")
    missing = list(logical_records(logs[4].read_bytes()))
    logs[4].unlink()
    report = examine(tmp_path / "db")
    assert report[:4] == (logs[5], 0, "corrupt", 0)
    batches = opened(tmp_path / "db")
    assert isinstance(batches, list)
    assert len(batches) == 400 - len(missing)


def test_the_newest_log_may_be_torn(several: Path, tmp_path: Path) -> None:
    logs = copy_of(several, tmp_path / "db")
    os.truncate(logs[-1], logs[-1].stat().st_size - 3000)
    report = examine(tmp_path / "db")
    assert (report.file, report.remainder_kind) == (logs[-1], "torn")
    cut(logs[-1], report.last_whole_record_end)
    assert opened(tmp_path / "db") == list(range(399))


def test_zeros_behind_an_older_log_that_lacks_nothing_do_no_harm(several: Path, tmp_path: Path) -> None:
    logs = copy_of(several, tmp_path / "db")
    os.truncate(logs[2], logs[2].stat().st_size + 5000)
    assert examine(tmp_path / "db")[:4] == (logs[-1], logs[-1].stat().st_size, "none", -1)
    assert opened(tmp_path / "db") == list(range(400))


def test_two_torn_logs_at_the_end_are_given_one_after_the_other(several: Path, tmp_path: Path) -> None:
    logs = copy_of(several, tmp_path / "db")
    os.truncate(logs[-1], 300)
    os.truncate(logs[-2], logs[-2].stat().st_size - 10)
    first = examine(tmp_path / "db")
    assert (first.file, first.remainder_kind) == (logs[-2], "torn")
    assert first.bytes_behind_it == logs[-2].stat().st_size - first.last_whole_record_end + 300
    cut(logs[-2], first.last_whole_record_end)
    second = examine(tmp_path / "db")
    assert second[:5] == (logs[-1], 0, "torn", -1, 300)
    cut(logs[-1], 0)
    assert examine(tmp_path / "db").remainder_kind == "none"
    batches = opened(tmp_path / "db")
    assert batches == list(range(len(batches)))
    assert len(batches) > 300


def test_logs_that_are_in_tables_already_are_not_looked_at(tmp_path: Path) -> None:
    path = killed(tmp_path / "db", 400, 6000, 300 * 1024, 1)
    live = logs_of(path)
    oldest = path / "000004.log"
    assert oldest not in live
    oldest.write_bytes(b"what an unlink that never reached the disk brought back")
    assert examine(path)[:4] == (live[-1], live[-1].stat().st_size, "none", -1)
    assert opened(path) == list(range(400))


BUSY = """
import os, random, sys, rocksdict
from mesh.store.db import _options
path, seed = sys.argv[1], int(sys.argv[2])
draw = random.Random(seed)
options = _options(create=True)
options.set_write_buffer_size(64 * 1024)
database = rocksdict.Rdict(path, options)
for number in range(400):
    batch = rocksdict.WriteBatch(raw_mode=True)
    for _ in range(draw.randint(1, 8)):
        batch.put(b"%06d" % draw.randint(0, 900), os.urandom(draw.choice([10, 600, 3000])))
    if draw.random() < 0.1:
        batch.delete_range(b"%06d" % draw.randint(0, 300), b"%06d" % draw.randint(300, 900))
    database.write(batch)
    if draw.random() < 0.02:
        database.flush(True)
    if draw.random() < 0.01:
        database.compact_range(b"0", b"9")
database.flush_wal(True)
print("written", flush=True)
sys.stdin.read()
"""


def test_no_healthy_directory_is_ever_refused(tmp_path: Path) -> None:
    # Flushes, compactions, range deletions and starts move the oldest log and the last sequence in tables.
    for seed in range(4):
        path = killed(tmp_path / "db", seed, script=BUSY)
        report = examine(path)
        assert report.remainder_kind == "none", report


# the rest ---------------------------------------------------------------------------------------------------


def test_a_directory_without_a_database_has_no_log(tmp_path: Path) -> None:
    assert examine(tmp_path) == WalReport(None, 0, "none", -1, 0, "no log")
    (tmp_path / "notes.log").write_text("not a log of RocksDB")
    (tmp_path / "CURRENT").write_text("MANIFEST-000005\n")
    assert examine(tmp_path).file is None


def test_a_cut_is_fsynced_and_never_makes_a_file_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "000004.log"
    log.write_bytes(b"0123456789")
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    cut(log, 4)
    assert log.read_bytes() == b"0123"
    assert synced == [4]
    for offset in (5, -1):
        with pytest.raises(ValueError, match="has 4 bytes"):
            cut(log, offset)
    assert log.read_bytes() == b"0123"
    with pytest.raises(FileNotFoundError):
        cut(tmp_path / "000005.log", 0)
    assert not (tmp_path / "000005.log").exists()
