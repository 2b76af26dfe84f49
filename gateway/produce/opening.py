"""Produced batches are opened before they are appended: inflated, and every record looked through
(`wireproto.records.walk`), so that nothing enters a log which its readers cannot read.

What comes of it, too: which records have no key, for compacted topics; the batch compressed anew, for topics
with a codec of their own (`compression.type`); and the largest timestamp, which a producer may state wrongly.

Small batches are opened at once, in a millisecond or less. Others are inflated in a worker thread, which
gives up the interpreter, and looked through on the loop in slices of about a millisecond, between which
others have their turn. The whole request waits for that: nothing of it has been appended yet, and what its
client sent after it waits, too, so that order stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import Final, NamedTuple

import trio

from gateway.common.workers import Look, Workers
from gateway.configs.effective import EffectiveTopicConfigs
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.produce import ProducePartition
from wireproto.records.batch import (
    HEADER_BYTES,
    InvalidBatch,
    read_header,
    set_max_timestamp,
    validate_produced,
)
from wireproto.records.compression import MAX_DECOMPRESSED_BYTES, Codec
from wireproto.records.header import CODEC_MASK, NO_TIMESTAMP, BatchHeader, Buffer
from wireproto.records.iteration import MIN_RECORD_BYTES, inflated_records
from wireproto.records.recompression import recompressed
from wireproto.records.walk import RecordWalk

MAX_OPENED_AT_ONCE_BYTES = 256 * 1024
"""Uncompressed batches up to this size are looked through at once, and others if they inflate to no more."""

MAX_INFLATED_AT_ONCE_BYTES = 256 * 1024
"""Compressed batches up to this size are inflated on the loop, to no more than the above: a quarter of a
millisecond at the most. A worker thread costs the batch 0.8 ms of processor time, with all that waits for it
and begins anew."""

MAX_GZIP_AT_ONCE_BYTES = 64 * 1024
"""The same of gzip, which takes several times as long: a millisecond."""

MAX_OPENED_AT_ONCE_RECORDS = 2000
"""And if they have no more records than this: 0.7 ms."""

MAX_PAUSES_LEFT_OUT = 3
"""And if looking through them needs no more pauses than this: a record may have thousands of headers."""

INFLATING_COUNT = 500
"""Inflating a small batch takes as long as looking through so many records."""

MAX_NAMED_RECORDS = 10_000
"""Records that an answer names, of all its batches: about a megabyte of it."""

BATCHES_AT_ONCE = 4
"""Large batches that are open at the same time: each may inflate to 64 MiB."""

SHOWN_ERRORS: Final = 3
"""Records without a key that the message names; the others are in the list beside it."""

_PLAIN: Final = int(Codec.NONE)
_GZIP: Final = int(Codec.GZIP)
_ATTRIBUTES_LOW_BYTE: Final = 22
_COUNT: Final = Struct(">57xi")

_workers = Workers(BATCHES_AT_ONCE)


@dataclass(slots=True)
class Opened:
    """What came of one batch: the one to append, with its header, unless it is refused."""

    records: memoryview
    settings: EffectiveTopicConfigs
    """The topic's, when the batch was opened."""
    header: BatchHeader | None = None
    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    record_errors: Sequence[tuple[int, str | None]] = ()
    headers: int = 0
    """Of its records, where they were looked through at once: what that has cost besides."""


class Opening(NamedTuple):
    """One batch to be opened. `name` is its partition's, for messages; `names`: how many of its records an
    error may name.
    """

    data: ProducePartition
    settings: EffectiveTopicConfigs
    name: str
    zstd_allowed: bool
    names: int = MAX_NAMED_RECORDS


def is_remade(records: memoryview, settings: EffectiveTopicConfigs) -> bool:
    """Whether the batch is compressed anew, with the topic's codec, as far as its header tells."""
    codec = settings.codec
    return codec is not None and len(records) >= HEADER_BYTES and codec != _codec(records)


def _codec(records: memoryview) -> int:
    return records[_ATTRIBUTES_LOW_BYTE] & CODEC_MASK


def is_small(records: memoryview, settings: EffectiveTopicConfigs) -> bool:
    """Whether the batch may be opened at once, as far as its size and its header tell."""
    size = len(records)
    if size < HEADER_BYTES:
        return True  # refused before it is opened
    codec = _codec(records)
    if settings.codec is not None and settings.codec != codec:
        return False
    if codec == _PLAIN:
        limit = MAX_OPENED_AT_ONCE_BYTES
    else:
        limit = MAX_GZIP_AT_ONCE_BYTES if codec == _GZIP else MAX_INFLATED_AT_ONCE_BYTES
    (count,) = _COUNT.unpack_from(records)
    return size <= limit and count <= MAX_OPENED_AT_ONCE_RECORDS


def elements(records: memoryview) -> int:
    """How many records a small batch says that it has, and what inflating it costs besides: what opening it
    at once takes at the most.
    """
    if len(records) < HEADER_BYTES:
        return 0
    (count,) = _COUNT.unpack_from(records)
    plain = _codec(records) == _PLAIN
    return max(0, min(int(count), MAX_OPENED_AT_ONCE_RECORDS)) + (0 if plain else INFLATING_COUNT)


