"""The write-ahead log of a store that runs: commits are appended on the loop and fsynced by the committer.

Rule: when `fsync` returns, every commit that was appended before it began outlives a power loss.

Files are full one after the other: a commit that does not fit begins the next one. What is free comes from
the keeper, who gives a file back once RocksDB has its commits in tables; if there is none, the loop makes
one, which grows as it is written. RocksDB refuses writes while its memtables are many, and that bounds how
many files there can be. They are deleted at a start only: another thread may be about to fsync one.
"""

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from mesh.store.write_ahead.entries import (
    ENTRY_HEADER_BYTES,
    FILE_HEADER_BYTES,
    SALT_BYTES,
    entry_parts,
    file_header,
)
from mesh.store.write_ahead.files import FILE_BYTES, LogFile, make
from mesh.store.write_ahead.keeper import Keeper
from mesh.store.write_ahead.mark import Mark

FSYNC_SECONDS = 10.0
"""Longest wait for an fsync of another thread: a store ends although its committer hangs in one."""


class WriteAheadLog:
    """`append` is for the loop, `fsync` for the committer's thread."""

    fsynced = 0
    """The number of the last commit that this log has fsynced, 0 before the first."""

    def __init__(self, directory: Path, free: list[LogFile], flush: Callable[[], None]) -> None:
        """`free`: files that may be written over. `flush` has RocksDB move its memtables into tables. Raises
        OSError.
        """
        self._directory = directory
        self._free = deque(free)
        self.keeper = Keeper(directory, self._free, flush)
        self._mark = Mark(directory)
        self._file: LogFile | None = None
        self._left: dict[LogFile, None] = {}
        """Full files that the next fsync covers, too."""
        self._salt = b""
        self._position = 0
        self._has_asked = False
        self._has_failed = False
        self._fsyncing = threading.Lock()

    def append(self, number: int, changes: list[bytes]) -> None:
        """Write a commit, not yet fsynced. Raises OSError: then nothing later is appended or fsynced."""
        if self._has_failed:
            raise OSError("an earlier write or fsync of the log failed")
        try:
            self._append(number, changes)
        except BaseException:
            self._has_failed = True  # memtables have the commit, and the log has not
            raise
        if not self._has_asked and self._position > FILE_BYTES // 2 and not self._free:
            self._has_asked = True
            self.keeper.make_one()

    def count_written(self, number: int) -> None:
        """Commits up to this one, which are appended, are acknowledged without an fsync."""
        self._mark.written(number)

    def _append(self, number: int, changes: list[bytes]) -> None:
        size = sum(map(len, changes))
        file, position, header = self._file, self._position, b""
        if file is None or position + ENTRY_HEADER_BYTES + size > FILE_BYTES:
            file, position = self._next_file(), 0
            header = file_header(self._salt, number)
        parts = entry_parts(self._salt, number, self.fsynced, size, changes)
        parts[0] = header + parts[0]
        file.write(parts, position)
        self._position = position + len(header) + ENTRY_HEADER_BYTES + size

    def _next_file(self) -> LogFile:
        if self._file is not None:
            self._left[self._file] = None
            self.keeper.take(self._file)
        file = self._free.popleft() if self._free else make(self._directory)
        self._salt = os.urandom(SALT_BYTES)
        self._has_asked = False
        self._file = file
        return file

    def fsync(self, number: int) -> None:
        """Fsync everything up to commit `number`, which is the last one that was appended, or an earlier one.
        Raises OSError: then nothing since the last fsync may be acknowledged. It is not tried again: the
        system may have forgotten what it could not write, and say that all is well.
        """
        if not self._fsyncing.acquire(timeout=FSYNC_SECONDS):
            raise OSError(f"an fsync of the log hangs for more than {FSYNC_SECONDS:g} s")
        try:
            self._fsync()
        finally:
            self._fsyncing.release()
        self.fsynced = number
        self._mark.fsynced(number)

    def _fsync(self) -> None:
        if self._has_failed:
            raise OSError("an earlier write or fsync of the log failed")
        file = self._file  # before the files that are full: it may become one of them meanwhile
        try:
            while self._left:
                self._left.popitem()[0].fsync()
            if file is not None:
                file.fsync()
        except OSError:
            self._has_failed = True
            raise

    def close(self) -> None:
        """Close the files, once the keeper's thread has ended."""
        self._mark.close()
        for file in self._files():
            file.close()

    def forget(self) -> None:
        """All commits are in tables: the next start has nothing to read."""
        with contextlib.suppress(OSError):  # it only spares that start some reading
            for file in self._files():
                file.write([bytes(FILE_HEADER_BYTES)], 0)

    def _files(self) -> set[LogFile]:
        current = [self._file] if self._file else []
        return {*self._free, *self._left, *self.keeper.waiting, *current}
