"""The codecs: what they read and write, what they refuse, and where they stop."""

import gzip
import random
import struct
import zlib
from collections.abc import Callable

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from wireproto.kafka.errors import ErrorCode
from wireproto.records.compression import (
    DEFLATED_AT_ONCE_BYTES,
    FRAME_MAGIC,
    MAX_EXPANSION,
    MAX_ZSTD_BLOCKS,
    Codec,
    compress,
    decompress,
)
from wireproto.records.errors import InvalidBatch
from wireproto.records.output import PIECE_BYTES
from wireproto.records.snappy import XERIAL_HEADER, XERIAL_MAGIC, compress_raw

COMPRESSED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
TEXT = b"the quick brown fox jumps over the lazy dog. " * 40


def zstd_stream(data: bytes) -> bytes:
    """As Java writes it: the frame does not state its size."""
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(data) + stream.flush()


FORMS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "gzip": (Codec.GZIP, gzip.compress),
    "snappy raw": (Codec.SNAPPY, compress_raw),
    "snappy xerial": (Codec.SNAPPY, lambda data: compress(Codec.SNAPPY, data)),
    "lz4": (Codec.LZ4, lambda data: compress(Codec.LZ4, data)),
    "lz4 linked, checksums, size": (
        Codec.LZ4,
        lambda data: lz4.frame.compress(
            data, block_linked=True, block_checksum=True, content_checksum=True, store_size=True, block_size=7
        ),
    ),
    "zstd": (Codec.ZSTD, lambda data: compress(Codec.ZSTD, data)),
    "zstd without a size": (Codec.ZSTD, zstd_stream),
    "zstd with a checksum": (Codec.ZSTD, zstandard.ZstdCompressor(write_checksum=True).compress),
}
forms = pytest.mark.parametrize(("codec", "make"), FORMS.values(), ids=FORMS)


def refusal(codec: int, data: bytes, limit: int = 1 << 20) -> ErrorCode:
    with pytest.raises(InvalidBatch) as caught:
        decompress(codec, data, limit)
    return caught.value.code


@forms
@pytest.mark.parametrize(
    "data",
    [b"", b"x", TEXT, random.Random(1).randbytes(70_000), bytes(200_000), TEXT * 40],
    ids=["empty", "one", "text", "random", "zeros", "long"],
)
def test_round_trip(codec: int, make: Callable[[bytes], bytes], data: bytes) -> None:
    for buffer in (make(data), bytearray(make(data)), memoryview(b"<" + make(data) + b">")[1:-1]):
        assert bytes(decompress(codec, buffer, 1 << 20)) == data


