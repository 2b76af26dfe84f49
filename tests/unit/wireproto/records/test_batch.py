"""A batch changed in place, and the check of one that comes back from a store."""

import pytest

from tests.unit.wireproto.records.damage import altered
from wireproto.kafka.errors import ErrorCode
from wireproto.records.batch import (
    FIX_MAX_RECORDS,
    InvalidBatch,
    assign_offsets,
    check_stored,
    fix_max_timestamp,
    read_header,
    set_log_append_time,
)
from wireproto.records.builder import RecordFields, build_batch
from wireproto.records.header import HEADER_BYTES
from wireproto.records.iteration import iter_records

# The largest timestamp is neither the first nor the last.
RECORDS: list[RecordFields] = [(b"k", b"v", [], time) for time in (500, 480, 530, 510)]
CODECS = range(5)


@pytest.mark.parametrize("codec", CODECS)
def test_offsets_and_epoch_leave_the_crc_right(codec: int) -> None:
    before = build_batch(RECORDS, codec=codec)
    batch = bytearray(before)
    assign_offsets(memoryview(batch), 1 << 40, 77)
    header = check_stored(batch)
    assert (header.base_offset, header.leader_epoch, header.last_offset) == (1 << 40, 77, (1 << 40) + 3)
    assert batch[16:] == before[16:]
    assert batch[8:12] == before[8:12]
    assert [record.offset for record in iter_records(batch)] == [(1 << 40) + n for n in range(4)]


def test_offsets_inside_a_larger_buffer_touch_nothing_else() -> None:
    batch = build_batch(RECORDS)
    frame = bytearray(b"<" * 10 + batch + b">" * 10)
    assign_offsets(memoryview(frame)[10 : 10 + len(batch)], 5, 1)
    assert frame[:10] == b"<" * 10
    assert frame[-10:] == b">" * 10
    assert read_header(memoryview(frame)[10:]).base_offset == 5


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("claimed", [-1, 499, -(1 << 63)])
def test_a_max_timestamp_below_the_base_is_recomputed(codec: int, claimed: int) -> None:
    right = build_batch(RECORDS, codec=codec)
    batch = bytearray(altered(right, max_timestamp=claimed))
    header = fix_max_timestamp(memoryview(batch), read_header(batch))
    assert header.max_timestamp == 530
    assert bytes(batch) == right
    assert check_stored(batch) == header


@pytest.mark.parametrize("claimed", [500, 501, 530, (1 << 63) - 1])
def test_a_possible_max_timestamp_is_left_alone(claimed: int) -> None:
    before = altered(build_batch(RECORDS), max_timestamp=claimed)
    batch = bytearray(before)
    header = read_header(batch)
    assert fix_max_timestamp(memoryview(batch), header) is header
    assert bytes(batch) == before


def test_no_timestamps_need_no_max() -> None:
    batch = bytearray(build_batch([(None, b"v", [], -1)]))
    header = read_header(batch)
    assert (header.base_timestamp, header.max_timestamp) == (-1, -1)
    assert fix_max_timestamp(batch, header) is header


def test_records_all_below_a_false_base_and_max() -> None:
    """Deltas are relative to the base: the largest may be below it, and then stays so."""
    batch = bytearray(build_batch([(None, b"a", [], 100), (None, b"b", [], 90)]))
    first_delta_at = HEADER_BYTES + 2
    assert batch[first_delta_at] == 0
    batch[first_delta_at] = 1  # zigzag of -1
    batch = bytearray(altered(bytes(batch), max_timestamp=-1))
    assert fix_max_timestamp(batch, read_header(batch)).max_timestamp == 99


@pytest.mark.parametrize("codec", CODECS)
def test_records_that_cannot_be_read_leave_the_batch_as_it_was(codec: int) -> None:
    whole = build_batch(RECORDS, codec=codec)
    before = altered(whole[:-2], batch_length=len(whole) - 14, max_timestamp=-1)
    batch = bytearray(before)
    with pytest.raises(InvalidBatch):
        fix_max_timestamp(memoryview(batch), read_header(batch))
    assert bytes(batch) == before


def test_a_false_max_timestamp_over_many_records_is_refused() -> None:
    """A kilobyte of zstd can hold millions of records: reading them all would stall the server."""
    for count, allowed in ((FIX_MAX_RECORDS, True), (FIX_MAX_RECORDS + 1, False)):
        before = altered(build_batch([(None, None, [], 5)] * count, codec=4), max_timestamp=-1)
        batch = bytearray(before)
        if allowed:
            assert fix_max_timestamp(batch, read_header(batch)).max_timestamp == 5
        else:
            with pytest.raises(InvalidBatch) as caught:
                fix_max_timestamp(batch, read_header(batch))
            assert caught.value.code is ErrorCode.INVALID_TIMESTAMP
            assert bytes(batch) == before


def test_the_limit_holds_while_recomputing() -> None:
    batch = bytearray(altered(build_batch([(None, bytes(5000), [], 5)], codec=4), max_timestamp=-1))
    with pytest.raises(InvalidBatch) as caught:
        fix_max_timestamp(batch, read_header(batch), limit=5000)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert fix_max_timestamp(batch, read_header(batch), limit=5100).max_timestamp == 5


@pytest.mark.parametrize("codec", CODECS)
def test_log_append_time(codec: int) -> None:
    batch = bytearray(build_batch(RECORDS, codec=codec, attributes=0x40))
    before = read_header(batch)
    header = set_log_append_time(memoryview(batch), 9_999)
    assert check_stored(batch) == header
    assert header.is_log_append_time
    assert header.attributes == before.attributes | 8
    assert header.max_timestamp == 9_999
    assert header == before._replace(attributes=header.attributes, max_timestamp=9_999, crc=header.crc)
    assert {record.timestamp for record in iter_records(batch)} == {9_999}


STORED = build_batch(RECORDS, codec=3, base_offset=10)


def test_a_stored_batch() -> None:
    for content in (STORED, bytearray(STORED), memoryview(STORED)):
        assert check_stored(content) == read_header(STORED)


@pytest.mark.parametrize("position", range(16, len(STORED)))
def test_any_changed_byte_of_a_stored_batch_is_noticed(position: int) -> None:
    """All that the CRC covers, the CRC itself and the magic. The other fields are the reader's to compare."""
    changed = bytearray(STORED)
    changed[position] ^= 0x10
    with pytest.raises(InvalidBatch) as caught:
        check_stored(changed)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("content", [b"", STORED[:60], STORED[:-1], STORED + b"\0", STORED + STORED])
def test_a_stored_batch_is_exactly_one(content: bytes) -> None:
    with pytest.raises(InvalidBatch) as caught:
        check_stored(content)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
