"""What the walk over a produced batch lets pass: exactly what our reader and a client's read whole, with the
compiled parser and without.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecords

from wireproto.kafka.errors import ErrorCode
from wireproto.records import compaction, compiled, walk
from wireproto.records.builder import build_batch
from wireproto.records.errors import InvalidBatch
from wireproto.records.header import HEADER_BYTES, read_header
from wireproto.records.iteration import iter_records, record_bounds
from wireproto.records.keyed import keyed_records
from wireproto.records.outline import outlines
from wireproto.records.signing import sign
from wireproto.records.varint import write_varint
from wireproto.records.walk import MAX_KEYLESS, RecordWalk

BASE_MS = 1_700_000_000_000
INT64_MAX = (1 << 63) - 1


@pytest.fixture(params=[True, False], ids=["parser", "python"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    use(request.param, monkeypatch)
    return bool(request.param)


def use(parser: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With it for every batch, however small, or not at all; and nothing by columns (`test_columns`)."""
    assert compiled.AVAILABLE, "the tests need aiokafka's compiled part"
    monkeypatch.setattr(walk, "FEW", 1 << 31)
    monkeypatch.setattr(compiled, "AVAILABLE", parser)
    monkeypatch.setattr(walk, "FEW_RECORDS", 0)


def walked(batch: bytes) -> tuple[RecordWalk, int] | str:
    """(the walk, how often it paused); or why the batch is refused."""
    header = read_header(batch)
    made = RecordWalk(header, memoryview(batch)[HEADER_BYTES:], notes_keys=True)
    try:
        return made, sum(1 for _ in made.steps())
    except InvalidBatch as error:
        return error.message if error.code is ErrorCode.INVALID_RECORD else error.code.name


def of(count: int, body: bytes, base_timestamp: int = BASE_MS) -> bytes:
    header = read_header(build_batch([(None, None, (), base_timestamp)]))
    return sign(header._replace(count=count, last_offset_delta=count - 1), body)


def varint(value: int, spare: int = 0) -> bytes:
    """`value`, in so many bytes more than it needs."""
    out = bytearray()
    write_varint(value, out)
    for _ in range(spare):
        out[-1] |= 0x80
        out.append(0)
    return bytes(out)


def record(
    place: int,
    *,
    spare: Sequence[int] = (0,) * 8,
    attributes: bytes = b"\0",
    delta: int = 0,
    extra: bytes = b"",
) -> bytes:
    """Key, value and one header, each number with so many spare bytes."""
    body = b"".join(
        (attributes, varint(delta, spare[1]), varint(place, spare[2]), varint(1, spare[3]), b"k",
         varint(2, spare[4]), b"vv", varint(1, spare[5]), varint(1, spare[6]), b"h", varint(1, spare[7]),
         b"w", extra)
    )  # fmt: skip
    return varint(len(body), spare[0]) + body


# what is good ---------------------------------------------------------------------------------------------

Fields = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]
FIELDS: st.SearchStrategy[Fields] = st.tuples(
    st.none() | st.binary(max_size=70),
    st.none() | st.binary(max_size=200),
    st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3),
    st.integers(BASE_MS - 10**10, BASE_MS + 10**10),
)


@given(st.lists(FIELDS, min_size=1, max_size=40))
def test_what_producers_write_passes(records: list[Fields]) -> None:
    batch = build_batch(records)
    for available in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            use(available, patch)
            found = walked(batch)
        assert not isinstance(found, str)
        made, _ = found
        deltas = [fields[3] - records[0][3] for fields in records]
        assert (made.smallest_delta, made.largest_delta) == (min(deltas), max(deltas))
        assert made.keyless == [index for index, fields in enumerate(records) if fields[0] is None]


@pytest.mark.parametrize(
    ("count", "value"),
    [
        (5000, b""),
        (18_724, b""),
        (3000, b"v" * 100),
        (200, b"v" * 5000),
        (3, bytes(1 << 20)),
        (1, bytes(200_000)),
    ],
)
def test_large_batches_pass_in_slices(count: int, value: bytes, parser: bool) -> None:
    records: Any = [(None if n % 2 else b"k", value, [], BASE_MS - n) for n in range(count)]
    found = walked(build_batch(records))
    assert not isinstance(found, str)
    made, pauses = found
    assert pauses >= count // (walk.RECORDS_AT_ONCE if parser else walk.ELEMENTS_AT_ONCE) - 1
    assert (made.smallest_delta, made.largest_delta) == (1 - count, 0)
    assert made.keyless_count == count // 2
    assert made.keyless == list(range(1, count, 2))[:MAX_KEYLESS]


