"""A producer's batch, checked before it is appended, as far as its header, its CRC and its sizes tell.

The records themselves are looked through by ``walk`` afterwards. Where batches are trusted
(`--trust-batches`) this is all, and lets pass what its producer wrote under a right header and CRC, with one
exception for small batches (``WALK_MAX_RECORDS``).
"""

from struct import Struct
from typing import Final

from wireproto.kafka.errors import ErrorCode
from wireproto.records.compression import FRAME_MAGIC, MAX_EXPANSION, Codec
from wireproto.records.crc import crc32c
from wireproto.records.errors import InvalidBatch, corrupt, invalid
from wireproto.records.header import (
    CODEC_MASK,
    CONTROL_FLAG,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME_FLAG,
    MAGIC,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Buffer,
)
from wireproto.records.iteration import MIN_RECORD_BYTES, uncounted_bytes

WALK_MAX_RECORDS: Final = 16
"""Uncompressed batches of up to this many records have their lengths walked: 0.3 us a record. Beyond it the
count is only bounded by the bytes. Small batches are those that home-made producers get wrong."""

_UP_TO_MAGIC_BYTES: Final = 17
"""Bytes in which Kafka looks for the magic (`HEADER_SIZE_UP_TO_MAGIC`)."""
_MIN_BATCH_LENGTH: Final = 14
"""The smallest batch length that Kafka takes for one (`LegacyRecord.RECORD_OVERHEAD_V0`)."""

_UNCOMPRESSED: Final = int(Codec.NONE)
_ZSTD: Final = int(Codec.ZSTD)
"""As plain integers: an enum's member costs more to reach than all else in a comparison."""

_BATCH_LENGTH: Final = Struct(">8xi")
_MAGIC_OFFSET: Final = 16


