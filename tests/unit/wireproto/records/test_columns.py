"""What is looked through column by column: whole batches of what producers write, and nothing that is not
exactly what every reader reads.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.wireproto.records.test_walk import (
    BASE_MS,
    assert_as_readers_have_it,
    of,
    use,
    varint,
    walked,
)
from wireproto.records import columns, walk
from wireproto.records.builder import build_batch
from wireproto.records.columns import AT_ONCE, FEW, Columns, Taken
from wireproto.records.header import HEADER_BYTES, Buffer, read_header
from wireproto.records.walk import RecordWalk

Fields = tuple[bytes | None, bytes, int]
"""Key, value, timestamp delta."""


def batch_of(fields: list[Fields]) -> bytes:
    records: Any = [(key, value, (), BASE_MS + delta) for key, value, delta in fields]
    return build_batch(records)


def taken(batch: bytes) -> list[Taken]:
    """All that is taken by columns, from the start on."""
    found: list[Taken] = []
    count = read_header(batch).count
    made = Columns(memoryview(batch)[HEADER_BYTES:])
    while one := made.take(sum(each.records for each in found), count - sum(each.records for each in found)):
        found.append(one)
    return found


def value(size: int) -> bytes:
    """Bytes that would be read as other numbers, lengths and flags if one of them were taken for a field."""
    return bytes(0xFF - index % 0x100 for index in range(size))


def mixed(count: int, smallest: int, largest: int) -> list[int]:
    """Sizes, in no order."""
    return [smallest + index * 7919 % (largest - smallest + 1) for index in range(count)]


SHAPES: dict[str, list[Fields]] = {
    "values of one size": [(None, value(100), 0)] * 1000,
    "of one size, two bytes each": [(None, b"vv", 0)] * 1000,
    "empty": [(None, b"", 0)] * 100,
    "of many sizes": [(None, value(size), 0) for size in mixed(1000, 80, 1000)],
    "of many small sizes": [(None, value(size), 0) for size in mixed(1000, 0, 50)],
    "of some KiB": [(None, value(size), 0) for size in mixed(60, 1000, 8000)],
    "keys of one size": [(b"key-%04d" % n, value(100), 0) for n in range(1000)],
    "keys of one size, values of many": [
        (b"k%03d" % n, value(size), 0) for n, size in enumerate(mixed(900, 70, 900))
    ],
    "an empty key in each": [(b"", value(100), 0)] * 100,
    "times that grow": [(None, value(100), n // 2) for n in range(1000)],
    "times that grow fast": [(None, value(100), n * 50) for n in range(1000)],
    "times of their own": [(None, value(100), 9000 + n * 7919 % 100_000 if n else 0) for n in range(64)],
    "times that come and go": [(None, value(100), n * 7919 % 64) for n in range(1000)],
    "very many": [(None, b"v" * (n % 3), 0) for n in range(20_000)],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_alike_is_taken_whole(shape: str) -> None:
    fields = SHAPES[shape]
    batch = batch_of(fields)
    found = taken(batch)
    assert sum(each.records for each in found) == len(fields)
    assert sum(each.size for each in found) == len(batch) - HEADER_BYTES
    assert max(each.records for each in found) <= AT_ONCE
    ends = [0, *accumulate(each.records for each in found)]
    for each, begin, end in zip(found, ends, ends[1:], strict=False):
        deltas = [delta for _, _, delta in fields[begin:end]]
        assert (each.smallest_delta, each.largest_delta) == (min(deltas), max(deltas))
        assert [key is not None for key, _, _ in fields[begin:end]] == [each.keyed] * each.records
    assert_as_readers_have_it(batch)


def test_the_walk_takes_what_columns_cannot_tell_by_other_means(monkeypatch: pytest.MonkeyPatch) -> None:
    """And goes on by columns in the next window."""
    fields: list[Fields] = [
        *[(None, value(100), 0)] * 500,
        (None, value(100_000), 0),  # a length of three bytes
        *[(b"k" if n % 2 else None, value(100), 0) for n in range(500)],
        *[(None, value(size), n % 50) for n, size in enumerate(mixed(5000, 80, 200))],
    ]
    batch = batch_of(fields)
    by_columns: list[int] = []
    take = Columns.take

    def noted(self: Columns, place: int, count: int) -> Taken | None:
        found = take(self, place, count)
        if found:
            by_columns.append(found.records)
        return found

    monkeypatch.setattr(Columns, "take", noted)
    found = walked(batch)
    assert not isinstance(found, str)
    made, pauses = found
    assert sum(by_columns[:2]) == 500
    assert sum(by_columns[2:]) >= 3000
    assert pauses >= 2
    keyless = [place for place, (key, _, _) in enumerate(fields) if key is None]
    assert (made.keyless, made.keyless_count) == (keyless, len(keyless))
    assert (made.smallest_delta, made.largest_delta) == (0, 49)


def test_large_batches_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordWalk, "_by_parser", None)
    found = walked(batch_of([(None, b"v", 0)] * 10_000))
    assert not isinstance(found, str)
    made, pauses = found
    assert pauses >= 10_000 // walk.RECORDS_AT_ONCE - 1
    assert made.keyless_count == 10_000


def test_few_at_a_time_are_left_to_others_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times that take another number of bytes with each record cost no more than a few looks for nothing."""
    batch = batch_of([(None, value(100), n % 2 * 100) for n in range(3000)])
    assert len(taken(batch)) == columns.MAX_FEW
    made: list[int] = []

    class Counted(Columns):
        def __init__(self, window: Buffer) -> None:
            made.append(len(window))
            super().__init__(window)

    monkeypatch.setattr(walk, "Columns", Counted)
    assert not isinstance(walked(batch), str)
    assert len(made) <= len(batch) // walk.WINDOW_BYTES + 1


