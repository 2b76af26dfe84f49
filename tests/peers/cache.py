"""A folder of downloaded and compiled things that outlives a test run and is shared by parallel ones."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    root = Path(base) / "dafka-gateway-tests"
    root.mkdir(parents=True, exist_ok=True)
    return root


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path`, across processes; released by the kernel even after SIGKILL."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def cached_folder(name: str, fill: Callable[[Path], None]) -> Path:
    """The folder `name` of the cache, filled once.

    It appears whole or not at all: `fill` gets an empty folder beside it that is renamed when it returns.
    """
    folder = cache_root() / name
    if folder.is_dir():
        return folder
    with locked(cache_root() / f"{name}.lock"):
        if not folder.is_dir():
            being_filled = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=cache_root()))
            try:
                fill(being_filled)
                being_filled.rename(folder)
            finally:
                shutil.rmtree(being_filled, ignore_errors=True)
    return folder
