"""Offsets, spans of them, and which spans a batch takes. Pure: no Kafka, no Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple


class Span(NamedTuple):
    """Offsets of one partition, from `start` up to but without `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def length(self) -> int:
        """Offsets in it, whether or not a record is at each."""
        return self.end - self.start


def span_sum(spans: Iterable[Span]) -> int:
    """Offsets in all of them."""
    return sum(span.length for span in spans)


def fair_spans(waiting: Collection[Span], weights: Mapping[str, float], budget: float) -> list[Span]:
    """The front of each waiting span, so that all of them together cost no more than `budget`.

    Those with much to read get their share by what waits, and each gets one offset at least, so that none
    starves and a batch is never empty while something waits.

    weights: what one offset of a topic costs (average bytes of a record); a topic without one costs 1.
    """
    costs = {span: weights.get(span.topic, 1.0) * span.length for span in waiting if span.length > 0}
    total = sum(costs.values())
    if total <= budget:
        return sorted(costs)
    share = budget / total
    return sorted(span._replace(end=span.start + max(1, int(span.length * share))) for span in costs)


def holes(span: Span, offsets: Iterable[int]) -> list[Span]:
    """The runs of offsets in `span` at which there is no record; `offsets` are those with one, ascending."""
    found = []
    expected = span.start
    for offset in offsets:
        if offset > expected:
            found.append(span._replace(start=expected, end=offset))
        expected = offset + 1
    if expected < span.end:
        found.append(span._replace(start=expected))
    return found
