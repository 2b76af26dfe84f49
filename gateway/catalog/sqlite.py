"""The embedded catalog: one SQLite file in the gateway's data directory.

The journal is a write-ahead log with ``synchronous=FULL``: a commit is one fsync of the log (about 2 ms),
so all transactions that wait share one. Reads never touch the file: the whole catalog is read into memory
at the start.

Rule: what is read at a start is all that the last commit left, or the file is refused. SQLite notices neither
a flipped bit in a value, nor rows that a damaged page has lost, nor commits that it passes over at the end of
its log. So each row has a checksum; each commit writes the sum of all rows' checksums beside its revision
(`gateway.catalog.content`), as one row that has a checksum itself; and the log's end is judged before SQLite
sees it (`gateway.catalog.log_tail`).

After an end without a close the file is written anew before it is used. An fsync that failed may have left in
the page cache what is not on the disk, marked as written; who reads it there and builds on it would lose
commits that were fsynced after it at the next power loss.

The file is opened with an exclusive lock: a second process would change it behind the mirror's back.
"""

import logging
import os
import shutil
import sqlite3
import zlib
from pathlib import Path
from typing import Any, Final

import trio

from gateway.catalog.content import Content
from gateway.catalog.interface import CatalogFailed, Entry
from gateway.catalog.log_tail import log_tail
from gateway.catalog.mirror import Mirror, Plan
from gateway.catalog.mirrored import MirroredCatalog
from mesh.data_directory import EXIT_DISK_FAILED, EXIT_ENVIRONMENT, DataDirectoryRefused, sync_directory

logger = logging.getLogger(__name__)

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

_DISK_FAILED: Final = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL})
_NO_ACCESS: Final = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY})
"""SQLite's codes for what the disk or its file system did, as opposed to what lies in the file."""

_PARTS: Final = ("", "-wal", "-shm")

_REBUILD: Final = (
    "Start once with --rebuild-catalog to read it back from the store; the file is kept under another name"
)


class SqliteCatalog(MirroredCatalog):
    """See `Catalog`."""

    def __init__(self, path: Path | str) -> None:
        """Opens the file, makes it when absent, and reads all of it. Blocks for some ms: before serving.

        Raises:
            DataDirectoryRefused: It is not a catalog, newer, damaged, held by another process, or not
                accessible.
        """
        self.path = Path(path)
        is_new = not self.path.exists()
        self._database: sqlite3.Connection | None = None
        self._content = Content()
        try:
            was_closed = self._check_log()
            mirror = self._open()
            if not was_closed:
                self._shut()
                _write_anew(self.path)
                mirror = self._open()
            if is_new:
                sync_directory(self.path.parent)
        except (sqlite3.Error, OSError) as error:
            self._shut()
            raise _refusal(self.path, error) from error
        except TypeError as error:  # a damaged row may have a value of another type, or be missing
            self._shut()
            raise DataDirectoryRefused(self.path, f"it is damaged: {error}", _REBUILD) from error
        except DataDirectoryRefused:
            self._shut()
            raise
        super().__init__(mirror)

    def _check_log(self) -> bool:
        """Whether the file was closed when it was last used. Raises DataDirectoryRefused, OSError."""
        log_file = _part(self.path, "-wal")
        if not log_file.exists():
            return True
        if not self.path.exists():
            raise DataDirectoryRefused(
                self.path,
                f"it is gone, and its log {log_file.name} is not",
                f"Put the file back; or, if it was set aside on purpose, move {log_file.name} after it",
            )
        tail = log_tail(log_file)
        if tail.damage:
            raise DataDirectoryRefused(self.path, f"its log is damaged: {tail.damage}", _REBUILD)
        if tail.cut:
            logger.warning(
                "the catalog %s was being written when the machine went down: %d pages of a last "
                "transaction are left out",
                self.path,
                tail.cut,
            )
        return False

    def _open(self) -> Mirror:
        """Opens the file and reads it. Raises DataDirectoryRefused, sqlite3.Error, TypeError."""
        # Autocommit mode: BEGIN and COMMIT are ours. Worker threads use it, one at a time (the commit lock).
        self._database = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=0)
        return self._load(self._database)

    def _load(self, database: sqlite3.Connection) -> Mirror:
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        # Looked at before anything is written: another program's database stays as it is.
        version = self._check_format(database)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        if version == 0:
            database.executescript(
                f"BEGIN IMMEDIATE; {_SCHEMA} {_STATE} PRAGMA application_id = {APPLICATION_ID};"
                f" PRAGMA user_version = {FORMAT_VERSION}"
            )
            self._put_state(database, 0, Content())
            database.execute("COMMIT")
        entries = [self._checked(*row) for row in database.execute(_ROWS)]
        leases = dict(database.execute("SELECT lease, ttl_seconds FROM leases").fetchall())
        content = Content.of(entries, leases)
        if version == 1:
            self._add_state(database, content)
        revision = self._revision(database, content)
        for entry in entries:
            if entry.mod_revision > revision:
                raise DataDirectoryRefused(self.path, f"the entry {entry.key!r} is damaged", _REBUILD)
        self._content = content
        return Mirror(entries, leases, revision)

    def _checked(self, *row: Any) -> Entry:
        *fields, crc = row
        entry = Entry(*fields)
        if crc != _crc(entry):
            raise DataDirectoryRefused(self.path, f"the entry {entry.key!r} is damaged", _REBUILD)
        return entry

    def _revision(self, database: sqlite3.Connection, content: Content) -> int:
        """The revision of the last commit. Raises DataDirectoryRefused where that left other rows."""
        revision, written, crc = database.execute("SELECT revision, content, crc32 FROM state").fetchone()
        if crc != _state_crc(revision, written):
            raise DataDirectoryRefused(self.path, "the row that says its revision is damaged", _REBUILD)
        if written != content.to_bytes():
            raise DataDirectoryRefused(
                self.path, f"it has not the rows that revision {revision} left in it", _REBUILD
            )
        return int(revision)

    @staticmethod
    def _put_state(database: sqlite3.Connection, revision: int, content: Content) -> None:
        written = content.to_bytes()
        database.execute(
            "INSERT OR REPLACE INTO state VALUES (0, ?, ?, ?)",
            (revision, written, _state_crc(revision, written)),
        )

    def _add_state(self, database: sqlite3.Connection, content: Content) -> None:
        """Brings a file of format 1 to this one."""
        (revision,) = database.execute("SELECT revision FROM revision").fetchone()
        database.executescript(f"BEGIN IMMEDIATE; {_STATE} PRAGMA user_version = {FORMAT_VERSION}")
        self._put_state(database, revision, content)
        database.execute("DROP TABLE revision")
        database.execute("COMMIT")

    def _check_format(self, database: sqlite3.Connection) -> int:
        """The file's version; 0 for an empty one."""
        (application,) = database.execute("PRAGMA application_id").fetchone()
        (version,) = database.execute("PRAGMA user_version").fetchone()
        (tables,) = database.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if application == version == tables == 0:
            return 0
        if application != APPLICATION_ID or version < 1:
            raise DataDirectoryRefused(
                self.path,
                "it is a database, but not Dafka's catalog",
                "Move it away, or give --data another directory",
            )
        if version > FORMAT_VERSION:
            raise DataDirectoryRefused(
                self.path,
                f"it has format version {version}, and this program knows {FORMAT_VERSION} at most",
                "Start the newer version of Dafka that wrote it",
            )
        return int(version)

    async def _commit(self, plan: Plan) -> None:
        await trio.to_thread.run_sync(self._write, plan)

    def _write(self, plan: Plan) -> None:
        assert self._database is not None
        database = self._database
        entries = [(*entry, _crc(entry)) for entry in plan.entries.values() if entry is not None]
        deleted = [(key,) for key, entry in plan.entries.items() if entry is None]
        content = self._content.after(plan, self._mirror)
        leases = [(lease, ttl) for lease, ttl in plan.leases.items() if ttl is not None]
        ended = [(lease,) for lease, ttl in plan.leases.items() if ttl is None]
        try:
            database.execute("BEGIN IMMEDIATE")
            database.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?)", entries)
            database.executemany("DELETE FROM entries WHERE key = ?", deleted)
            database.executemany("INSERT OR REPLACE INTO leases VALUES (?, ?)", leases)
            database.executemany("DELETE FROM leases WHERE lease = ?", ended)
            self._put_state(database, plan.revision, content)
            database.execute("COMMIT")
        except sqlite3.Error as error:
            raise CatalogFailed(
                f"the catalog {self.path} could not be written: {error}. "
                "Free space or replace the disk, then start again: nothing that was acknowledged is lost"
            ) from error
        self._content = content

    async def _close(self) -> None:
        await trio.to_thread.run_sync(self._shut)

    def _shut(self) -> None:
        if self._database is None:
            return
        try:
            self._database.close()
        except sqlite3.Error as error:  # all that was promised is in the log, which the next start reads
            logger.warning("the catalog %s did not close cleanly: %s", self.path, error)
        self._database = None


