"""The records of one batch (Kafka's ``DefaultRecord``), one by one: for look-ups by timestamp, compaction,
tools and tests.

::

    record = length varint | attributes int8 | timestamp delta varlong | offset delta varint
             | key: length varint (-1: null), bytes | value: the same
             | header count varint | headers: key length varint, key (UTF-8), value length varint (-1: null),
             value

Any other negative length of a key or value is null, too, as Kafka reads it (`DefaultRecord.readFrom`); of a
header's key it is refused.

This inflates and decodes each record in Python: never on the event loop for batches of any size.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from wireproto.records.compression import MAX_DECOMPRESSED_BYTES, Codec, decompress, no_look
from wireproto.records.errors import corrupt, invalid
from wireproto.records.header import HEADER_BYTES, NO_TIMESTAMP, BatchHeader, Buffer, read_header
from wireproto.records.varint import read_varint, read_varlong

MIN_RECORD_BYTES: Final = 7
"""Bytes of the smallest record: length, attributes, two deltas, key and value length, header count; one byte
each."""

_INT64_MIN: Final = -(1 << 63)
_INT64_MAX: Final = (1 << 63) - 1


@dataclass(slots=True, frozen=True)
class Record:
    """One record. Its timestamp is in ms since 1970, -1 for none; under LogAppendTime it is the batch's."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def iter_records(view: Buffer, limit: int = MAX_DECOMPRESSED_BYTES) -> Iterator[Record]:
    """The records of the batch that ``view`` begins with, in its order.

    The whole batch is inflated before the first record, to at most ``limit`` bytes. Each record is decoded
    when it is asked for, so a malformed one raises only then. The CRC is not checked.

    Raises :class:`InvalidBatch`: CORRUPT_MESSAGE, MESSAGE_TOO_LARGE or UNSUPPORTED_COMPRESSION_TYPE from the
    header and the codec; INVALID_RECORD when the records are not exactly those that the header counts.
    """
    header = read_header(view)
    body = inflated_records(view, header, limit)
    position = 0
    for _ in range(header.count):
        start, end = record_bounds(body, position)
        yield decode_record(body, start, end, header)
        position = end
    expect_end(body, position)


