"""One batch compacted: what stays keeps its offsets and bytes, and whatever else a reader may look at."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wireproto.records.batch import check_stored, read_header
from wireproto.records.builder import build_batch
from wireproto.records.compaction import compact_batch, empty_batch, walk, with_delete_horizon
from wireproto.records.control import EndMarker, marker_batch, read_marker
from wireproto.records.errors import InvalidBatch
from wireproto.records.header import (
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    LOG_APPEND_TIME_FLAG,
    NO_TIMESTAMP,
    BatchHeader,
)
from wireproto.records.iteration import iter_records
from wireproto.records.row import row_of
from wireproto.records.signing import sign

NOW = 1_700_000_000_000
HORIZON = NOW + 86_400_000


def batch(*pairs: tuple[bytes | None, bytes | None], codec: int = 0, **fields: Any) -> bytes:
    """Records of (key, value) at offset 100 and on, a second apart."""
    records = [(key, value, [("h", b"1")], NOW + 1000 * i) for i, (key, value) in enumerate(pairs)]
    given = {"base_offset": 100, "producer_id": 7, "producer_epoch": 1, "base_sequence": 5, "leader_epoch": 3}
    return build_batch(records, codec=codec, **(given | fields))


def read(content: Any) -> list[tuple[int, bytes | None, bytes | None, int]]:
    check_stored(content)
    return [(r.offset, r.key, r.value, r.timestamp) for r in iter_records(content)]


@pytest.mark.parametrize("codec", range(5))
def test_records_go_and_all_else_stays(codec: int) -> None:
    whole = batch((b"a", b"1"), (b"b", b"2"), (b"c", b"3"), (None, b"4"), codec=codec)
    outcome = compact_batch(whole, lambda offset, key, _: offset == 101 and key == b"b", HORIZON)
    assert outcome.batch is not None
    assert read(outcome.batch) == [(101, b"b", b"2", NOW + 1000)]
    assert (outcome.kept, outcome.dropped) == (1, 3)
    before, after = read_header(whole), read_header(outcome.batch)
    for field in BatchHeader._fields:
        if field not in {"batch_length", "crc", "max_timestamp", "count"}:
            assert getattr(after, field) == getattr(before, field), field
    assert (after.max_timestamp, after.count) == (NOW + 1000, 1)
    assert row_of(outcome.batch, -1).last_offset == 103
    assert [r.headers for r in iter_records(outcome.batch)] == [[("h", b"1")]]


def test_nothing_to_do_leaves_the_very_bytes() -> None:
    whole = batch((b"a", b"1"), (b"b", b"2"))
    assert compact_batch(whole, lambda *_: True, HORIZON).batch is whole


def test_nothing_left_is_nothing() -> None:
    assert compact_batch(batch((b"a", b"1")), lambda *_: False, HORIZON) == (None, 0, 1)


@pytest.mark.parametrize("attributes", [0, LOG_APPEND_TIME_FLAG])
def test_a_tombstone_gives_the_batch_a_horizon_and_changes_no_time(attributes: int) -> None:
    whole = batch((b"a", b"1"), (b"b", None), (b"c", b"3"), attributes=attributes)
    outcome = compact_batch(whole, lambda offset, *_: offset > 100, HORIZON)
    assert outcome.batch is not None
    assert read(outcome.batch) == read(whole)[1:]
    header = read_header(outcome.batch)
    assert header.delete_horizon == HORIZON
    later = compact_batch(outcome.batch, lambda *_: True, HORIZON + 5)
    assert later.batch is outcome.batch, "a horizon is set once"
    last = compact_batch(outcome.batch, lambda _o, _k, has_value: has_value, HORIZON + 5)
    assert last.batch is not None
    assert read(last.batch) == read(whole)[2:]


def test_a_control_batch_stays_whole() -> None:
    control = batch((b"\0\0\0\1", b"\0\0\0\0\0\0"), attributes=CONTROL_FLAG)
    assert compact_batch(control, lambda *_: False, HORIZON).batch is control


@pytest.mark.parametrize("attributes", [0, LOG_APPEND_TIME_FLAG])
@pytest.mark.parametrize("is_commit", [False, True])
def test_a_marker_with_a_horizon_ends_its_transaction_as_before(attributes: int, is_commit: bool) -> None:
    marker = EndMarker(is_commit, coordinator_epoch=9)
    plain = marker_batch(7, 3, marker, NOW)
    whole = sign(read_header(plain)._replace(base_offset=100, attributes=0x30 | attributes), plain[61:])
    with_horizon = with_delete_horizon(whole, HORIZON)
    before, after = read_header(whole), read_header(with_horizon)
    assert (before.delete_horizon, after.delete_horizon) == (None, HORIZON)
    for field in BatchHeader._fields:
        if field not in {"attributes", "base_timestamp", "batch_length", "crc"}:
            assert getattr(after, field) == getattr(before, field), field
    assert after.attributes == before.attributes | DELETE_HORIZON_FLAG
    assert read(with_horizon) == read(whole)
    assert read_marker(with_horizon) == marker
    assert row_of(with_horizon, -1).marker == marker


def test_an_empty_batch_holds_its_place() -> None:
    whole = batch((b"a", b"1"), (b"b", None), codec=3, attributes=DELETE_HORIZON_FLAG)
    empty = empty_batch(read_header(whole))
    header = check_stored(empty)
    assert read(empty) == []
    assert (header.base_offset, header.last_offset, header.count) == (100, 101, 0)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 5)
    assert (header.leader_epoch, header.codec, header.delete_horizon) == (3, 0, None)
    assert header.max_timestamp == NO_TIMESTAMP
    assert row_of(empty, -1).last_offset == 101


RECORDS = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=3), st.none() | st.binary(max_size=9), st.integers(-(2**40), 2**40)
    ),
    min_size=1,
    max_size=12,
)


@given(RECORDS, st.sets(st.integers(0, 11)), st.integers(0, 4), st.integers(0, 2**41))
def test_what_stays_reads_as_before(
    records: list[tuple[bytes | None, bytes | None, int]], stay: set[int], codec: int, horizon: int
) -> None:
    whole = build_batch([(key, value, [], time) for key, value, time in records], codec=codec)
    outcome = compact_batch(whole, lambda offset, *_: offset in stay, horizon)
    expected = [record for record in read(whole) if record[0] in stay]
    assert (outcome.batch is None) == (not expected)
    if outcome.batch is not None:
        assert read(outcome.batch) == expected
        header = read_header(outcome.batch)
        if len(expected) < len(records):
            assert header.max_timestamp == max(time for *_, time in expected)
        tombstones = any(value is None for _, _, value, _ in expected)
        assert (header.delete_horizon == horizon) == tombstones or not tombstones


@given(RECORDS)
def test_the_walk_sees_what_readers_see(records: list[tuple[bytes | None, bytes | None, int]]) -> None:
    whole = build_batch([(key, value, [], time) for key, value, time in records])
    seen = [(place.offset, place.key, place.has_value) for place in walk(whole)]
    assert seen == [(r.offset, r.key, r.value is not None) for r in iter_records(whole)]


@given(st.binary(max_size=60), st.integers(1, 5))
def test_what_does_not_parse_is_refused_and_never_guessed_at(body: bytes, count: int) -> None:
    header = read_header(batch((b"a", b"1")))._replace(count=count, last_offset_delta=count - 1)
    made = sign(header, body)
    try:
        parsed = list(iter_records(made))
    except InvalidBatch:
        with pytest.raises(InvalidBatch):
            list(walk(made))
        return
    assert [place.offset for place in walk(made)] == [record.offset for record in parsed]


PLAIN = b"\0" * 3 + b"\2k\2v"
"""A record's attributes, deltas, key and value."""


