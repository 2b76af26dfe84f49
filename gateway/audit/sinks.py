"""Where audit lines go: a file, which may be moved away at any time, or standard output."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from gateway.audit.audit import Sink

STANDARD_OUTPUT = "-"


class AuditRefused(Exception):
    """Nothing can be written where it is to be. The message says why, and what to do."""

    exit_code = 2


class FileSink:
    """Appends to `path`, which is made anew when it is gone: so it is rotated by moving it away.

    It is for its owner alone, and nothing is written through a symbolic link.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = -1
        self._identity: tuple[int, int] | None = None

    def write(self, lines: bytes) -> None:
        """Raises OSError. Lines are written whole, or again after a failure: one may come twice then."""
        self._open()
        _write(self._file, lines)

    def _open(self) -> None:
        try:
            found = self._path.lstat()
        except FileNotFoundError:
            found = None
        if self._file >= 0 and found is not None and (found.st_dev, found.st_ino) == self._identity:
            return
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(self._path, flags, 0o600)
        opened = os.fstat(self._file)
        if not stat.S_ISREG(opened.st_mode) and not stat.S_ISFIFO(opened.st_mode):
            os.close(self._file)
            self._file = -1
            raise OSError(f"{self._path} is no file")
        self._identity = opened.st_dev, opened.st_ino


def _write(file: int, lines: bytes) -> None:
    view = memoryview(lines)
    while view:
        view = view[os.write(file, view) :]


class OutputSink:
    """Standard output."""

    def write(self, lines: bytes) -> None:
        """Raises OSError."""
        _write(sys.stdout.fileno(), lines)  # a buffer's lock that is held for ever would hold up the end


def sink_of(where: str) -> Sink:
    """That of `--audit`: "-" or a path. Raises AuditRefused: the file cannot be opened."""
    if where == STANDARD_OUTPUT:
        return OutputSink()
    sink = FileSink(Path(where))
    try:
        sink.write(b"")
    except OSError as error:
        raise AuditRefused(
            f"--audit: {where} cannot be written ({error.strerror or error}): name a file in a directory "
            "that is there and may be written to"
        ) from None
    return sink
