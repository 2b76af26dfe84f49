"""The log of a store that is opened: read, judged, and left as the verdict says."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from mesh.private_files import make_directory
from mesh.store.write_ahead.entries import FILE_HEADER_BYTES, Entry
from mesh.store.write_ahead.files import LogFile, fsync_directory, names
from mesh.store.write_ahead.judging import Verdict, judge
from mesh.store.write_ahead.mark import Mark, read_mark
from mesh.store.write_ahead.reading import ReadFile, content_of, read_files

FILES_KEPT: Final = 4
"""Files that an open store begins with; more of them, from a time of much writing, are deleted."""


class Examined(NamedTuple):
    """A log that is not being written. `files` in the order of their commits."""

    directory: Path
    files: list[ReadFile]
    verdict: Verdict


def examine(directory: Path, tables: int) -> Examined:
    """`tables`: the last commit in tables. Nothing is changed. Raises OSError."""
    files = read_files(directory, tables)
    return Examined(directory, files, judge(directory, files, tables, read_mark(directory)))


def replayed(examined: Examined) -> Iterator[tuple[bytes, Entry]]:
    """The entries to replay, each with the content of its file. Raises OSError."""
    file, content = None, b""
    for read, entry in examined.verdict.replayed:
        if read is not file:
            file, content = read, content_of(read.path)
        yield content, entry


def behind(examined: Examined) -> Iterator[tuple[bytes, Entry]]:
    """The whole entries that are behind what is missing. Raises OSError."""
    for file in examined.files:
        later = [entry for entry in (*file.entries, *file.behind) if entry.number > examined.verdict.last]
        if later:
            content = content_of(file.path)
            yield from ((content, entry) for entry in later)


def cut(examined: Examined) -> None:
    """Give up everything behind `verdict.last`: no later commit can be read afterwards, and no witness names
    one. Raises OSError.
    """
    last = examined.verdict.last
    for file in examined.files:
        later = file.last > last or any(entry.number > last for entry in file.behind)
        if not later and file.kind == "none":
            continue
        if file.first > last:
            _overwrite(file.path, 0, FILE_HEADER_BYTES)
        else:
            end = next((entry.start for entry in file.entries if entry.number > last), file.end)
            _overwrite(file.path, end, max(file.path.stat().st_size - end, 0))
    if read_mark(examined.directory) > last:
        mark = Mark(examined.directory)
        mark.fsynced(last)
        mark.written(last)
        mark.close()


def _overwrite(path: Path, start: int, size: int) -> None:
    """With zeros, fsynced."""
    file = LogFile(path)
    try:
        file.write([bytes(size)], start)
        os.fsync(file.descriptor)
    finally:
        file.close()


def begin(directory: Path) -> list[LogFile]:
    """The files that a new life may write over, once all commits are in tables. Raises OSError."""
    if make_directory(directory):
        fsync_directory(directory.parent)
    there = names(directory)
    for path in there[FILES_KEPT:]:
        path.unlink()
    return [LogFile(path) for path in there[:FILES_KEPT]]
