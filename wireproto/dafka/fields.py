"""The field types of Dafka headers: encode and strict decode.

A header frame is: id (1 byte) + topic + NUL + version 1 + fields. A `string` is a length byte and that many bytes
of UTF-8; a `long string` a four-byte length and bytes; `strings` a four-byte count, then long strings; numbers are
big-endian. The C nodes send no signature (`dafka_proto.c`), although the RFC's text has one.

Theory of operation: a `Cursor` walks one header frame; each `take_*` checks what it is about to read against the
bytes that are left, so a forged count or length costs nothing, and `finish` refuses what is left over.
"""

import struct
from collections.abc import Sequence

from wireproto.dafka.errors import MalformedMessage

VERSION = 1
"""The version octet of every Dafka header."""

MAX_TOPIC_BYTES = 255
"""Longest topic that is accepted. The C nodes truncate or overflow beyond it (defects D22, D24)."""

MAX_LIST_ENTRIES = 4096
"""Most entries in one `strings` or list field: what one SEAL or OPEN carries, and the cap on what a stranger sends."""

NO_SEQUENCE = 0xFFFF_FFFF_FFFF_FFFF
"""On the wire: no sequence at all (an address without a record). In Python values it is -1."""

_U32 = struct.Struct(">I")
_U64 = struct.Struct(">Q")


def string(value: str) -> bytes:
    """Encode a `string`. Raises ValueError when it is longer than 255 bytes."""
    data = value.encode()
    if len(data) > 255:
        raise ValueError(f"a Dafka string holds at most 255 bytes, not {len(data)}")
    return bytes((len(data),)) + data


def long_bytes(value: bytes) -> bytes:
    """Encode bytes behind a four-byte length."""
    return _U32.pack(len(value)) + value


def strings(values: Sequence[str]) -> bytes:
    """Encode a list of long strings, as in CONSUMER-HELLO."""
    return _U32.pack(len(values)) + b"".join(long_bytes(value.encode()) for value in values)


def number1(value: int) -> bytes:
    return bytes((value,))


def number4(value: int) -> bytes:
    return _U32.pack(value)


def number8(value: int) -> bytes:
    return _U64.pack(value)


def sequence(value: int) -> bytes:
    """Encode a sequence, -1 meaning none."""
    return _U64.pack(NO_SEQUENCE if value < 0 else value)


def header(message_id: bytes, topic: bytes) -> bytes:
    """The start of a header frame. Raises ValueError for a topic with a NUL or over `MAX_TOPIC_BYTES`."""
    if len(topic) > MAX_TOPIC_BYTES or b"\0" in topic:
        raise ValueError("a Dafka topic holds at most 255 bytes and no NUL")
    return b"%b%b\0\x01" % (message_id, topic)


class Cursor:
    """A strict walk over one header frame's fields. Every method raises `MalformedMessage`."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes, position: int) -> None:
        self.data = data
        self.position = position

    def take(self, size: int) -> bytes:
        end = self.position + size
        if end > len(self.data):
            raise MalformedMessage(f"field of {size} bytes, {len(self.data) - self.position} left")
        value = self.data[self.position : end]
        self.position = end
        return value

    def number1(self) -> int:
        return self.take(1)[0]

    def number4(self) -> int:
        return int(_U32.unpack(self.take(4))[0])

    def number8(self) -> int:
        return int(_U64.unpack(self.take(8))[0])

    def sequence(self) -> int:
        value = self.number8()
        return -1 if value == NO_SEQUENCE else value

    def string(self) -> str:
        return _text(self.take(self.number1()))

    def long_bytes(self) -> bytes:
        return self.take(self.number4())

    def count(self, least_bytes_each: int) -> int:
        """A list's count, checked against the bytes left before anything is built from it."""
        count = self.number4()
        if count > MAX_LIST_ENTRIES or count * least_bytes_each > len(self.data) - self.position:
            raise MalformedMessage(f"list of {count} entries, {len(self.data) - self.position} bytes left")
        return count

    def strings(self) -> tuple[str, ...]:
        return tuple(_text(self.long_bytes()) for _ in range(self.count(4)))

    def finish(self) -> None:
        if self.position != len(self.data):
            raise MalformedMessage(f"{len(self.data) - self.position} bytes left over")


def open_header(frame: bytes) -> tuple[int, str, Cursor]:
    """Split a header frame into (message id, topic, cursor at its fields). Raises `MalformedMessage`."""
    nul = frame.find(b"\0", 1, MAX_TOPIC_BYTES + 2)
    if nul < 0:
        raise MalformedMessage("no NUL behind the topic")
    if len(frame) < nul + 2 or frame[nul + 1] != VERSION:
        raise MalformedMessage("not version 1")
    return frame[0], _text(frame[1:nul]), Cursor(frame, nul + 2)


def _text(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise MalformedMessage("string is not UTF-8") from None
    if "\0" in text:
        raise MalformedMessage("NUL inside a string")
    return text
