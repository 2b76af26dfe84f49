"""Record batches, format v2 (magic 2), made and read by hand: every header field can be wrong on purpose.

Written from Kafka's page on the message format, and independent of `wireproto.records`, which it judges.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import cramjam
import google_crc32c
import lz4.frame
import zstandard

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size
CRC_STARTS = 21  # the attributes: what the checksum covers begins here
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
CODEC_MASK, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x07, 0x08, 0x10, 0x20, 0x40

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True)
class Record:
    """One record as a producer means it; the timestamp in milliseconds."""

    value: bytes | None
    key: bytes | None = None
    timestamp: int = 1_700_000_000_000
    headers: Headers = ()


def varint(number: int) -> bytes:
    """A signed number, zigzag and base 128, as inside records."""
    return unsigned_varint((number << 1) ^ (number >> 63))


def unsigned_varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def encode_record(record: Record, offset_delta: int, base_timestamp: int) -> bytes:
    headers = b"".join(_sized(name.encode()) + _sized(value) for name, value in record.headers)
    body = (
        b"\0"
        + varint(record.timestamp - base_timestamp)
        + varint(offset_delta)
        + _sized(record.key)
        + _sized(record.value)
        + varint(len(record.headers))
        + headers
    )
    return varint(len(body)) + body


COMPRESS: dict[int, Callable[[bytes], bytes]] = {
    0: bytes,
    1: lambda data: gzip.compress(data, mtime=0),
    2: lambda data: bytes(cramjam.snappy.compress_raw(data)),
    3: lambda data: lz4.frame.compress(data, block_linked=False),  # Kafka reads independent blocks only
    4: zstandard.ZstdCompressor().compress,
}


def batch(
    records: Sequence[Record], *, codec: str = "none", payload: bytes | None = None, **fields: int
) -> bytes:
    """One batch holding `records`.

    Args:
        payload: replaces the (compressed) records, for hostile ones.
        fields: overrides of header fields by name: base_offset, length, leader_epoch, magic, crc, attributes,
            last_offset_delta, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence,
            count.
            The checksum is right for whatever they say, unless `crc` itself is given; `length` likewise.
    """
    base_timestamp = fields.pop("base_timestamp", records[0].timestamp if records else 0)
    if payload is None:
        plain = b"".join(encode_record(r, n, base_timestamp) for n, r in enumerate(records))
        payload = COMPRESS[CODECS[codec]](plain)
    values = {
        "base_offset": 0,
        "length": HEADER_BYTES - 12 + len(payload),
        "leader_epoch": -1,
        "magic": 2,
        "attributes": CODECS[codec],
        "last_offset_delta": max(len(records) - 1, 0),
        "base_timestamp": base_timestamp,
        "max_timestamp": max((r.timestamp for r in records), default=base_timestamp),
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "count": len(records),
    }
    crc = fields.pop("crc", None)
    unknown = set(fields) - set(values)
    if unknown:
        raise TypeError(f"no such batch fields: {unknown}")
    values.update(fields)
    order = [
        "base_offset",
        "length",
        "leader_epoch",
        "magic",
        "crc",
        "attributes",
        "last_offset_delta",
        "base_timestamp",
        "max_timestamp",
        "producer_id",
        "producer_epoch",
        "base_sequence",
        "count",
    ]
    values["crc"] = 0
    covered = (HEADER.pack(*(values[name] for name in order)) + payload)[CRC_STARTS:]
    values["crc"] = google_crc32c.value(covered) if crc is None else crc
    return HEADER.pack(*(values[name] for name in order)) + payload


def batch_of(*contents: bytes | None, **kwargs: Any) -> bytes:
    """A batch of keyless records with these values."""
    return batch([Record(content) for content in contents], **kwargs)


@dataclass(frozen=True)
class Batch:
    """A batch as read back; `raw` is the whole of it."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    raw: bytes

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def codec_name(self) -> str:
        return {number: name for name, number in CODECS.items()}[self.codec]

    @property
    def crc_is_right(self) -> bool:
        return bool(google_crc32c.value(self.raw[CRC_STARTS:]) == self.crc)

    @property
    def payload(self) -> bytes:
        return self.raw[HEADER_BYTES:]


def whole_batches(data: bytes | None) -> Iterator[Batch]:
    """The batches of a records field; one cut short at the end is left out, as every client does."""
    data, position = data or b"", 0
    while position + HEADER_BYTES <= len(data):
        fields = HEADER.unpack_from(data, position)
        size = fields[1] + 12
        if size < HEADER_BYTES:
            raise ValueError(f"a batch of {size} bytes at {position}")
        if position + size > len(data):
            return
        yield Batch(*(*fields, bytes(data[position : position + size])))
        position += size


def _decompress(codec: int, data: bytes) -> bytes:
    if codec == 1:
        return gzip.decompress(data)
    if codec == 2:
        return _snappy(data)
    if codec == 3:
        return bytes(lz4.frame.decompress(data))
    if codec == 4:
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return data


def _snappy(data: bytes) -> bytes:
    """Raw snappy, or snappy-java's framing: a 16-byte header, then blocks each with a 4-byte size."""
    if not data.startswith(b"\x82SNAPPY\0"):
        return bytes(cramjam.snappy.decompress_raw(data))
    out, position = bytearray(), 16
    while position < len(data):
        (size,) = struct.unpack_from(">i", data, position)
        out += bytes(cramjam.snappy.decompress_raw(data[position + 4 : position + 4 + size]))
        position += 4 + size
    return bytes(out)


def records_of(stored: Batch) -> list[tuple[int, Record]]:
    """The (offset, record) pairs of a batch that a server returned."""
    data = _decompress(stored.codec, stored.payload)
    position = 0

    def number() -> int:
        nonlocal position
        shift = result = 0
        while True:
            byte = data[position]
            position += 1
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (result >> 1) ^ -(result & 1)
            shift += 7

    def sized() -> bytes | None:
        nonlocal position
        length = number()
        if length < 0:
            return None
        position += length
        return data[position - length : position]

    found = []
    for _ in range(stored.count):
        end = number()
        end += position
        position += 1
        timestamp, offset = stored.base_timestamp + number(), stored.base_offset + number()
        key, value = sized(), sized()
        headers = tuple(((sized() or b"").decode(), sized()) for _ in range(number()))
        if position != end:
            raise ValueError(f"a record at offset {offset} ends at {position}, not {end}")
        if stored.attributes & LOG_APPEND_TIME:
            timestamp = stored.max_timestamp
        found.append((offset, Record(value, key, timestamp, headers)))
    if position != len(data):
        raise ValueError(f"{len(data) - position} bytes after the last record")
    return found
