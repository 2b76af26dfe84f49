"""Records as numbers, by Spark's own functions, so that no record leaves the JVM.

Spark's `xxhash64` is XXH64 with the columns chained: the hash of one is the seed of the next, and the first
seed is 42. It passes over nulls, and so takes null for empty and `('a', null)` for `(null, 'a')`. Therefore
each column stands here beside its length, which is -1 for null; lengths also keep apart what would be the
same bytes one after the other.

With `strong` it is SHA-256 over a text of all lengths and numbers, and after it the bytes.

Headers are hashed as JSON, where a null value, an empty one and the next key cannot be taken for each
other, and
their keys once more as they are: JSON has the same sign for all bytes that are no UTF-8. A lambda over them
(`transform`) would say it more simply, and keeps Spark from compiling the whole stage: two thirds more time.

Each function gives the text of an expression over the columns of `sides.COLUMNS`. A Kafka timestamp has
milliseconds; the column has microseconds, and all of them count. Kafka knows no difference between no
headers and an empty list of them.
"""

from __future__ import annotations

from typing import Final

ABSENT_TIME: Final = "-9223372036854775808L"
"""Stands for a null timestamp, which only a table that was tampered with has."""
ABSENT_TYPE: Final = "-9"

_TIME: Final = f"coalesce(unix_micros(timestamp), {ABSENT_TIME})"
_TYPE: Final = f"coalesce(timestamp_type, {ABSENT_TYPE})"
_JSON: Final = "to_json(headers, map('ignoreNullFields', 'false'))"
_HEADERS: Final = (
    f"CASE WHEN size(headers) > 0 THEN xxhash64(size(headers), headers.key, {_JSON}) ELSE 0L END"
)
_STRONG_HEADERS: Final = (
    f"CASE WHEN size(headers) > 0 THEN sha2(concat({_JSON}, array_join(headers.key, '')), 256) ELSE '' END"
)


def field_hashes(*, strong: bool) -> dict[str, str]:
    """A hash of each field that is compared: equal fields have equal ones. Numbers or, with `strong`,
    texts.
    """
    if strong:
        return {
            "key": _strong_bytes("key"),
            "value": _strong_bytes("value"),
            "headers": _STRONG_HEADERS,
            "timestamp": f"string({_TIME})",
            "timestamp_type": f"string({_TYPE})",
        }
    return {
        "key": f"xxhash64({_sized('key')})",
        "value": f"xxhash64({_sized('value')})",
        "headers": _HEADERS,
        "timestamp": _TIME,
        "timestamp_type": f"bigint({_TYPE})",
    }


def record_hash(*, strong: bool, ignore_type: bool) -> str:
    """A hash of a whole record with its offset."""
    kind = "0" if ignore_type else _TYPE
    if strong:
        lengths = f"{_length('key')}, {_length('value')}"
        numbers = f"concat_ws(',', offset, {_TIME}, {kind}, {lengths}, {_STRONG_HEADERS})"
        text = f"concat(encode({numbers}, 'UTF-8'), X'3B', coalesce(key, X''), coalesce(value, X''))"
        return f"sha2({text}, 256)"
    return f"xxhash64(offset, {_TIME}, {kind}, {_sized('key')}, {_sized('value')}, {_HEADERS})"


def payload_hash(*, strong: bool) -> str:
    """A hash of key, value and headers alone: what is looked for at other places."""
    if strong:
        parts = ", ".join(field_hashes(strong=True)[name] for name in ("key", "value", "headers"))
        return f"sha2(concat_ws(',', {parts}), 256)"
    return f"xxhash64({_sized('key')}, {_sized('value')}, {_HEADERS})"


def _length(column: str) -> str:
    return f"coalesce(octet_length({column}), -1)"


def _sized(column: str) -> str:
    return f"{_length(column)}, coalesce({column}, X'')"


def _strong_bytes(column: str) -> str:
    return f"coalesce(sha2({column}, 256), '')"
