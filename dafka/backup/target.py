"""Where backups lie: files under names, in a directory; a bucket (`dafka.backup.bucket`) is the same.

Rule: a file is there whole or not at all, and is durable when the method that puts it returns.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol
from uuid import uuid4

from mesh.data_directory import sync_directory
from mesh.private_files import OTHERS, make_directory, new_file, open_file

EXIT_ENVIRONMENT: Final = 2
EXIT_DISK_FAILED: Final = 4

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})

WRITING: Final = "writing"
"""The folder of files that are not whole yet."""

LOCK: Final = "lock"

logger = logging.getLogger(__name__)


class TargetFailed(Exception):
    """The target cannot be read or written; the text says why and what to do."""

    def __init__(self, text: str, exit_code: int = EXIT_ENVIRONMENT) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class NotThere(Exception):
    """The target has no file of this name."""


class Target(Protocol):
    """What backups need of it. All methods block; all may raise TargetFailed."""

    def put_new(self, name: str, content: bytes) -> bool:
        """Put a file, if there is none of this name; whether it was put."""

    def put(self, name: str, content: bytes) -> None:
        """Put a file in the place of what is there."""

    def get(self, name: str) -> bytes:
        """A file. Raises NotThere."""

    def sizes(self, prefix: str) -> dict[str, int]:
        """Name -> bytes of all files whose names begin so; a prefix ends with "/"."""

    def delete(self, name: str) -> None:
        """Remove a file, or nothing."""

    def alone(self) -> contextlib.AbstractContextManager[None]:
        """While it lasts nobody else takes or prunes backups there."""


class DirectoryTarget:
    """A directory, made if it is absent (unless it is only to be read)."""

    def __init__(self, path: Path, *, make: bool = False) -> None:
        self.path = path
        if make:
            with self._explained(path):
                make_directory(path)
                if path.stat().st_mode & OTHERS:
                    logger.warning("%s: other users can enter it, and read backups: chmod o-rwx it", path)
        elif not path.is_dir():
            raise TargetFailed(f"{path}: there is no such directory. Name the one that has the backups")

    def __str__(self) -> str:
        return str(self.path)

    def put_new(self, name: str, content: bytes) -> bool:
        return self._write(name, content, new=True)

    def put(self, name: str, content: bytes) -> None:
        self._write(name, content, new=False)

    def _write(self, name: str, content: bytes, *, new: bool) -> bool:
        path, writing = self.path / name, self.path / WRITING / uuid4().hex
        with self._explained(path):
            for folder in (writing.parent, path.parent):
                make_directory(folder)
            try:
                with os.fdopen(new_file(writing), "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                if new:
                    os.link(writing, path)
                else:
                    writing.replace(path)
                sync_directory(path.parent)
                sync_directory(path.parent.parent)
            except FileExistsError:
                return False
            finally:
                writing.unlink(missing_ok=True)
        return True

    def get(self, name: str) -> bytes:
        path = self.path / name
        with self._explained(path):
            try:
                return path.read_bytes()
            except FileNotFoundError:
                raise NotThere(str(path)) from None

    def sizes(self, prefix: str) -> dict[str, int]:
        folder = self.path / prefix
        with self._explained(folder):
            return {
                str(path.relative_to(self.path)): path.stat().st_size
                for path in folder.rglob("*")
                if path.is_file()
            }

    def delete(self, name: str) -> None:
        with self._explained(self.path / name):
            (self.path / name).unlink(missing_ok=True)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """The lock goes with the process. What another one had begun to write is removed."""
        path = self.path / LOCK
        with self._explained(path):
            lock = open_file(path, os.O_RDWR | os.O_CREAT)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise TargetFailed(
                    f"{self.path}: another process takes or prunes backups there. Wait until it has ended"
                ) from None
            with self._explained(path):
                for left in (self.path / WRITING).glob("*"):
                    left.unlink(missing_ok=True)
            yield
        finally:
            os.close(lock)

    @contextlib.contextmanager
    def _explained(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = f"{path}: {error.strerror or error}"
            if error.errno in FULL:
                text = (
                    f"{reason}. Free space or replace the disk, and repeat the command: it goes on from there"
                )
                raise TargetFailed(text, EXIT_DISK_FAILED) from None
            raise TargetFailed(f"{reason}. Check the path and its permissions") from None


def open_target(text: str, *, make: bool = False) -> Target:
    """The target that an operator has named. Raises TargetFailed."""
    if text.startswith("s3://"):
        from dafka.backup.bucket import BucketTarget

        return BucketTarget(text)
    return DirectoryTarget(Path(text), make=make)
