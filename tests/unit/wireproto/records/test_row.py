"""The row beside a batch: fixed bytes, from the header alone."""

import mmap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wireproto.records.damage import altered
from wireproto.kafka.errors import ErrorCode
from wireproto.records.builder import build_batch
from wireproto.records.errors import InvalidBatch
from wireproto.records.header import HEADER, HEADER_BYTES, BatchHeader
from wireproto.records.row import ROW_BYTES, Row, row_of

ROW = Row(
    base_offset=0x0102030405060708,
    last_offset=0x0102030405060709,
    max_timestamp=-1,
    running_max_timestamp=0x1A1EE26AE00,
    producer_id=3000,
    producer_epoch=-1,
    base_sequence=2_000_000_000,
    attributes=0x14,
    size=131_072,
)
PACKED = bytes.fromhex(
    "0102030405060708 0102030405060709 ffffffffffffffff 000001a1ee26ae00"
    "0000000000000bb8 ffff 77359400 0014 00020000"
)


def test_the_bytes_of_a_row_are_fixed() -> None:
    assert len(PACKED) == ROW_BYTES == 52
    assert ROW.pack() == PACKED
    assert Row.unpack(memoryview(PACKED)) == ROW


@pytest.mark.parametrize("data", [b"", PACKED[:-1], PACKED + b"\0"])
def test_other_lengths_are_no_row(data: bytes) -> None:
    with pytest.raises(InvalidBatch):
        Row.unpack(data)


BATCH = build_batch(
    [(None, b"a", [], 50), (None, b"b", [], 90), (None, b"c", [], 70)],
    codec=4,
    base_offset=1000,
    producer_id=5,
    producer_epoch=2,
    base_sequence=40,
)


@pytest.mark.parametrize(("previous", "running"), [(-1, 90), (89, 90), (90, 90), (91, 91)])
def test_a_row_from_a_batch(previous: int, running: int) -> None:
    assert row_of(memoryview(BATCH), previous) == Row(
        base_offset=1000,
        last_offset=1002,
        max_timestamp=90,
        running_max_timestamp=running,
        producer_id=5,
        producer_epoch=2,
        base_sequence=40,
        attributes=4,
        size=len(BATCH),
    )


@pytest.mark.parametrize(
    "content", [b"", BATCH[:-1], BATCH + b"\0", altered(BATCH, magic=1), altered(BATCH, last_offset_delta=-1)]
)
def test_no_row_without_a_whole_batch(content: bytes) -> None:
    with pytest.raises(InvalidBatch) as caught:
        row_of(content, -1)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_batch_that_compaction_emptied_keeps_its_offsets() -> None:
    row = row_of(altered(BATCH, count=0), -1)
    assert (row.base_offset, row.last_offset) == (1000, 1002)


LAST = (1 << 63) - 1


@pytest.mark.parametrize(("base", "delta", "fits"), [(LAST, 0, True), (LAST - 1, 1, True), (LAST, 1, False)])
def test_offsets_beyond_the_last_one_have_no_row(base: int, delta: int, fits: bool) -> None:
    content = altered(BATCH, base_offset=base, last_offset_delta=delta)
    if fits:
        assert Row.unpack(row_of(content, -1).pack()).last_offset == LAST
    else:
        with pytest.raises(InvalidBatch):
            row_of(content, -1)


@pytest.mark.parametrize(("size", "fits"), [((1 << 31) - 1, True), (1 << 31, False)])
def test_a_size_beyond_the_largest_one_has_no_row(size: int, fits: bool) -> None:
    header = altered(BATCH, batch_length=size - 12)[:HEADER_BYTES]
    with mmap.mmap(-1, size) as pages:  # only the first page is ever touched
        pages[:HEADER_BYTES] = header
        with memoryview(pages) as content:
            if fits:
                assert Row.unpack(row_of(content, -1).pack()).size == size
            else:
                with pytest.raises(InvalidBatch):
                    row_of(content, -1)


INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT16 = st.integers(-(1 << 15), (1 << 15) - 1)


@given(
    previous=INT64,
    header=st.builds(
        BatchHeader, st.one_of(INT64, st.integers(LAST - 2, LAST)), INT32, INT32, st.integers(0, 3),
        st.integers(0, (1 << 32) - 1), INT16, INT32,
        INT64, INT64, INT64, INT16, INT32, INT32,
    ),
    whole=st.booleans(),
    rest=st.binary(max_size=20),
)  # fmt: skip
def test_a_batch_is_refused_or_has_a_row_that_can_be_kept(
    previous: int, header: BatchHeader, whole: bool, rest: bytes
) -> None:
    """Whatever its header says."""
    if whole:
        header = header._replace(magic=2, batch_length=HEADER_BYTES + len(rest) - 12)
    content = HEADER.pack(*header) + rest
    try:
        row = row_of(content, previous)
    except InvalidBatch:
        return
    assert Row.unpack(row.pack()) == row


@given(st.tuples(INT64, INT64, INT64, INT64, INT64, INT16, INT32, INT16, INT32))
def test_round_trip(values: tuple[int, ...]) -> None:
    row = Row._make(values)
    assert Row.unpack(row.pack()) == row
