"""The values of a batch are those of its records, by either parser, and what is malformed is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wireproto.records import compiled
from wireproto.records.builder import RecordFields, build_batch
from wireproto.records.errors import InvalidBatch
from wireproto.records.header import HEADER_BYTES
from wireproto.records.iteration import iter_records
from wireproto.records.values import values_of

BYTES = st.one_of(st.none(), st.binary(max_size=30))
HEADERS = st.lists(st.tuples(st.text(max_size=3), BYTES), max_size=2)
RECORDS = st.lists(st.tuples(BYTES, BYTES, HEADERS, st.integers(0, 10**12)), min_size=1, max_size=8)


@pytest.fixture(params=[True, False], ids=["compiled", "ours"], autouse=True)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param and not compiled.AVAILABLE:
        pytest.skip("there is no compiled parser here")
    monkeypatch.setattr(compiled, "AVAILABLE", request.param)


@given(RECORDS, st.sampled_from([0, 1, 2, 3, 4]), st.integers(0, 10**12))
def test_values_are_those_of_the_records(records: list[RecordFields], codec: int, offset: int) -> None:
    batch = build_batch(records, codec=codec, base_offset=offset)
    expected = [(record.offset, record.value or b"") for record in iter_records(batch)]
    assert values_of(batch) == expected
    assert [value for _, value in expected] == [value or b"" for _, value, _, _ in records]


@given(RECORDS, st.data())
def test_offsets_ascend_whatever_the_bytes_are(records: list[RecordFields], data: st.DataObject) -> None:
    """A store keeps a batch as its producer sent it: under its CRC records may be anything."""
    batch = bytearray(build_batch(records, base_offset=100))
    batch[data.draw(st.integers(HEADER_BYTES, len(batch) - 1))] = data.draw(st.integers(0, 255))
    try:
        offsets = [offset for offset, _ in values_of(batch)]
    except InvalidBatch:
        return
    assert offsets == sorted(set(offsets))
    assert all(100 <= offset < 100 + len(records) for offset in offsets)


@pytest.mark.parametrize(
    "deltas", [(0, 0), (1, 0), (0, 2), (0, -1)], ids=["again", "back", "too far", "before the batch"]
)
def test_records_out_of_turn_are_refused(deltas: tuple[int, int]) -> None:
    batch = bytearray(build_batch([(None, b"a", [], 0), (None, b"b", [], 0)]))
    for number, delta in enumerate(deltas):
        # Each has eight bytes: length, attributes, timestamp delta, offset delta, and so on.
        batch[HEADER_BYTES + 8 * number + 3] = ((delta << 1) ^ (delta >> 31)) & 0xFF
    with pytest.raises(InvalidBatch):
        values_of(batch)