# what is not right ----------------------------------------------------------------------------------------


def plain(
    place: int, key: bytes | None = None, size: int = 10, *, spare: tuple[int, ...] = (0,) * 6,
    attributes: int = 0, delta: int = 0, headers: bytes = b"\0", off: tuple[int, int] = (0, 0),
) -> bytes:  # fmt: skip
    """A record without headers, each of its numbers in so many bytes more than it needs, the lengths of its
    value and of itself so much off.
    """
    key_length = -1 if key is None else len(key)
    body = b"".join(
        (bytes((attributes,)), varint(delta, spare[1]), varint(place, spare[2]), varint(key_length, spare[3]),
         key or b"", varint(size + off[0], spare[4]), value(size), headers)
    )  # fmt: skip
    return varint(len(body) + off[1], spare[0]) + body


KEYS: dict[str, Any] = {
    "none": lambda _place: None,
    "alike": lambda _place: b"key",
    "of many sizes": lambda place: b"k" * (place % 9),
}


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("at", [0, 1, 40, 63, 64, 70, 99])
@pytest.mark.parametrize(
    "wrong",
    [
        {"attributes": 1},
        {"attributes": 0x80},
        {"delta": -1},
        {"delta": 1 << 30},
        {"headers": b"\2\2hh"},
        {"headers": b"\1"},
        {"headers": b""},
        {"headers": b"\0\0"},
        {"off": (1, 0)},
        {"off": (-1, 0)},
        {"off": (-11, 0)},
        {"off": (0, 1)},
        {"off": (0, -1)},
        {"off": (1, 1)},
        {"off": (-1, -1)},
        *(
            {"spare": tuple(spare * (index == field) for index in range(6))}
            for field in range(6)
            for spare in (1, 4)
        ),
    ],
    ids=str,
)
def test_one_that_is_not_alike_is_never_taken_for_one(keys: str, at: int, wrong: dict[str, Any]) -> None:
    key = KEYS[keys]
    pieces = [plain(place, key(place)) for place in range(100)]
    pieces[at] = plain(at, key(at), **wrong)
    assert_as_readers_have_it(of(100, b"".join(pieces)))


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("at", [1, 40, 63, 64, 70, 98])
@pytest.mark.parametrize("by", [-64, -1, 1, 64, 8192])
def test_a_record_at_another_place_is_refused(keys: str, at: int, by: int) -> None:
    pieces = [plain(place, KEYS[keys](place)) for place in range(100)]
    pieces[at] = plain(at + by, KEYS[keys](at))
    said = f"a record with the offset delta {at + by} where {at} is expected"
    assert walked(of(100, b"".join(pieces))) == said


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Records that were alike, or nearly, and then some bytes of theirs."""
    count = draw(st.integers(1, 90))
    key = KEYS[draw(st.sampled_from(sorted(KEYS)))]
    sizes = draw(st.sampled_from([[10], [70], [63, 64], range(40), range(64, 90), [8180, 8200]]))
    deltas = draw(st.sampled_from([[0], range(90), range(0, 9000, 100), [5, 3, 8], [1 << 21]]))
    pieces = [
        plain(place, key(place), sizes[place * 31 % len(sizes)], delta=deltas[place % len(deltas)])
        for place in range(count)
    ]
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, count - 1))
        spare = draw(st.tuples(*[st.integers(0, 2)] * 6))
        off = draw(st.tuples(*[st.integers(-2, 2)] * 2))
        pieces[at] = plain(at, key(at), spare=spare, off=off)
    body = bytearray(b"".join(pieces))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(body) - 1))
        if draw(st.booleans()):
            body[at] ^= 1 << draw(st.integers(0, 7))
        else:
            del body[at]
    return of(max(1, count + draw(st.sampled_from([0, 0, 0, 1, -1]))), bytes(body))


@settings(max_examples=1000, deadline=None)
@given(damaged(), st.sampled_from([300, 1 << 17]), st.sampled_from([1, FEW]))
def test_what_passes_is_what_every_reader_reads(batch: bytes, window: int, few: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "WINDOW_BYTES", window)
        patch.setattr(walk, "FEW", few)
        patch.setattr(columns, "FEW", few)
        assert_as_readers_have_it(batch)
        by_columns = walked(batch)
        use(False, patch)
        by_python = walked(batch)
    if isinstance(by_columns, str) or isinstance(by_python, str):
        assert by_columns == by_python
    else:
        for name in ("smallest_delta", "largest_delta", "keyless", "keyless_count"):
            assert getattr(by_columns[0], name) == getattr(by_python[0], name)
