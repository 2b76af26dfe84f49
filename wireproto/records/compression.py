"""The four codecs of record batches, with bounded output.

Whoever sends a batch chooses how much its records inflate to (6 KB of zstd become 200 MiB), and some forms
state a size that need not be true. So nothing here believes a stated size beyond the limit it was given, and
nothing grows past it: resident memory is the limit and a codec's working memory (under 1 MiB; lz4 up to 8
MiB; zstd its window, which is written to only as far as output goes).

Accepted is exactly one frame, whole, with nothing after it, as librdkafka asks; no producer writes anything
else.
"""

import zlib
from enum import IntEnum
from typing import Final

import lz4.frame
import zstandard

from wireproto.kafka.errors import ErrorCode
from wireproto.records import snappy
from wireproto.records.errors import InvalidBatch, corrupt
from wireproto.records.header import Buffer


class Codec(IntEnum):
    """The codec in a batch's attributes (Kafka's ``CompressionType``)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


#: Output bytes that one batch may inflate to unless a caller says otherwise. Producers size batches before
#: compression: 16 KiB in Java, 1 MB in librdkafka; 64 MiB also holds what a 1 MiB batch of very repetitive
#: records becomes.
MAX_DECOMPRESSED_BYTES: Final = 64 * 1024 * 1024

#: Output bytes asked from gzip and lz4 at a time: most batches fit, and a bomb costs one piece beyond the
#: limit.
PIECE_BYTES: Final = 1024 * 1024

#: The largest zstd window, in bytes. zstd's own default, so what Kafka's brokers and clients take; Java's
#: level 22 needs it. Only address space: pages are touched as output is produced, and that is limited.
ZSTD_MAX_WINDOW_BYTES: Final = 128 * 1024 * 1024

#: Output bytes that a byte of compressed input can become at most, by codec: deflate codes 258 bytes in two
#: bits; see ``snappy``; lz4 extends a match by 255 a byte; a zstd block of one repeated byte makes 128 KiB of
#: four bytes.
MAX_EXPANSION: Final = (1, 1032, snappy.MAX_EXPANSION, 255, 32 * 1024)

_GZIP_WBITS: Final = 31
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"


def decompress(codec: int, data: Buffer, limit: int) -> bytes | bytearray:
    """What ``data`` inflates to, of at most ``limit`` bytes.

    Raises :class:`InvalidBatch`: MESSAGE_TOO_LARGE over the limit, CORRUPT_MESSAGE when the bytes are not
    whole or not of that codec, UNSUPPORTED_COMPRESSION_TYPE for a codec that does not exist.
    """
    view = memoryview(data)
    match codec:
        case Codec.NONE:
            if len(view) > limit:
                raise _too_large(limit)
            return bytes(view)
        case Codec.GZIP:
            return _gunzip(view, limit)
        case Codec.SNAPPY:
            return snappy.decompress(view, limit)
        case Codec.LZ4:
            return _unlz4(view, limit)
        case Codec.ZSTD:
            return _unzstd(view, limit)
    raise InvalidBatch(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"codec {codec} does not exist")


def _gunzip(data: memoryview, limit: int) -> bytes | bytearray:
    inflater = zlib.decompressobj(_GZIP_WBITS)
    out: bytes | bytearray = b""
    left: Buffer = data
    while not inflater.eof:
        try:
            piece = inflater.decompress(left, min(PIECE_BYTES, limit + 1 - len(out)))
        except zlib.error as error:
            raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, "gzip: the data is malformed") from error
        left = inflater.unconsumed_tail
        if not (piece or inflater.eof):
            raise corrupt("gzip: the data is cut short")
        out = _joined(out, piece, limit)
    if inflater.unused_data:
        raise corrupt("gzip: bytes after the end of the data")
    return out


def _unlz4(data: memoryview, limit: int) -> bytes | bytearray:
    inflater = lz4.frame.LZ4FrameDecompressor()
    out: bytes | bytearray = b""
    left: Buffer = data
    while not inflater.eof:
        try:
            piece = inflater.decompress(left, max_length=min(PIECE_BYTES, limit + 1 - len(out)))
        except RuntimeError as error:
            raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, "lz4: the frame is malformed") from error
        left = b""
        if not (piece or inflater.eof):
            raise corrupt("lz4: the frame is cut short")
        out = _joined(out, piece, limit)
    if inflater.unused_data:
        raise corrupt("lz4: bytes after the end of the frame")
    return out


def _unzstd(data: memoryview, limit: int) -> bytes:
    # zstandard ignores its own limit when the frame states a size, so that is judged first. A false size is
    # an error of the library's later on.
    if bytes(data[: len(_ZSTD_MAGIC)]) != _ZSTD_MAGIC:
        raise corrupt("zstd: no frame")
    try:
        stated = zstandard.get_frame_parameters(data).content_size
        if stated != zstandard.CONTENTSIZE_UNKNOWN and stated > limit:
            raise _too_large(limit)
        inflater = zstandard.ZstdDecompressor(max_window_size=ZSTD_MAX_WINDOW_BYTES)
        return inflater.decompress(data, max_output_size=limit, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise InvalidBatch(
            ErrorCode.CORRUPT_MESSAGE, "zstd: the frame is malformed or over the limit"
        ) from error


def _joined(out: bytes | bytearray, piece: bytes, limit: int) -> bytes | bytearray:
    """``out`` and ``piece`` as one; the first piece is taken as it is."""
    if len(out) + len(piece) > limit:
        raise _too_large(limit)
    if not out:
        return piece
    if isinstance(out, bytes):
        out = bytearray(out)
    out += piece
    return out


def _too_large(limit: int) -> InvalidBatch:
    return InvalidBatch(
        ErrorCode.MESSAGE_TOO_LARGE, f"the records inflate to more than the {limit} bytes allowed"
    )


def compress(codec: int, data: Buffer) -> bytes:
    """``data`` in the form the Java client writes for ``codec``. For tests, tools and internal topics.

    Raises :class:`ValueError`: no such codec.
    """
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            deflater = zlib.compressobj(wbits=_GZIP_WBITS)
            return deflater.compress(data) + deflater.flush()
        case Codec.SNAPPY:
            return snappy.compress_xerial(data)
        case Codec.LZ4:
            # Java reads only frames of independent blocks.
            frame = lz4.frame.compress(
                bytes(data), block_linked=False, block_size=lz4.frame.BLOCKSIZE_MAX64KB
            )
            return bytes(frame)
        case Codec.ZSTD:
            return zstandard.ZstdCompressor().compress(data)
    raise ValueError(f"codec {codec} does not exist")
