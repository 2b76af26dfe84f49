"""`mesh.store.wal_log` on logs put together by hand: what RocksDB writes seldom, or never for this store."""

import struct
from pathlib import Path

import google_crc32c
import pytest

from mesh.store.wal_log import BLOCK_BYTES, PREFIX_BYTES, Log

FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
PAYLOAD = b"twelve bytes"


def masked(data: bytes) -> bytes:
    checksum = int(google_crc32c.value(data))
    return (((checksum >> 15 | checksum << 17) + 0xA282EAD8) % 2**32).to_bytes(4, "little")


def record(kind: int, payload: bytes = PAYLOAD, number: int | None = None) -> bytes:
    """One physical record; with a log number, as a recycled log has it."""
    covered = bytes((kind,)) + (b"" if number is None else struct.pack("<I", number)) + payload
    return masked(covered) + struct.pack("<H", len(payload)) + covered


def filler(size: int) -> bytes:
    """A FULL record of so many bytes in all."""
    return record(FULL, b"f" * (size - 7))


def read(path: Path, data: bytes) -> tuple[Log, list[tuple[int, bytes]]]:
    file = path / "000009.log"
    file.write_bytes(data)
    log = Log(file, 9)
    return log, list(log.records())


def outcome(path: Path, data: bytes) -> tuple[list[int], int, str, int]:
    """(offsets of the logical records, end of the last, kind of the remainder, offset of what is corrupt)."""
    log, records = read(path, data)
    return [offset for offset, _ in records], log.end, log.kind, log.offset


WRITTEN_BY_ROCKSDB = bytes.fromhex("052b2843000001" + "f4030c5a04000102000400")
"""Two records of a MANIFEST that RocksDB 9.8.4 wrote: an edit without fields, and one with two numbers."""


def test_records_made_by_hand_are_like_rocksdbs(tmp_path: Path) -> None:
    assert record(FULL, b"") + record(FULL, b"\2\0\4\0") == WRITTEN_BY_ROCKSDB
    assert read(tmp_path, WRITTEN_BY_ROCKSDB)[1] == [(0, b""), (7, b"\2\0\4\0")]


def test_an_empty_log_is_whole(tmp_path: Path) -> None:
    assert outcome(tmp_path, b"") == ([], 0, "none", -1)


def test_only_the_beginning_of_a_record_is_given(tmp_path: Path) -> None:
    _, records = read(
        tmp_path, record(FIRST, b"1" * 200) + record(MIDDLE, b"2" * 200) + record(LAST, b"3" * 200)
    )
    assert records == [(0, b"1" * 200 + b"2" * 56)]
    assert len(records[0][1]) == PREFIX_BYTES


@pytest.mark.parametrize("left", [1, 2, 3, 4, 5, 6])
def test_the_end_of_a_block_that_holds_no_header_is_passed_over(tmp_path: Path, left: int) -> None:
    data = filler(BLOCK_BYTES - left) + bytes(left) + record(FULL)
    assert outcome(tmp_path, data) == ([0, BLOCK_BYTES], len(data), "none", -1)


def test_a_first_record_without_a_byte_of_payload_fills_a_block(tmp_path: Path) -> None:
    data = filler(BLOCK_BYTES - 7) + record(FIRST, b"") + record(LAST)
    log, records = read(tmp_path, data)
    assert records[1] == (BLOCK_BYTES - 7, PAYLOAD)
    assert (log.end, log.kind) == (len(data), "none")


def test_a_record_about_the_log_that_may_be_passed_over_is(tmp_path: Path) -> None:
    data = record(130) + record(FULL)
    assert outcome(tmp_path, data) == ([len(record(130))], len(data), "none", -1)


