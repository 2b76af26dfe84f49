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
from wireproto.records.columns import AT_ONCE, MAX_CHANGES, Columns, Taken
from wireproto.records.header import HEADER_BYTES, BatchHeader, read_header
from wireproto.records.iteration import decode_record, record_bounds
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
    place = position = 0
    while place < count and (one := made.take(position, place, count - place)):
        found.append(one)
        place, position = place + one.records, position + one.size
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


def looks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, Taken | None]]:
    """Of all walks from now on: how many records each look was at, and what came of it."""
    found: list[tuple[int, Taken | None]] = []
    take = Columns.take

    def noted(self: Columns, position: int, place: int, count: int) -> Taken | None:
        before = self.looked_at
        taken = take(self, position, place, count)
        found.append((self.looked_at - before, taken))
        return taken

    monkeypatch.setattr(Columns, "take", noted)
    return found


def test_the_walk_takes_what_columns_cannot_tell_by_other_means(monkeypatch: pytest.MonkeyPatch) -> None:
    """And goes on by columns in the next window."""
    fields: list[Fields] = [
        *[(None, value(100), 0)] * 500,
        (None, value(100_000), 0),  # a length of three bytes
        *[(b"k" if n % 2 else None, value(100), 0) for n in range(500)],
        *[(None, value(size), n % 50) for n, size in enumerate(mixed(5000, 80, 200))],
    ]
    batch = batch_of(fields)
    looked = looks(monkeypatch)
    found = walked(batch)
    assert not isinstance(found, str)
    made, pauses = found
    by_columns = [each.records if each else 0 for _, each in looked]
    assert by_columns[:3] == [64, 436, 0]
    assert sum(by_columns[3:]) >= 3000
    assert pauses >= 2
    keyless = [place for place, (key, _, _) in enumerate(fields) if key is None]
    assert (made.keyless, made.keyless_count) == (keyless, len(keyless))
    assert (made.smallest_delta, made.largest_delta) == (0, 49)


