"""The variable-length integers inside records (Kafka's ``ByteUtils.readVarint`` and ``writeVarint``):
protobuf's, zigzag.

Reading is bounded: five bytes for 32 bits, ten for 64. Kafka drops bits beyond those in silence; here they
are refused.
"""

from typing import Final

from wireproto.records.errors import invalid
from wireproto.records.header import Buffer

MAX_VARINT_BYTES: Final = 5
"""Bytes of the longest 32-bit integer."""
MAX_VARLONG_BYTES: Final = 10
"""Bytes of the longest 64-bit integer."""

MORE: Final = 0x80
"""This bit of a byte: another byte of the number follows."""
WRITTEN_NULL: Final = 1
"""How a length of -1 is written."""

_UINT32_MAX: Final = (1 << 32) - 1
_UINT64_MAX: Final = (1 << 64) - 1


def read_varint(data: Buffer, position: int, end: int) -> tuple[int, int]:
    """The signed 32-bit integer at ``position``, and the position after it.

    Raises :class:`InvalidBatch`: INVALID_RECORD; it does not end before ``end`` or is too long.
    """
    if position < end and (first := data[position]) < 0x80:
        return (first >> 1) ^ -(first & 1), position + 1
    raw, position = _read_unsigned(data, position, min(end, position + MAX_VARINT_BYTES), _UINT32_MAX)
    return (raw >> 1) ^ -(raw & 1), position


def read_varlong(data: Buffer, position: int, end: int) -> tuple[int, int]:
    """As ``read_varint``, of 64 bits."""
    if position < end and (first := data[position]) < 0x80:
        return (first >> 1) ^ -(first & 1), position + 1
    raw, position = _read_unsigned(data, position, min(end, position + MAX_VARLONG_BYTES), _UINT64_MAX)
    return (raw >> 1) ^ -(raw & 1), position


def _read_unsigned(data: Buffer, position: int, stop: int, largest: int) -> tuple[int, int]:
    result = shift = 0
    while position < stop:
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise invalid("a variable-length integer is cut short or too long")
    if result > largest:
        raise invalid("a variable-length integer has too many bits")
    return result, position


def write_varint(value: int, out: bytearray) -> None:
    """Append a signed integer of up to 64 bits."""
    raw = (value << 1) ^ (value >> 63)
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