@pytest.mark.parametrize(
    "record",
    [
        PLAIN + b"\0\0",
        PLAIN,
        PLAIN + b"\1",
        PLAIN + b"\2",
        PLAIN + b"\2\2\xff\0",
        PLAIN + b"\2\1\0",
        PLAIN + b"\2\2h\2v\0",
        b"\0" + b"\xfe" + b"\xff" * 8 + b"\1" + PLAIN[2:] + b"\0",
    ],
    ids=[
        "bytes left over", "no headers at all", "fewer than none", "one header that is not there",
        "a header's key that is no text", "a header without a key", "bytes after the headers",
        "a timestamp beyond 64 bits",
    ],
)  # fmt: skip
def test_what_readers_pass_over_is_passed_over_here(record: bytes) -> None:
    """Else compaction would drop what can be read for what cannot."""
    header = read_header(batch((b"a", b"1")))._replace(count=1, last_offset_delta=0)
    good, made = (sign(header, bytes([2 * len(body)]) + body) for body in (PLAIN + b"\2\2h\2v", record))
    assert [place.key for place in walk(good)] == [b"k"]
    for read_all in (iter_records, walk):
        with pytest.raises(InvalidBatch):
            list(read_all(made))
    with pytest.raises(InvalidBatch):
        compact_batch(made, lambda *_: False, HORIZON)
