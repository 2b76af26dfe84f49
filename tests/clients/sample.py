"""What every client sends, and what must come back."""

from __future__ import annotations

import hashlib

from tests.differential.batches import CODECS, Record

CODEC_NAMES = list(CODECS)
T0 = 1_700_000_000_000
LARGEST_VALUE_BYTES = (
    1_000_000  # with its batch header still below the default max.message.bytes of 1,048,588
)
SIZES = [0, 1, 10, 127, 128, 1_000, 20_000, 300_000, LARGEST_VALUE_BYTES]


def text(length: int, seed: str) -> bytes:
    """Text that compresses (librdkafka stores uncompressed what does not), different for every seed."""
    piece = hashlib.sha256(seed.encode()).hexdigest().encode()
    return (piece * (length // len(piece) + 1))[:length]


def records(*, null_header_values: bool = True) -> list[Record]:
    """Sizes from nothing to the largest, null and empty keys and values, headers, times that go back."""
    made = [Record(text(size, f"v{size}"), b"key %d" % size, T0 + n) for n, size in enumerate(SIZES)]
    nothing = [(b"", b"k"), (b"v", b""), (b"", b""), (None, b"k"), (b"v", None), (None, None)]
    made += [Record(value, key, T0 + 100 - n) for n, (value, key) in enumerate(nothing)]
    made += [
        Record(b"one header", b"k", T0 + 200, (("name", b"value"),)),
        Record(b"many", None, T0 + 201, tuple((f"h{n}", text(n, f"h{n}")) for n in range(20))),
        Record(b"same name", b"k", T0 + 202, (("h", b"2"), ("h", b"1"), ("h", b"2"))),
        Record(b"empty", b"k", T0 + 203, (("", b""), ("empty", b""))),
        Record(b"\0\xff\x80\n\r\t", b"\0", T0 + 204, (("\N{SNOWMAN}", b"\0\xff"),)),
    ]
    if null_header_values:
        made.append(Record(b"null header", b"k", T0 + 205, (("null", None), ("not", b"null"))))
    return made


def small_records(count: int, seed: str = "") -> list[Record]:
    """Many records of some 100 bytes, a millisecond apart."""
    return [Record(text(100, f"{seed}{n}"), b"%d" % n, T0 + n) for n in range(count)]
