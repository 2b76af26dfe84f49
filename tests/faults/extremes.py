"""Requests made of a schema's own extremes: as many elements as one likes, the longest texts, the largest and
the smallest numbers. They are well formed, so they reach the handlers of every API.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from wireproto.kafka.schemas import REQUEST_CLASSES

LONGEST_TEXT = 32_767
NUMBERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


@dataclass(frozen=True)
class Extreme:
    """What is put where a schema has a text, a number or an array.

    `numbers`: 0 for small ones, 1 for the largest, -1 for the smallest. `outer` and `inner` are how many
    elements the arrays of the request itself have, and those within their elements; arrays in those have one.
    """

    text: str
    numbers: int = 0
    outer: int = 1
    inner: int = 1


def body(api_key: int, version: int, extreme: Extreme) -> Any:
    """A request of an API, not yet encoded."""
    request = REQUEST_CLASSES[api_key]
    return _struct(request._struct, version, extreme, 0, request)


def has_arrays(api_key: int, version: int) -> tuple[bool, bool]:
    """Whether its requests have arrays, and whether arrays have some within."""
    arrays = [field for field in _fields(REQUEST_CLASSES[api_key]._struct, version) if field.is_array()]
    within = [field.array_of for field in arrays if field.array_of.is_struct()]
    return bool(arrays), any(field.is_array() for one in within for field in _fields(one, version))


def _fields(struct: Any, version: int) -> list[Any]:
    return list(struct.untagged_fields(version))


def _struct(field: Any, version: int, extreme: Extreme, depth: int, data_class: Any = None) -> Any:
    values = {child.name: _value(child, version, extreme, depth) for child in _fields(field, version)}
    return (data_class or field.data_class)(version=version, **values)


def _value(field: Any, version: int, extreme: Extreme, depth: int) -> Any:
    if field.is_array():
        element = _one(field.array_of, version, extreme, depth + 1)
        return [element] * {0: extreme.outer, 1: extreme.inner}.get(depth, 1)
    return _one(field, version, extreme, depth)


def _one(field: Any, version: int, extreme: Extreme, depth: int) -> Any:
    if field.is_struct():
        return _struct(field, version, extreme, depth)
    kind = field.type_str
    if kind in NUMBERS:
        limit = 1 << NUMBERS[kind] - 1
        return {0: 1, 1: limit - 1, -1: -limit}[extreme.numbers]
    others: dict[str, Any] = {
        "string": extreme.text,
        "bytes": extreme.text.encode(),
        "records": extreme.text.encode(),
        "bool": True,
        "uuid": UUID(int=(1 << 128) - 1),
        "float64": {0: 1.0, 1: float("inf"), -1: float("-inf")}[extreme.numbers],
        "uint16": {0: 1, 1: 0xFFFF, -1: 0}[extreme.numbers],
    }
    return others[kind]