def test_a_record_of_very_many_headers_is_looked_through_in_slices(parser: bool) -> None:
    headers: Any = [("", None)] * 100_000
    batch = build_batch([(b"k", b"v", headers, BASE_MS), *[(b"k", b"v", [], BASE_MS)] * 9])
    found = walked(batch)
    assert not isinstance(found, str)
    assert found[1] >= 99, "too large for the parser, which does not pause within a record"


# what is not ----------------------------------------------------------------------------------------------

GOOD = [record(place) for place in range(6)]


@pytest.mark.parametrize(
    ("count", "body", "why"),
    [
        (6, b"".join(GOOD) + b"\0", "1 bytes after the last record"),
        (5, b"".join(GOOD), f"{len(GOOD[5])} bytes after the last record"),
        (7, b"".join(GOOD), "6 records where the header counts 7"),
        (6, b"".join(GOOD)[:-1], "a record of 13 bytes where 12 are left"),
        (6, b"".join(GOOD[:5]) + record(6), "a record with the offset delta 6 where 5 is expected"),
        (6, b"".join(GOOD[:5]) + record(-1), "a record with the offset delta -1 where 5 is expected"),
        (6, b"".join(GOOD[:4]) + GOOD[5] + GOOD[4], "a record with the offset delta 5 where 4 is expected"),
        (6, b"".join(GOOD[:5]) + record(5, extra=b"x"), "1 bytes left over in a record"),
        (6, b"".join(GOOD[:5]) + b"\x0c\0\0\x0a\x01\x01\x01", "-1 record headers in 0 bytes"),
        (6, b"".join(GOOD[:5]) + b"\x0e\0\0\x0a\x08\x01\x00\x00", "a field of 4 bytes where 3 are left"),
        (6, b"".join(GOOD[:5]) + GOOD[5].replace(b"h", b"\xff"), "a record header's key is not UTF-8"),
        (6, b"".join(GOOD[:5]) + record(5, delta=INT64_MAX), "a record's timestamp does not fit 64 bits"),
    ],
)
def test_what_is_wrong_is_said(count: int, body: bytes, why: str, parser: bool) -> None:
    assert walked(of(count, body)) == why


@pytest.mark.parametrize("spare", [1, 4, 8])
@pytest.mark.parametrize("field", range(8))
def test_numbers_written_longer_than_they_need_are_read_as_readers_do(
    field: int, spare: int, parser: bool
) -> None:
    """aiokafka's parser reads nine bytes where Kafka reads five."""
    one = record(3, spare=[spare * (index == field) for index in range(8)])
    batch = of(6, b"".join([*GOOD[:3], one, *GOOD[4:]]))
    assert_as_readers_have_it(batch)
    assert isinstance(walked(batch), str) == (field != 1 and spare == 8)


@pytest.mark.parametrize(
    ("attributes", "good"), [(b"\x01", True), (b"\x7f", True), (b"\x80", False), (b"\xff", False)]
)
def test_a_records_attributes_are_a_byte_that_every_client_reads_as_one(
    attributes: bytes, good: bool, parser: bool
) -> None:
    """Kafka gives it no meaning, and Python's clients take a large one for the first of two."""
    batch = of(6, b"".join([*GOOD[:3], record(3, attributes=attributes), *GOOD[4:]]))
    assert isinstance(walked(batch), str) is not good
    if good:
        assert_as_readers_have_it(batch)


@pytest.mark.parametrize("null", [b"\x01", b"\x03", b"\x7f", b"\x81\x01"], ids=bytes.hex)
@pytest.mark.parametrize("field", ["key", "value", "header"])
def test_any_negative_length_is_null_to_all(field: str, null: bytes, parser: bool) -> None:
    """As in Kafka; and so a record that passes can be read by look-ups and compaction as well."""
    parts = {"key": b"\x02k", "value": b"\x04vv", "header": b"\x02w"} | {field: null}
    body = b"\0\0" + varint(3) + parts["key"] + parts["value"] + b"\x02\x02h" + parts["header"]
    batch = of(6, b"".join([*GOOD[:3], varint(len(body)) + body, *GOOD[4:]]))
    assert_as_readers_have_it(batch)
    found = walked(batch)
    assert not isinstance(found, str)
    assert found[0].keyless == ([3] if field == "key" else [])
    read = list(iter_records(batch))[3]
    fields = {"key": read.key, "value": read.value, "header": read.headers[0][1]}
    assert fields == {"key": b"k", "value": b"vv", "header": b"w"} | {field: None}
    compacted = list(compaction.walk(batch))[3]
    assert (compacted.key, compacted.has_value) == (read.key, read.value is not None)
    assert keyed_records(batch)[3] == (3, read.key, read.value)
    shown = list(outlines(batch[HEADER_BYTES:], read_header(batch)))[3]
    assert (shown.key, shown.value) == (read.key, read.value)