def set_aside(path: Path) -> Path | None:
    """Renames a catalog that cannot be read, with its log, so that another can be made; its new name,
    None if absent.

    Raises:
        OSError: It has its old name.
    """
    if not any(_part(path, suffix).exists() for suffix in _PARTS):
        return None
    # The file goes first, so that nobody takes it for the whole catalog once its log has gone. A crash after
    # that leaves a log without its file, which is refused, and follows its file with the next try.
    number = 1
    while (aside := path.with_name(f"{path.name}.broken-{number}")).exists():
        number += 1
    if not path.exists() and number > 1:
        aside = path.with_name(f"{path.name}.broken-{number - 1}")
    for suffix in _PARTS:
        if _part(path, suffix).exists():
            _part(path, suffix).rename(_part(aside, suffix))
    sync_directory(path.parent)
    return aside


def _part(path: Path, suffix: str) -> Path:
    """The file, or what SQLite keeps beside it."""
    return path.with_name(path.name + suffix)


def _write_anew(path: Path) -> None:
    """Replaces a closed file by a copy of what is read in it, forced to disk. Raises OSError."""
    copy = path.with_name(path.name + ".new")
    shutil.copyfile(path, copy)
    with copy.open("rb") as file:
        os.fsync(file.fileno())
    copy.replace(path)
    sync_directory(path.parent)


def _state_crc(revision: int, content: bytes) -> int:
    return zlib.crc32(content, zlib.crc32(b"%d" % revision))


def _crc(entry: Entry) -> int:
    numbers = f"{entry.key}\0{entry.create_revision}\0{entry.mod_revision}\0{entry.lease}\0"
    return zlib.crc32(entry.value, zlib.crc32(numbers.encode()))


def _refusal(path: Path, error: sqlite3.Error | OSError) -> DataDirectoryRefused:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary code; the bits above it say more
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return DataDirectoryRefused(path, "another process is using it", "Stop that one")
    if code in _DISK_FAILED:
        return DataDirectoryRefused(
            path, f"the disk failed: {error}", "Free space or replace the disk", exit_code=EXIT_DISK_FAILED
        )
    if code in _NO_ACCESS or isinstance(error, OSError):
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        return DataDirectoryRefused(
            path,
            f"it cannot be opened: {reason}",
            "Make it readable and writable for this user",
            exit_code=EXIT_ENVIRONMENT,
        )
    return DataDirectoryRefused(path, f"it is damaged: {error}", _REBUILD)
