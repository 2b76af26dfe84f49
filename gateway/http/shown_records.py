"""Records and batches as the JSON of docs/http-api.md has them, a little of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gateway.http.texts import shown_bytes
from wireproto.records.compression import Codec
from wireproto.records.header import NO_PRODUCER_ID, NO_TIMESTAMP, BatchHeader, Buffer
from wireproto.records.outline import Outline, first_headers

if TYPE_CHECKING:
    from gateway.log.partition import Partition

LISTED_BYTES: Final = 4 * 1024
"""Bytes of a key or a value that a list shows."""

LISTED_HEADERS: Final = 32
"""Headers of a record that a list shows."""

LISTED_HEADER_BYTES: Final = 256
"""Bytes of a header's key, and of its value, that a list shows."""

WHOLE_BYTES: Final = 256 * 1024
"""Bytes of a key or a value that a record by itself shows, unless more is asked for."""

MAX_WHOLE_BYTES: Final = 1024 * 1024
"""Bytes that may be asked for."""

WHOLE_HEADERS: Final = 256
"""Headers that a record by itself shows."""

WHOLE_HEADER_BYTES: Final = 4 * 1024
"""Bytes of their keys and values."""


@dataclass(frozen=True, slots=True)
class Preview:
    """How much is shown of a record."""

    field_bytes: int = LISTED_BYTES
    headers: int = LISTED_HEADERS
    header_bytes: int = LISTED_HEADER_BYTES
    hidden: bool = False


def record_row(
    partition: Partition, header: BatchHeader, body: Buffer, record: Outline, preview: Preview
) -> dict[str, Any]:
    """A record. Raises InvalidBatch: its headers cannot be read."""
    headers = first_headers(body, record, preview.headers)
    return {
        "partition": partition.index,
        "offset": str(record.offset),
        "timestamp_ms": _time(record.timestamp),
        "timestamp_type": _timestamp_type(header),
        "key": _field(record.key, preview.field_bytes, preview),
        "value": _field(record.value, preview.field_bytes, preview),
        "headers": [
            {
                "key": bytes(key[: preview.header_bytes]).decode(errors="replace"),
                "value": _field(value, preview.header_bytes, preview),
            }
            for key, value in headers
        ],
        "headers_total": record.header_count,
        "batch": batch_name(partition, header),
    }


def shown_size(row: dict[str, Any]) -> int:
    """Characters that a record takes, about."""
    size = 400
    for field in (row["key"], row["value"], *(header["value"] for header in row["headers"])):
        if field is not None:
            size += 60 + len(field.get("text") or field.get("base64") or "")
    return size


def batch_name(partition: Partition, header: BatchHeader) -> str:
    """What a batch is called within one answer."""
    return f"{partition.index}:{header.base_offset}"


def batch_row(partition: int, header: BatchHeader) -> dict[str, Any]:
    """A batch, by its header."""
    idempotent = header.producer_id != NO_PRODUCER_ID
    return {
        "partition": partition,
        "base_offset": str(header.base_offset),
        "last_offset": str(header.last_offset),
        "records": header.count,
        "bytes": header.size,
        "codec": _CODECS.get(header.codec, str(header.codec)),
        "leader_epoch": header.leader_epoch,
        "producer_id": str(header.producer_id) if idempotent else None,
        "producer_epoch": header.producer_epoch if idempotent else None,
        "base_sequence": header.base_sequence if idempotent else None,
        "base_timestamp_ms": _time(header.base_timestamp),
        "max_timestamp_ms": _time(header.max_timestamp),
        "timestamp_type": _timestamp_type(header),
        "transactional": header.is_transactional,
        "control": header.is_control,
        "crc": f"{header.crc:08x}",
    }


_CODECS: Final = {codec.value: codec.name.lower() for codec in Codec}


def _field(data: memoryview | None, most: int, preview: Preview) -> dict[str, Any] | None:
    if data is None:
        return None
    return shown_bytes(data[:most], len(data), hidden=preview.hidden)


def _time(timestamp: int) -> str | None:
    return None if timestamp == NO_TIMESTAMP else str(timestamp)


def _timestamp_type(header: BatchHeader) -> str:
    return "append" if header.is_log_append_time else "create"
