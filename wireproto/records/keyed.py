"""The keys and values of a batch's records, for whoever goes through a log by the million.

The same records as `iter_records` gives, and the same errors. A record without headers, whose lengths and
deltas take one or two bytes, is taken apart here, in a quarter of the time; any other one, and one that is
malformed, by the code of `iter_records`.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

from wireproto.records.compression import MAX_DECOMPRESSED_BYTES
from wireproto.records.header import BatchHeader, Buffer, read_header
from wireproto.records.iteration import decode_record, expect_end, inflated_records, record_bounds
from wireproto.records.varint import MORE, WRITTEN_NULL

Keyed: TypeAlias = tuple[int, bytes | None, bytes | None]
"""A record's offset, key and value."""

_PLAIN_TIMESTAMPS: Final = 1 << 62
"""Milliseconds since 1970, either way: below this no delta of two bytes leads out of 64 bits."""


def keyed_records(view: Buffer, limit: int = MAX_DECOMPRESSED_BYTES) -> list[Keyed]:
    """Offset, key and value of each record of the batch that `view` begins with, in its order.

    The batch is inflated to at most `limit` bytes; its CRC is not checked.

    Raises :class:`InvalidBatch`: as `iter_records`.
    """
    header = read_header(view)
    body = bytes(inflated_records(view, header, limit))
    return [record for records in keyed_slices(header, body, max(1, header.count)) for record in records]


def keyed_slices(header: BatchHeader, body: bytes, size: int) -> Iterator[list[Keyed]]:
    """As `keyed_records`, `size` of them at a time: of a batch whose records are inflated (`body`).

    Raises :class:`InvalidBatch`, after those before what is malformed.
    """
    plain = -_PLAIN_TIMESTAMPS < header.base_timestamp < _PLAIN_TIMESTAMPS
    position = 0
    for first in range(0, header.count, size):
        records: list[Keyed] = []
        for _ in range(min(size, header.count - first)):
            found = _plain_record(body, position, header.last_offset_delta) if plain else None
            if found is None:
                start, position = record_bounds(body, position)
                record = decode_record(body, start, position, header)
                records.append((record.offset, record.key, record.value))
            else:
                delta, key, value, position = found
                records.append((header.base_offset + delta, key, value))
        yield records
    expect_end(body, position)


def _plain_record(  # noqa: C901 - each number by a function of its own takes three times as long
    body: bytes, position: int, last_offset_delta: int
) -> tuple[int, bytes | None, bytes | None, int] | None:
    """Offset delta, key and value of the record at `position`, and where it ends; None if it is not plain,
    or not a record.
    """
    # A number n >= 0 is written as 2n, in pieces of seven bits, the lowest first.
    try:
        length, position = body[position], position + 1
        if length >= MORE:
            if (more := body[position]) >= MORE:
                return None
            length, position = length & 0x7F | more << 7, position + 1
        end = position + (length >> 1)
        position += 1 if body[position + 1] < MORE else 2  # attributes, and the timestamp's delta
        if body[position] >= MORE:
            return None
        delta, position = body[position + 1], position + 2
        if delta >= MORE:
            if (more := body[position]) >= MORE:
                return None
            delta, position = delta & 0x7F | more << 7, position + 1
        key_size, position = body[position], position + 1
        if key_size >= MORE:
            if (more := body[position]) >= MORE:
                return None
            key_size, position = key_size & 0x7F | more << 7, position + 1
        key_end = position if key_size == WRITTEN_NULL else position + (key_size >> 1)
        value_size, value_start = body[key_end], key_end + 1
        if value_size >= MORE:
            if (more := body[value_start]) >= MORE:
                return None
            value_size, value_start = value_size & 0x7F | more << 7, value_start + 1
        value_end = value_start if value_size == WRITTEN_NULL else value_start + (value_size >> 1)
        # No headers; and then the record ends, so all of it lay within its length.
        if body[value_end] or value_end + 1 != end:
            return None
    except IndexError:
        return None
    if length & 1 or delta & 1 or delta >> 1 > last_offset_delta:
        return None
    if (key_size & 1 and key_size != WRITTEN_NULL) or (value_size & 1 and value_size != WRITTEN_NULL):
        return None
    key = None if key_size == WRITTEN_NULL else body[position:key_end]
    value = None if value_size == WRITTEN_NULL else body[value_start:value_end]
    return delta >> 1, key, value, end
