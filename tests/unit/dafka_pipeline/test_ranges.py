"""Spans, shares and holes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dafka_pipeline.ranges import Span, fair_spans, holes, span_sum

spans = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.integers(0, 1000), st.integers(0, 1000)),
    max_size=8,
    unique_by=lambda one: one[:2],
).map(lambda made: [Span(t, p, start, start + length) for t, p, start, length in made])


@given(spans, st.floats(1, 5000))
def test_shares_are_fronts_that_fit_and_starve_nobody(waiting: list[Span], budget: float) -> None:
    weights = {"a": 1.0, "b": 10.0}
    made = fair_spans(waiting, weights, budget)
    by_place = {span[:2]: span for span in waiting if span.length}
    assert {span[:2] for span in made} == set(by_place)
    for span in made:
        whole = by_place[span[:2]]
        assert span.start == whole.start < span.end <= whole.end
    cost = sum(weights.get(span.topic, 1.0) * span.length for span in made)
    assert cost <= budget + sum(weights.get(span.topic, 1.0) for span in made)


@given(st.integers(0, 20), st.integers(0, 30), st.sets(st.integers(0, 49)))
def test_holes_are_all_that_has_no_record(start: int, length: int, there: set[int]) -> None:
    span = Span("t", 0, start, start + length)
    inside = sorted(offset for offset in there if span.start <= offset < span.end)
    found = holes(span, inside)
    empty = [offset for hole in found for offset in range(hole.start, hole.end)]
    assert empty == [offset for offset in range(span.start, span.end) if offset not in there]
    assert all(hole.length for hole in found)
    assert span_sum(found) + len(inside) == span.length
