"""The worst requests that the limits let in, made of each API's schema: as many elements as one likes, of as
few bytes as may be, all alike or all different.

Written as bytes: a hundred thousand elements would take a second each to encode by the client library.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from wireproto.kafka.api_keys import FLEXIBLE_FROM
from wireproto.kafka.schemas import REQUEST_CLASSES

_NUMBERS: Final = {"int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q", "uint16": ">H", "float64": ">d"}


@dataclass(frozen=True)
class Shape:
    """`outer`: elements of each array of the request itself; `inner`: of each array in one of those. `names`
    makes the text of an element from its number, `numbers` its int32 fields.
    """

    outer: int
    inner: int
    names: Callable[[int], str]
    numbers: Callable[[int], int] = lambda number: number

    def __str__(self) -> str:
        kind = {"": "empty", "t": "alike"}.get(self.names(1), "different")
        return f"{self.outer:,} x {self.inner:,} {kind}"


def frame(api_key: int, version: int, shape: Shape, correlation_id: int = 1) -> bytes:
    """One request with its size field."""
    flexible = version >= FLEXIBLE_FROM.get(api_key, 1 << 15)
    head = struct.pack(">hhih", api_key, version, correlation_id, 4) + b"test" + (b"\0" if flexible else b"")
    body = _struct(REQUEST_CLASSES[api_key]._struct, version, flexible, shape, 0, 0)
    return struct.pack(">i", len(head) + len(body)) + head + body


def _struct(field: Any, version: int, flexible: bool, shape: Shape, depth: int, number: int) -> bytes:
    parts = [
        _field(child, version, flexible, shape, depth, number) for child in field.untagged_fields(version)
    ]
    return b"".join(parts) + (b"\0" if flexible else b"")


def _field(field: Any, version: int, flexible: bool, shape: Shape, depth: int, number: int) -> bytes:
    if field.is_array():
        count = {0: shape.outer, 1: shape.inner}.get(depth, 1 if shape.inner else 0)
        elements = _elements(field.array_of, version, flexible, shape, depth + 1, count)
        return _count(count, flexible) + b"".join(elements)
    return _one(field, version, flexible, shape, depth, number)


def _elements(
    field: Any, version: int, flexible: bool, shape: Shape, depth: int, count: int
) -> Iterator[bytes]:
    first, second = (_one(field, version, flexible, shape, depth, number) for number in (1, 2))
    if first == second:
        yield first * count
        return
    for number in range(count):
        yield _one(field, version, flexible, shape, depth, number)


def _one(field: Any, version: int, flexible: bool, shape: Shape, depth: int, number: int) -> bytes:
    if field.is_struct():
        present = b"\1" if field.nullable_for_version_q(version) else b""
        return present + _struct(field, version, flexible, shape, depth, number)
    kind = field.type_str
    if kind == "string":
        text = shape.names(number).encode()
        return _length(len(text), flexible) + text
    if kind in {"bytes", "records"}:
        return _count(0, flexible)
    if kind == "bool":
        return b"\0"
    if kind == "uuid":
        return bytes(16) if field.nullable_for_version_q(version) else number.to_bytes(16)
    value = shape.numbers(number) if kind == "int32" and depth else _number(field)
    return struct.pack(_NUMBERS[kind], value)


def _number(field: Any) -> int:
    """A value that lets the request reach what it is about."""
    wanted = {"resource_type": 2, "timeout_ms": 1000, "max_wait_ms": 0, "session_timeout_ms": 10_000,
              "rebalance_timeout_ms": 10_000, "acks": 1, "session_epoch": -1, "replica_id": -1,
              "num_partitions": 1, "replication_factor": 1, "controller_id": -1, "generation_id": -1,
              "timestamp": -1, "replica_state": 0, "current_leader_epoch": -1, "transaction_timeout_ms": 1000,
              "max_bytes": 1 << 20, "generation_id_or_member_epoch": -1, "config_operation": 0,
              "response_partition_limit": 2000}  # fmt: skip
    return wanted.get(field.name, 1 if field.type_str == "int8" else 0)


def _length(size: int, flexible: bool) -> bytes:
    return _uvarint(size + 1) if flexible else struct.pack(">h", size)


def _count(count: int, flexible: bool) -> bytes:
    return _uvarint(count + 1) if flexible else struct.pack(">i", count)


def _uvarint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
