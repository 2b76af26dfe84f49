"""How far the log has come, in a file that is never fsynced: `come-to`, beside the log's files.

::

    at 0     the last commit that was fsynced  8   the same, XOR a constant  8
    at 64    the last commit that was acknowledged without an fsync  8   the same, XOR a number made of this
             boot of the machine  8

Rule: each number is set after what it tells of was done, so whatever they say is true. As long as the machine
is not started anew, its memory has all that was written, whatever happens to the process; so a commit that
was acknowledged without an fsync must be there in this boot, and one that was fsynced in any. After a power
loss the page may be an earlier one, or none: then the last commits have no witness, and count if they are
whole.

It is a page in memory: setting it is no system call.
"""

import hashlib
import mmap
import os
import struct
from pathlib import Path
from typing import Final

from mesh.data_directory import boot_id
from mesh.private_files import open_file, read_file

NAME: Final = "come-to"
PAGE_BYTES: Final = 4096
"""One page of memory."""
_PAIR: Final = struct.Struct("<QQ")
FSYNCED_AT, WRITTEN_AT = 0, 64
_CONSTANT: Final = int.from_bytes(b"fsynced.", "little")


def _of_boot() -> int:
    """A number made of this boot of the machine; 0 where the system does not tell boots apart."""
    boot = boot_id().encode()
    return (
        int.from_bytes(hashlib.blake2b(boot, digest_size=_PAIR.size // 2).digest(), "little") if boot else 0
    )


def read_mark(directory: Path) -> int:
    """The last commit that must be there; 0 if the file is not there, or says nothing that can be believed.
    Raises OSError.
    """
    try:
        page = read_file(directory / NAME, PAGE_BYTES).ljust(PAGE_BYTES, b"\0")
    except FileNotFoundError:
        return 0
    boot = _of_boot()
    written = _read(page, WRITTEN_AT, boot) if boot else 0
    return max(_read(page, FSYNCED_AT, _CONSTANT), written)


def _read(page: bytes, position: int, key: int) -> int:
    number: int
    check: int
    number, check = _PAIR.unpack_from(page, position)
    return number if number ^ key == check else 0


class Mark:
    """The open file."""

    def __init__(self, directory: Path) -> None:
        """Make it, or open it as it is. Raises OSError."""
        self._boot = _of_boot()
        descriptor = open_file(directory / NAME, os.O_RDWR | os.O_CREAT)
        try:
            missing = PAGE_BYTES - os.fstat(descriptor).st_size
            if missing > 0:
                # Every byte now: a page that the disk has no room for would end the process later.
                os.pwrite(descriptor, bytes(missing), PAGE_BYTES - missing)
            self._page = mmap.mmap(descriptor, PAGE_BYTES)
        finally:
            os.close(descriptor)

    def fsynced(self, number: int) -> None:
        """All commits up to this one are fsynced."""
        _PAIR.pack_into(self._page, FSYNCED_AT, number, number ^ _CONSTANT)

    def written(self, number: int) -> None:
        """All commits up to this one are written, and that was enough to acknowledge them."""
        _PAIR.pack_into(self._page, WRITTEN_AT, number, number ^ self._boot)

    def close(self) -> None:
        self._page.close()