def iter_times(body: Buffer, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """Offset and timestamp (ms) of each record of a batch whose inflated records are ``body``, in its order.

    However large a record is, what lies behind these two is not looked at. Raises :class:`InvalidBatch`.
    """
    position = 0
    for _ in range(header.count):
        start, end = record_bounds(body, position)
        offset, timestamp, _ = decode_place(body, start, end, header)
        yield offset, timestamp
        position = end


def find_timestamp(
    view: Buffer, target_ms: int, limit: int = MAX_DECOMPRESSED_BYTES, *, first_offset: int = 0
) -> tuple[int, int] | None:
    """Offset and timestamp (ms) of the batch's first record at or after ``target_ms``; None when there is
    none.

    As Kafka's ``FileRecords.searchForTimestamp``: timestamps need not be ordered, and records below
    ``first_offset`` (the log start may lie within a batch) do not count. None does not mean that a later
    batch has none either. A header whose max timestamp is below the target is believed without a look at the
    records.

    Raises :class:`InvalidBatch`: as ``iter_records``; only the records up to the answer are looked at.
    """
    header = read_header(view)
    if header.max_timestamp < target_ms or header.last_offset < first_offset:
        return None
    body = inflated_records(view, header, limit)
    position = 0
    for _ in range(header.count):
        start, end = record_bounds(body, position)
        offset, timestamp, _ = decode_place(body, start, end, header)
        if timestamp >= target_ms and offset >= first_offset:
            return offset, timestamp
        position = end
    return None


def largest_timestamp(view: Buffer, limit: int = MAX_DECOMPRESSED_BYTES) -> int:
    """The largest record timestamp (ms) of the batch, from its records and not from its header; -1 when it
    has none.

    Raises :class:`InvalidBatch`: as ``iter_records``.
    """
    header = read_header(view)
    body = inflated_records(view, header, limit)
    largest_delta: int | None = None
    position = 0
    for _ in range(header.count):
        start, position = record_bounds(body, position)
        delta, _ = read_varlong(body, start + 1, position)
        if largest_delta is None or delta > largest_delta:
            largest_delta = delta
    expect_end(body, position)
    if largest_delta is None:
        return NO_TIMESTAMP
    return header.max_timestamp if header.is_log_append_time else _timestamp(header, largest_delta)


def uncounted_bytes(body: Buffer, count: int) -> int:
    """How many bytes of the uncompressed ``body`` lie after its first ``count`` records, by their lengths.

    Only lengths are read: as many steps as there are records, not bytes.

    Raises :class:`InvalidBatch`: INVALID_RECORD; there are fewer records, or a length goes past the end.
    """
    # The one loop of this module on the way of a Produce: written out, it takes a third of the time.
    end = len(body)
    position = 0
    for _ in range(count):
        if position < end and (first := body[position]) < 0x80:
            length, position = (first >> 1) ^ -(first & 1), position + 1
        else:
            length, position = read_varint(body, position, end)
        if length < MIN_RECORD_BYTES - 1 or length > end - position:
            raise invalid(f"a record of {length} bytes where {end - position} are left")
        position += length
    return end - position


def inflated_records(
    view: Buffer, header: BatchHeader, limit: int, look: Callable[[], object] = no_look
) -> Buffer:
    """The uncompressed records of the batch that `view` begins with, of at most `limit` bytes. Calls `look`
    between pieces.

    Raises :class:`InvalidBatch`: from the header and the codec; see ``iter_records``.
    """
    if header.count < 0:
        raise invalid(f"a count of {header.count} records")
    size = header.size
    if size > len(view):
        raise corrupt(f"a batch of {size} bytes in {len(view)}")
    body = memoryview(view)[HEADER_BYTES:size]
    inflated = body if header.codec == Codec.NONE else decompress(header.codec, body, limit, look)
    if header.count * MIN_RECORD_BYTES > len(inflated):
        raise invalid(f"{header.count} records in {len(inflated)} bytes")
    return inflated


def record_bounds(body: Buffer, position: int) -> tuple[int, int]:
    """Where the record at ``position`` begins, after its length, and where it ends."""
    length, start = read_varint(body, position, len(body))
    end = start + length
    if length < MIN_RECORD_BYTES - 1 or end > len(body):
        raise invalid(f"a record of {length} bytes where {len(body) - start} are left")
    return start, end


def expect_end(body: Buffer, position: int) -> None:
    """Raises :class:`InvalidBatch` unless the records end where ``body`` does."""
    if position != len(body):
        raise invalid(f"{len(body) - position} bytes after the last record")


def decode_place(body: Buffer, start: int, end: int, header: BatchHeader) -> tuple[int, int, int]:
    """Offset and timestamp of the record between ``start`` and ``end``, and where its key begins."""
    # The attributes byte at ``start`` has no meaning yet: any value passes, as in Kafka.
    timestamp_delta, position = read_varlong(body, start + 1, end)
    offset_delta, position = read_varint(body, position, end)
    if not 0 <= offset_delta <= header.last_offset_delta:
        raise invalid(
            f"a record's offset delta {offset_delta} is outside the batch's {header.last_offset_delta}"
        )
    timestamp = header.max_timestamp if header.is_log_append_time else _timestamp(header, timestamp_delta)
    return header.base_offset + offset_delta, timestamp, position


def _timestamp(header: BatchHeader, delta: int) -> int:
    timestamp = header.base_timestamp + delta
    if not _INT64_MIN <= timestamp <= _INT64_MAX:
        raise invalid("a record's timestamp does not fit 64 bits")
    return timestamp


def decode_record(body: Buffer, start: int, end: int, header: BatchHeader) -> Record:
    """The record between ``start``, after its length, and ``end``.

    Raises :class:`InvalidBatch`: INVALID_RECORD; it is not exactly one record of that batch.
    """
    offset, timestamp, position = decode_place(body, start, end, header)
    key, position = _read_nullable_bytes(body, position, end)
    value, position = _read_nullable_bytes(body, position, end)
    headers, position = _read_headers(body, position, end)
    if position != end:
        raise invalid(f"{end - position} bytes left over in a record")
    return Record(offset, timestamp, key, value, headers)


def expect_readable_rest(body: Buffer, position: int, end: int, header: BatchHeader, delta: int) -> None:
    """Raises :class:`InvalidBatch` unless a record's headers, and nothing else, lie between ``position`` and
    ``end``, and its timestamp, ``delta`` after the batch's, is one. With that ``decode_record`` reads it.
    """
    if not header.is_log_append_time:
        _timestamp(header, delta)
    if end - position == 1 and not body[position]:
        return  # no headers, as with most
    _, position = _read_headers(body, position, end)
    if position != end:
        raise invalid(f"{end - position} bytes left over in a record")


def _read_headers(body: Buffer, position: int, end: int) -> tuple[list[tuple[str, bytes | None]], int]:
    count, position = read_varint(body, position, end)
    # A header takes two bytes at least: the lengths of its key and its value.
    if not 0 <= count <= (end - position) // 2:
        raise invalid(f"{count} record headers in {end - position} bytes")
    headers = []
    for _ in range(count):
        raw_key, position = _read_nullable_bytes(body, position, end)
        if raw_key is None:
            raise invalid("a record header without a key")
        try:
            key = raw_key.decode()
        except UnicodeDecodeError as error:
            raise invalid("a record header's key is not UTF-8") from error
        value, position = _read_nullable_bytes(body, position, end)
        headers.append((key, value))
    return headers, position


def _read_nullable_bytes(body: Buffer, position: int, end: int) -> tuple[bytes | None, int]:
    length, behind = past_field(body, position, end)
    return None if length < 0 else bytes(body[behind - length : behind]), behind


def past_field(body: Buffer, position: int, end: int) -> tuple[int, int]:
    """The length of the bytes at ``position``, below 0 for null, and the position after them.

    Raises :class:`InvalidBatch`: INVALID_RECORD; they do not end before ``end``.
    """
    length, position = read_varint(body, position, end)
    if length < 0:
        return length, position
    if length > end - position:
        raise invalid(f"a field of {length} bytes where {end - position} are left")
    return length, position + length
