"""Whether a file is another one than before, without reading it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

Looks: TypeAlias = tuple[int, int, int]
"""When it was changed last (ns), its size (bytes), its inode: zeros where it is not there."""


def looks_of(path: Path) -> Looks:
    try:
        found = path.stat()
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino


def looks_of_all(paths: Iterable[Path | None]) -> tuple[Looks, ...]:
    """Of those that are named."""
    return tuple(looks_of(path) for path in paths if path is not None)
