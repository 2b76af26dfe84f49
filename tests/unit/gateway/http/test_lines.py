"""Records as lines of JSON: what is read may be sent again, and whatever else is sent is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.batches import batch_of_lines
from gateway.http.failures import Failure
from gateway.http.lines import BadLine, parse_line, row_of
from gateway.http.turns import Turns
from wireproto.records.builder import GrowingBatch, build_batch
from wireproto.records.header import read_header
from wireproto.records.iteration import inflated_records, iter_records
from wireproto.records.outline import outlines

NOW = 1_700_000_000_000
DATA = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), DATA), max_size=3)
RECORD = st.tuples(DATA, DATA, HEADERS, st.integers(0, (1 << 62) - 1))


@given(st.lists(RECORD, min_size=1, max_size=5))
def test_a_record_that_was_read_may_be_sent_as_it_is(records: list[Any]) -> None:
    batch = build_batch(records)
    header = read_header(batch)
    body = inflated_records(batch, header, 1 << 20)
    sent = [json.dumps(row_of(one, body)).encode() for one in outlines(body, header)]
    assert [parse_line(line, NOW) for line in sent] == [
        (key, value, list(headers), at) for key, value, headers, at in records
    ]


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        (b"{}", (None, None, [], NOW)),
        (b'{"value": {"json": {"a": [1, "\xc3\xa9"]}}}', (None, '{"a":[1,"é"]}'.encode(), [], NOW)),
        (b'{"key": {"base64": "/w=="}}', (b"\xff", None, [], NOW)),
        (b'{"headers": {"a": "b", "c": null}}', (None, None, [("a", b"b"), ("c", None)], NOW)),
        (b'{"timestamp_ms": 5, "offset": "7"}', (None, None, [], 5)),
    ],
)
def test_what_a_line_may_be(line: bytes, fields: Any) -> None:
    assert parse_line(line, NOW) == fields


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"valeu": "a"}',
        b'{"value": 1}',
        b'{"value": {"base64": "?"}}',
        b'{"value": {"base64": "\xc3\xa9"}}',
        b'{"value": {"json": 1, "base64": ""}}',
        b'{"value": {"json": NaN}}',
        b'{"value": "\\ud800"}',
        b'{"headers": [{"value": "a"}]}',
        b'{"headers": {"\\ud800": "a"}}',
        b'{"headers": "a"}',
        b'{"headers": [{"key": ["a"], "value": "a"}]}',
        b'{"timestamp_ms": -1}',
        b'{"timestamp_ms": true}',
        b'{"timestamp_ms": "9223372036854775808"}',
        b'{"value": {"json": ' + b"1" * 5000 + b"}}",
    ],
)
def test_what_no_line_is(line: bytes) -> None:
    with pytest.raises(BadLine):
        parse_line(line, NOW)


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode(errors="surrogatepass")))
def test_any_bytes_are_a_record_or_refused(line: bytes) -> None:
    try:
        fields = parse_line(line, NOW)
    except BadLine:
        return
    build_batch([fields])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(("key", "value", "json", "base64", "headers")), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(("key", "value", "headers", "timestamp_ms", "offset")), JSON))
def test_any_json_is_a_record_or_refused(row: Any) -> None:
    try:
        fields = parse_line(json.dumps(row).encode(), NOW)
    except BadLine:
        return
    build_batch([fields])


@given(st.lists(RECORD, min_size=1, max_size=5))
def test_a_batch_grows_as_one_that_is_built(records: list[Any]) -> None:
    batch = GrowingBatch()
    for one in records:
        batch.append(one)
    made = batch.finish(producer_id=7, producer_epoch=0, base_sequence=3)
    assert made == build_batch(records, producer_id=7, producer_epoch=0, base_sequence=3)
    assert batch.size == len(made)


def test_a_body_of_lines_is_one_batch() -> None:
    async def main() -> None:
        body = b'{"key": "a"}\r\n\n{"value": "b"}\n'
        made = await batch_of_lines(body, 1000, NOW, Turns())
        assert [(one.key, one.value) for one in iter_records(made.batch.finish())] == [
            (b"a", None),
            (None, b"b"),
        ]
        assert made.keys == {b"a", None}
        with pytest.raises(Failure, match="more than 80 bytes"):
            await batch_of_lines(body * 10, 80, NOW, Turns())
        with pytest.raises(Failure, match="line 3"):
            await batch_of_lines(b"{}\n{}\n{]\n", 1000, NOW, Turns())

    trio.run(main)
