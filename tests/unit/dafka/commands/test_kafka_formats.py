"""Records as lines, there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.commands.exits import CommandFailed
from dafka.commands.kafka_formats import Given, line_of, read_record
from dafka.commands.kafka_reader import StoredRecord

data = st.none() | st.binary(max_size=20) | st.text(max_size=10).map(str.encode)
headers = st.lists(st.tuples(st.text(max_size=5), data), max_size=3).map(tuple)


@given(data, data, headers, st.integers(0, 2**62), st.integers(0, 1000))
def test_json_comes_back_as_it_was(
    key: bytes | None,
    value: bytes | None,
    given_headers: tuple[tuple[str, bytes | None], ...],
    timestamp: int,
    partition: int,
) -> None:
    record = StoredRecord("t", partition, 7, timestamp, key, value, given_headers)
    line = line_of(record, "json", (), "\t")
    assert line.count(b"\n") == 1
    assert read_record(line, "json", None) == Given(key, value, list(given_headers), timestamp, partition)


@given(st.binary(max_size=20), st.binary(max_size=20))
def test_hexadecimal_comes_back_as_it_was(key: bytes, value: bytes) -> None:
    record = StoredRecord("t", 0, 0, 0, key, value, ())
    line = line_of(record, "hex", ("key",), "=").removesuffix(b"\n")
    assert read_record(line, "hex", "=") == Given(key, value, [])


def test_what_comes_before_the_value() -> None:
    record = StoredRecord("t", 1, 2, 3, b"k", b"v", (("h", b"\xff"), ("n", None)))
    shown = ("partition", "offset", "timestamp", "headers", "key")
    assert line_of(record, "text", shown, "|") == b'1|2|3|[["h", {"base64": "/w=="}], ["n", null]]|k|v\n'
    assert line_of(record, "raw", shown, "|") == b"v"


def test_other_values_of_json_are_their_text() -> None:
    assert read_record(b'{"value": {"b": [1, null]}}', "json", None).value == b'{"b":[1,null]}'
    assert read_record(b'{"value": 1.5, "key": true}', "json", None) == Given(b"true", b"1.5", [])


@pytest.mark.parametrize(
    "line",
    [
        b"", b"[]", b"nonsense", b'{"headers": [1]}', b'{"headers": {"a": "b"}}', b'{"timestamp": -1}',
        b'{"partition": "0"}', b'{"partition": true}',
        b'{"value": {"base64": "?"}}', b'{"value": {"base64": 1}}',
        b"[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_record_is_refused(line: bytes) -> None:
    with pytest.raises(CommandFailed, match="a line is no "):
        read_record(line, "json", None)
