"""Unix sockets for their owner alone, also in directories whose paths are long."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mesh.private_files import FILE_MODE

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


@contextmanager
def listening(path: Path, backlog: int) -> Iterator[socket.socket]:
    """A socket that listens there for the length of the block, then it is gone. Its directory is locked by
    this process: what lies there before is stale. Raises OSError.
    """
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        # On Linux the file gets the rights of the socket; elsewhere they come before anybody can connect.
        with suppress(OSError):
            os.fchmod(made.fileno(), FILE_MODE)
        with short_name(path) as name:
            made.bind(name)
        if path.lstat().st_mode & ~FILE_MODE & 0o777:
            path.chmod(FILE_MODE)
        made.listen(backlog)
        made.setblocking(False)
        try:
            yield made
        finally:
            path.unlink(missing_ok=True)
