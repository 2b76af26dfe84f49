"""Where an archive lies: a directory of this machine, or a URI that Hadoop's file systems know."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_LINKS: Final = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS}
"""What file systems without hard links say: FAT, some shares."""


def _umask() -> int:
    """The process's umask, looked at without a change of it: other threads make files meanwhile."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0o022
    found = re.search(r"^Umask:\s*([0-7]+)$", status, re.MULTILINE)
    return int(found[1], 8) if found else 0o022


READABLE: Final = 0o666 & ~_umask()
"""Temporary files are their owner's alone; what a table consists of is for whom the machine says."""
_SCHEME: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://?")


@dataclass(frozen=True)
class Location:
    """An absolute path of this machine, or a URI (`s3a://bucket/folder`), without a slash at the end."""

    text: str

    @classmethod
    def of(cls, given: str) -> Location:
        """From what a user typed; `file:` URIs become paths."""
        scheme = _SCHEME.match(given)
        if scheme is None:
            return cls(str(Path(given).expanduser().absolute()))
        if scheme[1] == "file":
            return cls("/" + given.removeprefix("file:").lstrip("/").rstrip("/"))
        return cls(given.rstrip("/"))

    @property
    def path(self) -> Path | None:
        """The path, where it is on this machine."""
        return None if _SCHEME.match(self.text) else Path(self.text)

    @property
    def for_spark(self) -> str:
        """As Spark takes it: a path of this machine says so, whatever Hadoop's default file system is."""
        return self.text if self.path is None else f"file:{self.text}"

    @property
    def renames_at_once(self) -> bool:
        """Whether its file system moves a directory in one step: disks and HDFS do, object stores do not."""
        scheme = _SCHEME.match(self.text)
        return scheme is None or scheme[1] in {"file", "hdfs", "viewfs"}

    def __truediv__(self, name: str) -> Location:
        return Location(f"{self.text}/{name}")

    def __str__(self) -> str:
        return self.text


class Found(NamedTuple):
    """A file below a location: its name from there, with slashes; bytes; milliseconds since 1970."""

    name: str
    size: int
    modified: int


