"""Batches that real producers wrote, in every codec: accepted, read whole, and kept under their CRC."""

import json
from pathlib import Path

import pytest

from wireproto.records.batch import check_stored, read_header, validate_produced
from wireproto.records.compression import Codec
from wireproto.records.iteration import find_timestamp, iter_records
from wireproto.records.snappy import XERIAL_MAGIC

CAPTURED = {
    name: bytes.fromhex(data)
    for name, data in json.loads(Path(__file__).with_name("producers.json").read_text()).items()
    if name != "about"
}
CODECS = {
    "none": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
    "zstd22": Codec.ZSTD,
}
START = 1_795_000_000_000


def what_was_sent(compressed: bool) -> list[tuple[object, ...]]:
    """Offset, timestamp, key, value and headers. Compressed, 67 KB of records: several xerial chunks."""
    return [
        (
            n,
            START + n * 37 % 50,
            None if n % 3 == 0 else b"key-%d" % n,
            None if n % 7 == 0 else b"value-%d-" % (n % 5) * (150 if compressed else 2),
            [("trace", "é".encode()), ("nul", None)] if n % 4 == 0 else [],
        )
        for n in range(50)
    ]


@pytest.mark.parametrize("name", CAPTURED)
def test_read_whole(name: str) -> None:
    batch = CAPTURED[name]
    codec = CODECS[name.partition("-")[2]]
    header = validate_produced(memoryview(batch), max_message_bytes=1_048_588)
    assert (header.codec, header.count, header.max_timestamp) == (codec, 50, START + 49)
    assert (header.producer_id >= 0) == (codec != Codec.NONE)
    assert check_stored(batch) == header == read_header(batch)
    records = [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in iter_records(memoryview(batch))]
    assert records == what_was_sent(compressed=codec != Codec.NONE)


@pytest.mark.parametrize("name", CAPTURED)
def test_every_timestamp_is_found_where_it_was_sent(name: str) -> None:
    sent = what_was_sent(compressed=True)
    for target in range(START - 1, START + 52):
        expected = next(((offset, time) for offset, time, *_ in sent if int(str(time)) >= target), None)
        assert find_timestamp(memoryview(CAPTURED[name]), target) == expected


def test_both_forms_of_snappy_are_there() -> None:
    assert CAPTURED["java-snappy"][61:].startswith(XERIAL_MAGIC)
    assert not CAPTURED["librdkafka-snappy"][61:].startswith(XERIAL_MAGIC)