def test_spare_bytes_do_not_make_room_for_what_nobody_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare bytes in one window hide where the next begins: what is measured is not what readers find."""
    monkeypatch.setattr(walk, "WINDOW_BYTES", 64)
    use(True, monkeypatch)
    for cut in range(1, 5):
        long = record(0, spare=[0, 0, 0, 0, cut, 0, 0, 0])
        batch = of(6, b"".join([long, *GOOD[1:]]))
        assert not isinstance(walked(batch), str)
        assert_as_readers_have_it(batch)
        assert isinstance(walked(of(6, batch[HEADER_BYTES:-cut])), str)
        assert isinstance(walked(of(6, batch[HEADER_BYTES:] + bytes(cut))), str)


def readable(batch: bytes) -> bool:
    """By our reader, whole, with each record at its place."""
    header = read_header(batch)
    try:
        offsets = [one.offset for one in iter_records(batch)]
    except InvalidBatch:
        return False
    if any(attributes >= 0x80 for attributes in attributes_of(batch)):
        return False
    return offsets == list(range(header.base_offset, header.base_offset + header.count))


def attributes_of(batch: bytes) -> list[int]:
    """Of each record."""
    body, position, found = batch[HEADER_BYTES:], 0, []
    while position < len(body):
        start, position = record_bounds(body, position)
        found.append(body[start])
    return found


def assert_as_readers_have_it(batch: bytes) -> None:
    accepted = not isinstance(walked(batch), str)
    assert accepted == readable(batch)
    if accepted:
        ours = [(one.offset, one.timestamp, one.key, one.value, one.headers) for one in iter_records(batch)]
        theirs = MemoryRecords(batch).next_batch()
        assert [(one.offset, one.timestamp, one.key, one.value, one.headers) for one in theirs] == ours


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Records that were good, or nearly."""
    count = draw(st.integers(1, 12))
    pieces = [
        record(
            place,
            spare=draw(st.just((0,) * 8) | st.tuples(*[st.integers(0, 9)] * 8)),
            delta=draw(st.sampled_from([0, 5, -7, 1 << 61, -(1 << 62), INT64_MAX, -INT64_MAX - 1])),
            attributes=draw(st.sampled_from([b"\0", b"\0", b"\x80"])),
        )
        for place in range(count)
    ]
    body = bytearray(b"".join(pieces))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(body)))
        match draw(st.integers(0, 3)):
            case 0:
                body[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
            case 1:
                body[at:at] = draw(st.binary(max_size=12))
            case 2:
                del body[at : at + draw(st.integers(1, 12))]
            case _:
                body[at : at + 8] = draw(
                    st.sampled_from([b"\xff" * 8 + b"\x7f", b"\x80" * 9 + b"\1", b"\1", b""])
                )
    return of(max(1, count + draw(st.sampled_from([0, 0, 0, 0, 1, -1]))), bytes(body))


@settings(max_examples=500, deadline=None)
@given(damaged(), st.sampled_from([32, 64, 1 << 17]))
def test_what_passes_is_what_every_reader_reads(batch: bytes, window: int) -> None:
    for available in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            use(available, patch)
            patch.setattr(walk, "WINDOW_BYTES", window)
            assert_as_readers_have_it(batch)


FUZZ = """
import random, sys
from tests.unit.wireproto.records import test_walk as made
from wireproto.records import compiled
from wireproto.records.walk import RecordWalk
from wireproto.records.header import read_header
rng = random.Random(int(sys.argv[1]))
GOOD = b"".join(made.record(place) for place in range(40))
for _ in range(20_000):
    body = bytearray(GOOD)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(body))
        body[at:at + rng.randrange(3)] = rng.choice(
            [b"\\xff" * 9 + b"\\1", b"\\x80" * rng.randrange(12), rng.randbytes(3),
             b"\\xfe" + b"\\xff" * 8 + b"\\1"]
        )
    window = compiled.Window(bytes(body))
    try:
        list(window.records(rng.choice([40, 41, 2**31 - 1]), window.size))
    except compiled.REFUSALS:
        pass
    else:
        continue
print("done")
"""


@pytest.mark.parametrize("seed", range(2))
def test_the_parser_survives_any_bytes(seed: int) -> None:
    """In a process of its own: it is compiled code that others wrote."""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", FUZZ, str(seed)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "done\n", done.stderr


def test_without_the_package_the_outcome_is_the_same() -> None:
    code = (
        "import sys; sys.modules['aiokafka'] = None\n"
        "from tests.unit.wireproto.records import test_walk as made\n"
        "from wireproto.records import compiled\n"
        "assert not compiled.AVAILABLE\n"
        "assert not isinstance(made.walked(made.of(6, b''.join(made.GOOD))), str)\n"
        "print(made.walked(made.of(6, b''.join(made.GOOD) + b'x')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "1 bytes after the last record\n", done.stderr
