"""The fields of keys and values in the gateway's own topics, read strictly: what is not exactly such a record
is refused. Types and versions that are not known are told apart from that, since a newer server may have
written them (KIP-915).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from struct import Struct
from typing import Final

from wireproto.kafka.errors import MalformedRequest
from wireproto.kafka.primitives import read_uvarint, string

MAX_TEXT_BYTES: Final = 32_767
"""Bytes of a string in the formats without compact fields: its length has 16 bits."""

TOO_LONG: Final = f"a text of more than {MAX_TEXT_BYTES} bytes does not fit the format"
"""What `TooLong` says."""

_INT8: Final = Struct(">b")
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")


class UnknownRecord(Exception):
    """A type or version of a later Kafka: to be passed over."""


class MalformedRecord(Exception):
    """Not a record of the type and version that it claims to be."""


class TooLong(ValueError):
    """A text that does not fit the format."""


def text(value: str | None) -> bytes:
    """A string with a two-byte length; None is null. Raises TooLong."""
    try:
        return string(value)
    except struct.error:
        raise TooLong(TOO_LONG) from None


class FieldReader:
    """Goes through a key or value. Raises MalformedRecord; nothing is allocated by a length that is not
    there. `compact`: whether lengths are varints, as in flexible versions.
    """

    __slots__ = ("_data", "_position", "compact")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0
        self.compact = False

    def fixed(self, kind: Struct) -> tuple[int, ...]:
        """Integers that follow one another, at once: where there are a hundred thousand records to read."""
        try:
            values = kind.unpack_from(self._data, self._position)
        except struct.error:
            raise MalformedRecord("it ends in the middle of a field") from None
        self._position += kind.size
        return values

    def int8(self) -> int:
        return self.fixed(_INT8)[0]

    def int16(self) -> int:
        return self.fixed(_INT16)[0]

    def int32(self) -> int:
        return self.fixed(_INT32)[0]

    def int64(self) -> int:
        return self.fixed(_INT64)[0]

    def text(self) -> str:
        value = self.nullable_text()
        if value is None:
            raise MalformedRecord("a text is null")
        return value

    def nullable_text(self) -> str | None:
        size = self._size(self.int16)
        if size < 0:
            return None
        try:
            return self._take(size).decode()
        except UnicodeDecodeError:
            raise MalformedRecord("a text is not UTF-8") from None

    def blob(self) -> bytes:
        size = self._size(self.int32)
        if size < 0:
            raise MalformedRecord("bytes are null")
        return self._take(size)

    def count(self, what: str, smallest: int) -> int:
        """How many elements of at least `smallest` bytes follow; `what` they are called."""
        count = self.nullable_count(what, smallest)
        if count is None:
            raise MalformedRecord(f"-1 {what} in {len(self._data) - self._position} bytes")
        return count

    def nullable_count(self, what: str, smallest: int) -> int | None:
        """As `count`; None for null."""
        count = self._size(self.int32)
        if count == -1:
            return None
        if count * smallest > len(self._data) - self._position:
            raise MalformedRecord(f"{count} {what} in {len(self._data) - self._position} bytes")
        return count

    def tags(self) -> dict[int, bytes]:
        """The tagged fields, which are in the order of their numbers."""
        found: dict[int, bytes] = {}
        last = -1
        for _ in range(self._uvarint()):
            tag, size = self._uvarint(), self._uvarint()
            if tag <= last:
                raise MalformedRecord("tagged fields are not in order")
            last = tag
            found[tag] = self._take(size)
        return found

    def end(self) -> None:
        if self._position != len(self._data):
            raise MalformedRecord(f"{len(self._data) - self._position} bytes are left over")

    def _size(self, plain: Callable[[], int]) -> int:
        """A length; -1 is null."""
        size = self._uvarint() - 1 if self.compact else plain()
        if size < -1:
            raise MalformedRecord(f"a length of {size}")
        return size

    def _uvarint(self) -> int:
        try:
            value, self._position = read_uvarint(self._data, self._position)
        except (IndexError, MalformedRequest):
            raise MalformedRecord("a length is cut short or too long") from None
        return value

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._data):
            raise MalformedRecord("it ends in the middle of a field")
        piece = self._data[self._position : end]
        self._position = end
        return piece