def open_now(opening: Opening) -> Opened | None:
    """Open the batch at once. None: it is too large for that."""
    records = opening.data.records or memoryview(b"")
    if not is_small(records, opening.settings):
        return None
    try:
        header = _validated(opening, records)
    except InvalidBatch as error:
        return _refused(opening, records, error)
    try:
        body = inflated_records(records, header, MAX_OPENED_AT_ONCE_BYTES)
    except InvalidBatch:
        return None  # it may inflate to more than it may here; or it is damaged, which will be found again
    walk = _walk(opening, header, body)
    try:
        for pauses, _ in enumerate(walk.steps(), 1):
            if pauses > MAX_PAUSES_LEFT_OUT:
                return None
        opened = _judged(opening, records, header, walk)
    except InvalidBatch as error:
        opened = _refused(opening, records, error)
    opened.headers = walk.headers
    return opened


async def open_in_slices(opening: Opening, client: str) -> Opened:
    """Open the batch while others have their turns, as soon as `client` has a place for it.

    What is done in a thread ends soon after the caller is cancelled.
    """
    records = opening.data.records or memoryview(b"")
    codec = opening.settings.codec
    async with _workers.place(client):
        inflated = await _workers.in_thread(partial(_validated_and_inflated, opening, records))
        if isinstance(inflated, Opened):
            return inflated
        header, body = inflated
        walk = _walk(opening, header, body)
        try:
            for _ in walk.steps():
                await trio.lowlevel.checkpoint()
        except InvalidBatch as error:
            return _refused(opening, records, error)
        opened = _judged(opening, records, header, walk)
        if opened.header is not None and codec is not None and codec != header.codec:
            return await _workers.in_thread(partial(_recompressed, opening, opened.header, body))
    return opened


def _validated(opening: Opening, records: memoryview) -> BatchHeader:
    """Raises InvalidBatch."""
    header = validate_produced(
        records, max_message_bytes=opening.settings.max_message_bytes, zstd_allowed=opening.zstd_allowed
    )
    if header.count * MIN_RECORD_BYTES > MAX_DECOMPRESSED_BYTES:
        raise InvalidBatch(
            ErrorCode.INVALID_RECORD,
            f"{header.count} records in a batch that may inflate to {MAX_DECOMPRESSED_BYTES} bytes",
        )
    return header


def _validated_and_inflated(
    opening: Opening, records: memoryview, look: Look
) -> tuple[BatchHeader, Buffer] | Opened:
    """The header and the records; or the refused batch. An exception would hold what was inflated until
    garbage is looked for.
    """
    try:
        header = _validated(opening, records)
    except InvalidBatch as error:
        return _refused(opening, records, error)
    try:
        return header, inflated_records(records, header, MAX_DECOMPRESSED_BYTES, look)
    except InvalidBatch as error:
        refused = _refused(opening, records, error)
    if refused.error is ErrorCode.CORRUPT_MESSAGE:
        # Its CRC is right, so these are the bytes that were sent. Producers send again what is said to be
        # corrupt, for two minutes.
        refused.error = ErrorCode.INVALID_RECORD
    return refused


def _walk(opening: Opening, header: BatchHeader, body: Buffer) -> RecordWalk:
    return RecordWalk(header, body, notes_keys=opening.settings.cleanup_compact)


def _judged(opening: Opening, records: memoryview, header: BatchHeader, walk: RecordWalk) -> Opened:
    """What comes of a batch that can be read."""
    if walk.keyless_count:
        return _without_keys(opening, records, walk)
    # Kafka computes it for every batch (`LogValidator`): look-ups by time need it right.
    largest = max(NO_TIMESTAMP, header.base_timestamp + walk.largest_delta)
    header = set_max_timestamp(records, header, largest)
    return Opened(records, opening.settings, header)


def _refused(opening: Opening, records: memoryview, error: InvalidBatch) -> Opened:
    return Opened(records, opening.settings, None, error.code, error.message)


def _recompressed(opening: Opening, header: BatchHeader, body: Buffer, look: Look) -> Opened:
    settings = opening.settings
    assert settings.codec is not None
    deflated = recompressed(header, body, settings.codec, settings.compression_level, look)
    made = memoryview(bytearray(deflated))
    if len(made) > settings.max_message_bytes:
        message = (
            f"{len(made)} bytes in the topic's compression.type, {settings.max_message_bytes} are allowed"
        )
        return Opened(opening.data.records or made, settings, None, ErrorCode.MESSAGE_TOO_LARGE, message)
    return Opened(made, settings, read_header(made))


def _without_keys(opening: Opening, records: memoryview, walk: RecordWalk) -> Opened:
    """As Kafka says it (`LogValidator.validateKey`, `processRecordErrors`)."""
    why = f"Compacted topic cannot accept message without key in topic partition {opening.name}"
    shown = ", ".join(
        f"RecordError(batchIndex={index}, message='{why}')" for index in walk.keyless[:SHOWN_ERRORS]
    )
    return Opened(
        records,
        opening.settings,
        None,
        ErrorCode.INVALID_RECORD,
        f"One or more records have been rejected due to {walk.keyless_count} record errors in total, and "
        f"only showing the first three errors at most: [{shown}]",
        [(index, why) for index in walk.keyless[: opening.names]],
    )
