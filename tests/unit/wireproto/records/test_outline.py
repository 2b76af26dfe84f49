"""Where the parts of records lie is where they are decoded from."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wireproto.records.builder import build_batch
from wireproto.records.errors import InvalidBatch
from wireproto.records.header import HEADER_BYTES, read_header
from wireproto.records.iteration import inflated_records, iter_records
from wireproto.records.outline import first_headers, outlines

FIELD = st.none() | st.binary(max_size=20)
HEADERS = st.lists(
    st.tuples(st.text(st.characters(blacklist_categories=["Cs"]), max_size=5), FIELD), max_size=4
)
RECORDS = st.lists(st.tuples(FIELD, FIELD, HEADERS, st.integers(0, 1 << 40)), min_size=1, max_size=6)


def built(records: list[Any]) -> bytes:
    return build_batch(records, base_offset=7)


@given(RECORDS)
def test_an_outline_is_of_the_record_that_is_decoded(records: list[Any]) -> None:
    batch = built(records)
    header = read_header(batch)
    body = inflated_records(batch, header, 1 << 20)
    seen = []
    for one in outlines(body, header):
        key, value = (None if field is None else bytes(field) for field in (one.key, one.value))
        headers = [
            (bytes(name).decode(), None if data is None else bytes(data))
            for name, data in first_headers(body, one, 100)
        ]
        seen.append((one.offset, one.timestamp, key, value, headers, one.header_count))
    wanted = [
        (record.offset, record.timestamp, record.key, record.value, record.headers, len(record.headers))
        for record in iter_records(batch)
    ]
    assert seen == wanted


@given(RECORDS, st.data())
def test_bytes_that_are_no_records_are_refused_and_nothing_else(records: list[Any], data: Any) -> None:
    batch = bytearray(built(records))
    for _ in range(3):
        place = data.draw(st.integers(HEADER_BYTES, len(batch) - 1))
        batch[place] = data.draw(st.integers(0, 255))
    header = read_header(batch)
    with contextlib.suppress(InvalidBatch):
        for one in outlines(memoryview(batch)[HEADER_BYTES:], header):
            first_headers(memoryview(batch)[HEADER_BYTES:], one, 3)


def test_only_the_first_headers_are_looked_at() -> None:
    batch = built([(b"k", b"v", [(str(number), b"") for number in range(1000)], 0)])
    header = read_header(batch)
    body = inflated_records(batch, header, 1 << 20)
    (one,) = outlines(body, header)
    assert one.header_count == 1000
    assert [bytes(name) for name, _ in first_headers(body, one, 2)] == [b"0", b"1"]


def test_a_count_of_headers_that_has_no_room_is_refused() -> None:
    batch = bytearray(built([(b"k", b"v", [], 0)]))
    batch[-1] = 126
    with pytest.raises(InvalidBatch, match="63 record headers"):
        list(outlines(memoryview(batch)[HEADER_BYTES:], read_header(batch)))
