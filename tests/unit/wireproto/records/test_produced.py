"""What a producer may send for one partition, and Kafka's answer to everything else.

The codes of ``AS_KAFKA`` were measured on Apache Kafka 4.3.1 with these very bytes; ``STRICTER`` says what it
does where we differ on purpose.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wireproto.records.damage import altered, resealed
from wireproto.kafka.errors import ErrorCode
from wireproto.records.batch import InvalidBatch, validate_produced
from wireproto.records.builder import RecordFields, build_batch
from wireproto.records.header import HEADER_BYTES
from wireproto.records.produced import WALK_MAX_RECORDS, check_timestamps

LIMIT = 1_048_588
TIME = 1_795_000_000_000
RECORDS: list[RecordFields] = [(b"k", b"value%d" % n, [("h", b"x")], TIME + n) for n in range(2)]
GOOD = build_batch(RECORDS)
IDEMPOTENT = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}


def answer(data: bytes, *, limit: int = LIMIT, zstd_allowed: bool = True) -> ErrorCode:
    """The code for ``data``, whatever kind of buffer holds it."""
    codes = set()
    for buffer in (data, bytearray(data), memoryview(bytearray(data))):
        try:
            header = validate_produced(buffer, max_message_bytes=limit, zstd_allowed=zstd_allowed)
        except InvalidBatch as error:
            codes.add(error.code)
        else:
            assert header.size == len(data)
            codes.add(ErrorCode.NONE)
    (code,) = codes
    return code


ACCEPTED = {
    "as built": GOOD,
    "one record": build_batch(RECORDS[:1]),
    "more records than are walked": build_batch(RECORDS * 20),
    "null key and value": build_batch([(None, None, [], TIME)]),
    "gzip": build_batch(RECORDS, codec=1),
    "snappy": build_batch(RECORDS, codec=2),
    "lz4": build_batch(RECORDS, codec=3),
    "zstd": build_batch(RECORDS, codec=4),
    "idempotent": altered(GOOD, **IDEMPOTENT),
    "the last sequence": altered(GOOD, producer_id=5, producer_epoch=0, base_sequence=(1 << 31) - 1),
    "sequence and epoch without a producer id": altered(GOOD, producer_epoch=3, base_sequence=5),
    "producer id below -1 is none": altered(GOOD, producer_id=-2),
    "leader epoch": altered(GOOD, leader_epoch=7),
    "max timestamp -1": altered(GOOD, max_timestamp=-1),
    "no timestamps": altered(GOOD, base_timestamp=-1, max_timestamp=-1),
    "delete horizon bit": altered(GOOD, attributes=0x40),
    "unused bits": altered(GOOD, attributes=-256 | 0x80),
    "a batch as a record's value": build_batch([(None, GOOD, [], TIME)]),
}


@pytest.mark.parametrize("data", ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(data: bytes) -> None:
    assert answer(data) is ErrorCode.NONE


CORRUPT, INVALID = ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD
AS_KAFKA = {
    "empty": (INVALID, b""),
    "11 bytes": (INVALID, GOOD[:11]),
    "16 bytes": (INVALID, GOOD[:16]),
    "17 bytes": (INVALID, GOOD[:17]),
    "60 bytes": (INVALID, GOOD[:60]),
    "a header alone": (INVALID, GOOD[:HEADER_BYTES]),
    "cut by a byte": (INVALID, GOOD[:-1]),
    "cut by a byte, length and CRC too": (INVALID, altered(GOOD[:-1], batch_length=len(GOOD) - 13)),
    "length one too much": (INVALID, resealed(GOOD[:8] + (len(GOOD) - 11).to_bytes(4) + GOOD[12:])),
    "length one too little": (CORRUPT, GOOD[:8] + (len(GOOD) - 13).to_bytes(4) + GOOD[12:]),
    "length one too little, CRC to fit": (INVALID, altered(GOOD, batch_length=len(GOOD) - 13)),
    "length -1": (CORRUPT, altered(GOOD, batch_length=-1)),
    "length 0": (CORRUPT, altered(GOOD, batch_length=0)),
    "length 13": (CORRUPT, altered(GOOD, batch_length=13)),
    "length 13 in 12 bytes": (CORRUPT, altered(GOOD, batch_length=13)[:12]),
    "length 14": (CORRUPT, altered(GOOD, batch_length=14)),
    "length below a header": (CORRUPT, altered(GOOD[:60] + b"\0", batch_length=48)[:60]),
    "length of a header": (INVALID, altered(GOOD, batch_length=49)),
    "zeros after the batch": (CORRUPT, GOOD + bytes(12)),
    "ones after the batch": (CORRUPT, GOOD + b"\xff" * 16),
    "a wrong magic after the batch": (CORRUPT, GOOD + GOOD[:16] + b"\x09"),
    "two batches": (INVALID, GOOD + GOOD),
    "two batches, the first with a wrong CRC": (INVALID, altered(GOOD, crc=1) + GOOD),
    "bytes after a batch with a wrong CRC": (CORRUPT, altered(GOOD, crc=1) + b"\0"),
    "bytes after a batch with a base offset": (INVALID, altered(GOOD, crc=1, base_offset=1) + b"\0"),
    "CRC wrong": (CORRUPT, altered(GOOD, crc=1)),
    "a flipped bit in the records": (CORRUPT, GOOD[:-1] + bytes([GOOD[-1] ^ 1])),
    "base offset 5": (INVALID, altered(GOOD, base_offset=5)),
    "base offset -1": (INVALID, altered(GOOD, base_offset=-1)),
    "base offset and CRC wrong": (INVALID, altered(GOOD, base_offset=5, crc=1)),
    "magic 0": (INVALID, altered(GOOD, magic=0)),
    "magic 1": (INVALID, altered(GOOD, magic=1)),
    "magic 3": (CORRUPT, altered(GOOD, magic=3)),
    "magic -1": (CORRUPT, altered(GOOD, magic=-1)),
    "count 0": (INVALID, altered(GOOD, count=0)),
    "count 0, delta to fit": (INVALID, altered(GOOD, count=0, last_offset_delta=-1)),
    "count 0 and no records": (INVALID, altered(GOOD[:61], batch_length=49, count=0, last_offset_delta=-1)),
    "count -1, delta to fit": (INVALID, altered(GOOD, count=-1, last_offset_delta=-2)),
    "count 3, delta 1": (INVALID, altered(GOOD, count=3)),
    "count 2, delta 5": (INVALID, altered(GOOD, last_offset_delta=5)),
    "count 5, delta 4, two records": (INVALID, altered(GOOD, count=5, last_offset_delta=4)),
    "count 3, delta 2, two records": (INVALID, altered(GOOD, count=3, last_offset_delta=2)),
    "count 1, delta 0, two records": (INVALID, altered(GOOD, count=1, last_offset_delta=0)),
    "the largest count": (INVALID, altered(GOOD, count=(1 << 31) - 1, last_offset_delta=(1 << 31) - 2)),
    "the largest delta": (INVALID, altered(GOOD, count=-(1 << 31), last_offset_delta=(1 << 31) - 1)),
    "one record in no bytes": (INVALID, altered(GOOD[:61], batch_length=49, count=1, last_offset_delta=0)),
    "control bit": (INVALID, altered(GOOD, attributes=0x20)),
    "producer id without a sequence": (INVALID, altered(GOOD, producer_id=5, producer_epoch=0)),
    "producer epoch -2": (
        ErrorCode.INVALID_PRODUCER_EPOCH,
        altered(GOOD, **IDEMPOTENT | {"producer_epoch": -2}),
    ),
    "LogAppendTime bit, no timestamps": (
        ErrorCode.INVALID_TIMESTAMP,
        altered(GOOD, attributes=8, base_timestamp=-1, max_timestamp=-1),
    ),
}


@pytest.mark.parametrize(("code", "data"), AS_KAFKA.values(), ids=AS_KAFKA)
def test_refused_with_the_code_of_kafka(code: ErrorCode, data: bytes) -> None:
    assert answer(data) is code


UNSUPPORTED_CODEC = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
STRICTER = {
    # Kafka answers UNKNOWN_SERVER_ERROR.
    "length of 2^31 - 1": (INVALID, altered(GOOD, batch_length=(1 << 31) - 1)),
    "codec 5": (UNSUPPORTED_CODEC, altered(GOOD, attributes=5)),
    "codec 6": (UNSUPPORTED_CODEC, altered(GOOD, attributes=6)),
    "codec 7": (UNSUPPORTED_CODEC, altered(GOOD, attributes=7)),
    "gzip by name only": (INVALID, altered(GOOD, attributes=1)),
    "lz4 by name only": (INVALID, altered(GOOD, attributes=3)),
    "zstd by name only": (INVALID, altered(GOOD, attributes=4)),
    # Kafka cuts the rest off and stores the batch.
    "a byte after the batch": (INVALID, GOOD + b"\0"),
    "a piece of a batch after the batch": (INVALID, GOOD + GOOD[:20]),
    "a transaction without a producer id": (INVALID, altered(GOOD, attributes=0x10)),
    # Kafka clears the bit where the topic is under CreateTime.
    "LogAppendTime bit": (ErrorCode.INVALID_TIMESTAMP, altered(GOOD, attributes=8)),
    # Kafka takes -1 from a producer that it does not know yet.
    "producer epoch -1": (
        ErrorCode.INVALID_PRODUCER_EPOCH,
        altered(GOOD, **IDEMPOTENT | {"producer_epoch": -1}),
    ),
}


@pytest.mark.parametrize(("code", "data"), STRICTER.values(), ids=STRICTER)
def test_refused_where_kafka_is_vague_or_lenient(code: ErrorCode, data: bytes) -> None:
    assert answer(data) is code


def test_the_size_limit_is_of_the_whole_batch_and_comes_before_the_crc() -> None:
    assert answer(GOOD, limit=len(GOOD)) is ErrorCode.NONE
    assert answer(GOOD, limit=len(GOOD) - 1) is ErrorCode.MESSAGE_TOO_LARGE
    assert answer(altered(GOOD, crc=1), limit=10) is ErrorCode.MESSAGE_TOO_LARGE
    assert answer(altered(GOOD, base_offset=1), limit=10) is ErrorCode.INVALID_RECORD


def test_zstd_below_produce_7() -> None:
    zstd = build_batch(RECORDS, codec=4)
    assert answer(zstd, zstd_allowed=False) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert answer(altered(zstd, crc=1), zstd_allowed=False) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    for codec in range(4):
        assert answer(build_batch(RECORDS, codec=codec), zstd_allowed=False) is ErrorCode.NONE


@pytest.mark.parametrize("records", range(1, WALK_MAX_RECORDS + 1))
def test_every_small_batch_is_counted(records: int) -> None:
    batch = build_batch((RECORDS * WALK_MAX_RECORDS)[:records])
    assert answer(batch) is ErrorCode.NONE
    for claimed in range(1, WALK_MAX_RECORDS + 1):
        expected = ErrorCode.NONE if claimed == records else ErrorCode.INVALID_RECORD
        assert answer(altered(batch, count=claimed, last_offset_delta=claimed - 1)) is expected


@pytest.mark.parametrize(
    ("codec", "largest"), [(0, 100), (1, 103_200), (2, 2_200), (3, 25_500), (4, 3_276_800)]
)
def test_no_more_records_than_the_bytes_could_inflate_to(codec: int, largest: int) -> None:
    """700 bytes of records: seven bytes each at least, times what the codec can make of them."""
    magic = {1: b"\x1f\x8b\x08", 3: b"\x04\x22\x4d\x18", 4: b"\x28\xb5\x2f\xfd"}.get(codec, b"")
    start = GOOD[:HEADER_BYTES] + magic.ljust(700, b"\0")

    def claiming(count: int) -> bytes:
        return altered(start, attributes=codec, batch_length=749, count=count, last_offset_delta=count - 1)

    assert answer(claiming(largest)) is ErrorCode.NONE
    assert answer(claiming(largest + 1)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("length", [0, 1, 5, 11, 12, 127])
def test_a_record_in_a_small_batch_must_fit(length: int) -> None:
    """One record of 14 bytes; its own length says something else."""
    batch = build_batch([(None, b"12345678", [], TIME)])
    assert batch[HEADER_BYTES] == 14 << 1
    wrong = resealed(batch[:HEADER_BYTES] + bytes([length << 1 & 0x7F]) + batch[HEADER_BYTES + 1 :])
    assert answer(wrong) is ErrorCode.INVALID_RECORD


@given(st.binary(max_size=200))
def test_any_bytes_at_all(data: bytes) -> None:
    answer(data)


FIELDS = {
    "base_offset": st.sampled_from([-(1 << 63), -1, 0, 1, (1 << 63) - 1]),
    "batch_length": st.sampled_from([-(1 << 31), -1, 0, 14, 48, 49, len(GOOD) - 12, (1 << 31) - 1]),
    "leader_epoch": st.integers(-(1 << 31), (1 << 31) - 1),
    "magic": st.integers(-128, 127),
    "attributes": st.integers(-(1 << 15), (1 << 15) - 1),
    "last_offset_delta": st.sampled_from([-(1 << 31), -2, -1, 0, 1, 2, (1 << 31) - 1]),
    "base_timestamp": st.integers(-(1 << 63), (1 << 63) - 1),
    "max_timestamp": st.integers(-(1 << 63), (1 << 63) - 1),
    "producer_id": st.integers(-(1 << 63), (1 << 63) - 1),
    "producer_epoch": st.integers(-(1 << 15), (1 << 15) - 1),
    "base_sequence": st.integers(-(1 << 31), (1 << 31) - 1),
    "count": st.sampled_from([-(1 << 31), -1, 0, 1, 2, 3, (1 << 31) - 1]),
}


@given(
    st.lists(st.sampled_from(sorted(FIELDS)), min_size=1, max_size=3, unique=True).flatmap(
        lambda names: st.fixed_dictionaries({name: FIELDS[name] for name in names})
    ),
    st.sampled_from([b"", b"\0", GOOD[:40], GOOD]),
)
def test_any_header_over_good_records(fields: dict[str, int], tail: bytes) -> None:
    """Whatever the header says under a right CRC: an answer, and acceptance only of what may be appended."""
    data = altered(GOOD, **fields) + tail
    if answer(data) is ErrorCode.NONE:
        header = validate_produced(data, max_message_bytes=LIMIT)
        assert not tail
        assert (header.base_offset, header.magic, header.count, header.last_offset_delta) == (0, 2, 2, 1)
        assert header.attributes & 0x38 == 0  # control, transactional, LogAppendTime
        assert header.codec in {0, 2}  # anything can begin a raw snappy block
        assert header.producer_id < 0 or min(header.producer_epoch, header.base_sequence) >= 0


@pytest.mark.parametrize(
    ("base", "largest", "allowed"),
    [
        (1000, 1000, True),
        (900, 1100, True),
        (899, 1000, False),
        (1000, 1101, False),
        (1101, 1000, False),
        (-1, -1, True),
        (-1, 1100, True),
        (-1, 1101, False),
        (-2, 1000, False),
        (-(1 << 63), (1 << 63) - 1, False),
    ],
)
def test_timestamps_within_the_bounds_of_the_topic(base: int, largest: int, allowed: bool) -> None:
    header = validate_produced(
        altered(GOOD, base_timestamp=base, max_timestamp=largest), max_message_bytes=LIMIT
    )
    if allowed:
        check_timestamps(header, 1000, before_max_ms=100, after_max_ms=100)
    else:
        with pytest.raises(InvalidBatch) as caught:
            check_timestamps(header, 1000, before_max_ms=100, after_max_ms=100)
        assert caught.value.code is ErrorCode.INVALID_TIMESTAMP


def test_any_timestamp_under_the_default_before_max() -> None:
    header = validate_produced(altered(GOOD, base_timestamp=-(1 << 62)), max_message_bytes=LIMIT)
    check_timestamps(header, TIME, before_max_ms=(1 << 63) - 1, after_max_ms=3_600_000)
