"""Records as lines: what `dafka produce` reads and `dafka consume` writes for Kafka topics.

`json` says everything, one object a line, and what is written can be read again::

    {"topic": "orders", "partition": 0, "offset": 7, "timestamp": 1790000000000, "key": "a",
     "value": {"base64": "/w=="}, "headers": [["source", "web"]]}

Bytes that are UTF-8 are texts, others `{"base64": ...}`. What is read needs none of the fields; a value that
is another JSON value is that value's text.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dafka.commands.exits import CommandFailed

if TYPE_CHECKING:
    from dafka.commands.kafka_reader import StoredRecord

FORMATS: Final = ("text", "json", "hex", "raw")
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""By their numbers in a batch."""

Headers = list[tuple[str, bytes | None]]


class Given(NamedTuple):
    """A record to write; what is not said is None."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int | None = None
    partition: int | None = None


def read_record(data: bytes, how: str, separator: str | None) -> Given:
    """One record from a line, or with `raw` from the whole input. `separator` ends the key, if there is one.

    Raises CommandFailed, which names the line.
    """
    if how == "json":
        return _from_json(data)
    key, value = None, data
    if separator is not None and how != "raw":
        key, found, value = data.partition(separator.encode())
        if not found:
            raise CommandFailed(f"a line has no {separator!r} after its key: {_shown(data)}")
    if how == "hex":
        return Given(_from_hex(key), _from_hex(value), [])
    return Given(key, value, [])


def _from_hex(data: bytes | None) -> bytes | None:
    try:
        return None if data is None else bytes.fromhex(data.decode())
    except ValueError:
        raise CommandFailed(f"a line is not hexadecimal: {_shown(data or b'')}") from None


def _from_json(data: bytes) -> Given:
    try:
        record = json.loads(data)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise CommandFailed(f"a line is no JSON object: {_shown(data)}")
    try:
        return Given(
            _bytes_of(record.get("key")),
            _bytes_of(record.get("value")),
            [(str(name), _bytes_of(value)) for name, value in record.get("headers") or []],
            _number(record.get("timestamp")),
            _number(record.get("partition")),
        )
    except (TypeError, ValueError) as error:
        raise CommandFailed(f"a line is no record ({error}): {_shown(data)}") from None


def _bytes_of(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode(errors="surrogatepass")
    if isinstance(value, dict) and value.keys() == {"base64"}:
        try:
            return base64.b64decode(value["base64"], validate=True)
        except binascii.Error as error:
            raise ValueError(str(error)) from None
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _number(value: Any) -> int | None:
    if value is not None and (
        not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63
    ):
        raise ValueError(f"{value!r} is no number from 0")
    return value


def _shown(data: bytes) -> str:
    return repr(data[:60].decode(errors="replace"))


def line_of(record: StoredRecord, how: str, shown: Sequence[str], separator: str) -> bytes:
    """A record as it is written, with the end of its line; `raw` has none. `shown` is what comes before the
    value, of "partition", "offset", "timestamp", "headers" and "key".
    """
    if how == "json":
        return json.dumps(_as_json(record), ensure_ascii=False).encode(errors="surrogatepass") + b"\n"
    if how == "raw":
        return record.value or b""
    parts = [_field(record, name, how) for name in shown]
    value = record.value or b""
    parts.append(value.hex().encode() if how == "hex" else value)
    return separator.encode().join(parts) + b"\n"


def _field(record: StoredRecord, name: str, how: str) -> bytes:
    if name == "headers":
        return json.dumps([[key, _json_of(value)] for key, value in record.headers]).encode()
    if name == "key":
        key = record.key or b""
        return key.hex().encode() if how == "hex" else key
    return str(getattr(record, name)).encode()


def _as_json(record: StoredRecord) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _json_of(record.key),
        "value": _json_of(record.value),
        "headers": [[name, _json_of(value)] for name, value in record.headers],
    }


def _json_of(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
