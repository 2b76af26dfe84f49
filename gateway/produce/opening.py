"""Produced batches that have to be opened before they are appended: of compacted topics, for their keys, and
of topics with a codec of their own (`compression.type`), to be compressed anew.

Small ones are opened at once; the others in a worker thread, for which the whole request waits: then nothing
of it has been appended yet, and what its client sent after it waits, too, so that order stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import trio

from gateway.configs.effective import EffectiveTopicConfigs
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.produce import ProducePartition
from wireproto.records.batch import InvalidBatch, read_header, validate_produced
from wireproto.records.compression import Codec
from wireproto.records.header import BatchHeader
from wireproto.records.recompression import keyless_records, recompress

MAX_OPENED_AT_ONCE_BYTES = 4096
"""Uncompressed batches up to this size are looked through on the loop, some ten microseconds of it."""

MAX_OPENED_AT_ONCE_RECORDS = 32
"""And if they have no more records than this."""

MAX_NAMED_RECORDS = 10_000
"""Records without a key that an answer names: about a megabyte of it."""

THREADS_AT_ONCE = 4
"""Batches that are opened at the same time: they share the interpreter, and each may inflate to 64 MiB."""

SHOWN_ERRORS: Final = 3
"""Records without a key that the message names; the others are in the list beside it."""

_limiter = trio.CapacityLimiter(THREADS_AT_ONCE)


@dataclass(slots=True)
class Opened:
    """What came of one batch: the one to append, unless it is refused."""

    records: memoryview
    settings: EffectiveTopicConfigs
    """The topic's, when the batch was opened."""
    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    record_errors: Sequence[tuple[int, str | None]] = ()


class Opening(NamedTuple):
    """One batch to be opened. `name` is its partition's, for messages."""

    data: ProducePartition
    settings: EffectiveTopicConfigs
    name: str


def open_now(openings: Sequence[Opening], *, zstd_allowed: bool) -> dict[int, Opened] | None:
    """All of them, by the id of their data, if they are small enough for the loop; else None."""
    if all(map(_is_small, openings)):
        return {id(opening.data): _open(opening, zstd_allowed) for opening in openings}
    return None


async def open_all(openings: Sequence[Opening], *, zstd_allowed: bool) -> dict[int, Opened]:
    """All of them, by the id of their data, in worker threads."""
    return {
        id(opening.data): await trio.to_thread.run_sync(
            partial(_open, opening, zstd_allowed), limiter=_limiter
        )
        for opening in openings
    }


def _is_small(opening: Opening) -> bool:
    records, settings = opening.data.records, opening.settings
    if records is None or len(records) > MAX_OPENED_AT_ONCE_BYTES:
        return False
    try:
        header = read_header(records)
    except InvalidBatch:
        return True  # refused before it is opened
    codec = header.codec
    return (
        codec == Codec.NONE and settings.codec in (None, codec) and header.count <= MAX_OPENED_AT_ONCE_RECORDS
    )


def _open(opening: Opening, zstd_allowed: bool) -> Opened:
    data, settings, _name = opening
    records = data.records or memoryview(b"")
    limit = settings.max_message_bytes
    try:
        header = validate_produced(records, max_message_bytes=limit, zstd_allowed=zstd_allowed)
        if settings.cleanup_compact and (keyless := keyless_records(records, header)):
            return _without_keys(opening, records, keyless)
        if settings.codec is not None and settings.codec != header.codec:
            return _recompressed(records, header, settings)
    except InvalidBatch as error:
        return Opened(records, settings, error.code, error.message)
    return Opened(records, settings)


def _recompressed(records: memoryview, header: BatchHeader, settings: EffectiveTopicConfigs) -> Opened:
    assert settings.codec is not None
    made = memoryview(bytearray(recompress(records, header, settings.codec, settings.compression_level)))
    if len(made) > settings.max_message_bytes:
        return Opened(
            records,
            settings,
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{len(made)} bytes in the topic's compression.type, {settings.max_message_bytes} are allowed",
        )
    return Opened(made, settings)


def _without_keys(opening: Opening, records: memoryview, keyless: Sequence[int]) -> Opened:
    """As Kafka says it (`LogValidator.validateKey`, `processRecordErrors`)."""
    why = f"Compacted topic cannot accept message without key in topic partition {opening.name}"
    shown = ", ".join(f"RecordError(batchIndex={index}, message='{why}')" for index in keyless[:SHOWN_ERRORS])
    return Opened(
        records,
        opening.settings,
        ErrorCode.INVALID_RECORD,
        f"One or more records have been rejected due to {len(keyless)} record errors in total, and only "
        f"showing the first three errors at most: [{shown}]",
        [(index, why) for index in keyless[:MAX_NAMED_RECORDS]],
    )
