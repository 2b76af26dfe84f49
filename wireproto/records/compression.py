"""The four codecs of record batches, with bounded output.

Whoever sends a batch chooses how much its records inflate to (6 KB of zstd become 200 MiB), and some forms
state a size that need not be true. So nothing here believes a stated size beyond the limit it was given, and
nothing grows past it: memory stays below the limit plus 1 MiB; lz4 and zstd also keep a block or a window, of
up to 8 MiB.

Accepted is exactly one frame, whole, with nothing after it, as librdkafka asks; producers write nothing else.

A call into a codec cannot be cancelled, and one at a high level takes 5 us a byte (zstd 22). So inflating and
deflating go in pieces, and a caller may have `look` called between them: what it raises ends the work. Only
zstd inflates in one call, of 0.2 s at most: in pieces it would need a second copy of the output.
"""

import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from wireproto.kafka.errors import ErrorCode
from wireproto.records import snappy
from wireproto.records.errors import InvalidBatch, corrupt
from wireproto.records.header import Buffer
from wireproto.records.output import Output, too_large

if TYPE_CHECKING:
    from zstandard import FrameParameters


class Codec(IntEnum):
    """The codec in a batch's attributes (Kafka's ``CompressionType``)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


MAX_DECOMPRESSED_BYTES: Final = 64 * 1024 * 1024
"""Output bytes that one batch may inflate to unless a caller says otherwise. Producers size batches before
compression: 16 KiB in Java, 1 MB in librdkafka; 64 MiB also holds what a 1 MiB batch of very repetitive
records becomes."""

DEFLATED_AT_ONCE_BYTES: Final = 128 * 1024
"""Input bytes that a codec is given at a time, with a look between: one block of zstd. At its level 22 that
takes 0.7 s, at usual levels less than a millisecond."""

INPUT_SLICE_BYTES: Final = 64 * 1024
"""Input bytes given to gzip and lz4 at a time: with each piece of output they copy what is not consumed yet.
"""

ZSTD_MAX_WINDOW_BYTES: Final = 128 * 1024 * 1024
"""The largest zstd window, in bytes. zstd's own default, so what Kafka's brokers and clients take; Java's
level 22 needs it even for small batches. Address space: pages are touched as output is produced."""

ZSTD_PLAIN_WINDOW_BYTES: Final = 8 * 1024 * 1024
"""zstd keeps output in its window as well when the frame does not state its size. Up to this many bytes that
is working memory (RFC 8878 wants every decoder to have them: level 19 and below); with a larger window, only
half of the limit is left for output."""

MAX_EXPANSION: Final = (1, 1032, snappy.MAX_EXPANSION, 255, 32 * 1024)
"""Output bytes that a byte of compressed input can become at most, by codec: deflate codes 258 bytes in two
bits; see `snappy`; lz4 extends a match by 255 a byte; a zstd block of one repeated byte makes 128 KiB of four
bytes."""

FRAME_MAGIC: Final = (b"", b"\x1f\x8b\x08", b"", b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd")
"""How compressed records begin, by codec. Snappy's raw form begins with a length: anything."""

MAX_ZSTD_BLOCKS: Final = 64 * 1024
"""Blocks of a zstd frame: MAX_DECOMPRESSED_BYTES in blocks of 1 KiB, where producers make blocks of 128. An
empty block takes three bytes, and half a microsecond here."""

_GZIP_WBITS: Final = 31
_ZSTD_RLE_BLOCK: Final = 1


def no_look() -> None:
    """For callers who want the whole result in any case."""


def decompress(codec: int, data: Buffer, limit: int, look: Callable[[], object] = no_look) -> Buffer:
    """What ``data`` inflates to, of at most ``limit`` bytes. Calls ``look`` between pieces.

    Raises :class:`InvalidBatch`: MESSAGE_TOO_LARGE over the limit; CORRUPT_MESSAGE when the bytes are not
    whole or not of that codec (or a zstd frame that states no size is over the limit: zstandard does not
    tell); UNSUPPORTED_COMPRESSION_TYPE for a codec that does not exist.
    """
    view = memoryview(data)
    match codec:
        case Codec.NONE:
            if len(view) > limit:
                raise too_large(limit)
            return view
        case Codec.GZIP:
            return _gunzip(view, limit, look)
        case Codec.SNAPPY:
            return snappy.decompress(view, limit, look)
        case Codec.LZ4:
            return _unlz4(view, limit, look)
        case Codec.ZSTD:
            return _unzstd(view, limit)
    raise InvalidBatch(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"codec {codec} does not exist")


def _gunzip(data: memoryview, limit: int, look: Callable[[], object]) -> Buffer:
    inflater = zlib.decompressobj(_GZIP_WBITS)
    output = Output(limit)
    position = 0
    left: Buffer = b""
    while not inflater.eof:
        if not left:
            left = data[position : position + INPUT_SLICE_BYTES]
            position += len(left)
        try:
            piece = inflater.decompress(left, output.next_piece_bytes)
        except zlib.error as error:
            raise corrupt("gzip: the data is malformed") from error
        if not (left or piece or inflater.eof):
            raise corrupt("gzip: the data is cut short")
        left = inflater.unconsumed_tail
        output.append(piece)
        look()
    if inflater.unused_data or position < len(data):
        raise corrupt("gzip: bytes after the end of the data")
    return output.result()


