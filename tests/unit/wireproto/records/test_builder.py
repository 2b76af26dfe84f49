"""Our batches read by other clients' readers, theirs read by ours, and ours by ourselves."""

from collections.abc import Iterable
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from wireproto.records.batch import check_stored, read_header, validate_produced
from wireproto.records.builder import RecordFields, build_batch
from wireproto.records.compression import Codec
from wireproto.records.iteration import iter_records

ALL = list(Codec)
#: kafka-python needs python-snappy for snappy; aiokafka's snappy is cramjam, as ours.
WITHOUT_SNAPPY = [codec for codec in Codec if codec is not Codec.SNAPPY]

RECORDS: list[RecordFields] = [
    (b"key", b"value", [("a", b"1"), ("b", None), ("é", b"")], 1_795_000_000_000),
    (None, b"x" * 300, [], 1_795_000_000_500),
    (b"", b"", [], 1_794_999_999_000),
    (b"gone", None, [], 1_795_000_000_001),
    *((b"%d" % n, b"repeated " * 20, [], 1_795_000_001_000 + n) for n in range(100)),
]


def test_the_bytes_of_a_batch() -> None:
    batch = build_batch(
        [(b"k", b"v", [("h", None)], 1000)], base_offset=7, producer_id=3, producer_epoch=1, base_sequence=2
    )
    assert batch == bytes.fromhex(
        "0000000000000007 0000003d ffffffff 02 265c7cff 0000 00000000 00000000000003e8 00000000000003e8"
        "0000000000000003 0001 00000002 00000001"
        "16 00 00 00 02 6b 02 76 02 02 68 01"
    )


def fields(records: Iterable[Any]) -> list[tuple[Any, ...]]:
    return [
        (
            r.offset,
            r.timestamp,
            None if r.key is None else bytes(r.key),
            None if r.value is None else bytes(r.value),
            [(name, None if value is None else bytes(value)) for name, value in r.headers],
        )
        for r in records
    ]


def expected(base_offset: int = 0) -> list[tuple[Any, ...]]:
    return [
        (base_offset + n, time, key, value, list(headers))
        for n, (key, value, headers, time) in enumerate(RECORDS)
    ]


@pytest.mark.parametrize("codec", ALL)
def test_aiokafka_reads_ours(codec: Codec) -> None:
    batch = build_batch(
        RECORDS, codec=codec, base_offset=50, producer_id=9, producer_epoch=4, base_sequence=11
    )
    reader: Any = AiokafkaBatch(batch)
    assert reader.validate_crc()
    assert (reader.base_offset, reader.producer_id, reader.producer_epoch, reader.base_sequence) == (
        50,
        9,
        4,
        11,
    )
    assert reader.next_offset == 50 + len(RECORDS)
    assert reader.max_timestamp == 1_795_000_001_099
    assert fields(reader) == expected(50)


@pytest.mark.parametrize("codec", WITHOUT_SNAPPY)
def test_kafka_python_reads_ours(codec: Codec) -> None:
    reader: Any = KafkaPythonBatch(build_batch(RECORDS, codec=codec, base_offset=50))
    assert reader.validate_crc()
    assert fields(reader) == expected(50)


def written_by(builder: Any) -> bytes:
    for n, (key, value, headers, time) in enumerate(RECORDS):
        assert builder.append(n, time, key, value, list(headers))
    return bytes(builder.build())


@pytest.mark.parametrize("codec", ALL)
def test_we_read_aiokafkas(codec: Codec) -> None:
    builder = AiokafkaBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=8,
        producer_epoch=1,
        base_sequence=5,
        batch_size=1 << 20,
    )
    batch = written_by(builder)
    header = validate_produced(batch, max_message_bytes=1 << 20)
    assert (header.codec, header.count, header.producer_id, header.base_sequence) == (
        codec,
        len(RECORDS),
        8,
        5,
    )
    assert fields(iter_records(batch)) == expected()


@pytest.mark.parametrize("codec", WITHOUT_SNAPPY)
def test_we_read_kafka_pythons(codec: Codec) -> None:
    builder = KafkaPythonBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=8,
        producer_epoch=1,
        base_sequence=5,
        batch_size=1 << 20,
    )
    batch = written_by(builder)
    assert validate_produced(batch, max_message_bytes=1 << 20).count == len(RECORDS)
    assert fields(iter_records(batch)) == expected()


def test_uncompressed_bytes_equal_aiokafkas() -> None:
    """Byte for byte the same batch, CRC included."""
    builder = AiokafkaBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    theirs = written_by(builder)
    assert build_batch(RECORDS, leader_epoch=read_header(theirs).leader_epoch) == theirs


def test_attributes_keep_their_other_bits() -> None:
    assert read_header(build_batch(RECORDS, codec=3, attributes=0x57)).attributes == 0x53


def test_arguments_that_make_no_batch() -> None:
    with pytest.raises(ValueError, match="has records"):
        build_batch([])
    with pytest.raises(ValueError, match="codec 5"):
        build_batch(RECORDS, codec=5)


data = st.none() | st.binary(max_size=100)
headers = st.lists(st.tuples(st.text(max_size=10), data), max_size=3)
times = st.integers(-1, 1 << 45)
records = st.lists(st.tuples(data, data, headers, times), min_size=1, max_size=30)


@given(records, st.sampled_from(ALL), st.integers(0, 1 << 60))
def test_round_trip(sent: list[RecordFields], codec: Codec, base_offset: int) -> None:
    produced = build_batch(sent, codec=codec)
    header = validate_produced(produced, max_message_bytes=1 << 20)
    assert (header.codec, header.count) == (codec, len(sent))
    assert header.max_timestamp == max(time for *_, time in sent)
    batch = build_batch(sent, codec=codec, base_offset=base_offset)
    assert check_stored(batch).last_offset == base_offset + len(sent) - 1
    assert [(r.offset, r.key, r.value, r.headers, r.timestamp) for r in iter_records(batch)] == [
        (base_offset + n, *fields_sent) for n, fields_sent in enumerate(sent)
    ]
