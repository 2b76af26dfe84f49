"""Where an archive lies: a directory of this machine, or a URI that Hadoop's file systems know."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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

    def __truediv__(self, name: str) -> Location:
        return Location(f"{self.text}/{name}")

    def __str__(self) -> str:
        return self.text


class Files:
    """Small texts beside a table: read whole, replaced whole."""

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
        """Replace a file's text: whoever reads it meanwhile sees the old one or the new one, whole."""
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

    def exists(self, name: str) -> bool:
        """Whether there is a file or folder of that name."""
        place = self.location / name
        if place.path is not None:
            return place.path.exists()
        system, path = self._hadoop(place)
        return bool(system.exists(path))

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


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