def _unlz4(data: memoryview, limit: int, look: Callable[[], object]) -> Buffer:
    import lz4.frame  # here as elsewhere: a server without a codec does without its memory

    inflater = lz4.frame.LZ4FrameDecompressor()
    output = Output(limit)
    position = 0
    while not inflater.eof:
        left = data[position : position + INPUT_SLICE_BYTES] if inflater.needs_input else b""
        position += len(left)
        try:
            piece = inflater.decompress(left, max_length=output.next_piece_bytes)
        except RuntimeError as error:
            raise corrupt("lz4: the frame is malformed") from error
        if not (left or piece or inflater.eof) and (position == len(data) or not inflater.needs_input):
            raise corrupt("lz4: the frame is cut short")
        output.append(piece)
        look()
    if inflater.unused_data or position < len(data):
        raise corrupt("lz4: bytes after the end of the frame")
    return output.result()


def _unzstd(data: memoryview, limit: int) -> bytes:
    import zstandard

    if bytes(data[:4]) != FRAME_MAGIC[Codec.ZSTD]:
        raise corrupt("zstd: no frame")
    try:
        frame = zstandard.get_frame_parameters(data)
        _expect_one_zstd_frame(data, zstandard.frame_header_size(data), frame)
        # zstandard ignores its own limit when the frame states a size, so that is judged here. A stated size
        # that is false is an error of the library's later on, and one that is true needs no window.
        if frame.content_size == zstandard.CONTENTSIZE_UNKNOWN:
            if frame.window_size > ZSTD_PLAIN_WINDOW_BYTES:
                limit //= 2
        elif frame.content_size > limit:
            raise too_large(limit)
        inflater = zstandard.ZstdDecompressor(max_window_size=ZSTD_MAX_WINDOW_BYTES)
        # The library reads 0 as "no limit".
        output = inflater.decompress(data, max_output_size=max(limit, 1))
    except zstandard.ZstdError as error:
        raise corrupt("zstd: the frame is malformed or over the limit") from error
    if len(output) > limit:
        raise too_large(limit)
    return output


def _expect_one_zstd_frame(data: memoryview, position: int, frame: "FrameParameters") -> None:
    """Walk the frame's blocks (RFC 8878, 3.1.1.2) from ``position``: the last one must end with ``data``.

    zstandard ignores what follows a frame, and returns nothing at all for one that states a size of 0.
    """
    first = position
    last = blocks = 0
    while not last:
        if (blocks := blocks + 1) > MAX_ZSTD_BLOCKS:
            raise corrupt(f"zstd: more than {MAX_ZSTD_BLOCKS} blocks")
        header = int.from_bytes(data[position : position + 3], "little")
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        position += 3 + (1 if kind == _ZSTD_RLE_BLOCK else size)
        if position > len(data):
            raise corrupt("zstd: the frame is cut short")
    if position + (4 if frame.has_checksum else 0) != len(data):
        raise corrupt("zstd: the frame does not end with the data")
    if frame.content_size == 0 and position != first + 3:
        raise corrupt("zstd: the frame states a size of 0 and is not empty")


def compress(
    codec: int, data: Buffer, level: int | None = None, look: Callable[[], object] = no_look
) -> bytes:
    """``data`` in the form the Java client writes for ``codec``; ``level`` for those that have some, None for
    their own default. For what the server writes itself, tests and tools. Calls ``look`` between pieces.

    Raises :class:`ValueError`: no such codec.
    """
    view = memoryview(data)
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            deflater = zlib.compressobj(-1 if level is None else level, wbits=_GZIP_WBITS)
            return b"".join([*_pieces(deflater.compress, view, look), deflater.flush()])
        case Codec.SNAPPY:
            return snappy.compress_xerial(view, look)
        case Codec.LZ4:
            return _lz4(view, level, look)
        case Codec.ZSTD:
            import zstandard

            # The frame states its size, so zstd chooses its window by that.
            stream = zstandard.ZstdCompressor(3 if level is None else level).compressobj(size=len(view))
            return b"".join([*_pieces(stream.compress, view, look), stream.flush()])
    raise ValueError(f"codec {codec} does not exist")


def _lz4(data: memoryview, level: int | None, look: Callable[[], object]) -> bytes:
    import lz4.frame

    # Java reads only frames of independent blocks.
    frame = lz4.frame.LZ4FrameCompressor(
        compression_level=0 if level is None else level,
        block_linked=False,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
    )
    return b"".join([frame.begin(len(data)), *_pieces(frame.compress, data, look), frame.flush()])


def _pieces(
    deflate: Callable[[memoryview], bytes], data: memoryview, look: Callable[[], object]
) -> list[bytes]:
    """What a codec makes of ``data``, a piece at a time."""
    made = []
    for start in range(0, len(data), DEFLATED_AT_ONCE_BYTES):
        made.append(deflate(data[start : start + DEFLATED_AT_ONCE_BYTES]))
        look()
    return made