def validate_produced(view: Buffer, *, max_message_bytes: int, zstd_allowed: bool = True) -> BatchHeader:
    """Check the records field that a producer sent for one partition: exactly one batch that may be appended.

    Codes are those of Apache Kafka 4.3, whose checks (``ProduceRequest.validateRecords``, then
    ``UnifiedLog.analyzeAndValidateRecords``, then ``LogValidator.validateBatch``) are taken in Kafka's order.
    Stricter than Kafka, each with its reason beside it: bytes after the batch, a negative producer epoch,
    the LogAppendTime and transactional bits, a codec that does not exist.

    ``view`` is the whole records field. ``max_message_bytes`` is the topic's ``max.message.bytes``: of the
    batch as sent, compressed, header included. ``zstd_allowed`` is false below Produce v7 (KIP-110).

    Raises :class:`InvalidBatch`: CORRUPT_MESSAGE, INVALID_RECORD, MESSAGE_TOO_LARGE,
    UNSUPPORTED_COMPRESSION_TYPE, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE or INVALID_TIMESTAMP.
    """
    present = len(view)
    header = BatchHeader._make(HEADER.unpack_from(view)) if present >= HEADER_BYTES else None
    if header is None or header.magic != MAGIC or header.batch_length != present - LENGTH_OVERHEAD_BYTES:
        first = _whole_first_batch(view)
        validate_produced(view[:first], max_message_bytes=max_message_bytes, zstd_allowed=zstd_allowed)
        # Kafka cuts such a remainder off and stores the rest. No client writes one: better refused than lost.
        raise invalid(f"{present - first} bytes after the batch")
    if header.attributes & CODEC_MASK == _ZSTD and not zstd_allowed:
        raise InvalidBatch(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7")
    if header.base_offset != 0:
        raise invalid(f"the base offset is {header.base_offset}, not 0")
    if present > max_message_bytes:
        raise InvalidBatch(ErrorCode.MESSAGE_TOO_LARGE, f"{present} bytes, {max_message_bytes} are allowed")
    if crc32c(view[CRC_START:]) != header.crc:
        raise corrupt("the CRC does not fit the batch")
    _check_fields(header)
    _check_records(view, header)
    return header


def check_timestamps(header: BatchHeader, now_ms: int, *, before_max_ms: int, after_max_ms: int) -> None:
    """Check a produced batch's timestamps against the topic's ``message.timestamp.{before,after}.max.ms``.

    For topics under CreateTime. Kafka looks at each record (``LogValidator.validateTimestamp``); here the
    header's base and max timestamp stand for them all, after ``fix_max_timestamp``. None (-1) passes.

    Raises :class:`InvalidBatch`: INVALID_TIMESTAMP.
    """
    for timestamp in (header.base_timestamp, header.max_timestamp):
        age = now_ms - timestamp
        if timestamp != NO_TIMESTAMP and (age > before_max_ms or -age > after_max_ms):
            raise InvalidBatch(
                ErrorCode.INVALID_TIMESTAMP,
                f"timestamp {timestamp} is outside [{now_ms - before_max_ms}, {now_ms + after_max_ms}]",
            )


def _check_fields(header: BatchHeader) -> None:
    if header.count <= 0 or header.count != header.last_offset_delta + 1:
        raise invalid(f"{header.count} records with a last offset delta of {header.last_offset_delta}")
    if header.attributes & CONTROL_FLAG:
        raise invalid("clients may not write control batches")
    if header.producer_id > NO_PRODUCER_ID:
        _check_producer(header)
    if header.attributes & TRANSACTIONAL_FLAG and header.producer_id <= NO_PRODUCER_ID:
        raise invalid("a transactional batch without a producer id")
    if header.attributes & LOG_APPEND_TIME_FLAG:
        # Kafka refuses it under LogAppendTime; under CreateTime it clears the bit, which changes the times.
        raise InvalidBatch(ErrorCode.INVALID_TIMESTAMP, "only the server sets the LogAppendTime type")


def _check_producer(header: BatchHeader) -> None:
    if header.base_sequence < 0:
        raise invalid(f"sequence {header.base_sequence} of producer {header.producer_id}")
    if header.producer_epoch < 0:
        # ProducerAppendInfo.checkProducerEpoch; it lets -1, Kafka's "none", pass for an unknown producer.
        raise InvalidBatch(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"epoch {header.producer_epoch} of producer {header.producer_id}",
        )


def _check_records(view: Buffer, header: BatchHeader) -> None:
    """Whether so many records can be in so many bytes; for small batches, whether they are."""
    codec = header.attributes & CODEC_MASK
    if codec > _ZSTD:
        # Kafka fails on the unknown codec with UNKNOWN_SERVER_ERROR, which tells the producer nothing.
        raise InvalidBatch(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"codec {codec} does not exist")
    body_bytes = len(view) - HEADER_BYTES
    if header.count * MIN_RECORD_BYTES > body_bytes * MAX_EXPANSION[codec]:
        raise invalid(f"{header.count} records do not fit {body_bytes} bytes")
    if codec != _UNCOMPRESSED:
        # Kafka fails while it inflates such records, again with UNKNOWN_SERVER_ERROR.
        if not bytes(view[HEADER_BYTES : HEADER_BYTES + 4]).startswith(FRAME_MAGIC[codec]):
            raise invalid(f"the records are not compressed with codec {codec}")
    elif header.count <= WALK_MAX_RECORDS:
        left = uncounted_bytes(view[HEADER_BYTES:], header.count)
        if left:
            raise invalid(f"{left} bytes after the {header.count} records that the header counts")


def _whole_first_batch(view: Buffer) -> int:
    """The size of the one batch of format v2 that ``view`` begins with, if other bytes follow it.

    From ``ByteBufferLogInputStream.nextBatchSize`` and ``ProduceRequest.validateRecords``; raises for what
    they find first.
    """
    first = _next_batch_bytes(view)
    if first is None:
        raise invalid(f"{len(view)} bytes hold no whole batch")
    if view[_MAGIC_OFFSET] != MAGIC:
        raise invalid(f"a batch of magic {view[_MAGIC_OFFSET]} in a Produce of version 3 or later")
    if _next_batch_bytes(view[first:]) is not None:
        raise invalid("more than one batch for the partition")
    if first < HEADER_BYTES:
        raise corrupt(f"a batch of {first} bytes is smaller than its header")
    return first


def _next_batch_bytes(view: Buffer) -> int | None:
    """The size of the batch at the start of ``view``; None when it is not all there."""
    if len(view) < LENGTH_OVERHEAD_BYTES:
        return None
    (length,) = _BATCH_LENGTH.unpack_from(view)
    if length < _MIN_BATCH_LENGTH:
        raise corrupt(f"a batch length of {length}")
    if len(view) < _UP_TO_MAGIC_BYTES:
        return None
    if view[_MAGIC_OFFSET] > MAGIC:
        raise corrupt(f"magic {view[_MAGIC_OFFSET]}")
    size = int(length) + LENGTH_OVERHEAD_BYTES
    return size if size <= len(view) else None
