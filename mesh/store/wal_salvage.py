"""What whole records of a write-ahead log behind a damaged place say: read to name what is given up, never to
bring it back (what lies between is gone, and a log with a hole is none).

The format of a write batch is RocksDB's (`db/write_batch.cc`): a sequence number, a count, and entries of a
tag, a key with its length, and for puts a value with its length. Numbers are varints.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mesh.store import wal_log
from mesh.store.wal import WalReport, numbered_logs, varint

_BATCH_HEADER_BYTES: Final = 12
_DELETION, _VALUE, _RANGE_DELETION = 0x0, 0x1, 0xF

Entry = tuple[bytes, bytes | None]
"""A key, and its value; None where it was deleted."""


def entries_behind(path: Path, report: WalReport) -> Iterator[Entry]:
    """What was put and deleted behind the damaged place, as far as it can be read. Raises OSError."""
    assert report.file is not None
    for number, file in numbered_logs(path):
        if number < int(report.file.stem):
            continue
        start = max(report.corrupt_offset, 0) if file == report.file else 0
        for batch in _batches(file, start):
            yield from _entries(batch)


def _batches(file: Path, start: int) -> Iterator[bytes]:
    """The write batches from `start` on; the beginning of one whose end cannot be read, too."""
    pending: bytes | None = None
    with file.open("rb") as data:
        base = start - start % wal_log.BLOCK_BYTES
        data.seek(base)
        while block := data.read(wal_log.BLOCK_BYTES):
            position = max(start - base, 0)
            while position + wal_log.HEADER_BYTES <= len(block):
                record = wal_log.parse(block, position)
                if record is None:
                    if pending:
                        yield pending
                    pending = None
                    position += 1
                    continue
                position = record.end
                if record.type in (wal_log.FULL, wal_log.FIRST):
                    pending = record.payload
                elif pending is not None:
                    pending += record.payload
                if record.type in (wal_log.FULL, wal_log.LAST) and pending is not None:
                    yield pending
                    pending = None
            base += len(block)
    if pending:
        yield pending


def _entries(batch: bytes) -> Iterator[Entry]:
    """Up to the first that cannot be read."""
    position = _BATCH_HEADER_BYTES
    try:
        while position < len(batch):
            tag = batch[position]
            key, position = _text(batch, position + 1)
            if tag == _VALUE:
                value, position = _text(batch, position)
                yield key, value
            elif tag == _DELETION:
                yield key, None
            elif tag == _RANGE_DELETION:
                _, position = _text(batch, position)
            else:
                return
    except (IndexError, struct.error):
        return


def _text(batch: bytes, position: int) -> tuple[bytes, int]:
    """(a text with its length in front, where the next field starts). Raises IndexError."""
    size, position = varint(batch, position)
    if position + size > len(batch):
        raise IndexError("cut off")
    return batch[position : position + size], position + size
