"""The field types of Dafka headers: encode and strict decode.

A header frame is: id (1 byte) + topic + NUL + version 1 + fields. A `string` is a length byte and that many
bytes of UTF-8; a `long string` a four-byte length and bytes; `strings` a four-byte count, then long strings;
numbers are big-endian. The C nodes send no signature (`dafka_proto.c`), although the RFC's text has one.

Theory of operation: a `Cursor` walks one header frame; each method checks what it is about to read against
the bytes that are left, so a forged count or length costs nothing; `finish` refuses what is left over.
Encoding and decoding accept the same values, so a frame that is accepted encodes to the same bytes again.
"""

import struct
from collections.abc import Sequence

from wireproto.dafka.errors import MalformedMessage

Buffer = bytes | bytearray | memoryview
"""What a content frame may be: it is passed on as it was given, never copied."""

VERSION = 1
"""The version octet of every Dafka header."""

MAX_NAME_BYTES = 255
"""Longest address, subject, requester or incarnation: what the length byte of a `string` can say."""

MAX_TOPIC_BYTES = MAX_NAME_BYTES
"""Longest topic that is one name, and of every message that C stores subscribe to: they copy topics into
buffers of 513 and 521 bytes without looking, and cut names beyond 255."""

MAX_PAIR_BYTES = len("@/") + 2 * MAX_NAME_BYTES
"""Longest topic of two names (`requester/incarnation`, `@incarnation/`), which C stores never receive."""

MAX_LIST_ENTRIES = 4096
"""Most entries in one list: what one SEAL carries, and the cap on what a stranger sends."""

MAX_SEQUENCE = (1 << 63) - 1
"""Highest sequence or offset: RocksDB keys and Kafka's offsets are signed 64-bit. No producer gets there."""

NONCE_BYTES = 8
"""What one start of one of our stores is told by."""

_U32 = struct.Struct(">I")
_I64 = struct.Struct(">q")


def string(value: str) -> bytes:
    """Encode a `string`. Raises ValueError when it is longer than 255 bytes or has a NUL inside."""
    data = _checked(value)
    return bytes((len(data),)) + data


def _checked(value: str) -> bytes:
    data = value.encode()
    if len(data) > MAX_NAME_BYTES or b"\0" in data:
        raise ValueError(f"a Dafka string holds at most 255 bytes ({len(data)} given) and no NUL")
    return data


def name(value: str) -> bytes:
    """Encode an address, a requester or an incarnation. Raises ValueError unless `is_name`."""
    if not is_name(value):
        raise ValueError(f"not a name on the mesh: {value[:64]!r}")
    return string(value)


def is_name(value: str) -> bool:
    """Whether this may be an address, a requester or an incarnation.

    1 to 255 bytes of UTF-8, no NUL, no `/` and no `@` in front: topics are put together with those two. The C
    nodes' are 32 upper-case hex characters; nothing on the wire asks for that.
    """
    return (
        0 < len(value) <= MAX_NAME_BYTES
        and "/" not in value
        and "\0" not in value
        and value[0] != "@"
        and (value.isascii() or len(value.encode()) <= MAX_NAME_BYTES)
    )


def long_bytes(value: bytes) -> bytes:
    """Encode bytes behind a four-byte length."""
    return _U32.pack(len(value)) + value


def entries(values: Sequence[bytes]) -> bytes:
    """Encode a list: its count, then the encoded entries. Raises ValueError beyond `MAX_LIST_ENTRIES`."""
    if len(values) > MAX_LIST_ENTRIES:
        raise ValueError(f"a Dafka list holds at most {MAX_LIST_ENTRIES} entries, not {len(values)}")
    return _U32.pack(len(values)) + b"".join(values)


def strings(values: Sequence[str]) -> bytes:
    """Encode a list of long strings, as in CONSUMER-HELLO. Raises ValueError as `string` and `entries` do."""
    return entries([long_bytes(_checked(value)) for value in values])


def number1(value: int) -> bytes:
    """Encode one byte. Raises ValueError outside 0 to 255."""
    return bytes((value,))


def number4(value: int) -> bytes:
    """Encode four bytes, unsigned. Raises struct.error outside them."""
    return _U32.pack(value)


def signed8(value: int) -> bytes:
    """Encode eight bytes, signed (a timestamp may be before 1970). Raises struct.error outside them."""
    return _I64.pack(value)


def sequence(value: int) -> bytes:
    """Encode a sequence or offset. Raises ValueError below 0, struct.error above `MAX_SEQUENCE`."""
    if value < 0:
        raise ValueError(f"{value} is not a sequence")
    return _I64.pack(value)


def sequence_or_none(value: int) -> bytes:
    """Encode a sequence, or -1 for none: eight bytes FF on the wire. Raises as `sequence`."""
    return _I64.pack(-1) if value == -1 else sequence(value)


