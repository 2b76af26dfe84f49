"""Files and directories that only their owner reads, and that are what their names say.

A name in a data directory may have been put there by somebody else, while the directory was open to others:
a link to a file elsewhere, which would be overwritten, or a pipe, at which a start would wait for ever. So
links are not followed, whatever is no plain file is refused, and a file that is made is made anew.
"""

import contextlib
import errno
import logging
import os
import shutil
import stat
from pathlib import Path

logger = logging.getLogger(__name__)

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
LOST_AND_FOUND = "lost+found"
"""A file system's own, which only root reads."""

OTHERS = 0o007
"""The rights of everybody who is neither the owner nor of the group."""

NOT_THE_OWNER = 0o077
"""The rights of everybody else, and of the group."""


def make_directory(path: Path) -> bool:
    """Make a directory, and those above it; false if it is there. Raises OSError."""
    if path.is_dir():
        return False
    path.parent.mkdir(parents=True, exist_ok=True, mode=DIRECTORY_MODE)
    path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    return True


def open_file(path: Path, flags: int) -> int:
    """The descriptor of a plain file, which is made if `flags` say so.

    Raises OSError: ELOOP for a link, whether symbolic or another name of the same file; EINVAL for what is no
    file.
    """
    # A pipe would be waited at until somebody opens its other end; files know no waiting.
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, FILE_MODE)
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_nlink <= 1:
        return descriptor
    os.close(descriptor)
    number = errno.ELOOP if stat.S_ISREG(found.st_mode) else errno.EINVAL
    raise OSError(number, os.strerror(number), str(path))


def new_file(path: Path) -> int:
    """The descriptor of a file that is made here, to be written; what has the name goes. Raises OSError."""
    path.unlink(missing_ok=True)
    return open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)


def read_file(path: Path, size: int) -> bytes:
    """The first `size` bytes. Raises OSError as `open_file`."""
    with os.fdopen(open_file(path, os.O_RDONLY), "rb") as file:
        return file.read(size)


def copy_file(source: Path, target: Path) -> None:
    """Copy the bytes into a file that is made here. Raises OSError."""
    os.close(new_file(target))
    shutil.copyfile(source, target)


def refuse_foreign_link(path: Path) -> None:
    """Raise OSError (ELOOP) where the name is a link that somebody else made. One of our own, or of the
    administrator's, leads where they want what has the name to be.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if _is_foreign_link(found):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def wider_files(directory: Path) -> list[Path]:
    """The files and directories below it that have rights for others than their owner. What our own links in
    it lead to is below it, too; names that begin with a dot are no files of ours (a file system's snapshots
    are called so). Raises OSError: it cannot be read; ELOOP: somebody else made a link there, which whoever
    opens a file by its name would follow.
    """
    wide, unread = [], [directory]
    while unread:
        folder = unread.pop()
        for path, found in _entries(folder, may_be_closed=folder != directory):
            if _is_foreign_link(found):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            if stat.S_ISLNK(found.st_mode):
                # Further down nothing of ours is a link, and links could lead around.
                if folder == directory and path.is_dir():
                    unread.append(path)
                continue
            if found.st_mode & NOT_THE_OWNER:
                wide.append(path)
            if stat.S_ISDIR(found.st_mode):
                unread.append(path)
    return sorted(wide)


def _entries(folder: Path, *, may_be_closed: bool) -> list[tuple[Path, os.stat_result]]:
    """What is in it; nothing, if it is closed to us and may be: then no file of ours is there. Raises
    OSError.
    """
    try:
        with os.scandir(folder) as entries:
            return [
                (Path(entry.path), entry.stat(follow_symlinks=False))
                for entry in entries
                if not entry.name.startswith(".") and entry.name != LOST_AND_FOUND
            ]
    except PermissionError:
        if not may_be_closed:
            raise
        return []


def warn_if_readable(path: Path, what: str) -> None:
    """Say in the log that everybody of this machine can read a secret. Raises nothing: who cannot look at it
    cannot read it either, and says so.
    """
    with contextlib.suppress(OSError):
        if path.stat().st_mode & OTHERS:
            logger.warning("%s: other users can read %s: chmod o-rwx it", path, what)


def _is_foreign_link(found: os.stat_result) -> bool:
    return stat.S_ISLNK(found.st_mode) and found.st_uid not in {0, os.geteuid()}


def close_to_others(path: Path) -> bool:
    """Take the rights of everybody else from a file or a directory of our own, and leave the group's: volumes
    in containers are shared with that. True if there were some. Raises OSError, also where it is not ours.
    """
    mode = path.stat().st_mode
    if not mode & OTHERS:
        return False
    path.chmod(stat.S_IMODE(mode) & ~OTHERS)
    return True
