"""What is in a catalog's SQLite file, and how it is known that all of it is there.

Rule: what is read is all that the last commit left, or it is refused. Each row has a checksum; each commit
writes the sum of all rows beside its revision (`gateway.catalog.content`), as one row that has a checksum
itself.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from gateway.catalog.content import Content
from gateway.catalog.interface import Entry
from mesh.data_directory import DataDirectoryRefused

APPLICATION_ID: Final = 0x44464B43
""""DFKC" in SQLite's header: what tells our file from any other database."""

FORMAT_VERSION: Final = 2
"""1 had no sum of its content; it gets one at its first start with this version."""

_SCHEMA: Final = """
CREATE TABLE entries (
    key TEXT PRIMARY KEY, value BLOB NOT NULL, create_revision INTEGER NOT NULL, mod_revision INTEGER NOT
    NULL, lease INTEGER NOT NULL, crc32 INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE leases (lease INTEGER PRIMARY KEY, ttl_seconds REAL NOT NULL);
"""

_STATE: Final = """
CREATE TABLE state (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 0), revision INTEGER NOT NULL, content BLOB NOT NULL, crc32
    INTEGER NOT NULL
);
"""
"""The revision, and the sum of all rows at it."""

_ROWS: Final = "SELECT key, value, create_revision, mod_revision, lease, crc32 FROM entries"

REBUILD: Final = (
    "Start once with --rebuild-catalog to read it back from the store; the file is kept under another name"
)


class Stored(NamedTuple):
    """All that a file holds. `version` is its format's."""

    version: int
    revision: int
    entries: list[Entry]
    leases: Mapping[int, float]
    content: Content


def create_tables(database: sqlite3.Connection) -> None:
    """In a file that is new."""
    database.executescript(
        f"BEGIN IMMEDIATE; {_SCHEMA} {_STATE} PRAGMA application_id = {APPLICATION_ID};"
        f" PRAGMA user_version = {FORMAT_VERSION}"
    )
    put_state(database, 0, Content())
    database.execute("COMMIT")


def read_all(database: sqlite3.Connection, version: int, path: Path) -> Stored:
    """What is in the file, checked; nothing is written. `path` is for people.

    Raises DataDirectoryRefused; TypeError or ValueError for a damaged row with a value of another type.
    """
    entries = [_checked(path, *row) for row in database.execute(_ROWS)]
    leases = dict(database.execute("SELECT lease, ttl_seconds FROM leases").fetchall())
    content = Content.of(entries, leases)
    if version == 1:
        (revision,) = database.execute("SELECT revision FROM revision").fetchone()
    else:
        revision = _revision(database, content, path)
    for entry in entries:
        if entry.mod_revision > revision:
            raise DataDirectoryRefused(path, f"the entry {entry.key!r} is damaged", REBUILD)
    return Stored(version, revision, entries, leases, content)


def bring_up_to_date(database: sqlite3.Connection, stored: Stored) -> None:
    """A file of format 1 becomes one of this format."""
    if stored.version == 1:
        database.executescript(f"BEGIN IMMEDIATE; {_STATE} PRAGMA user_version = {FORMAT_VERSION}")
        put_state(database, stored.revision, stored.content)
        database.execute("DROP TABLE revision")
        database.execute("COMMIT")


def put_state(database: sqlite3.Connection, revision: int, content: Content) -> None:
    """Write the revision, and the sum of all rows at it."""
    written = content.to_bytes()
    database.execute(
        "INSERT OR REPLACE INTO state VALUES (0, ?, ?, ?)",
        (revision, written, _state_crc(revision, written)),
    )


def format_version(database: sqlite3.Connection, path: Path) -> int:
    """The file's version; 0 for an empty one. Raises DataDirectoryRefused for what is no catalog of ours."""
    (application,) = database.execute("PRAGMA application_id").fetchone()
    (version,) = database.execute("PRAGMA user_version").fetchone()
    (tables,) = database.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application == version == tables == 0:
        return 0
    if application != APPLICATION_ID or version < 1:
        raise DataDirectoryRefused(
            path,
            "it is a database, but not Dafka's catalog",
            "Move it away, or give --data another directory",
        )
    if version > FORMAT_VERSION:
        raise DataDirectoryRefused(
            path,
            f"it has format version {version}, and this program knows {FORMAT_VERSION} at most",
            "Start the newer version of Dafka that wrote it",
        )
    return int(version)


def crc_of(entry: Entry) -> int:
    """The checksum of a row."""
    numbers = f"{entry.key}\0{entry.create_revision}\0{entry.mod_revision}\0{entry.lease}\0"
    return zlib.crc32(entry.value, zlib.crc32(numbers.encode()))


def _checked(path: Path, *row: Any) -> Entry:
    *fields, crc = row
    entry = Entry(*fields)
    if crc != crc_of(entry):
        raise DataDirectoryRefused(path, f"the entry {entry.key!r} is damaged", REBUILD)
    return entry


def _revision(database: sqlite3.Connection, content: Content, path: Path) -> int:
    """The revision of the last commit. Raises DataDirectoryRefused where that left other rows."""
    revision, written, crc = database.execute("SELECT revision, content, crc32 FROM state").fetchone()
    if crc != _state_crc(revision, written):
        raise DataDirectoryRefused(path, "the row that says its revision is damaged", REBUILD)
    if written != content.to_bytes():
        raise DataDirectoryRefused(path, f"it has not the rows that revision {revision} left in it", REBUILD)
    return int(revision)


def _state_crc(revision: int, content: bytes) -> int:
    return zlib.crc32(content, zlib.crc32(b"%d" % revision))