def nonce(value: bytes) -> bytes:
    """Encode a store's nonce, the last field; b"" for none. Raises ValueError for another size."""
    if len(value) not in (0, NONCE_BYTES):
        raise ValueError(f"a nonce of {len(value)} bytes")
    return value


def header(message_id: bytes, topic: bytes, longest: int = MAX_TOPIC_BYTES) -> bytes:
    """The start of a header frame. Raises ValueError for a topic with a NUL or over `longest` bytes."""
    if len(topic) > longest or b"\0" in topic:
        raise ValueError(f"this Dafka topic holds at most {longest} bytes ({len(topic)} given) and no NUL")
    return b"%b%b\0\x01" % (message_id, topic)


class Cursor:
    """A strict walk over one header frame's fields. Every method raises `MalformedMessage`."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes, position: int) -> None:
        self.data = data
        self.position = position

    @property
    def left(self) -> int:
        """Bytes that are not taken yet."""
        return len(self.data) - self.position

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        position = self.position
        end = position + size
        if end > len(self.data):
            raise self._too_short(size)
        self.position = end
        return self.data[position:end]

    def _too_short(self, size: int) -> MalformedMessage:
        return MalformedMessage(f"field of {size} bytes, {len(self.data) - self.position} left")

    def number1(self) -> int:
        """One byte."""
        position = self.position
        if position >= len(self.data):
            raise self._too_short(1)
        self.position = position + 1
        return self.data[position]

    def number4(self) -> int:
        """Four bytes, unsigned."""
        return int(_U32.unpack(self.take(4))[0])

    def signed8(self) -> int:
        """Eight bytes, two's complement."""
        return int(_I64.unpack(self.take(8))[0])

    def sequence(self) -> int:
        """A sequence or offset that exists: 0 to `MAX_SEQUENCE`."""
        value = self.signed8()
        if value < 0:
            raise MalformedMessage("sequence over 2^63 - 1")
        return value

    def sequence_or_none(self) -> int:
        """A sequence, or -1 for none."""
        value = self.signed8()
        if value < -1:
            raise MalformedMessage("sequence over 2^63 - 1")
        return value

    def string(self) -> str:
        """Text of up to 255 bytes, possibly empty."""
        # Without `take`: most fields of most headers are strings.
        start = self.position + 1
        end = start + self.number1()
        if end > len(self.data):
            raise self._too_short(end - start)
        self.position = end
        return text(self.data[start:end])

    def name(self) -> str:
        """An address, a requester or an incarnation."""
        return checked_name(self.string())

    def long_bytes(self) -> bytes:
        """Bytes behind a four-byte length."""
        return self.take(self.number4())

    def count(self, least_bytes_each: int) -> int:
        """A list's count, checked against the bytes left before anything is built from it."""
        count = self.number4()
        if count > MAX_LIST_ENTRIES or count * least_bytes_each > len(self.data) - self.position:
            raise MalformedMessage(f"list of {count} entries, {len(self.data) - self.position} bytes left")
        return count

    def strings(self) -> tuple[str, ...]:
        """A list of long strings, of which each must fit into a `string`."""
        values = []
        for _ in range(self.count(4)):
            size = self.number4()
            if size > MAX_NAME_BYTES:
                raise MalformedMessage(f"string of {size} bytes in a list")
            values.append(text(self.take(size)))
        return tuple(values)

    def last_nonce(self) -> bytes:
        """A store's nonce as the last field, b"" where it is left out."""
        return self.take(NONCE_BYTES) if self.left else b""

    def finish(self) -> None:
        """Refuse bytes that are left over."""
        if self.position != len(self.data):
            raise MalformedMessage(f"{len(self.data) - self.position} bytes left over")


def open_header(frame: bytes, longest_topic: int = MAX_TOPIC_BYTES) -> tuple[str, Cursor]:
    """Split a header frame into (topic, cursor at its fields). Raises `MalformedMessage`."""
    nul = frame.find(b"\0", 1, longest_topic + 2)
    if nul < 0:
        raise MalformedMessage(f"no NUL behind a topic of up to {longest_topic} bytes")
    if len(frame) < nul + 2 or frame[nul + 1] != VERSION:
        raise MalformedMessage("not version 1")
    return text(frame[1:nul]), Cursor(frame, nul + 2)


def checked_name(value: str) -> str:
    """The value, if `is_name`. Raises `MalformedMessage` otherwise."""
    if not is_name(value):
        raise MalformedMessage(f"name of {len(value)} characters, or with / or @")
    return value


def text(data: bytes) -> str:
    """UTF-8 without a NUL inside. Raises `MalformedMessage`."""
    try:
        value = data.decode()
    except UnicodeDecodeError:
        raise MalformedMessage("string is not UTF-8") from None
    if "\0" in value:
        raise MalformedMessage("NUL inside a string")
    return value