@forms
@pytest.mark.parametrize("size", [PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES + 7])
def test_output_of_several_pieces(codec: int, make: Callable[[bytes], bytes], size: int) -> None:
    block = random.Random(size).randbytes(1000)
    data = (block * (size // 1000 + 1))[:size]
    for limit in (size, size + 1, 4 * PIECE_BYTES):
        assert bytes(decompress(codec, make(data), limit)) == data


@forms
@pytest.mark.parametrize("size", [1, 2, 1000, PIECE_BYTES, PIECE_BYTES + 1, 2 * PIECE_BYTES])
def test_one_byte_over_the_limit(codec: int, make: Callable[[bytes], bytes], size: int) -> None:
    over = {ErrorCode.MESSAGE_TOO_LARGE}
    if make is zstd_stream:
        over.add(ErrorCode.CORRUPT_MESSAGE)  # zstandard does not tell the two apart
    data = make(bytes(size))
    assert refusal(codec, data, size - 1) in over
    assert refusal(codec, data, size // 2) in over


def test_uncompressed_data_has_the_same_limit() -> None:
    assert bytes(decompress(Codec.NONE, b"12345", 5)) == b"12345"
    assert refusal(Codec.NONE, b"12345", 4) is ErrorCode.MESSAGE_TOO_LARGE


@forms
def test_every_cut_is_noticed(codec: int, make: Callable[[bytes], bytes]) -> None:
    data = make(TEXT)
    for end in range(len(data)):
        if codec == Codec.SNAPPY and data[:end] == XERIAL_HEADER:
            assert bytes(decompress(codec, data[:end], 1 << 20)) == b""  # no chunks: well-formed, and empty
            continue
        assert refusal(codec, data[:end]) is ErrorCode.CORRUPT_MESSAGE, end


@forms
@pytest.mark.parametrize("tail", [b"\0", b"junk and more junk", None], ids=["zero", "junk", "a second one"])
def test_nothing_may_follow(codec: int, make: Callable[[bytes], bytes], tail: bytes | None) -> None:
    data = make(TEXT)
    assert refusal(codec, data + (data if tail is None else tail)) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize(
    "data", [b"", b"\0" * 100, b"\xff" * 100, TEXT], ids=["empty", "zeros", "ones", "text"]
)
def test_other_data(codec: int, data: bytes) -> None:
    assert refusal(codec, data) in {ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE}


@pytest.mark.parametrize("codec", [5, 6, 7, -1, 8])
def test_codecs_that_do_not_exist(codec: int) -> None:
    assert refusal(codec, b"x") is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    with pytest.raises(ValueError, match="does not exist"):
        compress(codec, b"x")


@pytest.mark.parametrize("codec", COMPRESSED)
def test_what_we_write_is_what_java_reads(codec: int) -> None:
    data = compress(codec, TEXT * 100)
    assert data.startswith(XERIAL_HEADER if codec == Codec.SNAPPY else FRAME_MAGIC[codec])
    if codec == Codec.LZ4:
        flags = data[4]
        assert flags >> 6 == 1  # version 01
        assert flags >> 5 & 1  # Java's Lz4BlockInputStream takes independent blocks alone
        assert data[5] >> 4 & 7 == 4  # 64 KiB, as Java writes


def test_xerial_chunks_are_those_of_java() -> None:
    data = random.Random(3).randbytes(70_000)
    out = compress(Codec.SNAPPY, data)
    assert out[:8] == XERIAL_MAGIC
    position, chunks = 16, []
    while position < len(out):
        (size,) = struct.unpack_from(">i", out, position)
        chunks.append(bytes(cramjam.snappy.decompress_raw(out[position + 4 : position + 4 + size])))
        position += 4 + size
    assert [len(chunk) for chunk in chunks] == [32_768, 32_768, 4_464]
    assert b"".join(chunks) == data


RAW = compress_raw(b"abcd" * 20)


def chunk(block: bytes, size: int | None = None) -> bytes:
    return struct.pack(">i", len(block) if size is None else size) + block


MALFORMED_XERIAL = {
    "magic alone": XERIAL_MAGIC,
    "header cut": XERIAL_HEADER[:15],
    "size cut": XERIAL_HEADER + b"\0\0\0",
    "size 0": XERIAL_HEADER + chunk(b"", 0),
    "size -1": XERIAL_HEADER + chunk(RAW, -1),
    "size beyond the end": XERIAL_HEADER + chunk(RAW, len(RAW) + 1),
    "size of 2^31 - 1": XERIAL_HEADER + chunk(RAW, (1 << 31) - 1),
    "size too small": XERIAL_HEADER + chunk(RAW, len(RAW) - 1),
    "second chunk broken": XERIAL_HEADER + chunk(RAW) + chunk(RAW[:-1]),
    "not snappy": XERIAL_HEADER + chunk(b"\x10" + b"\xff" * 20),
}


@pytest.mark.parametrize("data", MALFORMED_XERIAL.values(), ids=MALFORMED_XERIAL)
def test_malformed_xerial(data: bytes) -> None:
    assert refusal(Codec.SNAPPY, data) is ErrorCode.CORRUPT_MESSAGE


def test_chunks_count_together() -> None:
    data = XERIAL_HEADER + chunk(RAW) * 3
    assert bytes(decompress(Codec.SNAPPY, data, 240)) == b"abcd" * 60
    assert refusal(Codec.SNAPPY, data, 239) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(
    ("stated", "code"),
    [
        ("ffffffff0f", ErrorCode.CORRUPT_MESSAGE),  # 4 GiB cannot come from 100 bytes
        ("ffffffff7f", ErrorCode.CORRUPT_MESSAGE),  # nor can what does not fit 32 bits
        ("808080808001", ErrorCode.CORRUPT_MESSAGE),
        ("80808080", ErrorCode.CORRUPT_MESSAGE),
        ("50", ErrorCode.CORRUPT_MESSAGE),  # possible, but not what is inside
    ],
)
def test_forged_snappy_length(stated: str, code: ErrorCode) -> None:
    assert refusal(Codec.SNAPPY, (bytes.fromhex(stated) + b"\xff" * 100)[:100]) is code


@pytest.mark.parametrize("forged", [0, 1, 4_999, 5_001, 1 << 20, (1 << 32) - 1])
def test_forged_zstd_size(forged: int) -> None:
    frame = zstandard.ZstdCompressor().compress(random.Random(4).randbytes(50) * 2000)
    assert frame[4] == 0xA0  # single segment, four bytes of size
    wrong = frame[:5] + struct.pack("<I", forged) + frame[9:]
    expected = ErrorCode.MESSAGE_TOO_LARGE if forged > 1 << 20 else ErrorCode.CORRUPT_MESSAGE
    assert refusal(Codec.ZSTD, wrong) is expected


def test_a_zstd_window_beyond_the_cap() -> None:
    frame = bytearray(zstd_stream(TEXT))
    assert frame[4] & 0x20 == 0
    frame[5] = (27 - 10) << 3
    assert decompress(Codec.ZSTD, frame, 1 << 20) == TEXT
    frame[5] = (28 - 10) << 3
    assert refusal(Codec.ZSTD, bytes(frame)) is ErrorCode.CORRUPT_MESSAGE


def test_a_large_zstd_window_leaves_half_of_the_limit() -> None:
    frame = bytearray(zstd_stream(bytes(1000)))
    frame[5] = (23 - 10) << 3
    assert decompress(Codec.ZSTD, frame, 1000) == bytes(1000)
    frame[5] = (24 - 10) << 3
    assert decompress(Codec.ZSTD, frame, 2000) == bytes(1000)
    assert refusal(Codec.ZSTD, bytes(frame), 1998) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("codec", "densest"),
    [
        (Codec.GZIP, zlib.compressobj(9, wbits=31)),
        (Codec.LZ4, lz4.frame.LZ4FrameCompressor(block_size=7)),
        (Codec.ZSTD, zstandard.ZstdCompressor(level=19).compressobj()),
    ],
)
def test_no_codec_expands_more_than_stated(codec: int, densest: object) -> None:
    size = 20_000_000
    if isinstance(densest, lz4.frame.LZ4FrameCompressor):
        data = densest.begin() + densest.compress(bytes(size)) + densest.flush()
    else:
        data = densest.compress(bytes(size)) + densest.flush()  # type: ignore[attr-defined]
    assert size <= len(data) * MAX_EXPANSION[codec] < 2 * size
    block = compress_raw(bytes(size))
    assert size <= len(block) * MAX_EXPANSION[Codec.SNAPPY] < 2 * size


@given(st.sampled_from(range(5)), st.binary(max_size=300), st.integers(0, 2000))
def test_any_bytes_at_all(codec: int, data: bytes, limit: int) -> None:
    for start in (FRAME_MAGIC[codec], XERIAL_HEADER if codec == Codec.SNAPPY else b""):
        try:
            assert len(decompress(codec, start + data, limit)) <= limit
        except InvalidBatch:
            pass


@given(st.sampled_from(sorted(FORMS)), st.integers(0, 10_000), st.integers(0, 255), st.integers(0, 2000))
@example("zstd", 4, 0x80, 2000)
def test_a_changed_byte(form: str, position: int, value: int, limit: int) -> None:
    """Wrong output is the CRC's to notice; here only: within the limit or refused."""
    codec, make = FORMS[form]
    data = bytearray(make(TEXT))
    data[position % len(data)] = value
    try:
        assert len(decompress(codec, data, limit)) <= limit
    except InvalidBatch:
        pass


class Gone(Exception):
    """What a look raises when nobody wants the result any more."""


def look_that_ends_after(looks: int) -> Callable[[], None]:
    left = [looks]

    def look() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Gone

    return look


@pytest.mark.parametrize("codec", COMPRESSED)
def test_deflating_looks_between_pieces_and_ends_there(codec: Codec) -> None:
    data = random.Random(2).randbytes(3 * DEFLATED_AT_ONCE_BYTES)
    looked: list[None] = []
    whole = compress(codec, data, look=lambda: looked.append(None))
    assert bytes(decompress(codec, whole, len(data))) == data
    assert len(looked) >= 3
    with pytest.raises(Gone):
        compress(codec, data, look=look_that_ends_after(1))


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_inflating_looks_between_pieces_and_ends_there(codec: Codec) -> None:
    data = random.Random(3).randbytes(4 * PIECE_BYTES)
    looked: list[None] = []
    packed = compress(codec, data)
    assert bytes(decompress(codec, packed, len(data), lambda: looked.append(None))) == data
    assert len(looked) >= 3
    with pytest.raises(Gone):
        decompress(codec, packed, len(data), look_that_ends_after(1))


def test_snappy_of_very_many_tiny_chunks_is_refused_before_they_are_all_looked_at() -> None:
    """A million empty chunks took 2.4 s. A stream that is flushed now and then is read."""

    def chunks(block: bytes, count: int) -> bytes:
        return XERIAL_HEADER + (struct.pack(">i", len(block)) + block) * count

    empty, one = compress_raw(b""), compress_raw(b"x")
    assert bytes(decompress(Codec.SNAPPY, chunks(one, 200), 1 << 20)) == b"x" * 200
    full = compress_raw(bytes(1024))
    assert bytes(decompress(Codec.SNAPPY, chunks(full, 1000), 1 << 20)) == bytes(1_024_000)
    for block in (empty, one):
        assert refusal(Codec.SNAPPY, chunks(block, 1_000_000)) is ErrorCode.CORRUPT_MESSAGE


def test_a_zstd_frame_of_very_many_empty_blocks_is_refused() -> None:
    def frame(blocks: int) -> bytes:
        return FRAME_MAGIC[Codec.ZSTD] + b"\x00\x58" + bytes(3) * (blocks - 1) + b"\x01\x00\x00"

    assert bytes(decompress(Codec.ZSTD, frame(MAX_ZSTD_BLOCKS), 1 << 20)) == b""
    assert refusal(Codec.ZSTD, frame(MAX_ZSTD_BLOCKS + 1)) is ErrorCode.CORRUPT_MESSAGE
