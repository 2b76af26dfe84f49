"""Where the parts of each record of a batch lie, without copies: for who shows a little of large records.

Headers are only counted; the first of them can be looked at.
"""

from collections.abc import Iterator
from typing import NamedTuple

from wireproto.records.errors import invalid
from wireproto.records.header import BatchHeader, Buffer
from wireproto.records.iteration import decode_place, past_field, record_bounds
from wireproto.records.varint import read_varint

MIN_HEADER_BYTES = 2
"""Bytes of the smallest header: the lengths of its key and its value."""


class Outline(NamedTuple):
    """One record. `timestamp` is in ms since 1970, -1 for none. `key` and `value` are views of the body, and
    None where they are null. Its headers begin at `headers_at`, and the record ends at `end`.
    """

    offset: int
    timestamp: int
    key: memoryview | None
    value: memoryview | None
    header_count: int
    headers_at: int
    end: int


def outlines(body: Buffer, header: BatchHeader) -> Iterator[Outline]:
    """Each record of a batch whose inflated records are `body`, when it is asked for.

    Raises :class:`InvalidBatch`: INVALID_RECORD; one cannot be read. Headers are not looked at.
    """
    view = memoryview(body)
    position = 0
    for _ in range(header.count):
        start, end = record_bounds(view, position)
        offset, timestamp, at = decode_place(view, start, end, header)
        key, at = _field(view, at, end)
        value, at = _field(view, at, end)
        count, at = read_varint(view, at, end)
        if not 0 <= count <= (end - at) // MIN_HEADER_BYTES:
            raise invalid(f"{count} record headers in {end - at} bytes")
        yield Outline(offset, timestamp, key, value, count, at, end)
        position = end


def first_headers(body: Buffer, record: Outline, most: int) -> list[tuple[memoryview, memoryview | None]]:
    """Key and value of the record's first headers, `most` of them at most, as views of the same `body`.

    Raises :class:`InvalidBatch`: INVALID_RECORD.
    """
    view = memoryview(body)
    at = record.headers_at
    headers = []
    for _ in range(min(most, record.header_count)):
        key, at = _field(view, at, record.end)
        if key is None:
            raise invalid("a record header without a key")
        value, at = _field(view, at, record.end)
        headers.append((key, value))
    return headers


def _field(view: memoryview, position: int, end: int) -> tuple[memoryview | None, int]:
    length, behind = past_field(view, position, end)
    return None if length < 0 else view[behind - length : behind], behind
