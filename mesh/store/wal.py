"""What a power loss or a bad disk left in a store's write-ahead logs, found before RocksDB reads them.

Why not leave it to RocksDB: measured with 9.8.4 under `tolerate_corrupted_tail_records`, the strictest mode
that opens after an ordinary power loss, it

* refuses with "checksum mismatch", and names neither file nor offset;
* opens **without** fsynced records when one bit is flipped in a length in the last block or in the type of
  the first record, or when zeros fill a block from the end of a record on;
* opens with a hole when an older of several logs is cut, and never misses a log that is gone;
* spins for ever when one bit turns the type of a later record into that of a recycled log.

Rule: what a cut or zeros at the very end of the newest log explain was never fsynced: it is torn, and may
be cut off. Everything else is corrupt: nothing is changed, and whoever asks is told where it is.

Theory of operation: `examine` walks the logs that RocksDB would replay according to its MANIFEST, and
checks that each write batch begins at the sequence number where the one before it ended, across files too.
That holds as long as every write goes through the log, uncompressed, into one column family: so
`mesh.store.db` writes.
"""

import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from mesh.store.wal_log import Log, RemainderKind

_BATCH: Final = struct.Struct("<QI")
"""What a write batch begins with: its first sequence number, and how many it has (`db/write_batch.cc`)."""

_LOG_NUMBER, _LAST_SEQUENCE, _OLDEST_LOG = 2, 4, 10
_NUMBER_TAGS: Final = frozenset((_LOG_NUMBER, 3, _LAST_SEQUENCE, 9, _OLDEST_LOG, 203))
_TEXT_TAGS: Final = frozenset((1, 8193))
"""The tags of a MANIFEST's edit that stand in front: a varint follows, or a length and bytes
(`db/version_edit.cc`)."""


class WalReport(NamedTuple):
    """What stands behind the last whole record.

    `none`: nothing. `torn`: the beginning of a record, which ends with the file. `zeros`: nothing but
    zeros. Those two may be cut off at `last_whole_record_end`. `corrupt`: none of these; `corrupt_offset`
    (-1 for the others) is the first byte that cannot be trusted. `bytes_behind_it` counts from there, or
    from the last whole record's end, to the end of the newest log. `file` is None when there is no log at
    all.
    """

    file: Path | None
    last_whole_record_end: int
    remainder_kind: RemainderKind
    corrupt_offset: int
    bytes_behind_it: int
    reason: str

    @property
    def cause(self) -> str:
        """One clause for the operator: which file, from where on, why, and how much."""
        offset = self.last_whole_record_end if self.corrupt_offset < 0 else self.corrupt_offset
        found = f"{self.file} is {self.remainder_kind} from byte {offset} on: {self.reason}"
        return f"{found} ({self.bytes_behind_it} bytes to the end of the log)"

    @property
    def next_step(self) -> str:
        """What an operator can do about a corrupt log."""
        return (
            "If other stores hold its data, start an empty store and let it take this one's place (dafka"
            " store replace); else restore the directory from a copy. To go on without everything from that"
            " byte on, 'dafka store accept-loss DIR' says first what that is (dafka standalone: start once"
            " with --accept-loss)"
        )


def examine(path: Path) -> WalReport:
    """Read every log that RocksDB would replay in this directory, and change nothing.

    Gives the first remainder that is not `none`, else the newest log. To be called while the database is
    closed. Raises OSError when the disk does.
    """
    oldest, last = _read_manifest(path)
    logs = [Log(file, number) for number, file in numbered_logs(path) if number >= oldest]
    torn: Log | None = None
    for log in logs:
        for offset, prefix in log.records():
            if len(prefix) < _BATCH.size:
                return _report(logs, log, "corrupt", offset, "a record too short for a write batch")
            sequence, count = _BATCH.unpack_from(prefix)
            if last is not None and sequence > last + 1:
                gap = f"entry {sequence} follows entry {last}, those between are gone"
                if torn is not None:
                    return _report(
                        logs, torn, "corrupt", torn.end, f"{torn.reason}; in {log.path.name} {gap}"
                    )
                return _report(logs, log, "corrupt", offset, gap)
            last = sequence + count - 1 if last is None else max(last, sequence + count - 1)
            torn = None
        if log.kind == "corrupt":
            return _report(logs, log, "corrupt", log.offset, log.reason)
        if log.kind != "none":
            torn = torn or log
    if not logs:
        return WalReport(None, 0, "none", -1, 0, "no log")
    found = torn or logs[-1]
    return _report(logs, found, found.kind, -1, found.reason)


def cut(file: Path, offset: int) -> None:
    """Cut a log off at `offset` and fsync it. Raises ValueError beyond its end, OSError from the disk."""
    descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        size = os.fstat(descriptor).st_size
        if not 0 <= offset <= size:
            raise ValueError(f"{file} has {size} bytes, so it cannot be cut at {offset}")
        os.ftruncate(descriptor, offset)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _report(
    logs: Sequence[Log], log: Log, kind: RemainderKind, corrupt_offset: int, reason: str
) -> WalReport:
    start = log.end if corrupt_offset < 0 else corrupt_offset
    behind = log.size - start + sum(later.size for later in logs[logs.index(log) + 1 :])
    return WalReport(log.path, log.end, kind, corrupt_offset, behind, reason)


def numbered_logs(path: Path) -> list[tuple[int, Path]]:
    """The logs in this directory, oldest first."""
    return sorted((int(file.stem), file) for file in path.glob("*.log") if file.stem.isdecimal())


def _read_manifest(path: Path) -> tuple[int, int | None]:
    """(number of the oldest log that is replayed, last sequence number in tables), as the MANIFEST has them.

    What cannot be read is left to RocksDB, which refuses such a directory: (0, None) then.
    """
    current = path / "CURRENT"
    manifest = path / current.read_text(errors="replace").strip() if current.is_file() else path
    oldest, last = 0, None
    if not manifest.is_file():
        return oldest, last
    for _, edit in Log(manifest).records():
        for tag, value in _numbers(edit):
            if tag in (_LOG_NUMBER, _OLDEST_LOG):
                oldest = max(oldest, value)
            elif tag == _LAST_SEQUENCE:
                last = value if last is None else max(last, value)
    return oldest, last


def _numbers(edit: bytes) -> Iterator[tuple[int, int]]:
    """(tag, number) of an edit's fields, up to the first of another shape."""
    position = 0
    while position < len(edit):
        tag, position = varint(edit, position)
        if tag not in _NUMBER_TAGS and tag not in _TEXT_TAGS:
            return
        value, position = varint(edit, position)
        if tag in _TEXT_TAGS:
            position += value
        else:
            yield tag, value


def varint(data: bytes, position: int) -> tuple[int, int]:
    """(a number in seven bits a byte, where the next field starts). The end of the data ends it, too."""
    value = shift = 0
    while position < len(data):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return value, position
