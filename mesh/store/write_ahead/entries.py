"""What the files of the write-ahead log hold, byte by byte.

::

    file    "dafkalog"  8   salt  8   number of its first commit  8   checksum of these  4   entries...
    entry   salt  8   checksum  4   size  4   number  8   fsynced  8   changes (`size` bytes)...
    change  kind  1   size of the key  2   size of the second  4   key   second

The second is a put's value, the end of a deleted range, or nothing. Numbers are little-endian, checksums
CRC32C. An entry's covers its salt and all that follows the checksum; `fsynced` is the last commit that was
fsynced when it was written.

Rule: an entry counts only in the file whose header has its salt, directly behind the entry before it, with
the number after that one's. A salt is made anew each time a file is, so whatever an earlier use of the file
left in it never counts.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import google_crc32c

MAGIC: Final = b"dafkalog"
SALT_BYTES: Final = 8
"""Enough that no other bytes match by chance."""
_FILE: Final = struct.Struct("<8s8sQ")
_CHECKSUM: Final = struct.Struct("<I")
FILE_HEADER_BYTES: Final = _FILE.size + _CHECKSUM.size
"""What stands in front of a file's first entry."""
_START: Final = struct.Struct("<8sI")
_REST: Final = struct.Struct("<IQQ")
ENTRY_HEADER_BYTES: Final = _START.size + _REST.size
"""What stands in front of a commit's changes."""
PUT, DELETE, DELETE_RANGE = 1, 2, 3
_CHANGE: Final = struct.Struct("<BHI")
pack_change: Final = _CHANGE.pack
"""(kind, bytes of the key, bytes of the second) in front of both."""

SMALL_BYTES: Final = 4096
"""Parts below this size are joined before they are written; others are handed to the system as they are."""
JOINED_BYTES: Final = 64 * 1024
"""An entry up to this size is joined as a whole."""


class Entry(NamedTuple):
    """One whole entry: where it starts and ends in its file, the number of its commit, the last commit that
    was fsynced before it, and where its changes start.
    """

    start: int
    end: int
    number: int
    fsynced: int

    @property
    def changes_start(self) -> int:
        return self.start + ENTRY_HEADER_BYTES


def file_header(salt: bytes, first: int) -> bytes:
    """What stands in front of a file whose first commit is `first`."""
    head = _FILE.pack(MAGIC, salt, first)
    return head + _CHECKSUM.pack(google_crc32c.value(head))


def read_file_header(content: bytes) -> tuple[bytes, int] | None:
    """(salt, number of the first commit), or None for a file that has none."""
    if len(content) < FILE_HEADER_BYTES:
        return None
    magic, salt, first = _FILE.unpack_from(content)
    (checksum,) = _CHECKSUM.unpack_from(content, _FILE.size)
    if magic != MAGIC or google_crc32c.value(content[: _FILE.size]) != checksum:
        return None
    return salt, first


def entry_parts(salt: bytes, number: int, fsynced: int, size: int, changes: list[bytes]) -> list[bytes]:
    """The bytes of an entry, in pieces to be written one behind the other."""
    rest = _REST.pack(size, number, fsynced)
    if size <= JOINED_BYTES:
        text = b"".join((salt, rest, *changes))
        return [_START.pack(salt, google_crc32c.value(text)) + text[SALT_BYTES:]]
    checksum = google_crc32c.value(salt + rest)
    pieces = _joined(changes)
    for piece in pieces:
        checksum = google_crc32c.extend(checksum, piece)
    return [_START.pack(salt, checksum) + rest, *pieces]


def _joined(changes: list[bytes]) -> list[bytes]:
    """The same bytes with runs of small parts joined."""
    pieces: list[bytes] = []
    small: list[bytes] = []
    for part in changes:
        if len(part) < SMALL_BYTES:
            small.append(part)
            continue
        pieces += (b"".join(small), part)
        small = []
    pieces.append(b"".join(small))
    return pieces


def entry_at(content: bytes, position: int, salt: bytes) -> Entry | None:
    """The whole entry that starts here; None if there is none."""
    changes_start = position + ENTRY_HEADER_BYTES
    if changes_start > len(content):
        return None
    found, checksum = _START.unpack_from(content, position)
    size, number, fsynced = _REST.unpack_from(content, position + _START.size)
    end = changes_start + size
    if found != salt or end > len(content):
        return None
    covered = memoryview(content)[position + _START.size : end]
    if google_crc32c.extend(google_crc32c.value(salt), bytes(covered)) != checksum:
        return None
    return Entry(position, end, number, fsynced)


def claimed_bytes(content: bytes, position: int) -> int:
    """How long the entry here says it is, whole or not."""
    if position + ENTRY_HEADER_BYTES > len(content):
        return len(content) - position
    size: int
    size, _, _ = _REST.unpack_from(content, position + _START.size)
    return ENTRY_HEADER_BYTES + size


def apply(
    content: bytes,
    entry: Entry,
    put: Callable[[bytes, bytes], object],
    delete: Callable[[bytes], object],
    delete_range: Callable[[bytes, bytes], object],
) -> None:
    """Make an entry's changes, in their order. Raises ValueError for one that nobody here writes."""
    for kind, key, second in changes(content, entry):
        if kind == PUT:
            put(key, second)
        elif kind == DELETE:
            delete(key)
        elif kind == DELETE_RANGE:
            delete_range(key, second)
        else:
            raise ValueError(f"commit {entry.number} of the write-ahead log has a change of kind {kind}")


def changes(content: bytes, entry: Entry) -> Iterator[tuple[int, bytes, bytes]]:
    """(kind, key, second) of each change of a whole entry."""
    position = entry.changes_start
    while position < entry.end:
        kind, key_bytes, second_bytes = _CHANGE.unpack_from(content, position)
        position += _CHANGE.size
        key_end = position + key_bytes
        yield kind, content[position:key_end], content[key_end : key_end + second_bytes]
        position = key_end + second_bytes
