"""The embedded catalog: one SQLite file in the gateway's data directory.

The journal is a write-ahead log with ``synchronous=FULL``: a commit is one fsync of the log (about 2 ms),
so all transactions that wait share one. Reads never touch the file: the whole catalog is read into memory
at the start, each row checked against its checksum, since SQLite itself does not notice a flipped bit in
a value.

The file is opened with an exclusive lock: a second process would change it behind the mirror's back.
"""

import logging
import os
import sqlite3
import zlib
from pathlib import Path
from typing import Final

import trio

from gateway.catalog.interface import CatalogFailed, Entry
from gateway.catalog.mirror import Mirror, Plan
from gateway.catalog.mirrored import MirroredCatalog
from mesh.data_directory import EXIT_DISK_FAILED, EXIT_ENVIRONMENT, DataDirectoryRefused, sync_directory

logger = logging.getLogger(__name__)

APPLICATION_ID: Final = 0x44464B43
""""DFKC" in SQLite's header: what tells our file from any other database."""

FORMAT_VERSION: Final = 1

_SCHEMA: Final = """
CREATE TABLE revision (only_row INTEGER PRIMARY KEY CHECK (only_row = 0), revision INTEGER NOT NULL);
INSERT INTO revision VALUES (0, 0);
CREATE TABLE entries (
    key TEXT PRIMARY KEY, value BLOB NOT NULL, create_revision INTEGER NOT NULL, mod_revision INTEGER NOT
    NULL, lease INTEGER NOT NULL, crc32 INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE leases (lease INTEGER PRIMARY KEY, ttl_seconds REAL NOT NULL);
"""

_DISK_FAILED: Final = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL})
_NO_ACCESS: Final = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY})
"""SQLite's codes for what the disk or its file system did, as opposed to what lies in the file."""

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
        try:
            # Autocommit mode: BEGIN and COMMIT are ours. Worker threads use it, one at a time (the commit
            # lock).
            self._database = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, timeout=0
            )
            mirror = self._load(self._database)
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

    def _load(self, database: sqlite3.Connection) -> Mirror:
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        # Looked at before anything is written: another program's database stays as it is.
        version = self._check_format(database)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        if version == 0:
            database.executescript(
                f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA application_id = {APPLICATION_ID};"
                f" PRAGMA user_version = {FORMAT_VERSION}; COMMIT"
            )
        (revision,) = database.execute("SELECT revision FROM revision").fetchone()
        entries = []
        for *fields, crc in database.execute(
            "SELECT key, value, create_revision, mod_revision, lease, crc32 FROM entries"
        ):
            entry = Entry(*fields)
            if crc != _crc(entry) or entry.mod_revision > revision:
                raise DataDirectoryRefused(self.path, f"the entry {entry.key!r} is damaged", _REBUILD)
            entries.append(entry)
        leases = dict(database.execute("SELECT lease, ttl_seconds FROM leases").fetchall())
        return Mirror(entries, leases, revision)

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
        leases = [(lease, ttl) for lease, ttl in plan.leases.items() if ttl is not None]
        ended = [(lease,) for lease, ttl in plan.leases.items() if ttl is None]
        try:
            database.execute("BEGIN IMMEDIATE")
            database.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?)", entries)
            database.executemany("DELETE FROM entries WHERE key = ?", deleted)
            database.executemany("INSERT OR REPLACE INTO leases VALUES (?, ?)", leases)
            database.executemany("DELETE FROM leases WHERE lease = ?", ended)
            database.execute("UPDATE revision SET revision = ?", (plan.revision,))
            database.execute("COMMIT")
        except sqlite3.Error as error:
            raise CatalogFailed(
                f"the catalog {self.path} could not be written: {error}. "
                "Free space or replace the disk, then start again: nothing that was acknowledged is lost"
            ) from error

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
    if not path.exists():
        return None
    number = 1
    while (aside := path.with_name(f"{path.name}.broken-{number}")).exists():
        number += 1
    # The log first: what is left of it beside a new file would be applied to that.
    for suffix in ("-wal", "-shm", ""):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(aside.with_name(aside.name + suffix))
    sync_directory(path.parent)
    return aside


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
