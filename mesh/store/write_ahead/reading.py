"""What the files of a write-ahead log have, as far as each is whole: read, and nothing decided."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

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


@dataclass(frozen=True)
class ReadFile:
    """One file. `entries` follow each other from `first` on; behind the last one, at `end`, stands nothing of
    this use of the file (`none`), or an entry that is not whole (`torn`).

    `behind`: whole entries further on, which something that is not whole separates from the others.
    """

    path: Path
    salt: bytes
    first: int
    entries: tuple[Entry, ...]
    end: int
    kind: End
    behind: tuple[Entry, ...]
    torn_end: int
    """Where the entry that is not whole would end, as far as that can be told; `end` if there is none."""

    @property
    def last(self) -> int:
        """The number of the last commit that is here in a row; `first - 1` if there is none."""
        return self.first + len(self.entries) - 1

    @property
    def known_end(self) -> int:
        """The end of the last entry that is known of, wherever it stands."""
        return max(self.torn_end, self.behind[-1].end if self.behind else self.end)


def read_files(directory: Path, tables: int) -> list[ReadFile]:
    """The files that may hold commits after `tables`, in their order; no other is read. Raises OSError."""
    headers = [(path, read_file_header(read_file(path, FILE_HEADER_BYTES))) for path in names(directory)]
    begun = sorted((header[1], path) for path, header in headers if header is not None)
    # All that a file holds comes before what the next one begins with.
    wanted = [
        path
        for place, (_, path) in enumerate(begun, 1)
        if place == len(begun) or begun[place][0] > tables + 1
    ]
    read = (read_content(path, content_of(path)) for path in wanted)
    return [file for file in read if file is not None]


def content_of(path: Path) -> bytes:
    """A whole file. Raises OSError."""
    return read_file(path, -1)


def read_content(path: Path, content: bytes) -> ReadFile | None:
    """As far as it is whole; None for a file that holds no commits."""
    header = read_file_header(content)
    if header is None:
        return None
    salt, first = header
    entries: list[Entry] = []
    position = FILE_HEADER_BYTES
    while (entry := entry_at(content, position, salt)) is not None:
        if entry.number != first + len(entries):
            break
        entries.append(entry)
        position = entry.end
    kind: End = "torn" if content[position : position + SALT_BYTES] == salt else "none"
    torn_end = position if kind == "none" else min(position + claimed_bytes(content, position), len(content))
    behind = tuple(_behind(content, position, salt))
    return ReadFile(path, salt, first, tuple(entries), position, kind, behind, torn_end)


def _behind(content: bytes, position: int, salt: bytes) -> list[Entry]:
    """The whole entries from here on, wherever they start."""
    found: list[Entry] = []
    while (position := content.find(salt, position)) >= 0:
        entry = entry_at(content, position, salt)
        if entry is not None:
            found.append(entry)
        position = entry.end if entry is not None else position + 1
    return found
