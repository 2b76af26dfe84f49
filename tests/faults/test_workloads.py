"""Values that tell on themselves when altered."""

from __future__ import annotations

import pytest

from tests.faults.workloads import make_value, read_value


@pytest.mark.parametrize("length", [0, 50, 100, 20_000])
def test_values_are_read_as_made(length: int) -> None:
    value = make_value("p1", 42, length)
    assert len(value) >= length
    producer, number, digest = read_value(value)
    assert (producer, number) == ("p1", 42)
    assert digest


def test_values_differ() -> None:
    assert len({make_value(p, n, s) for p in "ab" for n in range(5) for s in (100, 200)}) == 20
    assert len({read_value(make_value(p, n, s))[2] for p in "ab" for n in range(5) for s in (100, 200)}) == 20


def test_every_altered_byte_is_seen() -> None:
    value = make_value("p", 7, 120)
    for position in range(len(value)):
        altered = bytearray(value)
        altered[position] ^= 1
        assert read_value(bytes(altered)) != read_value(value)
        assert read_value(bytes(altered))[2] == ""


@pytest.mark.parametrize("value", [None, b"", b"x", b"a|b|c|d", b"a|1|c", b"\xff|1|c|d", b"|" * 10])
def test_foreign_values(value: bytes | None) -> None:
    assert read_value(value)[2] == ""
