"""How a partition is cut into pieces: each has the aborted transactions that are in it, and not too many."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.log.segment import Segment
from gateway.native import publishing
from gateway.native.publishing import Piece, _cut
from wireproto.dafka.additions import AbortedSpan
from wireproto.kafka.errors import KafkaError

SEGMENT = Segment("S", 0, 0, ("A", "B"), 2, 0)
SPANS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 60), st.integers(1, 30)), max_size=30).map(
    lambda found: sorted((AbortedSpan(p, f, f + size) for p, f, size in found), key=lambda one: one.first)
)


@given(SPANS, st.integers(0, 10))
def test_every_offset_has_its_transactions(spans: list[AbortedSpan], first: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publishing, "PIECE_ABORTED", 4)
        pieces = _cut(SEGMENT, first, 99, spans)
    assert [one.first for one in pieces] == [first, *(one.last + 1 for one in pieces[:-1])]
    assert pieces[-1].last == 99
    for piece in pieces:
        for offset in range(piece.first, piece.last + 1):
            wanted = {span for span in spans if span.first <= offset <= span.last}
            assert wanted <= set(piece.aborted)
        begun = sum(span.first <= piece.first for span in spans)
        assert len(piece.aborted) <= max(4, begun)


def test_many_short_ones_behind_as_many_long_ones_fit() -> None:
    long = [AbortedSpan(number, 0, 10_000) for number in range(1_001)]
    short = [AbortedSpan(1, 1_000 + 2 * number, 1_001 + 2 * number) for number in range(4_000)]
    pieces = _cut(SEGMENT, 0, 20_000, long + short)
    assert pieces[-1].last == 20_000
    assert all(len(piece.aborted) <= 2_100 for piece in pieces)


def test_more_at_one_place_than_can_be_told_is_said() -> None:
    with pytest.raises(KafkaError, match="4097 aborted transactions are at offset 0"):
        _cut(SEGMENT, 0, 9, [AbortedSpan(number, 0, 9) for number in range(4_097)])


def test_a_piece_goes_on_with_what_follows() -> None:
    one, two, three = (AbortedSpan(number, number, 9) for number in range(3))
    before = Piece(SEGMENT, 0, 4, (one, two))
    assert before.with_more(Piece(SEGMENT, 5, 9, (two, three))) == Piece(SEGMENT, 0, 9, (one, two, three))
    assert before.name == "S.0"
