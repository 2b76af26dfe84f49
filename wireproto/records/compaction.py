"""What compaction does to one batch: some of its records go, everything else stays as it is (Kafka's
``LogCleaner`` and ``MemoryRecords.filterTo``).

Offsets, leader epoch and the producer's fields stay: base offset and last offset delta are those of the batch
as it was written, so a look-up finds the same place. A record that stays keeps its bytes; only where the
batch gets a delete horizon (KIP-534: kept in the base timestamp, to which the records' timestamps are
relative) are they written anew. Max timestamp and count are those of the records that are left, and the batch
is compressed with the codec it had.

Decoding is Python, record by record: never on the event loop.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from wireproto.records.compression import MAX_DECOMPRESSED_BYTES, compress
from wireproto.records.errors import invalid
from wireproto.records.header import (
    CODEC_MASK,
    DELETE_HORIZON_FLAG,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    read_header,
)
from wireproto.records.iteration import expect_readable_rest, inflated_records, record_bounds
from wireproto.records.signing import sign
from wireproto.records.varint import read_varint, read_varlong, write_varint

Keep: TypeAlias = Callable[[int, bytes | None, bool], bool]
"""(offset, key, whether it has a value) -> whether the record stays."""


class Place(NamedTuple):
    """A record within the uncompressed bytes: from its length to its end, and what compaction looks at."""

    start: int
    body: int
    end: int
    behind_timestamp: int
    timestamp_delta: int
    offset: int
    key: bytes | None
    has_value: bool


class Compacted(NamedTuple):
    """`batch` is what is left of it, None when no record is; the very bytes when all are."""

    batch: Buffer | None
    kept: int
    dropped: int


def walk(view: Buffer, limit: int = MAX_DECOMPRESSED_BYTES) -> Iterator[Place]:
    """The records of the batch that `view` begins with: what compaction needs of each.

    Raises :class:`InvalidBatch`: as ``iter_records``, where it is met.
    """
    header = read_header(view)
    yield from _walk(header, inflated_records(view, header, limit))


def compact_batch(
    view: Buffer, keep: Keep, delete_horizon: int, limit: int = MAX_DECOMPRESSED_BYTES
) -> Compacted:
    """The batch without the records that `keep` refuses.

    A batch that is left with a tombstone (a key without a value) and has no delete horizon yet gets this one,
    ms since 1970. A control batch stays whole.

    Raises :class:`InvalidBatch`: the batch cannot be read; see ``iter_records``.
    """
    header = read_header(view)
    if header.is_control:
        return Compacted(view, header.count, 0)
    body = inflated_records(view, header, limit)
    kept: list[Place] = []
    tombstones = False
    for place in _walk(header, body):
        if keep(place.offset, place.key, place.has_value):
            kept.append(place)
            tombstones = tombstones or not place.has_value
    dropped = header.count - len(kept)
    if not kept:
        return Compacted(None, 0, dropped)
    horizon = delete_horizon if tombstones and header.delete_horizon is None else None
    if not dropped and horizon is None:
        return Compacted(view, header.count, 0)
    return Compacted(_rebuilt(header, body, kept, horizon), len(kept), dropped)


def with_delete_horizon(view: Buffer, delete_horizon: int) -> bytes:
    """The batch with this delete horizon, ms since 1970; for a marker, which has one record.

    Raises :class:`InvalidBatch`: the batch cannot be read; see ``iter_records``.
    """
    header = read_header(view)
    body = inflated_records(view, header, MAX_DECOMPRESSED_BYTES)
    return _rebuilt(header, body, list(_walk(header, body)), delete_horizon)


def empty_batch(header: BatchHeader) -> bytes:
    """A batch without records in the place of this one (``DefaultRecordBatch.writeEmptyHeader``).

    Unlike Kafka's it has no timestamp: the one that the batch had belongs to no record any more.
    """
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON_FLAG)
    empty = header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, max_timestamp=NO_TIMESTAMP)
    return sign(empty._replace(count=0), b"")


def _walk(header: BatchHeader, body: Buffer) -> Iterator[Place]:
    position = 0
    last_delta = header.last_offset_delta
    for _ in range(header.count):
        start = position
        record, end = record_bounds(body, position)
        timestamp_delta, behind = read_varlong(body, record + 1, end)
        offset_delta, position = read_varint(body, behind, end)
        if not 0 <= offset_delta <= last_delta:
            raise invalid(f"a record's offset delta {offset_delta} is outside the batch's {last_delta}")
        key_bytes, position = read_varint(body, position, end)
        key = None
        if key_bytes >= 0:
            if key_bytes > end - position:
                raise invalid(f"a key of {key_bytes} bytes where {end - position} are left")
            key = bytes(body[position : position + key_bytes])
            position += key_bytes
        value_bytes, position = read_varint(body, position, end)
        if value_bytes > end - position:
            raise invalid(f"a value of {value_bytes} bytes where {end - position} are left")
        expect_readable_rest(body, position + max(0, value_bytes), end, header, timestamp_delta)
        offset = header.base_offset + offset_delta
        yield Place(start, record, end, behind, timestamp_delta, offset, key, value_bytes >= 0)
        position = end
    if position != len(body):
        raise invalid(f"{len(body) - position} bytes after the last record")


def _rebuilt(header: BatchHeader, body: Buffer, kept: list[Place], horizon: int | None) -> bytes:
    out = bytearray()
    if horizon is None:
        base_timestamp, attributes = header.base_timestamp, header.attributes
        for place in kept:
            out += body[place.start : place.end]
    else:
        base_timestamp, attributes = horizon, header.attributes | DELETE_HORIZON_FLAG
        for place in kept:
            _append_moved(out, body, place, header.base_timestamp - horizon)
    max_timestamp = header.max_timestamp
    if not header.is_log_append_time:
        max_timestamp = header.base_timestamp + max(place.timestamp_delta for place in kept)
    rebuilt = header._replace(
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        count=len(kept),
    )
    return sign(rebuilt, compress(header.codec, out))


def _append_moved(out: bytearray, body: Buffer, place: Place, shift: int) -> None:
    """The record, its timestamp relative to a base that lies `shift` ms earlier."""
    moved = bytearray(body[place.body : place.body + 1])
    write_varint(place.timestamp_delta + shift, moved)
    moved += body[place.behind_timestamp : place.end]
    write_varint(len(moved), out)
    out += moved
