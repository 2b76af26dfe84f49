"""Snappy as Kafka's clients write it: xerial's chunks (Java, sarama, Python) or one raw block (librdkafka).

xerial's form is a 16-byte header (an 8-byte magic and two versions) and then chunks, each an int32 size and a
raw block. A raw block begins with the length of its output: the only thing that says how much memory it
needs, and anybody may forge it. So it is read and judged here before the library sees the block.
"""

from struct import Struct
from typing import Final

import cramjam

from wireproto.kafka.errors import ErrorCode
from wireproto.records.errors import InvalidBatch, corrupt
from wireproto.records.header import Buffer

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
#: The magic, then the version and the oldest compatible version, both 1 (int32 each).
XERIAL_HEADER: Final = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"

#: Output bytes of one xerial chunk when we write. 32 KiB is the block size of snappy-java and of the Java
#: client.
XERIAL_CHUNK_BYTES: Final = 32 * 1024

#: Output bytes a byte of input can yield at most: a copy of 64 bytes takes three bytes. A block that states
#: more lies.
MAX_EXPANSION: Final = 22

_CHUNK_SIZE: Final = Struct(">i")
_MAX_LENGTH_BYTES: Final = 5


def decompress(data: memoryview, limit: int) -> bytearray:
    """The output of either form, of at most ``limit`` bytes.

    Raises :class:`InvalidBatch`: MESSAGE_TOO_LARGE over the limit, CORRUPT_MESSAGE for what is not snappy.
    """
    if bytes(data[: len(XERIAL_MAGIC)]) == XERIAL_MAGIC:
        return _decompress_xerial(data, limit)
    return _decompress_block(data, limit)


def _decompress_xerial(data: memoryview, limit: int) -> bytearray:
    position = len(XERIAL_HEADER)
    end = len(data)
    if end < position:
        raise corrupt("snappy: the xerial header is cut short")
    out = bytearray()
    while position < end:
        if end - position < _CHUNK_SIZE.size:
            raise corrupt("snappy: a xerial chunk's size is cut short")
        (size,) = _CHUNK_SIZE.unpack_from(data, position)
        position += _CHUNK_SIZE.size
        if not 0 < size <= end - position:
            raise corrupt(f"snappy: a xerial chunk of {size} bytes where {end - position} are left")
        out += _decompress_block(data[position : position + size], limit - len(out))
        position += size
    return out


def _decompress_block(block: memoryview, limit: int) -> bytearray:
    length = _stated_length(block)
    if length > limit:
        raise InvalidBatch(
            ErrorCode.MESSAGE_TOO_LARGE, f"snappy: {length} bytes, more than the {limit} allowed"
        )
    if length > len(block) * MAX_EXPANSION:
        raise corrupt(f"snappy: {length} bytes cannot come from {len(block)}")
    # cramjam aborts the process when it cannot allocate; Python's allocation raises MemoryError.
    out = bytearray(length)
    try:
        written = cramjam.snappy.decompress_raw_into(block, out)
    except cramjam.DecompressionError as error:
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, "snappy: the block is malformed") from error
    if written != length:
        raise corrupt(f"snappy: {written} bytes where the block states {length}")
    return out


def _stated_length(block: memoryview) -> int:
    length = 0
    for shift, byte in enumerate(block[:_MAX_LENGTH_BYTES]):
        length |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return length
    raise corrupt("snappy: the length before the block is cut short or too long")


def compress_raw(data: Buffer) -> bytes:
    """One raw block, as librdkafka writes it."""
    return bytes(cramjam.snappy.compress_raw(bytes(data)))


def compress_xerial(data: Buffer) -> bytes:
    """The chunks of xerial, as the Java client writes them."""
    view = memoryview(data)
    out = bytearray(XERIAL_HEADER)
    for start in range(0, len(view), XERIAL_CHUNK_BYTES):
        block = compress_raw(view[start : start + XERIAL_CHUNK_BYTES])
        out += _CHUNK_SIZE.pack(len(block))
        out += block
    return bytes(out)
