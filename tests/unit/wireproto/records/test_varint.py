"""Variable-length integers: Kafka's zigzag encoding, bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wireproto.kafka.errors import ErrorCode
from wireproto.records.errors import InvalidBatch
from wireproto.records.varint import read_varint, read_varlong, write_varint

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)

# From Kafka's ByteUtilsTest.
VARINTS = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (63, "7e"),
    (-64, "7f"),
    (64, "8001"),
    (-65, "8101"),
    (8191, "fe7f"),
    (-8192, "ff7f"),
    (8192, "808001"),
    (1048576, "80808001"),
    (134217728, "8080808001"),
    ((1 << 31) - 1, "feffffff0f"),
    (-(1 << 31), "ffffffff0f"),
]
VARLONGS = [
    *VARINTS,
    (1 << 34, "808080808001"),
    ((1 << 63) - 1, "feffffffffffffffff01"),
    (-(1 << 63), "ffffffffffffffffff01"),
]


@pytest.mark.parametrize(("value", "encoded"), VARLONGS)
def test_known_values(value: int, encoded: str) -> None:
    data = bytes.fromhex(encoded)
    out = bytearray()
    write_varint(value, out)
    assert out == data
    assert read_varlong(b"\xff" + data + b"\x00", 1, len(data) + 2) == (value, 1 + len(data))


@pytest.mark.parametrize(("value", "encoded"), VARINTS)
def test_known_values_of_32_bits(value: int, encoded: str) -> None:
    data = bytes.fromhex(encoded)
    assert read_varint(memoryview(data), 0, len(data)) == (value, len(data))


def test_more_bytes_than_needed_are_read_as_kafka_does() -> None:
    assert read_varint(b"\x80\x00", 0, 2) == (0, 2)
    assert read_varint(b"\x82\x80\x80\x80\x00", 0, 5) == (1, 5)


@pytest.mark.parametrize(
    "encoded",
    ["", "80", "ffffffff", "8080808080", "808080808001", "ffffffff1f", "8080808010", "ffffffff7f"],
)
def test_refused_as_32_bits(encoded: str) -> None:
    data = bytes.fromhex(encoded)
    with pytest.raises(InvalidBatch) as caught:
        read_varint(data, 0, len(data))
    assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    "encoded", ["", "80", "80" * 10, "80" * 10 + "01", "ff" * 9 + "02", "80" * 9 + "7f", "ff" * 1000]
)
def test_refused_as_64_bits(encoded: str) -> None:
    data = bytes.fromhex(encoded)
    with pytest.raises(InvalidBatch):
        read_varlong(data, 0, len(data))


def test_the_end_is_where_the_caller_says() -> None:
    data = bytes.fromhex("8001")
    assert read_varint(data, 0, 2) == (64, 2)
    for read in (read_varint, read_varlong):
        with pytest.raises(InvalidBatch):
            read(data, 0, 1)


@given(INT64)
def test_round_trip_of_64_bits(value: int) -> None:
    out = bytearray()
    write_varint(value, out)
    assert read_varlong(out, 0, len(out)) == (value, len(out))


@given(INT32)
def test_round_trip_of_32_bits(value: int) -> None:
    out = bytearray()
    write_varint(value, out)
    assert read_varint(out, 0, len(out)) == (value, len(out))
    assert len(out) <= 5
