"""What a cut of a damaged write-ahead log takes, said before it is done (`dafka store accept-loss DIR`).

A log that is damaged in the middle is cut at its first bad byte: everything from there on goes, also what is
whole behind it, because a log with a hole is none. What is left is found out on a copy that is cut: the table
and blob files are linked, not copied; nothing of the store is changed. What goes is told by the whole records
behind the damaged place; what the damaged place itself held, nobody here knows.
"""

import os
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from mesh.protocol.address_state import AddressState, Phase
from mesh.protocol.copying import is_unfinished
from mesh.store import keys, wal
from mesh.store.db import Database, unpack_head
from mesh.store.opening import cut
from mesh.store.wal_salvage import entries_behind
from wireproto.dafka.additions import Announcement
from wireproto.records.errors import InvalidBatch
from wireproto.records.row import ROW_BYTES, Row

COPY_NAME = "db-as-it-will-be"
"""The copy, beside the database; it is gone when the look is over."""

LINKED = {".sst", ".blob"}
"""Files that RocksDB never changes once they are written."""

NAMES_AT_ONCE = 1000

NO_OFFSET = -1


@dataclass(frozen=True)
class Part:
    """One segment that may lose something. Offsets are the last ones, `NO_OFFSET` for none or not known."""

    segment: str
    topic: str
    log: str
    start: int
    kept_to: int
    seen_to: int
    """What the log behind the damaged place tells of it."""

    @property
    def is_seen(self) -> bool:
        """Whether the log itself says that something goes."""
        return self.seen_to > self.kept_to


@dataclass(frozen=True)
class Look:
    """`parts`: every segment that the store does not have to its end, once the log is cut."""

    cause: str
    parts: list[Part]
    entries: int
    """Keys that are written or deleted behind the damaged place, of whatever kind."""


def look(path: Path) -> Look | None:
    """What is given up when the log of this database is cut; None if it is not damaged. The store must not
    run. Raises StoreFailed, OSError.
    """
    report = wal.examine(path)
    if report.remainder_kind != "corrupt":
        return None
    seen: dict[str, tuple[int, Announcement | None]] = {}
    entries = 0
    for key, value in entries_behind(path, report):
        entries += 1
        if value is not None:
            _see(seen, key, value)
    with _cut_copy(path) as copy:
        database = Database(copy, read_only=True)
        try:
            parts = list(_parts(database, seen))
        finally:
            database.close()
    return Look(report.cause, parts, entries)


def _see(seen: dict[str, tuple[int, Announcement | None]], key: bytes, value: bytes) -> None:
    """One key that is written behind the damaged place: which address it tells of, and how far."""
    try:
        address = keys.name_of(key)
        offset, announcement = seen.get(address, (NO_OFFSET, None))
        if key[:1] == b"a":
            announcement = AddressState.unpack(address, value, (-1, b"", -1, "")).announcement or announcement
        elif key[:1] == b"h":
            offset = max(offset, _offset(unpack_head(value)[1]))
        elif key[:1] == b"r":
            offset = max(offset, _offset(value))
        else:
            return
    except (ValueError, IndexError, InvalidBatch, struct.error):
        return
    seen[address] = offset, announcement


def _offset(row: bytes) -> int:
    return Row.unpack(row).last_offset if len(row) == ROW_BYTES else NO_OFFSET


def _parts(database: Database, seen: dict[str, tuple[int, Announcement | None]]) -> Iterator[Part]:
    left = dict(seen)
    for address in _addresses(database):
        state = database.load(address)
        offset, announced = left.pop(address, (NO_OFFSET, None))
        if state is None or state.phase is Phase.DELETED:
            continue
        announcement = state.announcement or announced
        if announcement is None or (state.phase is Phase.CLOSED and not is_unfinished(state)):
            continue
        yield _part(announcement, _offset(state.last_row), offset)
    for offset, announced in left.values():
        if announced is not None:
            yield _part(announced, NO_OFFSET, offset)


def _part(announcement: Announcement, kept_to: int, seen_to: int) -> Part:
    part = Part(
        announcement.address, announcement.subject, announcement.log, announcement.start, kept_to, seen_to
    )
    return replace(part, kept_to=announcement.start - 1) if kept_to == NO_OFFSET else part


def _addresses(database: Database) -> Iterator[str]:
    last = ""
    while True:
        found = database.addresses(last, NAMES_AT_ONCE, behind=bool(last))
        yield from found
        if len(found) < NAMES_AT_ONCE:
            return
        last = found[-1]


@contextmanager
def _cut_copy(path: Path) -> Iterator[Path]:
    """A copy of the database as it will be, for the time of a look. Raises OSError."""
    copy = path.parent / COPY_NAME
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    try:
        for file in path.iterdir():
            if not file.is_file():
                continue
            if file.suffix in LINKED:
                _link(file, copy / file.name)
            else:
                shutil.copyfile(file, copy / file.name)
        cut(copy)
        yield copy
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _link(file: Path, target: Path) -> None:
    try:
        os.link(file, target)
    except OSError:  # a file system without links
        shutil.copyfile(file, target)
