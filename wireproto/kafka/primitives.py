"""Varints, tagged fields and strings over a memoryview, for the decoders written by hand, and their encoders.

Decoders take ``(data, pos)`` and return ``(value, next position)``. They raise :class:`MalformedRequest`,
or ``IndexError``/``struct.error`` when ``data`` ends early: :func:`refuses_bad_bytes` turns those into the
former once per request instead of once per field.
"""

from collections.abc import Callable, Mapping
from functools import wraps
from struct import Struct
from struct import error as struct_error
from typing import Final, ParamSpec, TypeVar

from wireproto.kafka.errors import MalformedRequest

MAX_ARRAY_ELEMENTS: Final = 100_000
"""Elements of one array. Kafka has no such limit; a broker's biggest legitimate arrays are topic names and
partitions, of which it has far fewer. Without it 20 MB of empty names are 10 million objects."""

MAX_REQUEST_ELEMENTS: Final = 200_000
"""Elements of all arrays and tagged fields of one request together: nesting must not multiply the limit
above."""

MAX_VARINT_BYTES: Final = 5
"""Bytes of a varint that holds 32 bits, seven in each."""

_UINT32_MAX: Final = 0xFFFF_FFFF
_INT16: Final = Struct(">h")
_NO_TAGS: Final[dict[int, Callable[[memoryview, int], int]]] = {}

_P = ParamSpec("_P")
_R = TypeVar("_R")


def refuses_bad_bytes(decode: Callable[_P, _R]) -> Callable[_P, _R]:
    """Turn what reading beyond the end or undecodable text raises into :class:`MalformedRequest`."""

    @wraps(decode)
    def decode_or_refuse(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return decode(*args, **kwargs)
        except (IndexError, struct_error, UnicodeDecodeError) as error:
            raise ends_badly(error) from None

    return decode_or_refuse


def ends_badly(error: Exception) -> MalformedRequest:
    """What such an exception means of a request."""
    if isinstance(error, UnicodeDecodeError):
        return MalformedRequest("a string is not UTF-8")
    return MalformedRequest("the request ends in the middle of a field")


def read_uvarint(data: memoryview | bytes, pos: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits in at most :data:`MAX_VARINT_BYTES` bytes."""
    byte = data[pos]
    if byte < 0x80:
        return byte, pos + 1
    value = byte & 0x7F
    for index in range(1, MAX_VARINT_BYTES):
        byte = data[pos + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if value > _UINT32_MAX:
                break
            return value, pos + index + 1
    raise MalformedRequest("a varint has more than 32 bits")


MAX_STRING_BYTES: Final = 0x7FFF
"""Bytes of a string. A compact one has room for the length of a longer one, which Kafka refuses as well
(``MessageDataGenerator``: "had invalid length")."""


def read_compact_string(data: memoryview, pos: int) -> tuple[str | None, int]:
    """A compact string, or ``None`` for null."""
    length = data[pos]
    if length < 0x80:
        pos += 1
    else:
        length, pos = read_uvarint(data, pos)
    if length == 0:
        return None, pos
    end = pos + length - 1
    if end > len(data):
        raise MalformedRequest("a string is longer than the request")
    if length - 1 > MAX_STRING_BYTES:
        raise MalformedRequest(f"a string has length {length - 1}")
    return str(data[pos:end], "utf-8"), end


def read_string(data: memoryview, pos: int) -> tuple[str | None, int]:
    """A string with a two-byte length, or ``None`` for null."""
    (length,) = _INT16.unpack_from(data, pos)
    pos += 2
    if length < 0:
        if length != -1:
            raise MalformedRequest(f"a string has length {length}")
        return None, pos
    end: int = pos + length
    if end > len(data):
        raise MalformedRequest("a string is longer than the request")
    return str(data[pos:end], "utf-8"), end


def skip_tags(
    data: memoryview, pos: int, budget: int, known: Mapping[int, Callable[[memoryview, int], int]] = _NO_TAGS
) -> tuple[int, int]:
    """Pass over a tagged-fields section; returns the position behind it and what is left of ``budget``.

    Every tag takes one of the budget. ``known`` has, by tag, what reads a field that matters and returns
    the position behind it: it has to end where the tag's size says.
    """
    count = data[pos]
    if count == 0:
        return pos + 1, budget
    count, pos = read_uvarint(data, pos)
    budget = spend(budget, count, len(data) - pos, 2)
    for _ in range(count):
        tag, pos = read_uvarint(data, pos)
        size, pos = read_uvarint(data, pos)
        if size > len(data) - pos:
            raise MalformedRequest("a tagged field is longer than the request")
        read = known.get(tag)
        if read is not None and read(data, pos) != pos + size:
            raise MalformedRequest(f"tagged field {tag} does not have the size it says")
        pos += size
    return pos, budget


def spend(budget: int, count: int, bytes_left: int, smallest: int) -> int:
    """Take ``count`` elements of at least ``smallest`` bytes each from ``budget`` and return the rest of it.

    Refuses a count that is negative, that the bytes left cannot hold, or that is above a cap: so nothing is
    allocated by a number that a client wrote.
    """
    if not 0 <= count * smallest <= bytes_left:
        raise MalformedRequest(f"an array has {count} elements and {bytes_left} bytes")
    if count > MAX_ARRAY_ELEMENTS or count > budget:
        raise MalformedRequest(
            f"an array has {count} elements; {MAX_ARRAY_ELEMENTS} an array and "
            f"{MAX_REQUEST_ELEMENTS} a request are allowed"
        )
    return budget - count


def uvarint(value: int) -> bytes:
    """An unsigned varint; ``value`` is at least 0 and below 2**32."""
    if value < 0x80:
        return _SINGLE_BYTES[value]
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


_SINGLE_BYTES: Final = [bytes([value]) for value in range(0x80)]


def compact_string(value: str | None) -> bytes:
    """A compact string; ``None`` is null."""
    if value is None:
        return b"\x00"
    encoded = value.encode()
    return uvarint(len(encoded) + 1) + encoded


def string(value: str | None) -> bytes:
    """A string with a two-byte length; ``None`` is null. At most 32,767 bytes."""
    if value is None:
        return b"\xff\xff"
    encoded = value.encode()
    return _INT16.pack(len(encoded)) + encoded
