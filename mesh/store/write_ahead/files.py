"""The files of the write-ahead log on the disk: made, written, given back."""

import fcntl
import os
import sys
from pathlib import Path
from typing import Final

from mesh.data_directory import sync_directory
from mesh.private_files import open_file

FILE_BYTES: Final = 8 * 1024 * 1024
"""A file that has come to this size is full. One commit that is larger has a file that is longer."""
SUFFIX: Final = ".log"
MAX_PARTS: Final = 1000
"""Parts that one call writes: below the 1,024 that Linux takes."""
ZEROS: Final = bytes(1024 * 1024)


class LogFile:
    """One open file. Whoever appends, and whoever fsyncs, may be different threads."""

    def __init__(self, path: Path, flags: int = 0) -> None:
        """Open it; with O_CREAT | O_EXCL make it. Raises OSError."""
        self.path = path
        self.descriptor = open_file(path, os.O_RDWR | flags)

    def write(self, parts: list[bytes], position: int) -> None:
        """Write the parts one behind the other. Raises OSError: then any part of it may be there."""
        if len(parts) > MAX_PARTS:
            parts = [b"".join(parts)]
        written = os.pwritev(self.descriptor, parts, position)
        if written == sum(map(len, parts)):
            return
        left = memoryview(b"".join(parts))
        while written < len(left):
            written += os.pwrite(self.descriptor, left[written:], position + written)

    def fsync(self) -> None:
        """Raises OSError."""
        if sys.platform == "darwin":
            fcntl.fcntl(self.descriptor, fcntl.F_FULLFSYNC)  # its fsync leaves the bytes in the disk's memory
        else:
            os.fdatasync(self.descriptor)

    def shrink(self) -> None:
        """Cut off what one large commit took beyond `FILE_BYTES`. Raises OSError."""
        if os.fstat(self.descriptor).st_size > FILE_BYTES:
            os.ftruncate(self.descriptor, FILE_BYTES)

    def fill(self) -> None:
        """Give it all its bytes, so that later writes change none of what the file system notes of it. Raises
        OSError: then it has none, and the room is left to others.
        """
        try:
            for position in range(0, FILE_BYTES, len(ZEROS)):
                os.pwrite(self.descriptor, ZEROS, position)
            os.fsync(self.descriptor)
        except OSError:
            os.ftruncate(self.descriptor, 0)
            raise

    def close(self) -> None:
        os.close(self.descriptor)


def names(directory: Path) -> list[Path]:
    """The files of the log that are there, in the order in which they were made. Raises OSError."""
    if not directory.is_dir():
        return []
    found = [path for path in directory.iterdir() if path.suffix == SUFFIX and path.stem.isdecimal()]
    return sorted(found, key=lambda path: int(path.stem))


def make(directory: Path) -> LogFile:
    """The next file, empty, its name fsynced. Raises OSError."""
    there = names(directory)
    number = int(there[-1].stem) + 1 if there else 1
    while True:
        try:
            file = LogFile(directory / f"{number}{SUFFIX}", os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            number += 1  # another thread was faster
            continue
        sync_directory(directory)
        return file
