"""The worst requests that the limits let in, made of each API's schema: as many elements as one likes, of as
few bytes as may be, all alike or all different.

Written as bytes: a hundred thousand elements would take a second each to encode by the client library.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from wireproto.kafka.api_keys import FLEXIBLE_FROM
from wireproto.kafka.schemas import REQUEST_CLASSES

_NUMBERS: Final = {"int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q", "uint16": ">H", "float64": ">d"}


_Part: TypeAlias = bytes | Callable[[int], bytes]


@dataclass(frozen=True)
class Shape:
    """`outer`: elements of each array of the request itself; `inner`: of each array in one of those. `names`
    makes the text of an element from its number.
    """

    outer: int
    inner: int
    names: Callable[[int], str]

    def __str__(self) -> str:
        kind = {"": "empty", "t": "alike"}.get(self.names(1), "different")
        return f"{self.outer:,} x {self.inner:,} {kind}"


def frame(api_key: int, version: int, shape: Shape, correlation_id: int = 1) -> bytes:
    """One request with its size field."""
    flexible = version >= FLEXIBLE_FROM.get(api_key, 1 << 15)
    head = struct.pack(">hhih", api_key, version, correlation_id, 4) + b"test" + (b"\0" if flexible else b"")
    writer = _Writer(version, flexible, shape)
    body = _written(writer.fields(REQUEST_CLASSES[api_key]._struct, 0), 0)
    return struct.pack(">i", len(head) + len(body)) + head + body


def _written(parts: list[_Part], number: int) -> bytes:
    return b"".join([part if isinstance(part, bytes) else part(number) for part in parts])


class _Writer:
    """Writes each kind of element once, as parts: bytes, and what makes bytes of an element's number."""

    def __init__(self, version: int, flexible: bool, shape: Shape) -> None:
        self._version = version
        self._flexible = flexible
        self._shape = shape

    def fields(self, field: Any, depth: int) -> list[_Part]:
        parts: list[_Part] = []
        for child in field.untagged_fields(self._version):
            parts += self._array(child, depth) if child.is_array() else self._one(child, depth)
        return _joined([*parts, b"\0" if self._flexible else b""])

    def _array(self, field: Any, depth: int) -> list[_Part]:
        shape = self._shape
        count = {0: shape.outer, 1: shape.inner}.get(depth, 1 if shape.inner else 0)
        element = _joined(self._one(field.array_of, depth + 1))
        if all(isinstance(part, bytes) for part in element):
            elements = _written(element, 0) * count
        else:
            elements = b"".join([_written(element, number) for number in range(count)])
        return [_count(count, self._flexible), elements]

    def _one(self, field: Any, depth: int) -> list[_Part]:
        if field.is_struct():
            present = b"\1" if field.nullable_for_version_q(self._version) else b""
            return [present, *self.fields(field, depth)]
        kind = field.type_str
        if kind == "string":
            names = self._shape.names
            return [self._text(0)] if names(1) == names(2) else [self._text]
        if kind in {"bytes", "records"}:
            return [_count(0, self._flexible)]
        if kind == "bool":
            return [b"\0"]
        if kind == "uuid":
            nullable = field.nullable_for_version_q(self._version)
            return [bytes(16)] if nullable else [lambda number: number.to_bytes(16)]
        if kind == "int32" and depth:
            return [lambda number: struct.pack(">i", number)]
        return [struct.pack(_NUMBERS[kind], _number(field))]

    def _text(self, number: int) -> bytes:
        text = self._shape.names(number).encode()
        return _length(len(text), self._flexible) + text


def _joined(parts: list[_Part]) -> list[_Part]:
    """Neighbours that are bytes, as one."""
    joined: list[_Part] = []
    for part in parts:
        if isinstance(part, bytes) and joined and isinstance(joined[-1], bytes):
            joined[-1] += part
        else:
            joined.append(part)
    return joined


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
