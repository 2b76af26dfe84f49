"""Snappy as Kafka's clients write it: xerial's chunks (Java, sarama, Python) or one raw block (librdkafka).

xerial's form is a 16-byte header (an 8-byte magic and two versions) and then chunks, each an int32 size and a
raw block. A raw block begins with the length of its output: the only thing that says how much memory it
needs, and anybody may forge it. So it is read and judged here before the library sees the block.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final

from wireproto.records.errors import corrupt
from wireproto.records.header import Buffer
from wireproto.records.output import reserve, too_large

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER: Final = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
"""The magic, then the version and the oldest compatible version, both 1 (int32 each)."""

XERIAL_CHUNK_BYTES: Final = 32 * 1024
"""Output bytes of one xerial chunk when we write. 32 KiB is the block size of snappy-java and of the Java
client."""

MAX_EXPANSION: Final = 22
"""Output bytes a byte of input can yield at most: a copy of 64 bytes takes three bytes. A block that states
more lies."""

MIN_BLOCK_BYTES: Final = 1024
"""The smallest block that snappy-java can be told to make (its `MIN_BLOCK_SIZE`), in bytes of output."""

FREE_CHUNKS: Final = 256
"""Chunks that may be smaller, as a stream makes them that is flushed. Each chunk costs two microseconds
whatever is in it, and an empty one takes five bytes: 5 MB of them took 2.4 s."""

_CHUNK_SIZE: Final = Struct(">i")
_MAX_LENGTH_BYTES: Final = 5


def decompress(data: memoryview, limit: int, look: Callable[[], object]) -> memoryview:
    """The output of either form, of at most ``limit`` bytes. Calls ``look`` between chunks.

    Raises :class:`InvalidBatch`: MESSAGE_TOO_LARGE over the limit, CORRUPT_MESSAGE for what is not snappy, or
    comes in far more chunks than any producer makes of it.
    """
    import cramjam  # a server without snappy does without its memory

    total = _total_length(data, limit)
    # cramjam would abort the process when it cannot allocate; this raises.
    output = reserve(total)
    position = 0
    for block in _blocks(data):
        length = _stated_length(block)
        try:
            cramjam.snappy.decompress_raw_into(block, output[position : position + length])
        except cramjam.DecompressionError as error:
            raise corrupt("snappy: a block is malformed") from error
        position += length
        look()
    return output


def _total_length(data: memoryview, limit: int) -> int:
    """Bytes of output that all blocks together state."""
    total = 0
    for done, block in enumerate(_blocks(data)):
        total += _stated_length(block)
        if total > limit:
            raise too_large(limit)
        if done >= FREE_CHUNKS and (done - FREE_CHUNKS) * MIN_BLOCK_BYTES > total:
            raise corrupt(f"snappy: {total} bytes come in {done} chunks and more")
    return total


def _blocks(data: memoryview) -> Iterator[memoryview]:
    """The raw blocks of either form. Walked twice rather than kept: they may be many and tiny."""
    if bytes(data[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        yield data
        return
    position = len(XERIAL_HEADER)
    end = len(data)
    if end < position:
        raise corrupt("snappy: the xerial header is cut short")
    while position < end:
        if end - position < _CHUNK_SIZE.size:
            raise corrupt("snappy: the size of a xerial chunk is cut short")
        (size,) = _CHUNK_SIZE.unpack_from(data, position)
        position += _CHUNK_SIZE.size
        if not 0 < size <= end - position:
            raise corrupt(f"snappy: a xerial chunk of {size} bytes where {end - position} are left")
        yield data[position : position + size]
        position += size


def _stated_length(block: memoryview) -> int:
    length = 0
    for shift, byte in enumerate(block[:_MAX_LENGTH_BYTES]):
        length |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            break
    else:
        raise corrupt("snappy: the length before a block is cut short or too long")
    if length > len(block) * MAX_EXPANSION:
        raise corrupt(f"snappy: {length} bytes cannot come from {len(block)}")
    return length


def compress_raw(data: Buffer) -> bytes:
    """One raw block, as librdkafka writes it."""
    import cramjam

    return bytes(cramjam.snappy.compress_raw(bytes(data)))


def compress_xerial(data: Buffer, look: Callable[[], object]) -> bytes:
    """The chunks of xerial, as the Java client writes them. Calls ``look`` between them."""
    view = memoryview(data)
    out = bytearray(XERIAL_HEADER)
    for start in range(0, len(view), XERIAL_CHUNK_BYTES):
        block = compress_raw(view[start : start + XERIAL_CHUNK_BYTES])
        out += _CHUNK_SIZE.pack(len(block))
        out += block
        look()
    return bytes(out)
