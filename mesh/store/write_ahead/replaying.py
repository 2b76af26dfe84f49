"""The log of a store that is opened: read, judged, and left as the verdict says."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from mesh.data_directory import sync_directory
from mesh.private_files import make_directory, read_file
from mesh.store.write_ahead.entries import FILE_HEADER_BYTES, Entry, apply, read_file_header
from mesh.store.write_ahead.files import LogFile, names
from mesh.store.write_ahead.judging import Verdict, judge
from mesh.store.write_ahead.mark import NAME as MARK
from mesh.store.write_ahead.mark import PAGE_BYTES, read_mark
from mesh.store.write_ahead.reading import ReadFile, content_of, read_files

FILES_KEPT: Final = 4
"""Files that an open store begins with; more of them, from a time of much writing, are deleted."""
REPLAYED_AT_ONCE_BYTES: Final = 1024 * 1024
"""Entries of the log that a start writes as one."""


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


def replay(examined: Examined, new_batch: Callable[[], Any], write: Callable[[Any], None]) -> None:
    """Write the entries to replay into memtables, many at a time. Raises OSError, and what `write` raises."""
    batch = new_batch()
    for content, entry in replayed(examined):
        apply(content, entry, batch.put, batch.delete, batch.delete_range)
        if batch.size_in_bytes() > REPLAYED_AT_ONCE_BYTES:
            write(batch)
            batch = new_batch()
    write(batch)


def behind(examined: Examined) -> Iterator[tuple[bytes, Entry]]:
    """The whole entries that are behind what is missing. Raises OSError."""
    for file in examined.files:
        later = [entry for entry in file.entries if entry.number > examined.verdict.last]
        if later:
            content = content_of(file.path)
            yield from ((content, entry) for entry in later)


def cut(examined: Examined) -> None:
    """Give up everything behind `verdict.last`: no later commit can be read afterwards, and no witness names
    one. Raises OSError.
    """
    last = examined.verdict.last
    for file in examined.files:
        if file.first > last:
            _overwrite(file.path, 0, FILE_HEADER_BYTES)
        elif file.kind == "torn" or any(entry.number > last for entry in file.entries):
            end = max(
                (entry.end for entry in file.entries if entry.number <= last), default=FILE_HEADER_BYTES
            )
            _overwrite(file.path, end, max(file.path.stat().st_size - end, 0))
    if examined.verdict.kind == "corrupt":
        # A header that cannot be read now must not be readable another time.
        for path in names(examined.directory):
            if read_file_header(read_file(path, FILE_HEADER_BYTES)) is None:
                _overwrite(path, 0, FILE_HEADER_BYTES)
    if read_mark(examined.directory) > last:
        _overwrite(examined.directory / MARK, 0, PAGE_BYTES)


def _overwrite(path: Path, start: int, size: int) -> None:
    """With zeros, fsynced."""
    file = LogFile(path)
    try:
        file.write([bytes(size)], start)
        file.fsync()
    finally:
        file.close()


def begin(directory: Path) -> list[LogFile]:
    """The files that a new life may write over, once all commits are in tables. Raises OSError."""
    if make_directory(directory):
        sync_directory(directory.parent)
    there = names(directory)
    for path in there[FILES_KEPT:]:
        path.unlink()
    return [LogFile(path) for path in there[:FILES_KEPT]]
