"""The files of a SQLite catalog: judged before they are opened, written anew, set aside.

A database in use has its log beside it, and after an end without a close both are there. Then the file is
written anew before it is used: an fsync that failed may have left in the page cache what is not on the disk,
marked as written; who reads it there and builds on it would lose commits that were fsynced after it at the
next power loss. The copy is made of both, and SQLite applies the log in the copy; the log itself stays until
the copy is in the file's place. To apply it once more there changes nothing, so a crash at any step leaves
what can be begun again.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gateway.catalog.log_tail import log_tail
from gateway.catalog.sqlite_rows import REBUILD
from mesh.data_directory import EXIT_DISK_FAILED, DataDirectoryRefused, sync_directory
from mesh.private_files import copy_file

PARTS: Final = ("", "-wal", "-shm")

logger = logging.getLogger(__name__)


def part(path: Path, suffix: str) -> Path:
    """The file, or what SQLite keeps beside it."""
    return path.with_name(path.name + suffix)


def was_closed(path: Path) -> bool:
    """Whether the file was closed when it was last used; its log is judged.

    Raises DataDirectoryRefused for a log that is damaged, or has lost its file; OSError.
    """
    log = part(path, "-wal")
    if not log.exists():
        return True
    tail = log_tail(log)
    if tail.damage:
        raise DataDirectoryRefused(path, f"its log is damaged: {tail.damage}", REBUILD)
    # SQLite deletes a log beside a file of no bytes; it makes the file before the first frame of its log.
    if not path.exists() or (tail.frames and not path.stat().st_size):
        raise DataDirectoryRefused(
            path,
            f"it is {'empty' if path.exists() else 'gone'}, and its log {log.name} is not",
            f"Put the file back; or start once with --rebuild-catalog, which keeps {log.name} under another "
            "name",
        )
    if tail.cut:
        logger.warning(
            "the catalog %s was being written when the machine went down: %d pages of a last transaction are "
            "left out",
            path,
            tail.cut,
        )
    return False


def write_anew(path: Path, check: Callable[[sqlite3.Connection], object]) -> None:
    """Puts a copy of the file, with its log applied, in the file's place, forced to disk; then the log goes.

    `check` raises for a copy that must not take the place. Raises what it raises, DataDirectoryRefused where
    the disk failed; nothing is changed then.
    """
    copy = part(path, ".new")
    try:
        for suffix in PARTS:
            part(copy, suffix).unlink(missing_ok=True)
        for suffix in ("", "-wal"):
            if part(path, suffix).exists():
                copy_file(part(path, suffix), part(copy, suffix))
        database = sqlite3.connect(copy, isolation_level=None)
        try:
            database.execute("PRAGMA locking_mode = EXCLUSIVE")
            check(database)
        finally:
            database.close()
        if part(copy, "-wal").exists():
            raise OSError("the log could not be applied")
        with copy.open("rb") as file:
            os.fsync(file.fileno())
        copy.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        raise DataDirectoryRefused(
            path,
            f"it cannot be written anew after the last run was killed: {error}",
            "Free space or replace the disk",
            exit_code=EXIT_DISK_FAILED,
        ) from error


def remove_log(path: Path) -> None:
    """After its content is in the file."""
    for suffix in ("-wal", "-shm"):
        part(path, suffix).unlink(missing_ok=True)
    sync_directory(path.parent)


def set_aside(path: Path) -> Path | None:
    """Renames a catalog that cannot be read, with its log, so that another can be made; its new name,
    None if absent.

    The file goes first, so that nobody takes it for the whole catalog once its log has gone. A crash after
    that leaves a log without its file, which is refused, and follows its file with the next try.

    Raises:
        OSError: It has its old name.
    """
    left = [suffix for suffix in PARTS if part(path, suffix).exists()]
    if not left:
        return None
    number = 1
    while any(part(_aside(path, number), suffix).exists() for suffix in PARTS):
        number += 1
    if "" not in left and number > 1 and not part(_aside(path, number - 1), "-wal").exists():
        number -= 1
    aside = _aside(path, number)
    for suffix in left:
        part(path, suffix).rename(part(aside, suffix))
        sync_directory(path.parent)
    return aside


def _aside(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.broken-{number}")
