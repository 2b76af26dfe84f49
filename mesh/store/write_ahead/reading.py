"""What the files of a write-ahead log have, as far as each is whole: read, and nothing decided."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from mesh.private_files import read_file
from mesh.store.write_ahead.entries import (
    FILE_HEADER_BYTES,
    SALT_BYTES,
    Entry,
    claimed_bytes,
    entry_at,
    read_file_header,
)
from mesh.store.write_ahead.files import names

End = Literal["none", "torn"]

MAX_READ_BYTES: Final = 1024 * 1024 * 1024
"""More than any commit has."""
IN_VAIN_TIMES: Final = 4
"""How often all bytes of a file may be checked and found not to be whole."""


@dataclass(frozen=True)
class ReadFile:
    """One file. `entries` are whole and in their order; each number is there once, and something that is not
    whole may be between them. Behind the last one, at `end`, stands nothing of this use of the file (`none`),
    or an entry that is not whole (`torn`).
    """

    path: Path
    first: int
    entries: tuple[Entry, ...]
    end: int
    kind: End
    torn_end: int
    """Where the entry that is not whole would end, as far as that can be told; `end` if there is none."""

    @property
    def next(self) -> int:
        """The number of the commit that stands at `end`, or would."""
        return self.entries[-1].number + 1 if self.entries else self.first


def read_files(directory: Path, tables: int) -> list[ReadFile]:
    """The files that may hold commits after `tables`, in their order; no other is read. Raises OSError."""
    headers = [(path, read_file_header(read_file(path, FILE_HEADER_BYTES))) for path in names(directory)]
    begun = sorted((header[1], path) for path, header in headers if header is not None)
    # All that a file holds comes before what the next one begins with.
    wanted = [
        path
        for place, (first, path) in enumerate(begun)
        if not any(first < later <= tables + 1 for later, _ in begun[place + 1 :])
    ]
    read = (read_content(path, content_of(path)) for path in wanted)
    return [file for file in read if file is not None]


def content_of(path: Path) -> bytes:
    """A file, of which no more than `MAX_READ_BYTES` are read. Raises OSError."""
    return read_file(path, MAX_READ_BYTES)


def read_content(path: Path, content: bytes) -> ReadFile | None:
    """What of it is whole; None for a file that holds no commits."""
    header = read_file_header(content)
    if header is None:
        return None
    salt, first = header
    entries = tuple(_entries(content, salt, first))
    end = entries[-1].end if entries else FILE_HEADER_BYTES
    kind: End = "torn" if content[end : end + SALT_BYTES] == salt else "none"
    torn_end = end if kind == "none" else min(end + claimed_bytes(content, end), len(content))
    return ReadFile(path, first, entries, end, kind, torn_end)


def _entries(content: bytes, salt: bytes, first: int) -> Iterator[Entry]:
    """The whole entries, wherever they start: where one should stand and is not whole, the next salt may
    begin another. What is looked at in vain is bounded, whatever the disk makes of a file.
    """
    position, number, in_vain = FILE_HEADER_BYTES, first, 0
    while in_vain <= IN_VAIN_TIMES * len(content):
        entry = entry_at(content, position, salt)
        if entry is not None and entry.number >= number:
            yield entry
            position, number = entry.end, entry.number + 1
            continue
        in_vain += min(claimed_bytes(content, position), len(content) - position)
        position = content.find(salt, position + 1)
        if position < 0:
            return