WHOLE = record(FULL)
AT = len(WHOLE)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (record(MIDDLE), "the rest of none"),
        (record(LAST), "the rest of none"),
        (record(FIRST) + record(FULL), "a record inside another one"),
        (record(FIRST) + record(FIRST) + record(LAST), "a record inside another one"),
        (record(9), "no record has type 9"),
        (record(0), "no record has type 0"),
        (record(FULL)[:-1] + b"x", "checksum mismatch"),
        (record(FULL)[:-1] + b"x" + record(FULL), "with whole ones behind it"),
        (record(FULL, b"x" * 20)[:4] + b"\xff\xff\1" + b"x" * 20, "a length that leaves its block"),
        (record(FULL)[:4] + b"\x0d\0" + record(FULL)[6:], "a whole record with another length"),
        (bytes(40) + b"x", "no record has type 0"),
        (bytes(BLOCK_BYTES) + record(FULL), "no record has type 0"),
        (bytes(40) + record(FULL), "with whole ones behind it"),
        (record(5, number=9)[:-1] + b"x", "no record has type 5"),
    ],
)
def test_what_a_cut_cannot_leave_is_corrupt(tmp_path: Path, data: bytes, reason: str) -> None:
    log, records = read(tmp_path, WHOLE + data)
    in_first = data.startswith(record(FIRST))
    assert [offset for offset, _ in records] == [0]
    assert (log.end, log.kind, log.offset) == (AT, "corrupt", AT + in_first * len(record(FIRST)))
    assert reason in log.reason


@pytest.mark.parametrize(
    "data",
    [
        record(FULL)[:-1],
        record(FULL)[:7],
        record(FULL)[:6],
        record(FULL)[:1],
        record(FIRST),
        record(FIRST) + record(MIDDLE),
        record(FIRST) + record(MIDDLE) + record(LAST)[:9],
    ],
)
def test_what_a_cut_leaves_is_torn(tmp_path: Path, data: bytes) -> None:
    assert outcome(tmp_path, WHOLE + data) == ([0], AT, "torn", -1)


@pytest.mark.parametrize("data", [bytes(1), bytes(7), bytes(100_000), record(FIRST) + bytes(9)])
def test_nothing_but_zeros_behind_a_whole_record_are_zeros(tmp_path: Path, data: bytes) -> None:
    assert outcome(tmp_path, WHOLE + data) == ([0], AT, "zeros", -1)


def test_the_zeros_at_the_end_of_a_corrupt_log_are_mentioned_from_a_sector_on(tmp_path: Path) -> None:
    for zeros, mentioned in ((511, False), (512, True)):
        log, _ = read(tmp_path, record(FULL, b"x" * 600)[:-zeros] + bytes(zeros))
        assert log.kind == "corrupt"
        assert (f"the last {zeros} bytes are zeros" in log.reason) is mentioned


# recycled logs: the file of an older log, written over from the start -------------------------------------

OWN = record(5, number=9)


def test_a_recycled_log_ends_where_the_older_one_begins(tmp_path: Path) -> None:
    data = OWN + record(6, number=9) + record(7, number=9) + record(8, number=9)
    assert outcome(tmp_path, data + record(5, number=4) * 3) == ([0, len(OWN)], len(data), "none", -1)


def test_a_recycled_log_of_nothing_new_is_empty(tmp_path: Path) -> None:
    assert outcome(tmp_path, record(5, number=4) * 3) == ([], 0, "none", -1)


def test_a_recycled_log_that_ends_within_an_older_record_is_torn(tmp_path: Path) -> None:
    assert outcome(tmp_path, OWN + record(5, number=4)[9:]) == ([0], len(OWN), "torn", -1)
    assert outcome(tmp_path, OWN + record(6, number=9) + record(5, number=4)) == ([0], len(OWN), "torn", -1)


def test_a_damaged_record_of_a_recycled_log_with_its_own_behind_it_is_corrupt(tmp_path: Path) -> None:
    damaged = OWN[:-1] + b"x"
    assert outcome(tmp_path, OWN + damaged + OWN) == ([0], len(OWN), "corrupt", len(OWN))
    assert outcome(tmp_path, OWN + damaged + record(5, number=4)) == ([0], len(OWN), "torn", -1)