class Files:
    """What lies below a location: small texts, read whole and replaced whole; a table's files."""

    def __init__(self, spark: SparkSession, location: Location) -> None:
        self._spark = spark
        self.location = location

    def read(self, name: str) -> str | None:
        """The text of a file, None where there is none."""
        place = self.location / name
        if place.path is not None:
            try:
                return place.path.read_text(encoding="utf-8")
            except FileNotFoundError:
                return None
        system, path = self._hadoop(place)
        if not system.exists(path):
            return None
        stream = system.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Replace a file's text. On this machine it is the old one or the new one, whole; a kill may cut it
        short elsewhere.
        """
        place = self.location / name
        if place.path is not None:
            _replace(place.path, text)
            return
        system, path = self._hadoop(place)
        stream = system.create(path, True)  # Java's `overwrite`
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def create(self, name: str, text: str) -> bool:
        """Write a file that is not there yet, whole or not at all; False where there is one of that name.

        On a disk of this machine it outlives a power failure. Elsewhere as Delta's LogStore does it.
        """
        from py4j.protocol import Py4JJavaError

        place = self.location / name
        if place.path is not None:
            return _create(place.path, text)
        system, path = self._hadoop(place)
        system.mkdirs(path.getParent())
        store = self._jvm.org.apache.spark.sql.delta.storage.LogStore.apply(self._spark._jsparkSession)
        lines = self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(text.splitlines()).iterator()
        try:
            store.write(path, lines, False, system.getConf())  # Java's `overwrite`
        except Py4JJavaError as error:
            if "FileAlreadyExistsException" in str(error.java_exception.getClass()):
                return False
            raise
        return True

    def below(self, folder: str) -> list[Found]:
        """All files in a folder and the folders in it, sorted by name."""
        place = self.location / folder
        if place.path is not None and self.location.path is not None:
            root = self.location.path
            paths = sorted(path for path in place.path.rglob("*") if path.is_file())
            return [_found(path, path.relative_to(root).as_posix()) for path in paths]
        system, path = self._hadoop(place)
        root_text = f"{system.makeQualified(self._hadoop(self.location)[1]).toString()}/"
        statuses, found = system.listFiles(path, True), []  # Java's `recursive`
        while statuses.hasNext():
            status = statuses.next()
            name = str(status.getPath().toString()).removeprefix(root_text)
            found.append(Found(name, int(status.getLen()), int(status.getModificationTime())))
        return sorted(found)

    def tail(self, found: Found, length: int) -> bytes:
        """The last bytes of a file, all of it where it has fewer."""
        place = self.location / found.name
        at = max(0, found.size - length)
        if place.path is not None:
            with place.path.open("rb") as file:
                file.seek(at)
                return file.read()
        system, path = self._hadoop(place)
        stream = system.open(path)
        try:
            stream.seek(at)
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def settle(self, names: Collection[str]) -> None:
        """See that a power failure takes none of these files of this machine; other systems see to it."""
        if self.location.path is None:
            return
        paths = [self.location.path / name for name in names]
        folders = {folder for path in paths for folder in path.relative_to(self.location.path).parents}
        for path in (*paths, *(self.location.path / folder for folder in folders)):
            _sync(path)

    def exists(self, name: str) -> bool:
        """Whether there is a file or folder of that name."""
        place = self.location / name
        if place.path is not None:
            return place.path.exists()
        system, path = self._hadoop(place)
        return bool(system.exists(path))

    def rename(self, old: str, new: str) -> bool:
        """Move a folder in one step to where nothing is. False where there is something already, or where the
        folder is gone.
        """
        source, target = self.location / old, self.location / new
        if source.path is not None and target.path is not None:
            try:
                source.path.rename(target.path)
                _sync(target.path.parent)
            except OSError as error:
                if error.errno in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.ENOENT}:
                    return False
                raise
            return True
        return self._renamed(source, target)

    def _renamed(self, source: Location, target: Location) -> bool:
        from py4j.protocol import Py4JJavaError

        system, old = self._hadoop(source)
        java = self._jvm.org.apache.hadoop.fs
        context = java.FileContext.getFileContext(system.getUri(), self._spark._jsc.hadoopConfiguration())
        options = self._spark.sparkContext._gateway.new_array(java.Options.Rename, 0)
        try:
            context.rename(old, java.Path(target.text), options)
        except Py4JJavaError as error:
            if re.search("FileAlreadyExists|FileNotFound", str(error.java_exception.getClass())):
                return False
            raise
        return True

    def remove(self, folder: str) -> None:
        """Delete a folder with all that is in it, where there is one."""
        place = self.location / folder
        if place.path is not None:
            shutil.rmtree(place.path, ignore_errors=True)
            return
        system, path = self._hadoop(place)
        system.delete(path, True)  # Java's `recursive`

    def names(self, folder: str) -> list[str]:
        """What lies in a folder, sorted; nothing where there is no such folder."""
        place = self.location / folder
        if place.path is not None:
            return sorted(path.name for path in place.path.iterdir()) if place.path.is_dir() else []
        system, path = self._hadoop(place)
        if not system.exists(path):
            return []
        return sorted(str(status.getPath().getName()) for status in system.listStatus(path))

    @property
    def _jvm(self) -> Any:
        return self._spark._jvm  # PySpark's own way to Hadoop's file systems

    def _hadoop(self, place: Location) -> tuple[Any, Any]:
        path = self._jvm.org.apache.hadoop.fs.Path(place.text)
        configuration = self._spark._jsc.hadoopConfiguration()
        return path.getFileSystem(configuration), path


@contextmanager
def _written_beside(path: Path, text: str) -> Iterator[Path]:
    """A file with the text, on the disk, beside `path`; removed at the end, if it is still there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(READABLE)
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _create(path: Path, text: str) -> bool:
    with _written_beside(path, text) as temporary:
        if not _linked(temporary, path):
            return False
        _sync(path.parent)
        _sync(path.parent.parent)
        return True


def _replace(path: Path, text: str) -> None:
    with _written_beside(path, text) as temporary:
        temporary.replace(path)


def _linked(file: Path, path: Path) -> bool:
    """Give a file another name that nothing has; False where something has it."""
    try:
        # Unlike a rename it never takes the place of another file.
        path.hardlink_to(file)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        # A lock of this machine keeps others away between the look and the rename.
        if path.exists():
            return False
        file.rename(path)
    return True


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _found(path: Path, name: str) -> Found:
    status = path.stat()
    return Found(name, status.st_size, status.st_mtime_ns // 1_000_000)
