"""The batch that ends a transaction: Kafka's bytes, and the row that a store keeps of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wireproto.kafka.errors import ErrorCode
from wireproto.records.batch import check_stored
from wireproto.records.builder import build_batch
from wireproto.records.control import MAX_MARKER_BYTES, EndMarker, marker_batch, read_marker
from wireproto.records.errors import InvalidBatch
from wireproto.records.header import CONTROL_FLAG, TRANSACTIONAL_FLAG, read_header
from wireproto.records.row import Row, row_of

# What `MemoryRecords.withEndTransactionMarker` of Apache Kafka 4.3.1 writes for producer 7 of epoch 3 at
# 1,700,000,000,000 ms and coordinator epoch 5: but for offset, leader epoch and CRC, field by field.
COMMITTED = (
    "0000000000000000 00000042 ffffffff 02 %s 0030 00000000"
    "0000018bcfe56800 0000018bcfe56800 0000000000000007 0003 ffffffff 00000001"
    "20 00 00 00 08 00000001 0c 000000000005 00"
)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_has_the_bytes_of_kafka(is_commit: bool) -> None:
    batch = marker_batch(7, 3, EndMarker(is_commit, 5), 1_700_000_000_000)
    written = bytes.fromhex(COMMITTED % batch[17:21].hex())
    expected = bytearray(written)
    expected[69] = is_commit
    assert batch == bytes(expected)
    assert check_stored(batch).is_control
    assert len(batch) <= MAX_MARKER_BYTES


@given(
    st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), st.booleans(), st.integers(-1, 2**31 - 1),
    st.integers(0, 2**62),
)  # fmt: skip
def test_what_is_written_is_read(
    producer_id: int, epoch: int, is_commit: bool, coordinator_epoch: int, timestamp: int
) -> None:
    marker = EndMarker(is_commit, coordinator_epoch)
    batch = marker_batch(producer_id, epoch, marker, timestamp)
    assert read_marker(batch) == marker
    row = row_of(batch, -1)
    assert Row.unpack(row.pack()).marker == marker
    assert (row.producer_id, row.producer_epoch, row.max_timestamp) == (producer_id, epoch, timestamp)
    assert row.is_control
    assert row.is_transactional


def _control(key: bytes | None, value: bytes | None, attributes: int = 0x30) -> bytes:
    return build_batch([(key, value, (), 1)], producer_id=1, producer_epoch=0, attributes=attributes)


NO_MARKERS = {
    "a batch of data": _control(b"\0\0\0\1", b"\0\0\0\0\0\1", TRANSACTIONAL_FLAG),
    "no key": _control(None, b"\0\0\0\0\0\1"),
    "a short key": _control(b"\0\0\0", b"\0\0\0\0\0\1"),
    "another type": _control(b"\0\0\0\2", b"\0\0\0\0\0\1"),
    "a version below 0": _control(b"\xff\xff\0\1", b"\0\0\0\0\0\1"),
    "no value": _control(b"\0\0\0\1", None),
    "a short value": _control(b"\0\0\0\1", b"\0\0\0\0\0"),
    "much that is inflated": build_batch(
        [(b"\0\0\0\1", bytes(1 << 20), (), 1)], codec=1, producer_id=1, producer_epoch=0, attributes=0x30
    ),
}


@pytest.mark.parametrize("name", NO_MARKERS)
def test_what_ends_no_transaction_is_refused_and_its_row_says_so(name: str) -> None:
    with pytest.raises(InvalidBatch):
        read_marker(NO_MARKERS[name])
    assert row_of(NO_MARKERS[name], -1).marker is None


def test_later_versions_and_more_bytes_are_taken() -> None:
    later = _control(b"\0\1\0\1more", b"\0\1\0\0\0\x09more")
    assert read_marker(later) == EndMarker(is_commit=True, coordinator_epoch=9)


@pytest.mark.parametrize("attributes", [0x0100, 0x0200, 0x0310])
def test_bits_of_a_client_make_no_marker(attributes: int) -> None:
    """Bits that Kafka gives no meaning pass; only those of a control batch count."""
    batch = build_batch([(None, b"x", (), 1)], producer_id=1, producer_epoch=0, attributes=attributes)
    assert row_of(batch, -1).marker is None
    empty = _control(None, None, attributes | CONTROL_FLAG)
    assert row_of(empty, -1).marker is None


@given(st.integers(0, 90), st.integers(0, 255))
def test_damaged_markers_raise_one_error_and_no_other(place: int, byte: int) -> None:
    damaged = bytearray(marker_batch(7, 3, EndMarker(is_commit=True, coordinator_epoch=5), 9))
    damaged[place % len(damaged)] = byte
    code = None
    try:
        read_marker(damaged)
    except InvalidBatch as error:
        code = error.code
    assert code in {None, *REFUSALS}


REFUSALS = (
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
)


def test_a_marker_has_one_record() -> None:
    header = read_header(marker_batch(7, 3, EndMarker(is_commit=False, coordinator_epoch=5), 9))
    assert (header.count, header.last_offset_delta, header.base_sequence, header.codec) == (1, 0, -1, 0)
