"""The embedded catalog: one SQLite file in the gateway's data directory.

The journal is a write-ahead log with ``synchronous=FULL``: a commit is one fsync of the log (about 2 ms),
so all transactions that wait share one. Reads never touch the file: the whole catalog is read into memory
at the start.

Rule: what is read at a start is all that the last commit left, or the file is refused. SQLite notices neither
a flipped bit in a value, nor rows that a damaged page has lost (`gateway.catalog.sqlite_rows`), nor commits
that it passes over at the end of its log (`gateway.catalog.log_tail`); and after an end without a close
nobody may believe the page cache (`gateway.catalog.sqlite_files`).

The file is opened with an exclusive lock: a second process would change it behind the mirror's back.
"""

import logging
import os
import sqlite3
from pathlib import Path
from typing import Final

import trio

from gateway.catalog.content import Content
from gateway.catalog.interface import CatalogFailed
from gateway.catalog.mirror import Mirror, Plan
from gateway.catalog.mirrored import MirroredCatalog
from gateway.catalog.sqlite_files import remove_log, was_closed, write_anew
from gateway.catalog.sqlite_rows import (
    FORMAT_VERSION,
    REBUILD,
    bring_up_to_date,
    crc_of,
    create_tables,
    format_version,
    put_state,
    read_all,
)
from mesh.data_directory import EXIT_DISK_FAILED, EXIT_ENVIRONMENT, DataDirectoryRefused, sync_directory
from mesh.private_files import new_file, refuse_foreign_link

logger = logging.getLogger(__name__)

_DISK_FAILED: Final = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL})
_NO_ACCESS: Final = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY})
"""SQLite's codes for what the disk or its file system did, as opposed to what lies in the file."""


class SqliteCatalog(MirroredCatalog):
    """See `Catalog`."""

    def __init__(self, path: Path | str) -> None:
        """Opens the file, makes it when absent, and reads all of it. Blocks for some ms: before serving.

        Raises:
            DataDirectoryRefused: It is not a catalog, newer, damaged, held by another process, or not
                accessible.
        """
        # SQLite keeps the log beside the file that a link leads to.
        self.path = Path(os.path.realpath(path))
        is_new = not self.path.exists()
        self._database: sqlite3.Connection | None = None
        self._content = Content()
        try:
            refuse_foreign_link(Path(path))
            if not was_closed(self.path):
                self._renew()
            if is_new:
                os.close(new_file(self.path))  # SQLite's own files have the rights of this one
            mirror = self._open()
            if is_new:
                sync_directory(self.path.parent)
        except (sqlite3.Error, OSError) as error:
            self._shut()
            raise _refusal(self.path, error) from error
        except (TypeError, ValueError) as error:  # a damaged row may have a value of another type, or none
            self._shut()
            raise DataDirectoryRefused(self.path, f"it is damaged: {error}", REBUILD) from error
        except DataDirectoryRefused:
            self._shut()
            raise
        super().__init__(mirror)

    def _renew(self) -> None:
        """Writes the file anew, held against other processes meanwhile. Raises as `__init__`."""
        format_version(self._connect(), self.path)  # the first read takes the lock
        write_anew(self.path, lambda copy: read_all(copy, format_version(copy, self.path), self.path))
        self._shut()
        remove_log(self.path)

    @property
    def where(self) -> str:
        return str(self.path.parent)

    def _connect(self) -> sqlite3.Connection:
        # Autocommit mode: BEGIN and COMMIT are ours. Worker threads use it, one at a time (`_committing`).
        self._database = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=0)
        self._database.execute("PRAGMA locking_mode = EXCLUSIVE")
        return self._database

    def _open(self) -> Mirror:
        database = self._connect()
        # Looked at before anything is written: another program's database stays as it is.
        version = format_version(database, self.path)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        if version == 0:
            create_tables(database)
        stored = read_all(database, version or FORMAT_VERSION, self.path)
        bring_up_to_date(database, stored)
        self._content = stored.content
        return Mirror(stored.entries, stored.leases, stored.revision)

    async def _commit(self, plan: Plan) -> None:
        await trio.to_thread.run_sync(self._write, plan)

    def _write(self, plan: Plan) -> None:
        assert self._database is not None
        database = self._database
        entries = [(*entry, crc_of(entry)) for entry in plan.entries.values() if entry is not None]
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
            put_state(database, plan.revision, content)
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
    return DataDirectoryRefused(path, f"it is damaged: {error}", REBUILD)
