"""The data directory of one process: who may use it, and whose it is.

::

    DIR/lock            held with flock while the process lives; its text is the pid of the last holder
    DIR/identity.json   what kind of directory this is, its format version, its cluster, its incarnation
    DIR/running         while a store runs: whether it fsyncs before it acknowledges, and the machine's boot

Everything else in it belongs to the store or gateway that opened it. A directory is refused, never
repaired or emptied, when there is any doubt that it is the right one: the cost of a wrong guess is
somebody's data. What is made in it is its owner's alone, and no name in it is followed elsewhere
(`mesh.private_files`).

The incarnation is the identity by which a store counts as a member of segments. It is made with the
directory, and anew by whoever knows that the directory may have gone back in time (restored, loss
accepted, unclean without fsync).
"""

import contextlib
import errno
import fcntl
import json
import logging
import os
import re
import uuid
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from mesh.private_files import (
    FILE_MODE,
    LOST_AND_FOUND,
    OTHERS,
    close_to_others,
    make_directory,
    new_file,
    open_file,
    read_file,
    wider_files,
)

FORMAT_VERSION: Final = 1
"""Version of the directory's layout that this code writes. An older one is still read; a newer one is
refused."""

LOCK_FILE: Final = "lock"
IDENTITY_FILE: Final = "identity.json"
RUNNING_FILE: Final = "running"
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
MAX_IDENTITY_BYTES: Final = 4096
"""More than an identity ever has (about 150 bytes): a larger file is not one, and is not read into memory."""

EXIT_ENVIRONMENT: Final = 2
EXIT_DATA_REFUSED: Final = 3
EXIT_DISK_FAILED: Final = 4

_DISK_ERRORS: Final = frozenset({errno.EIO, errno.ENOSPC, errno.EDQUOT})
_NOT_DATA: Final = frozenset({LOCK_FILE, IDENTITY_FILE + ".new", LOST_AND_FOUND})
"""What may lie in a directory that is still to become ours: a start that was killed, and a file system's own.
"""
_INCARNATION: Final = re.compile(r"[0-9A-F]{32}")
_CLUSTER_ID: Final = re.compile(r"[0-9A-Za-z_\-]{1,64}")


MAX_RUNNING_BYTES: Final = 256
"""More than the note of a running store ever has."""

logger = logging.getLogger(__name__)


class Kind(StrEnum):
    """What a directory is for; the value is the format's name in its identity file."""

    STORE = "dafka-store"
    GATEWAY = "dafka-gateway"


class DataDirectoryRefused(Exception):
    """The directory cannot or must not be used, or what is at another place (`path` is then its name for
    people); nothing in it was changed.

    `cause` says why and `next_step` what to do, each a clause without a full stop. `exit_code` is what
    the process ends with: 2 when the environment is at fault (no permission), 3 when it is what lies
    there, 4 when the disk failed.
    """

    def __init__(
        self, path: Path | str, cause: str, next_step: str, *, exit_code: int = EXIT_DATA_REFUSED
    ) -> None:
        super().__init__(f"{path}: {cause}. {next_step}.")
        self.path = path
        self.cause = cause
        self.next_step = next_step
        self.exit_code = exit_code


class _Identity(NamedTuple):
    kind: Kind
    version: int
    cluster_id: str | None
    incarnation: str


