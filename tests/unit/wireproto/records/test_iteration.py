"""The records of a batch: read strictly, bounded, and found by their time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wireproto.records.damage import altered, resealed
from wireproto.kafka.errors import ErrorCode
from wireproto.records.batch import set_log_append_time
from wireproto.records.builder import RecordFields, build_batch
from wireproto.records.compression import compress
from wireproto.records.errors import InvalidBatch
from wireproto.records.header import HEADER_BYTES
from wireproto.records.iteration import Record, find_timestamp, iter_records, largest_timestamp
from wireproto.records.varint import write_varint

CODECS = range(5)
codecs = pytest.mark.parametrize("codec", CODECS)


def varint(value: int) -> bytes:
    out = bytearray()
    write_varint(value, out)
    return bytes(out)


def with_body(body: bytes, count: int, codec: int = 0) -> bytes:
    """A batch around ``body``, whatever that is, under a right CRC."""
    header = build_batch([(None, None, [], 1000)])[:HEADER_BYTES]
    packed = compress(codec, body)
    return altered(
        header + packed,
        attributes=codec,
        batch_length=HEADER_BYTES - 12 + len(packed),
        count=count,
        last_offset_delta=max(count - 1, 0),
    )


def record(*parts: bytes, length: int | None = None) -> bytes:
    body = b"".join(parts)
    return varint(len(body) if length is None else length) + body


def test_a_record_byte_by_byte() -> None:
    body = bytes.fromhex(
        "26"  # 19 bytes follow
        "00"  # attributes
        "09"  # timestamp delta -5
        "00"  # offset delta 0
        "04 6b31"  # key k1
        "06 76616c"  # value val
        "04"  # two headers
        "04 c3a9 02 78"  # é: x
        "02 6e 01"  # n: null
        "0e 00 a01f 02 01 01 00"  # 2,000 ms, offset delta 1, null key, null value
    )
    batch = altered(with_body(body, 2), base_offset=70)
    assert list(iter_records(batch)) == [
        Record(70, 995, b"k1", b"val", [("é", b"x"), ("n", None)]),
        Record(71, 3000, None, None, []),
    ]


START, NULL, EMPTY = b"\0\0\0", b"\x01", b"\0"
BIG = varint((1 << 31) - 1)
MALFORMED = {
    "nothing": b"",
    "length cut": b"\x80",
    "length too long": b"\xff" * 20,
    "length -1": record(START, NULL, NULL, EMPTY, length=-1),
    "length 0": record(START, NULL, NULL, EMPTY, length=0),
    "length 5": record(START, NULL, NULL, length=5),
    "length one too little": record(START, NULL, NULL, EMPTY, EMPTY, length=6),
    "length one too much": record(START, NULL, NULL, EMPTY, length=7),
    "length of 2^31 - 1": record(START, NULL, NULL, EMPTY, length=(1 << 31) - 1),
    "timestamp delta of eleven bytes": record(b"\0", b"\x80" * 10, b"\0\0", NULL, NULL, EMPTY),
    "offset delta of six bytes": record(b"\0\0", b"\x80" * 5, b"\0", NULL, NULL, EMPTY),
    "offset delta -1": record(b"\0\0\x01", NULL, NULL, EMPTY),
    "offset delta beyond the last": record(b"\0\0\x02", NULL, NULL, EMPTY),
    "key beyond the record": record(START, b"\x0a", NULL, EMPTY),
    "key of 2^31 - 1": record(START, BIG, NULL, EMPTY),
    "value beyond the record": record(START, NULL, b"\x0a", b"abc", EMPTY),
    "no header count": record(START, NULL, b"\x04", b"ab"),
    "header count -1": record(START, NULL, NULL, b"\x01"),
    "header count of 2^31 - 1": record(START, NULL, NULL, BIG),
    "more headers than bytes": record(START, NULL, NULL, b"\x04", b"\0\x01\0"),
    "header key null": record(START, NULL, NULL, b"\x02", NULL, NULL),
    "header key not UTF-8": record(START, NULL, NULL, b"\x02", b"\x02\xff", NULL),
    "header key a surrogate": record(START, NULL, NULL, b"\x02", b"\x06\xed\xa0\x80", NULL),
    "header key beyond the record": record(START, NULL, NULL, b"\x02", b"\x08k", NULL),
    "header value beyond the record": record(START, NULL, NULL, b"\x02", b"\x02k", b"\x06ab"),
    "bytes after the headers": record(START, NULL, NULL, EMPTY, b"\0"),
    "two records": record(START, NULL, NULL, EMPTY) * 2,
    "a byte after the record": record(START, NULL, NULL, EMPTY) + b"\0",
}


@codecs
@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_malformed_records(codec: int, body: bytes) -> None:
    batch = with_body(body, 1, codec)
    with pytest.raises(InvalidBatch) as caught:
        list(iter_records(batch))
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_a_field_may_not_run_into_the_next_record() -> None:
    """The first record's value claims more than the record; the bytes exist, but are another record's."""
    body = record(START, NULL, b"\x08", EMPTY) + record(b"\0\0\x02", NULL, NULL, EMPTY)
    with pytest.raises(InvalidBatch):
        list(iter_records(with_body(body, 2)))


@codecs
@pytest.mark.parametrize("count", [-(1 << 31), -1, 1, 3, 4, (1 << 31) - 1])
def test_another_count_than_there_are_records(codec: int, count: int) -> None:
    batch = altered(build_batch([(None, b"a", [], 5), (None, b"b", [], 6)], codec=codec), count=count)
    with pytest.raises(InvalidBatch) as caught:
        list(iter_records(batch))
    assert caught.value.code is ErrorCode.INVALID_RECORD


@codecs
def test_a_count_of_0_over_records(codec: int) -> None:
    with pytest.raises(InvalidBatch):
        list(iter_records(altered(build_batch([(None, b"a", [], 5)], codec=codec), count=0)))


def test_a_batch_that_compaction_emptied_has_no_records() -> None:
    batch = altered(build_batch([(None, b"a", [], 5)])[:HEADER_BYTES], batch_length=49, count=0)
    assert list(iter_records(batch)) == []
    assert find_timestamp(batch, 0) is None
    assert largest_timestamp(batch) == -1


def test_offsets_may_have_gaps_as_compaction_leaves_them() -> None:
    body = record(b"\0\0\x04", NULL, NULL, EMPTY) + record(b"\0\x02\x08", NULL, NULL, EMPTY)
    batch = altered(with_body(body, 2), base_offset=100, last_offset_delta=9, max_timestamp=1001)
    assert [(r.offset, r.timestamp) for r in iter_records(batch)] == [(102, 1000), (104, 1001)]
    assert find_timestamp(batch, 0) == (102, 1000)


def test_a_timestamp_beyond_64_bits() -> None:
    batch = altered(build_batch([(None, b"a", [], 5), (None, b"b", [], 6)]), base_timestamp=(1 << 63) - 1)
    with pytest.raises(InvalidBatch):
        list(iter_records(batch))


def test_records_come_one_by_one_and_the_broken_one_last() -> None:
    good = build_batch([(b"k", b"v", [], 5)] * 3)
    batch = resealed(good[:-1] + b"\x7f")  # the last record's header count
    records = iter_records(batch)
    assert [next(records).offset, next(records).offset] == [0, 1]
    with pytest.raises(InvalidBatch):
        next(records)


def test_a_batch_inside_a_larger_buffer() -> None:
    batch = build_batch([(b"k", b"v", [], 5)])
    assert [r.value for r in iter_records(memoryview(batch + batch))] == [b"v"]
    with pytest.raises(InvalidBatch) as caught:
        list(iter_records(memoryview(batch)[:-1]))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_the_limit_is_of_what_the_records_inflate_to(codec: int) -> None:
    records: list[RecordFields] = [(None, bytes(1000), [], 5)] * 10
    plain = len(build_batch(records)) - HEADER_BYTES
    batch = build_batch(records, codec=codec)
    assert len(list(iter_records(batch, plain))) == 10
    for limit in (0, plain - 1):
        with pytest.raises(InvalidBatch) as caught:
            list(iter_records(batch, limit))
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
        with pytest.raises(InvalidBatch):
            find_timestamp(batch, 0, limit)


# ----------------------------------------------------------------------------------------- by timestamp

TIMES = [50, 40, 70, 60, 70, 90, 80]
TIMED: list[RecordFields] = [(None, b"v%d" % time, [], time) for time in TIMES]


@codecs
@pytest.mark.parametrize(
    ("target", "found"),
    [
        (-1, (1000, 50)),
        (0, (1000, 50)),
        (50, (1000, 50)),
        (51, (1002, 70)),
        (70, (1002, 70)),
        (71, (1005, 90)),
        (90, (1005, 90)),
        (91, None),
        (1 << 62, None),
    ],
)
def test_the_first_record_at_or_after_a_time(codec: int, target: int, found: tuple[int, int] | None) -> None:
    batch = build_batch(TIMED, codec=codec, base_offset=1000)
    assert find_timestamp(memoryview(batch), target) == found


@pytest.mark.parametrize(
    ("target", "first_offset", "found"),
    [
        (0, 1001, (1001, 40)),
        (50, 1001, (1002, 70)),
        (50, 1006, (1006, 80)),
        (90, 1005, (1005, 90)),
        (90, 1006, None),
        (0, 1007, None),
        (0, 5000, None),
        (0, 3, (1000, 50)),
    ],
)
def test_records_below_the_log_start_do_not_count(
    target: int, first_offset: int, found: tuple[int, int] | None
) -> None:
    batch = build_batch(TIMED, base_offset=1000)
    assert find_timestamp(batch, target, first_offset=first_offset) == found


@codecs
def test_under_log_append_time_all_records_have_the_time_of_the_batch(codec: int) -> None:
    batch = bytearray(build_batch(TIMED, codec=codec, base_offset=1000))
    set_log_append_time(batch, 500)
    assert find_timestamp(batch, 80) == (1000, 500)
    assert find_timestamp(batch, 500) == (1000, 500)
    assert find_timestamp(batch, 500, first_offset=1003) == (1003, 500)
    assert find_timestamp(batch, 501) is None
    assert largest_timestamp(batch) == 500


def test_a_max_timestamp_that_is_too_high_finds_nothing() -> None:
    assert find_timestamp(altered(build_batch(TIMED), max_timestamp=1000), 95) is None


def test_a_max_timestamp_below_the_target_saves_inflating() -> None:
    broken = altered(build_batch(TIMED), attributes=1)
    assert find_timestamp(broken, 91) is None
    with pytest.raises(InvalidBatch):
        find_timestamp(broken, 90)


@codecs
def test_the_largest_timestamp_comes_from_the_records(codec: int) -> None:
    assert largest_timestamp(altered(build_batch(TIMED, codec=codec), max_timestamp=-1)) == 90


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=20),
    st.integers(-1, 51),
    st.integers(0, 25),
    st.sampled_from(CODECS),
)
def test_find_timestamp_is_the_first_match(times: list[int], target: int, first: int, codec: int) -> None:
    batch = build_batch([(None, None, [], time) for time in times], codec=codec)
    matches = [(offset, time) for offset, time in enumerate(times) if time >= target and offset >= first]
    assert find_timestamp(batch, target, first_offset=first) == (matches[0] if matches else None)


# -------------------------------------------------------------------------------------------- any bytes


@given(st.binary(max_size=120), st.integers(0, 12), st.sampled_from(CODECS))
def test_any_body(body: bytes, count: int, codec: int) -> None:
    batch = with_body(body, count, codec)
    for read in (
        lambda: list(iter_records(batch)),
        lambda: find_timestamp(batch, 5),
        lambda: largest_timestamp(batch),
    ):
        try:
            read()
        except InvalidBatch:
            pass


MUTABLE = [
    build_batch([*TIMED[:3], (b"key", b"value", [("h", b"x"), ("n", None)], 60)], codec=codec)
    for codec in CODECS
]


@given(
    st.sampled_from(MUTABLE),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=4),
    st.integers(0, 3),
)
def test_mutated_batches(batch: bytes, changes: list[tuple[int, int]], cut: int) -> None:
    mutated = bytearray(batch)
    for position, value in changes:
        mutated[position % len(mutated)] = value
    data = bytes(mutated[: len(mutated) - cut])
    try:
        records = list(iter_records(data, 10_000))
    except InvalidBatch:
        return
    assert len(records) <= len(data) * 32 * 1024 // 7
    assert all(isinstance(key, str) for r in records for key, _ in r.headers)
