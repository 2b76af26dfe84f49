"""One record batch: changed in place, or checked as it came from a store (``produced`` checks clients')."""

from struct import Struct
from typing import Final

from wireproto.kafka.errors import ErrorCode
from wireproto.records.compression import MAX_DECOMPRESSED_BYTES
from wireproto.records.crc import crc32c
from wireproto.records.errors import InvalidBatch, corrupt
from wireproto.records.header import (
    CRC_OFFSET,
    CRC_START,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    BatchHeader,
    Buffer,
    read_header,
)
from wireproto.records.iteration import largest_timestamp
from wireproto.records.produced import WALK_MAX_RECORDS, validate_produced

__all__ = [
    "FIX_MAX_RECORDS",
    "HEADER_BYTES",
    "WALK_MAX_RECORDS",
    "BatchHeader",
    "InvalidBatch",
    "assign_offsets",
    "check_stored",
    "fix_max_timestamp",
    "is_transactional",
    "read_header",
    "set_log_append_time",
    "set_max_timestamp",
    "validate_produced",
]

FIX_MAX_RECORDS: Final = 10_000
"""Records whose timestamps are read to correct a batch's max timestamp: about 10 ms, since a Produce may wait
for it. As many as librdkafka puts into a batch by default (`batch.num.messages`); only home-made producers
write a false max timestamp at all."""

_BASE_OFFSET: Final = Struct(">q")
_LEADER_EPOCH: Final = Struct(">i")
_LEADER_EPOCH_OFFSET: Final = 12
_TRANSACTIONAL: Final = 1 << 4
"""In the second byte of the attributes."""

_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_MAX_TIMESTAMP: Final = Struct(">q")
_MAX_TIMESTAMP_OFFSET: Final = 35


def assign_offsets(view: memoryview | bytearray, base_offset: int, leader_epoch: int) -> None:
    """Write the base offset and the leader epoch into the batch. Neither is covered by its CRC."""
    _BASE_OFFSET.pack_into(view, 0, base_offset)
    _LEADER_EPOCH.pack_into(view, _LEADER_EPOCH_OFFSET, leader_epoch)


def is_transactional(records: memoryview | None) -> bool:
    """Whether a batch says that it is part of a transaction; it may not be one at all."""
    flags = CRC_START + 1
    return records is not None and len(records) > flags and bool(records[flags] & _TRANSACTIONAL)


def fix_max_timestamp(
    view: memoryview | bytearray, header: BatchHeader, limit: int = MAX_DECOMPRESSED_BYTES
) -> BatchHeader:
    """Give the batch a max timestamp when its own cannot be true: one below the base timestamp, as -1 is.

    For batches that nobody looks through (`--trust-batches`); of others the largest timestamp is known
    (``set_max_timestamp``). A batch whose max timestamp is possible is left as it is, at no cost. The rare
    other one is inflated, to at most ``limit`` bytes, its records are walked and its CRC rewritten: outside
    the event loop. Returns the header as it is now.

    Raises :class:`InvalidBatch`: INVALID_TIMESTAMP, there are more than ``FIX_MAX_RECORDS``; else as
    ``largest_timestamp``. Nothing was changed.
    """
    if header.max_timestamp >= header.base_timestamp:
        return header
    if header.count > FIX_MAX_RECORDS:
        raise InvalidBatch(
            ErrorCode.INVALID_TIMESTAMP,
            f"max timestamp {header.max_timestamp} is below the base timestamp {header.base_timestamp}",
        )
    return _rewrite_timestamp(view, header, header.attributes, largest_timestamp(view, limit))


def set_max_timestamp(view: memoryview | bytearray, header: BatchHeader, max_timestamp: int) -> BatchHeader:
    """Give the batch this max timestamp, in milliseconds, and its CRC, unless it has it. Returns the header
    as it is now.
    """
    if header.max_timestamp == max_timestamp:
        return header
    return _rewrite_timestamp(view, header, header.attributes, max_timestamp)


def set_log_append_time(view: memoryview | bytearray, now_ms: int) -> BatchHeader:
    """Give every record of the batch the time ``now_ms``: rewrites timestamp type, max timestamp and CRC.

    Kafka: ``DefaultRecordBatch.setMaxTimestamp`` with LOG_APPEND_TIME.
    """
    header = read_header(view)
    return _rewrite_timestamp(view, header, header.attributes | LOG_APPEND_TIME_FLAG, now_ms)


def _rewrite_timestamp(
    view: memoryview | bytearray, header: BatchHeader, attributes: int, max_timestamp: int
) -> BatchHeader:
    _ATTRIBUTES.pack_into(view, CRC_START, attributes)
    _MAX_TIMESTAMP.pack_into(view, _MAX_TIMESTAMP_OFFSET, max_timestamp)
    crc = crc32c(memoryview(view)[CRC_START : header.size])
    _CRC.pack_into(view, CRC_OFFSET, crc)
    return header._replace(attributes=attributes, max_timestamp=max_timestamp, crc=crc)


def check_stored(view: Buffer) -> BatchHeader:
    """Check a batch that came from a store or a link: exactly one, whole, of format v2, under its CRC.

    Raises :class:`InvalidBatch`: CORRUPT_MESSAGE.
    """
    header = read_header(view)
    if header.size != len(view):
        raise corrupt(f"a batch of {header.size} bytes in {len(view)}")
    if crc32c(view[CRC_START:]) != header.crc:
        raise corrupt("the CRC does not fit the batch")
    return header
