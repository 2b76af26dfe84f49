"""Batches made from records: for tests, tools and internal topics; a producer's batch is never rebuilt."""

from collections.abc import Sequence
from typing import Final, TypeAlias

from wireproto.records.compression import compress
from wireproto.records.crc import crc32c
from wireproto.records.header import (
    CODEC_MASK,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    NO_PRODUCER_ID,
)
from wireproto.records.varint import write_varint

_SHORT_VARINTS: Final = 512
"""Lengths and deltas below this are encoded once: most records have no others."""

RecordFields: TypeAlias = tuple[bytes | None, bytes | None, Sequence[tuple[str, bytes | None]], int]
"""Key, value, headers (key and value each) and timestamp in ms of one record."""


class GrowingBatch:
    """A batch of format v2 that grows record by record, for who has to pause in between. Offsets are
    consecutive, and the first record's timestamp becomes the base timestamp, as the Java producer writes it.
    """

    __slots__ = ("base_timestamp", "body", "count", "max_timestamp")

    def __init__(self) -> None:
        self.body = bytearray()
        self.count = 0
        self.base_timestamp = self.max_timestamp = 0

    @property
    def size(self) -> int:
        """Bytes of the batch so far, not compressed."""
        return HEADER_BYTES + len(self.body)

    def append(self, fields: RecordFields) -> None:
        """Add a record."""
        timestamp = fields[3]
        if not self.count:
            self.base_timestamp = self.max_timestamp = timestamp
        elif timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        _append_record(self.body, self.count, fields, self.base_timestamp)
        self.count += 1

    def append_encoded(self, record: bytes, timestamp: int) -> None:
        """Add a record that is encoded for this place; its time is that of the first one."""
        if not self.count:
            self.base_timestamp = self.max_timestamp = timestamp
        self.body += record
        self.count += 1

    def finish(
        self,
        *,
        codec: int = 0,
        base_offset: int = 0,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        leader_epoch: int = -1,
        attributes: int = 0,
    ) -> bytes:
        """The batch, as :func:`build_batch` describes it. Raises :class:`ValueError`: as there."""
        if not self.count:
            raise ValueError("a batch has records")
        compressed = compress(codec, self.body)
        fields_under_crc = (
            attributes & ~CODEC_MASK | codec,
            self.count - 1,
            self.base_timestamp,
            self.max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            self.count,
        )
        length = HEADER_BYTES - LENGTH_OVERHEAD_BYTES + len(compressed)
        unsigned = HEADER.pack(base_offset, length, leader_epoch, MAGIC, 0, *fields_under_crc)
        crc = crc32c(unsigned[CRC_START:] + compressed)
        return HEADER.pack(base_offset, length, leader_epoch, MAGIC, crc, *fields_under_crc) + compressed


def build_batch(
    records: Sequence[RecordFields],
    *,
    codec: int = 0,
    base_offset: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    leader_epoch: int = -1,
    attributes: int = 0,
) -> bytes:
    """A batch of format v2 with consecutive offsets, as the Java producer writes it.

    The first record's timestamp becomes the base timestamp. ``codec`` is 0 none, 1 gzip, 2 snappy, 3 lz4,
    4 zstd; the codec's bits in ``attributes`` are replaced by it. The other defaults are those of a producer
    that is not idempotent.

    Raises :class:`ValueError`: no records, or no such codec.
    """
    if not records:
        raise ValueError("a batch has records")
    batch = GrowingBatch()
    for fields in records:
        batch.append(fields)
    return batch.finish(
        codec=codec,
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        leader_epoch=leader_epoch,
        attributes=attributes,
    )


def _append_record(out: bytearray, offset_delta: int, fields: RecordFields, base_timestamp: int) -> None:
    key, value, headers, timestamp = fields
    delta = timestamp - base_timestamp
    # An unrolled loop: `__consumer_offsets` has a record for each commit of every consumer.
    body = bytearray(b"\x00")
    body += _VARINTS[delta] if 0 <= delta < _SHORT_VARINTS else varint(delta)
    body += _VARINTS[offset_delta] if offset_delta < _SHORT_VARINTS else varint(offset_delta)
    for data in (key, value):
        if data is None:
            body += _NULL
        else:
            size = len(data)
            body += _VARINTS[size] if size < _SHORT_VARINTS else varint(size)
            body += data
    if headers:
        _append_headers(body, headers)
    else:
        body += _VARINTS[0]
    size = len(body)
    out += _VARINTS[size] if size < _SHORT_VARINTS else varint(size)
    out += body


def _append_headers(body: bytearray, headers: Sequence[tuple[str, bytes | None]]) -> None:
    body += varint(len(headers))
    for header_key, header_value in headers:
        body += nullable_bytes(header_key.encode())
        body += nullable_bytes(header_value)


def nullable_bytes(data: bytes | None) -> bytes:
    """A key, a value, a header's name or its value, with the length in front."""
    return _NULL if data is None else varint(len(data)) + data


def varint(value: int) -> bytes:
    """A signed varint in zigzag encoding. Raises ValueError for a value over 64 bits."""
    if 0 <= value < _SHORT_VARINTS:
        return _VARINTS[value]
    return _encoded(value)


def _encoded(value: int) -> bytes:
    out = bytearray()
    write_varint(value, out)
    return bytes(out)


_VARINTS: Final = tuple(map(_encoded, range(_SHORT_VARINTS)))
_NULL: Final = _encoded(-1)