class DataDirectory:
    """A directory that this process holds the lock of. A context manager: leaving it gives the lock back."""

    def __init__(self, path: Path | str, kind: Kind) -> None:
        """Locks the directory and reads whose it is; makes it when it is absent or empty.

        Raises:
            DataDirectoryRefused: Held by another process; of another kind, or not of Dafka; of a newer
                format; with an unreadable identity; not a directory; not writable.
        """
        self.path = Path(path)
        self.kind = kind
        self._lock = -1
        self.is_new = False
        """Whether this very process made the incarnation: nobody else has heard of it."""
        try:
            self._make()
            self._lock = self._take_lock()
            self._identity = self._read_identity() or self._first_identity()
            self._close_to_others()
            self._look_for_wider_files()
        except OSError as error:
            self.close()
            raise self._os_refusal(error) from error
        except DataDirectoryRefused:
            self.close()
            raise

    @property
    def cluster_id(self) -> str | None:
        """The cluster that the directory belongs to; None until it has joined one."""
        return self._identity.cluster_id

    @property
    def incarnation(self) -> str:
        """32 upper-case hex characters."""
        return self._identity.incarnation

    def set_cluster_id(self, cluster_id: str) -> None:
        """Binds the directory to a cluster for good; the same cluster again changes nothing.

        Raises:
            DataDirectoryRefused: It belongs to another cluster, or the disk does not take it.
            ValueError: Not 1 to 64 characters of letters, digits, `-` and `_`.
        """
        if not _CLUSTER_ID.fullmatch(cluster_id):
            raise ValueError(f"not a cluster id: {cluster_id[:64]!r}")
        if self.cluster_id == cluster_id:
            return
        if self.cluster_id is not None:
            raise DataDirectoryRefused(
                self.path,
                f"it belongs to the cluster {self.cluster_id}, and this is the cluster {cluster_id}",
                "Give --data the directory of this cluster, or an empty one",
            )
        self._replace_identity(self._identity._replace(cluster_id=cluster_id))

    def new_incarnation(self) -> str:
        """Makes and keeps another incarnation, so that what the old one acknowledged is no longer counted
        on it.

        Raises:
            DataDirectoryRefused: The disk does not take it.
        """
        self.become(_make_incarnation())
        self.is_new = True
        return self.incarnation

    def check_may_change(self, cause: str) -> None:
        """Refuses nothing: in a mesh a store may become another incarnation, because others can take the
        place of the one that it was. `dafka standalone`, whose store is the only one, has a check of its own
        (`mesh.store.identity.Identity` says when it is called).
        """

    def become(self, incarnation: str) -> None:
        """Keeps another incarnation, which the store's database has learned before.

        Raises:
            DataDirectoryRefused: The disk does not take it.
        """
        self._replace_identity(self._identity._replace(incarnation=incarnation))

    def may_have_lost(self) -> bool:
        """Whether something that was acknowledged may be gone: the last run did not fsync before it
        acknowledged, did not end in order, and the machine was started anew since. (What a process has
        written outlives it, not the machine.)

        Raises:
            DataDirectoryRefused: The disk cannot be read.
        """
        try:
            text = read_file(self.path / RUNNING_FILE, MAX_RUNNING_BYTES).decode("ascii", "replace")
            fsync, _, boot = text.strip().partition(" ")
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._os_refusal(error) from error
        return fsync != "always" and (not boot or boot != boot_id())

    def mark_running(self, fsync: str) -> None:
        """A store begins to acknowledge, after fsyncs ("always") or not.

        Raises:
            DataDirectoryRefused: The disk does not take it.
        """
        try:
            replace_file(self.path / RUNNING_FILE, f"{fsync} {boot_id()}\n".encode())
        except OSError as error:
            raise self._os_refusal(error) from error

    def mark_stopped(self) -> None:
        """The store has ended in order: all of it is on the disk."""
        (self.path / RUNNING_FILE).unlink(missing_ok=True)

    def close(self) -> None:
        """Gives the lock back. A second call does nothing."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _make(self) -> None:
        if make_directory(self.path):
            sync_directory(self.path.parent)

    def _close_to_others(self) -> None:
        """A directory that others can enter was made by an older version, or with the machine's defaults."""
        try:
            if close_to_others(self.path):
                logger.info("%s: other users could enter it, and cannot any more", self.path)
        except OSError:  # a volume's, which belongs to another user
            logger.warning(
                "%s: other users can enter it, and it is not ours to change: chmod o-rwx it as its owner",
                self.path,
            )

    def _look_for_wider_files(self) -> None:
        """Those that an older version made, or somebody has put there, and copies without their rights."""
        if wide := wider_files(self.path):
            logger.warning(
                "%s: %d files and directories in it have rights for others than their owner, %s for one: "
                "unless its group is to have them, take them away (chmod -R go-rwx %s)",
                self.path,
                len(wide),
                wide[0].relative_to(self.path),
                self.path,
            )

    def _take_lock(self) -> int:
        lock = open_file(self.path / LOCK_FILE, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 20, 0).decode("ascii", "replace").strip()
            os.close(lock)
            raise DataDirectoryRefused(
                self.path,
                f"process {holder} is using it" if holder.isdigit() else "another process is using it",
                "Stop that one, or give --data another directory",
            ) from None
        except OSError:
            os.close(lock)
            raise
        if os.fstat(lock).st_mode & OTHERS:  # whoever can read a file can lock it
            with contextlib.suppress(OSError):
                os.fchmod(lock, FILE_MODE)
        os.ftruncate(lock, 0)
        os.pwrite(lock, b"%d\n" % os.getpid(), 0)
        return lock

    def _read_identity(self) -> _Identity | None:
        """The identity, None in a directory that is empty so far."""
        try:
            text = read_file(self.path / IDENTITY_FILE, MAX_IDENTITY_BYTES + 1)
        except FileNotFoundError:
            self._check_empty()
            return None
        try:
            fields = json.loads(text) if len(text) <= MAX_IDENTITY_BYTES else None
        except (ValueError, RecursionError):  # the latter is json's answer to brackets without end
            fields = None
        identity = self._check_identity(fields)
        if identity.kind is not self.kind:
            raise DataDirectoryRefused(
                self.path,
                f"it is a {identity.kind} directory, and a {self.kind} one is needed",
                "Give --data another directory",
            )
        return identity

    def _check_empty(self) -> None:
        others = sorted({entry.name for entry in self.path.iterdir()} - _NOT_DATA)
        if others:
            raise DataDirectoryRefused(
                self.path,
                f"it has no {IDENTITY_FILE} but other files ({', '.join(others[:3])}), so it is not Dafka's",
                "Give --data an empty directory; if it is Dafka's, put its identity file back from a backup",
            )

    def _check_identity(self, fields: object) -> _Identity:
        match fields:
            case {"format": str(name), "version": int(version)} if (
                name in list(Kind) and version > FORMAT_VERSION and version is not True
            ):
                raise DataDirectoryRefused(
                    self.path,
                    f"it has format version {version}, and this program knows {FORMAT_VERSION} at most",
                    "Start the newer version of Dafka that wrote it",
                )
            case {
                "format": str(name),
                "version": int(version),
                "cluster_id": None | str() as cluster_id,
                "incarnation": str(incarnation),
                **others,
            } if (
                not others
                and name in list(Kind)
                and version >= 1
                and version is not True
                and (cluster_id is None or _CLUSTER_ID.fullmatch(cluster_id))
                and _INCARNATION.fullmatch(incarnation)
            ):
                return _Identity(Kind(name), version, cluster_id, incarnation)
        raise DataDirectoryRefused(
            self.path,
            f"its {IDENTITY_FILE} cannot be read: it is damaged or not Dafka's",
            "Put the file back from a backup, or give --data another directory",
        )

    def _first_identity(self) -> _Identity:
        identity = _Identity(self.kind, FORMAT_VERSION, None, _make_incarnation())
        self._write_identity(identity)
        self.is_new = True
        return identity

    def _replace_identity(self, identity: _Identity) -> None:
        try:
            self._write_identity(identity)
        except OSError as error:
            raise self._os_refusal(error) from error
        self._identity = identity

    def _write_identity(self, identity: _Identity) -> None:
        text = json.dumps(
            {
                "format": identity.kind,
                "version": identity.version,
                "cluster_id": identity.cluster_id,
                "incarnation": identity.incarnation,
            },
            indent=1,
        )
        replace_file(self.path / IDENTITY_FILE, text.encode() + b"\n")

    def _name(self, path: str) -> str:
        """A file's, from this directory on; it may be behind a link of ours."""
        return str(Path(path).relative_to(self.path)) if Path(path).is_relative_to(self.path) else path

    def _os_refusal(self, error: OSError) -> DataDirectoryRefused:
        reason = os.strerror(error.errno) if error.errno else str(error)
        if error.errno in _DISK_ERRORS:
            return DataDirectoryRefused(
                self.path,
                f"the disk does not take it: {reason}",
                "Free space or replace the disk",
                exit_code=EXIT_DISK_FAILED,
            )
        if error.errno in {errno.ELOOP, errno.EINVAL} and error.filename:
            return DataDirectoryRefused(
                self.path,
                f"{self._name(error.filename)} in it is a link, or no file",
                "See who put it there, and remove it",
            )
        if error.errno in {errno.ENOTDIR, errno.EEXIST}:
            return DataDirectoryRefused(
                self.path,
                "it is not a directory",
                "Give --data a directory",
                exit_code=EXIT_ENVIRONMENT,
            )
        return DataDirectoryRefused(
            self.path,
            f"it cannot be written: {reason}",
            "Make it writable for this user, or give --data another directory",
            exit_code=EXIT_ENVIRONMENT,
        )


def replace_file(path: Path, content: bytes) -> None:
    """Puts `content` in place of the file's, so that after a crash at any moment it has the old or the
    new one whole.

    Raises:
        OSError: It may have either.
    """
    new = path.with_name(path.name + ".new")
    with os.fdopen(new_file(new), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Makes the names of the directory's files durable.

    Raises:
        OSError: They may not be.
    """
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def boot_id() -> str:
    """Names this run of the machine; empty where the system does not tell."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


def _make_incarnation() -> str:
    return uuid.uuid4().hex.upper()
