"""The data directory of `dafka standalone --ephemeral`: made for one run and removed after it.

A run that was killed cannot remove its own. So each holds a lock on a file in it, and every later run removes
those that nobody holds any more.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PREFIX: Final = "dafka-ephemeral-"
LOCK_NAME: Final = "in-use"

DATA_NAME: Final = "data"

SPARED_SECONDS: Final = 60.0
"""Age below which a directory without a lock is left alone: its run may be about to take the lock."""


@contextlib.contextmanager
def temporary_data() -> Iterator[Path]:
    """A directory for the data of this run, in the system's temporary one. Raises OSError."""
    root = Path(tempfile.gettempdir())
    _remove_left_behind(root)
    path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
    lock = os.open(path / LOCK_NAME, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield path / DATA_NAME
    finally:
        _remove(path)
        os.close(lock)


def _remove_left_behind(root: Path) -> None:
    """Remove what runs of this user left that were killed."""
    for path in root.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            status = path.lstat()
            if status.st_uid == os.getuid() and status.st_mtime < time.time() - SPARED_SECONDS:
                _remove_unless_held(path)


def _remove_unless_held(path: Path) -> None:
    try:
        lock = os.open(path / LOCK_NAME, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        path.rmdir()  # killed before it took the lock; what is in one without it is not ours
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(path)
    finally:
        os.close(lock)


def _remove(path: Path) -> None:
    """The lock goes last: if this is killed, too, a later run goes on."""
    shutil.rmtree(path / DATA_NAME, ignore_errors=True)
    shutil.rmtree(path, ignore_errors=True)
