"""Native records as batches that every Kafka client reads."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.native.batches import (
    ADDRESS_HEADER,
    MAX_BATCH_BYTES,
    MAX_BATCH_RECORDS,
    REWRITTEN_HEADER,
    SEQUENCE_HEADER,
    batch_of,
)
from gateway.native.positions import MAX_NATIVE_SEQUENCE
from mesh.protocol.native_order import Run, add_to_runs
from wireproto.records.batch import check_stored
from wireproto.records.header import read_header
from wireproto.records.iteration import iter_records

A = "d" + "0" * 31
LARGEST = 1 << 20


def run(*contents: bytes, first: int = 0) -> Run:
    runs: deque[Run] = deque()
    add_to_runs(runs, A, first, contents)
    return runs[0]


def test_a_record_says_where_it_comes_from() -> None:
    batch = batch_of(run(b"one", b"", first=7), 99, 1234, LARGEST)
    assert batch is not None
    header = read_header(memoryview(batch.content))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (99, 0, 7)
    assert not header.is_transactional
    one, two = iter_records(batch.content)
    assert (one.key, one.value, one.timestamp) == (None, b"one", 1234)
    assert list(one.headers) == [(ADDRESS_HEADER, A.encode()), (SEQUENCE_HEADER, b"7")]
    assert (two.value, dict(two.headers)[SEQUENCE_HEADER]) == (b"", b"8")
    assert batch.records == 2


def test_its_key_may_be_its_address_and_a_header_tells_of_a_record_with_two_contents() -> None:
    batch = batch_of(run(b"one", first=7), 99, 1234, LARGEST, with_key=True, rewritten=3)
    assert batch is not None
    (one,) = iter_records(batch.content)
    assert (one.key, one.value) == (A.encode(), b"one")
    assert list(one.headers) == [
        (ADDRESS_HEADER, A.encode()),
        (SEQUENCE_HEADER, b"7"),
        (REWRITTEN_HEADER, b"3"),
    ]


@pytest.mark.parametrize(
    ("given_run", "records"),
    [
        (run(*[b"x"] * (MAX_BATCH_RECORDS + 1)), MAX_BATCH_RECORDS),
        (run(b"a", b"b", b"c", first=2**31 - 2), 2),
        (run(b"x" * MAX_BATCH_BYTES, b"y"), 1),
        (run(b"x" * (MAX_BATCH_BYTES // 2), b"y" * (MAX_BATCH_BYTES // 2)), 1),
    ],
    ids=["many", "an epoch ends", "a large one alone", "two halves"],
)
def test_where_a_batch_ends(given_run: Run, records: int) -> None:
    batch = batch_of(given_run, 1, 0, LARGEST)
    assert batch is not None
    assert batch.records == records == len(list(iter_records(batch.content)))


@pytest.mark.parametrize(("size", "fits"), [(900, True), (1_000, False)])
def test_no_batch_is_larger_than_the_topic_takes(size: int, fits: bool) -> None:
    batch = batch_of(run(b"x" * size, b"y"), 1, 0, 1_060)
    assert (batch is not None) == fits
    assert batch is None or len(batch.content) <= 1_060


@given(
    st.lists(st.binary(max_size=400), min_size=1, max_size=30),
    st.integers(0, MAX_NATIVE_SEQUENCE - 30),
    st.integers(300, 4_000),
)
def test_batches_are_what_came_and_no_larger_than_they_may_be(
    contents: list[bytes], first: int, most: int
) -> None:
    left = run(*contents, first=first)
    while left.contents:
        batch = batch_of(left, 5, 0, most)
        if batch is None:
            assert len(left.take(1)[0]) > most - 250
            continue
        assert len(batch.content) <= most
        assert check_stored(batch.content).count == batch.records
        records = list(iter_records(batch.content))
        assert [dict(record.headers)[SEQUENCE_HEADER] for record in records] == [
            b"%d" % sequence for sequence in range(left.sequence, left.sequence + batch.records)
        ]
        assert [record.value for record in records] == left.take(batch.records)
