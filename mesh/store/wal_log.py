"""One file in RocksDB's log format: read as far as it is whole, and what the remainder is.

The format (RocksDB's `db/log_format.h`, `db/log_reader.cc`): blocks of 32 KiB; in a block physical records,
each a checksum (4 bytes), a length (2), a type (1), in recycled logs the log's number (4), and the payload;
fewer than 7 bytes at the end of a block are filled with zeros. One record of type FULL, or FIRST, MIDDLE...
and LAST make a logical record. Numbers are little-endian.

Rule: a remainder is torn only if cutting a whole log short explains it, and zeros only if nothing else
follows. All that these two do not explain is corrupt, also where RocksDB's own reader passes over it
without a word.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, Literal, NamedTuple

import google_crc32c

RemainderKind = Literal["none", "torn", "zeros", "corrupt"]

PREFIX_BYTES: Final = 256
"""What is given of each logical record: more than what a write batch or a MANIFEST's edit begins with."""

SECTOR_BYTES: Final = 512
"""Zeros at the end are worth a word from here on: the least that a disk can lose."""

BLOCK_BYTES: Final = 32 * 1024
"""RocksDB writes its logs in blocks of this size; no physical record crosses the end of one."""

_HEADER: Final = struct.Struct("<IHB")
HEADER_BYTES: Final = _HEADER.size
"""Checksum, length and type before each physical record."""
_LOG_NUMBER: Final = struct.Struct("<I")
_TYPE_AT: Final = 6

FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
_RECYCLED: Final = 4
"""Added to the four types in a log that reuses the file of an older one."""
_IGNORABLE: Final = 0x80
"""A type with this bit is about the log, and made to be passed over by readers that do not know it."""

CUT: Final = "the file ends within a record"
ZEROS: Final = "nothing but zeros up to the end of the file"


class _Physical(NamedTuple):
    """One physical record that is whole. `end` is where the next one starts in its block.

    `log_number` is that of a record in a recycled log, -1 for others.
    """

    type: int
    log_number: int
    payload: bytes
    end: int


class Log:
    """One log. Once `records` is exhausted, `kind`, `reason` and `offset` tell of the remainder.

    `end` stands behind the last whole logical record, `offset` at what is corrupt (-1 if nothing is). A
    recycled log ends where a record of the file's earlier life begins; under the store's recovery mode
    RocksDB makes none.
    """

    def __init__(self, path: Path, number: int = -1) -> None:
        self.path = path
        self.number = number
        self.size = path.stat().st_size
        self.end = 0
        self.offset = -1
        self.kind: RemainderKind = "none"
        self.reason = "whole"
        self._recycled = False

    def records(self) -> Iterator[tuple[int, bytes]]:
        """(offset, first `PREFIX_BYTES`) of each whole logical record."""
        start, prefix = -1, b""
        with self.path.open("rb") as file:
            for offset, end, record in self._physical_records(file):
                if (record.type in (FULL, FIRST)) != (start < 0):
                    self._stop("corrupt", "a record inside another one, or the rest of none", offset)
                    return
                if start < 0:
                    start, prefix = offset, b""
                prefix += record.payload[: PREFIX_BYTES - len(prefix)]
                if record.type in (FULL, LAST):
                    yield start, prefix
                    self.end, start = end, -1
        if start >= 0 and self.kind == "none":
            self._stop("torn", CUT)

    def _stop(self, kind: RemainderKind, reason: str, offset: int = -1) -> None:
        self.kind, self.reason, self.offset = kind, reason, offset

    def _physical_records(self, file: BinaryIO) -> Iterator[tuple[int, int, _Physical]]:
        """(offset, end, record), both offsets in the file, up to the first record that is not whole."""
        offset = 0
        while block := file.read(BLOCK_BYTES):
            position = 0
            while len(block) - position >= HEADER_BYTES:
                record = parse(block, position)
                if record is None:
                    self._judge(block, position, offset, file.read())
                    return
                if record.log_number >= 0:
                    self._recycled = True
                    if record.log_number != self.number:
                        return
                if not record.type & _IGNORABLE:
                    yield offset + position, offset + record.end, record
                position = record.end
            if position < len(block) < BLOCK_BYTES:
                self._stop(*(("torn", CUT) if any(block[position:]) else ("zeros", ZEROS)))
            offset += len(block)

    def _judge(self, block: bytes, position: int, offset: int, rest: bytes) -> None:
        """What is the remainder that starts at `position` of `block`, `rest` being behind the block?"""
        checksum, length, kind = _HEADER.unpack_from(block, position)
        remainder = block[position:] + rest
        zeros = len(remainder) - len(remainder.rstrip(b"\0"))
        end = position + HEADER_BYTES + length
        corrupt = ""
        if zeros == len(remainder):
            self._stop("zeros", ZEROS)
        elif self._is_whole_behind(block, position):
            corrupt = "a damaged record with whole ones behind it"
        elif self._recycled:
            self._stop("torn", "the end of a recycled log")
        elif not FULL <= kind <= LAST:
            corrupt = f"no record has type {kind}"
        elif end > BLOCK_BYTES:
            corrupt = "a length that leaves its block"
        elif end <= len(block):
            corrupt = "checksum mismatch"
        elif _masked(block[position + _TYPE_AT :]) == checksum:
            corrupt = "a whole record with another length"
        else:
            self._stop("torn", CUT)
        if corrupt:
            hint = (
                f", the last {zeros} bytes are zeros as a power loss leaves them"
                if zeros >= SECTOR_BYTES
                else ""
            )
            self._stop("corrupt", corrupt + hint, offset + position)

    def _is_whole_behind(self, block: bytes, position: int) -> bool:
        """Whether a whole record of this log starts anywhere behind `position` in its block.

        A length that a bad bit made too long hides all of them from RocksDB, which sees a torn tail there.
        """
        for start in range(position + 1, len(block) - HEADER_BYTES + 1):
            if FULL <= block[start + _TYPE_AT] <= _RECYCLED + LAST:
                record = parse(block, start)
                if record is not None and record.log_number in (-1, self.number):
                    return True
        return False


def parse(block: bytes, position: int) -> _Physical | None:
    """The physical record at `position`, if its type is known, it is all there and its checksum is right."""
    checksum, length, kind = _HEADER.unpack_from(block, position)
    start, log_number = position + HEADER_BYTES, -1
    if _RECYCLED + FULL <= kind <= _RECYCLED + LAST and start + _LOG_NUMBER.size <= len(block):
        (log_number,) = _LOG_NUMBER.unpack_from(block, start)
        start += _LOG_NUMBER.size
        kind -= _RECYCLED
    end = start + length
    if not (FULL <= kind <= LAST or kind & _IGNORABLE) or end > len(block):
        return None
    if _masked(block[position + _TYPE_AT : end]) != checksum:
        return None
    return _Physical(kind, log_number, block[start:end], end)


def _masked(data: bytes) -> int:
    """The checksum as RocksDB stores it: CRC32C, rotated, with a constant added (`util/crc32c.h`)."""
    checksum = int(google_crc32c.value(data))
    return (((checksum >> 15) | (checksum << 17)) + 0xA282EAD8) & 0xFFFF_FFFF
