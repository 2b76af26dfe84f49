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
        yield path / "data"
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def _remove_left_behind(root: Path) -> None:
    """Remove what runs of this user left that were killed."""
    for path in root.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            status = path.lstat()
            if status.st_uid == os.getuid() and status.st_mtime < time.time() - SPARED_SECONDS:
                _remove_unless_held(path)


def _remove_unless_held(path: Path) -> None:
    lock = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)
