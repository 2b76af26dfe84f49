"""Records as lines of JSON (NDJSON), as programs send and read them.

A key, a value and a header's value are null, a text, `{"base64": ...}` for what is no UTF-8, or, where they
are sent, `{"json": ...}`: its compact JSON.
"""

from __future__ import annotations

import base64
import binascii
import json
from http import HTTPStatus
from typing import Any, Final, NoReturn

from gateway.http.failures import Failure
from wireproto.records.builder import RecordFields
from wireproto.records.header import Buffer
from wireproto.records.outline import Outline, first_headers

FIELDS: Final = frozenset(("key", "value", "headers", "timestamp_ms", "offset"))
"""Of a line. The offset is that of a record that was read: it is given a new one."""

MAX_TIMESTAMP_MS: Final = (1 << 63) - 1
"""Milliseconds since 1970 that a timestamp may be: as many as its 64 bits hold."""

NO_TIMESTAMP: Final = -1


class BadLine(ValueError):
    """A line that is no record; the text says why."""


def parse_line(line: bytes, now_ms: int) -> RecordFields:
    """The record of one line; `now_ms` is its time where it has none. Raises BadLine."""
    try:
        row = json.loads(line.decode(), parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise BadLine("it is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise BadLine(f"it is not JSON: {error}") from None
    if not isinstance(row, dict):
        raise BadLine("it is not an object")
    for name in row:
        if name not in FIELDS:
            raise BadLine(f"{name[:50]!r} is not one of key, value, headers, timestamp_ms")
    return (
        _data(row.get("key"), "key"),
        _data(row.get("value"), "value"),
        _headers(row.get("headers")),
        _timestamp(row.get("timestamp_ms"), now_ms),
    )


def _refuse_constant(name: str) -> NoReturn:
    raise BadLine(f"{name} is not JSON")


def _data(value: Any, name: str) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return _encoded(value, name)
    if isinstance(value, dict) and len(value) == 1:
        ((kind, content),) = value.items()
        if kind == "json":
            return _encoded(_compact(content, name), name)
        if kind == "base64" and isinstance(content, str):
            try:
                return base64.b64decode(content.encode(), validate=True)
            except (binascii.Error, UnicodeEncodeError):
                raise BadLine(f"the base64 of its {name} is none") from None
    raise BadLine(f'its {name} is not null, a text, {{"base64": "..."}} or {{"json": ...}}')


def _compact(content: Any, name: str) -> str:
    try:
        return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, RecursionError) as error:
        raise BadLine(f"the json of its {name} cannot be kept: {error}") from None


def _encoded(text: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadLine(f"its {name} has half of a surrogate pair") from None


def _headers(value: Any) -> list[tuple[str, bytes | None]]:
    """A list of {"key", "value"}, as they are read; or an object, where no key comes twice."""
    if value is None:
        return []
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list) and all(
        isinstance(one, dict) and set(one) <= {"key", "value"} for one in value
    ):
        pairs = [(one.get("key"), one.get("value")) for one in value]
    else:
        raise BadLine('its headers are not {"KEY": VALUE} or [{"key": KEY, "value": VALUE}]')
    headers = []
    for key, content in pairs:
        if not isinstance(key, str):
            raise BadLine("a header has no key")
        _encoded(key, "header key")
        headers.append((key, _data(content, "header value")))
    return headers


def _timestamp(value: Any, now_ms: int) -> int:
    if value is None:
        return now_ms
    if isinstance(value, str) and len(value) <= 19 and value.isascii() and value.isdigit():
        value = int(value)
    if type(value) is not int or not 0 <= value <= MAX_TIMESTAMP_MS:
        raise BadLine("its timestamp_ms is not milliseconds since 1970")
    return value


def row_of(record: Outline, body: Buffer) -> dict[str, Any]:
    """A record as it is read: a line, which may be sent again as it is. Raises InvalidBatch."""
    return {
        "offset": str(record.offset),
        "timestamp_ms": None if record.timestamp == NO_TIMESTAMP else str(record.timestamp),
        "key": _shown(record.key),
        "value": _shown(record.value),
        "headers": [
            {"key": bytes(key).decode(errors="replace"), "value": _shown(value)}
            for key, value in first_headers(body, record, record.header_count)
        ],
    }


def _shown(data: memoryview | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def bad_record(number: int, why: object) -> Failure:
    """Line `number`, from 1 on, is no record."""
    return Failure(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "bad-record",
        f"line {number}: {why}",
        'Send lines like {"key": "42", "value": "text", "headers": {"trace": "1"}}; nothing was appended.',
    )