def test_windows_are_looked_through_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where fewer records than make columns worth while fit into one."""
    looked = looks(monkeypatch)
    assert not isinstance(walked(batch_of([(None, value(1000 + n % 3), 0) for n in range(1000)])), str)
    assert sum(each.records for _, each in looked if each) == 1000


def test_large_batches_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordWalk, "_by_parser", None)
    for size in (1, 2):  # of one size, and not
        found = walked(batch_of([(None, b"v" * (n % size), 0) for n in range(10_000)]))
        assert not isinstance(found, str)
        made, pauses = found
        assert pauses >= 10_000 // walk.RECORDS_AT_ONCE - 1
        assert made.keyless_count == 10_000


@pytest.mark.parametrize("run", [1, 2, 31, 32, 33, 64, 128, 250, 256, 500])
@pytest.mark.parametrize("size", [0, 40])
@pytest.mark.parametrize("changes", ["times", "attributes", "keys", "headers"])
def test_a_form_that_keeps_changing_costs_no_more_than_in_proportion(
    run: int, size: int, changes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all records, no more are looked at in vain by columns than there are; and the walk pauses."""
    other: dict[str, dict[str, Any]] = {
        "times": {"delta": 100},
        "attributes": {"attributes": 1},
        "keys": {"key": b"k"},
        "headers": {"headers": b"\2\2h\2w"},
    }
    looked = looks(monkeypatch)
    count = 20_000
    body = b"".join(
        plain(place, size=size + place % 2, **(other[changes] if place // run % 2 else {}))
        for place in range(count)
    )
    found = walked(of(count, body))
    assert not isinstance(found, str)
    assert sum(rows for rows, _ in looked) <= 2 * count
    few = [each for _, each in looked if each is None or each.records < AT_ONCE // 2]
    assert len(few) <= 2 + MAX_CHANGES + len(body) // walk.WINDOW_BYTES + count // walk.RECORDS_AT_ONCE
    assert found[1] >= count // walk.RECORDS_AT_ONCE - 1


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
def test_one_that_is_not_alike_is_never_taken_for_one(
    keys: str, at: int, wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "FEW", 1)
    looked = looks(monkeypatch)
    key = KEYS[keys]
    pieces = [plain(place, key(place)) for place in range(100)]
    pieces[at] = plain(at, key(at), **wrong)
    assert_as_readers_have_it(of(100, b"".join(pieces)))
    assert any(rows > 1 for rows, _ in looked) or at == 0


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("at", [1, 40, 63, 64, 70, 98])
@pytest.mark.parametrize("by", [-64, -1, 1, 64, 8192])
def test_a_record_at_another_place_is_refused(
    keys: str, at: int, by: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "FEW", 1)
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
        if draw(st.integers(0, 3)):
            body[at] ^= 1 << draw(st.integers(0, 7))
        else:
            del body[at]
    return of(max(1, count + draw(st.sampled_from([0, 0, 0, 1, -1]))), bytes(body))


@settings(max_examples=1000, deadline=None)
@given(damaged(), st.sampled_from([300, 1 << 17]))
def test_what_passes_is_what_every_reader_reads(batch: bytes, window: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "WINDOW_BYTES", window)
        patch.setattr(columns, "WINDOW_BYTES", window)
        patch.setattr(walk, "FEW", 1)
        assert_as_readers_have_it(batch)
        by_columns = walked(batch)
        use(False, patch)
        by_python = walked(batch)
    if isinstance(by_columns, str) or isinstance(by_python, str):
        assert by_columns == by_python
    else:
        for name in ("smallest_delta", "largest_delta", "keyless", "keyless_count"):
            assert getattr(by_columns[0], name) == getattr(by_python[0], name)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([0, 63, 64, 8191, 8192, 8193, 16_383, 16_384, (1 << 20) - 30, 1 << 20]),
    st.sampled_from(sorted(KEYS)),
    st.integers(0, 60),
    st.integers(0, 30),
    st.integers(0, 7),
    st.booleans(),
)
def test_at_any_place_what_is_taken_is_what_is_there(
    place: int, keys: str, row: int, byte: int, bit: int, both: bool
) -> None:
    """One bit of one record is another one, in two of its numbers at once or in one: what its length and that
    of its value say is compared, and that either is no negative one.
    """
    pieces = [bytearray(plain(place + n, KEYS[keys](n))) for n in range(61)]
    one = pieces[row]
    one[byte % len(one)] ^= 1 << bit
    if both:
        one[0] ^= 1 << bit
    body = b"".join(pieces)
    taken = Columns(body).take(0, place, len(pieces))
    if taken is None:
        return
    position, deltas = 0, []
    for n in range(taken.records):
        start, end = record_bounds(body, position)
        header = of_places(place + len(pieces))
        found = decode_record(body, start, end, header)
        assert (found.offset, found.key is not None, found.headers) == (place + n, taken.keyed, [])
        deltas.append(found.timestamp - header.base_timestamp)
        position = end
    assert (position, min(deltas), max(deltas)) == (taken.size, taken.smallest_delta, taken.largest_delta)


def of_places(count: int) -> BatchHeader:
    header = read_header(batch_of([(None, b"", 0)]))
    return header._replace(count=count, last_offset_delta=count - 1)


def test_a_length_and_a_value_that_are_both_negative_are_not_taken() -> None:
    """They add up as the positive ones do."""
    pieces = [bytearray(plain(n)) for n in range(50)]
    at_value = 5
    assert pieces[7][at_value] == 20
    pieces[7][at_value] ^= 1
    pieces[7][0] ^= 1
    assert Columns(b"".join(pieces)).take(0, 0, 50) is None
    assert isinstance(walked(of(50, b"".join(pieces))), str)


def test_a_negative_length_of_a_key_is_not_half_of_it() -> None:
    """Read as one byte of a key, what follows would add up, too: a key where readers find none."""
    pieces = []
    for n in range(50):
        body = b"\0\0" + varint(n) + varint(-2) + varint(11) + varint(10) + value(10) + b"\0"
        pieces.append(varint(len(body)) + body)
    taken = Columns(b"".join(pieces)).take(0, 0, 50)
    assert taken is None or not taken.keyed
    assert_as_readers_have_it(of(50, b"".join(pieces)))


@pytest.mark.parametrize("null", [b"\x01", b"\x03"])
def test_null_values_are_left_to_others(null: bytes) -> None:
    tombstone = b"\x10\0\0\x0e\x02k" + null + b"\0"
    body = bytearray(tombstone)
    body[0] = 2 * (len(tombstone) - 1)
    pieces = [plain(n, b"k") for n in range(50)]
    pieces[7] = bytes(body)
    assert Columns(b"".join(pieces)).take(0, 0, 50) is None
    assert_as_readers_have_it(of(50, b"".join(pieces)))
