"""Small data that inflates to much, and sizes that lie: never more memory than the limit.

Each case inflates in a process of its own whose address space may grow by the limit and the codec's working
memory only: an allocation by a forged size fails there, and a library that aborts takes nobody else along.
The peak of its resident memory is measured as well.
"""

import json
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import lz4.frame
import pytest
import zstandard

from wireproto.records.compression import Codec, compress
from wireproto.records.snappy import XERIAL_HEADER

MIB = 1 << 20
LIMIT = 16 * MIB
BOMB = 200 * MIB
ROOT = Path(__file__).parents[4]

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="measures memory as Linux reports it"
)


def gzip_bomb(size: int) -> bytes:
    stream = zlib.compressobj(9, wbits=31)
    return b"".join(stream.compress(bytes(MIB)) for _ in range(size // MIB)) + stream.flush()


def lz4_bomb(block_size: int) -> Callable[[int], bytes]:
    def make(size: int) -> bytes:
        stream = lz4.frame.LZ4FrameCompressor(block_size=block_size, block_linked=False)
        pieces = [stream.begin(), *(stream.compress(bytes(MIB)) for _ in range(size // MIB)), stream.flush()]
        return b"".join(pieces)

    return make


def zstd_bomb(size: int, *, window_log: int = 21, states_size: bool = False) -> bytes:
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=window_log)
    compressor = zstandard.ZstdCompressor(compression_params=parameters)
    stream = compressor.compressobj(size=size) if states_size else compressor.compressobj()
    return b"".join(stream.compress(bytes(MIB)) for _ in range(size // MIB)) + stream.flush()


def snappy_length(size: int) -> bytes:
    out = bytearray()
    while size > 0x7F:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*out, size])


def snappy_bomb(size: int) -> bytes:
    """One zero as a literal, then copies of 64 bytes from one byte back; the last copy takes the rest."""
    copies, rest = divmod(size - 1, 64)
    last = bytes([(rest - 1) << 2 | 2, 1, 0]) if rest else b""
    return snappy_length(size) + b"\0\0" + b"\xfe\x01\0" * copies + last


def xerial_bomb(size: int) -> bytes:
    block = snappy_bomb(MIB)
    return XERIAL_HEADER + (struct.pack(">i", len(block)) + block) * (size // MIB)


def zstd_stating(stated: int, size: int) -> bytes:
    frame = zstd_bomb(size, states_size=True)
    (at,) = [n for n in range(5, 7) if frame[n : n + 4] == struct.pack("<I", size)]
    return frame[:at] + struct.pack("<I", stated) + frame[at + 4 :]


def inflate(codec: Codec, data: bytes, headroom: int) -> dict[str, object]:
    script = Path(__file__).with_name("inflate_under_limit.py")
    done = subprocess.run(
        [sys.executable, str(script), str(int(codec)), str(LIMIT), str(headroom)],
        input=data,
        capture_output=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    result: dict[str, object] = json.loads(done.stdout)
    return result


#: Working memory beyond the limit, in bytes, as promised; LARGE is with a block of lz4 or a window of zstd.
SMALL, LARGE = MIB, 9 * MIB
#: Address space beyond that: malloc takes it in steps.
STEPS = 2 * MIB
#: zstd reserves the window that a frame asks for; only its resident part counts against the promise.
WIDE_WINDOW = 128 * MIB

TOO_LARGE, CORRUPT = "MESSAGE_TOO_LARGE", "CORRUPT_MESSAGE"
BOMBS: dict[str, tuple[Codec, Callable[[], bytes], str, int, int]] = {
    # codec, data, answer, working memory allowed, address space allowed beyond that
    "gzip": (Codec.GZIP, lambda: gzip_bomb(BOMB), TOO_LARGE, SMALL, 0),
    "lz4, small blocks": (Codec.LZ4, lambda: lz4_bomb(4)(BOMB), TOO_LARGE, SMALL, 0),
    "lz4, large blocks": (Codec.LZ4, lambda: lz4_bomb(7)(BOMB), TOO_LARGE, LARGE, 0),
    "zstd": (Codec.ZSTD, lambda: zstd_bomb(BOMB), CORRUPT, LARGE, 0),
    "zstd stating its size": (Codec.ZSTD, lambda: zstd_bomb(BOMB, states_size=True), TOO_LARGE, SMALL, 0),
    "zstd, wide window": (Codec.ZSTD, lambda: zstd_bomb(BOMB, window_log=27), CORRUPT, SMALL, WIDE_WINDOW),
    "zstd, window beyond all": (Codec.ZSTD, lambda: zstd_bomb(BOMB, window_log=30), CORRUPT, SMALL, 0),
    "zstd stating less": (Codec.ZSTD, lambda: zstd_stating(1000, BOMB), CORRUPT, SMALL, 0),
    "zstd stating 4 GiB": (Codec.ZSTD, lambda: zstd_stating((1 << 32) - 1, 5 * MIB), TOO_LARGE, SMALL, 0),
    "zstd stating the limit": (Codec.ZSTD, lambda: zstd_stating(LIMIT, 5 * MIB), CORRUPT, SMALL, 0),
    "snappy": (Codec.SNAPPY, lambda: snappy_bomb(BOMB), TOO_LARGE, SMALL, 0),
    "snappy stating 4 GiB": (Codec.SNAPPY, lambda: b"\xff\xff\xff\xff\x0f" + bytes(100), CORRUPT, SMALL, 0),
    "snappy stating the limit": (
        Codec.SNAPPY,
        lambda: snappy_length(LIMIT) + b"\xff" * MIB,
        CORRUPT,
        SMALL,
        0,
    ),
    "xerial": (Codec.SNAPPY, lambda: xerial_bomb(BOMB), TOO_LARGE, SMALL, 0),
    "xerial chunk of 2 GiB": (
        Codec.SNAPPY,
        lambda: XERIAL_HEADER + b"\x7f\xff\xff\xff" + bytes(100),
        CORRUPT,
        SMALL,
        0,
    ),
}


@pytest.mark.parametrize(("codec", "make", "code", "working", "space"), BOMBS.values(), ids=BOMBS)
def test_a_bomb_costs_no_more_than_the_limit(
    codec: Codec, make: Callable[[], bytes], code: str, working: int, space: int
) -> None:
    result = inflate(codec, make(), LIMIT + working + STEPS + space)
    assert (result["code"], result["size"]) == (code, 0)
    assert int(str(result["resident"])) <= LIMIT + working


UP_TO_THE_LIMIT: dict[str, tuple[Codec, Callable[[], bytes], int]] = {
    "gzip": (Codec.GZIP, lambda: compress(Codec.GZIP, bytes(LIMIT)), SMALL),
    "snappy": (Codec.SNAPPY, lambda: snappy_bomb(LIMIT), SMALL),
    "xerial": (Codec.SNAPPY, lambda: compress(Codec.SNAPPY, bytes(LIMIT)), SMALL),
    "lz4": (Codec.LZ4, lambda: compress(Codec.LZ4, bytes(LIMIT)), SMALL),
    "zstd": (Codec.ZSTD, lambda: compress(Codec.ZSTD, bytes(LIMIT)), SMALL),
    "zstd without a size": (Codec.ZSTD, lambda: zstd_bomb(LIMIT), LARGE),
}


@pytest.mark.parametrize(("codec", "make", "working"), UP_TO_THE_LIMIT.values(), ids=UP_TO_THE_LIMIT)
def test_output_up_to_the_limit_costs_no_more_either(
    codec: Codec, make: Callable[[], bytes], working: int
) -> None:
    result = inflate(codec, make(), LIMIT + working + STEPS)
    assert (result["code"], result["size"]) == ("", LIMIT)
    assert LIMIT - MIB <= int(str(result["resident"])) <= LIMIT + working
