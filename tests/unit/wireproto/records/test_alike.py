"""Records that differ in little are those that the batch builder makes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wireproto.records.alike import AlikeRecords
from wireproto.records.builder import GrowingBatch, build_batch

HEADERS = st.lists(st.tuples(st.text(max_size=12), st.binary(max_size=600)), max_size=3)


@given(
    st.one_of(st.none(), st.binary(max_size=600)),
    HEADERS,
    st.text(max_size=12),
    HEADERS,
    st.lists(st.tuples(st.binary(max_size=600), st.binary(max_size=20)), min_size=1, max_size=8),
    st.integers(0, 2**45),
)
def test_they_are_as_if_each_was_encoded(
    key: bytes | None,
    before: list[tuple[str, bytes]],
    header: str,
    after: list[tuple[str, bytes]],
    values: list[tuple[bytes, bytes]],
    timestamp: int,
) -> None:
    alike, batch = AlikeRecords(key, before, header, after), GrowingBatch()
    for number, (value, header_value) in enumerate(values):
        batch.append_encoded(alike.encoded(number, value, header_value), timestamp)
    expected = build_batch(
        [(key, value, [*before, (header, header_value), *after], timestamp) for value, header_value in values]
    )
    assert batch.finish() == expected


def test_a_place_behind_the_short_ones_is_right() -> None:
    alike, batch = AlikeRecords(None, (), "n", ()), GrowingBatch()
    records = [(None, b"v" * 700, [("n", b"%d" % number)], 5) for number in range(600)]
    for number in range(600):
        batch.append_encoded(alike.encoded(number, b"v" * 700, b"%d" % number), 5)
    assert batch.finish() == build_batch(records)
