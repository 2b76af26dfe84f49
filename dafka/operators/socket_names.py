"""Unix sockets in directories whose paths are long."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MAX_PATH_BYTES = 107
"""What the address of a Unix socket has room for, in bytes: 108 with the zero at its end."""


@contextmanager
def short_name(path: Path) -> Iterator[str]:
    """A name for `path` that can be bound or connected to within the block, however long the path is."""
    if len(os.fsencode(path)) <= MAX_PATH_BYTES:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
