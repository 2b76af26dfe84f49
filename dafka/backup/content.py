"""The batches in an object: found, and checked. Pure.

An object is a segment's batches one after the other, as they lie in the log (and in Apache Kafka's `.log`
files); each says by itself how long it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from dafka.backup.manifest import Part, SavedSegment
from wireproto.records.batch import check_stored
from wireproto.records.errors import InvalidBatch
from wireproto.records.header import BatchHeader, read_header


class Damaged(Exception):
    """An object is not what was put; the text says what is wrong with it."""


def digest(content: bytes) -> str:
    """What an object is named by."""
    return hashlib.sha256(content).hexdigest()


def batches(content: bytes) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Each batch with its header. Raises Damaged."""
    view, position = memoryview(content), 0
    while position < len(view):
        try:
            header = read_header(view[position:])
        except InvalidBatch as error:
            raise Damaged(f"at byte {position}: {error}") from None
        end = position + header.size
        if end > len(view):
            raise Damaged(f"the batch at byte {position} is cut off")
        yield header, view[position:end]
        position = end


def checked(content: bytes, part: Part) -> list[tuple[BatchHeader, memoryview]]:
    """The batches of a part, whose object this is. Raises Damaged."""
    if digest(content) != part.sha256:
        raise Damaged(f"its {len(content)} bytes are not those that were put")
    found = list(batches(content))
    if len(found) != part.records or found[-1][0].last_offset + 1 != part.end:
        raise Damaged("it has other batches than its manifest says")
    return found


def check_batches(segment: SavedSegment, expected: int, found: list[tuple[BatchHeader, memoryview]]) -> int:
    """Check batches of a segment by their checksums, offsets and epochs, where `expected` is the next offset;
    the offset after them. Raises Damaged.
    """
    for _, batch in found:
        try:
            header = check_stored(batch)
        except InvalidBatch as error:
            raise Damaged(f"the batch at offset {expected}: {error}") from None
        follows = header.base_offset >= expected if segment.is_compacted else header.base_offset == expected
        if not follows:
            raise Damaged(f"offset {header.base_offset} follows {expected - 1}")
        if header.leader_epoch > segment.epoch:
            raise Damaged(f"leader epoch {header.leader_epoch} in a segment of epoch {segment.epoch}")
        expected = header.last_offset + 1
    return expected
