"""The 61 bytes before the records, against bytes written by hand."""

import pytest

from wireproto.kafka.errors import ErrorCode
from wireproto.records.errors import InvalidBatch
from wireproto.records.header import HEADER_BYTES, BatchHeader, read_header

# Every field has its own value, so that no two can be mistaken for each other.
HEADER = bytes.fromhex(
    "0000000000000102"  # base offset 258
    "00000040"  # batch length 64
    "00000007"  # leader epoch 7
    "02"  # magic
    "deadbeef"  # CRC
    "005b"  # attributes: delete horizon, transactional, LogAppendTime, lz4
    "00000009"  # last offset delta 9
    "000001a000000001"  # base timestamp
    "000001a000000002"  # max timestamp
    "0000000000000bb8"  # producer id 3000
    "0005"  # producer epoch 5
    "00000011"  # base sequence 17
    "0000000a"  # count 10
)


def test_every_field_at_its_place() -> None:
    assert len(HEADER) == HEADER_BYTES
    header = read_header(memoryview(HEADER + b"the records"))
    assert header == BatchHeader(
        base_offset=258,
        batch_length=64,
        leader_epoch=7,
        magic=2,
        crc=0xDEADBEEF,
        attributes=0x5B,
        last_offset_delta=9,
        base_timestamp=0x1A000000001,
        max_timestamp=0x1A000000002,
        producer_id=3000,
        producer_epoch=5,
        base_sequence=17,
        count=10,
    )
    assert header.size == 76
    assert header.last_offset == 267
    assert header.codec == 3
    assert header.producer_id >= 0


@pytest.mark.parametrize(
    ("attributes", "log_append_time", "transactional", "control", "horizon"),
    [
        (0x00, False, False, False, None),
        (0x07, False, False, False, None),
        (0x08, True, False, False, None),
        (0x10, False, True, False, None),
        (0x20, False, False, True, None),
        (0x40, False, False, False, 0x1A000000001),
        (-1, True, True, True, 0x1A000000001),
    ],
)
def test_attributes(
    attributes: int, log_append_time: bool, transactional: bool, control: bool, horizon: int | None
) -> None:
    header = read_header(HEADER)._replace(attributes=attributes)
    assert header.is_log_append_time is log_append_time
    assert header.is_transactional is transactional
    assert header.is_control is control
    assert header.delete_horizon == horizon
    assert header.codec == attributes & 7


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        HEADER[:60],
        HEADER[:16] + b"\x01" + HEADER[17:],
        HEADER[:16] + b"\x03" + HEADER[17:],
        HEADER[:8] + b"\x00\x00\x00\x30" + HEADER[12:],
        HEADER[:8] + b"\x00\x00\x00\x00" + HEADER[12:],
        HEADER[:8] + b"\xff\xff\xff\xff" + HEADER[12:],
        HEADER[:8] + b"\x80\x00\x00\x00" + HEADER[12:],
    ],
)
def test_headers_that_cannot_be_used(bad: bytes) -> None:
    with pytest.raises(InvalidBatch) as caught:
        read_header(bad)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_the_smallest_batch_length_is_a_header() -> None:
    assert read_header(HEADER[:8] + b"\x00\x00\x00\x31" + HEADER[12:]).size == HEADER_BYTES
