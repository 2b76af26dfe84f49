"""What each side has, and so what can be compared at all. Pure.

Two sides seldom begin and end at the same offsets: retention moves the beginning of a log, an archive is
behind its topic. What only one of them can have is not compared, and said. What both must have is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dafka_pipeline.kafka.cluster import TopicPartition
from dafka_pipeline.ranges import Span, span_sum

LEFT: Final = "left"
RIGHT: Final = "right"
SIDES: Final = (LEFT, RIGHT)

GONE: Final = "gone"
"""The other side begins later: what was before went by retention, or was never put there."""
BEHIND: Final = "behind"
"""The other side is behind: it may get these offsets yet."""
LEFT_OUT: Final = "left out"
"""`--from` and `--to` leave it out."""


class Kept(NamedTuple):
    """What a side has of one partition: everything from offset `start` up to but without `end`.

    lags: whether offsets from `end` on may come to this side later, as to an archive. Else there is nothing
        behind
        `end`, and what the other side has there is missing here.
    """

    start: int
    end: int
    lags: bool = False


class NotCompared(NamedTuple):
    """Offsets that only one side can have. side: the one that has them. why: GONE, BEHIND or LEFT_OUT."""

    span: Span
    side: str
    why: str


class Absent(NamedTuple):
    """A topic, or a partition of it, that one side does not have. side: the one that lacks it."""

    topic: str
    partition: int | None
    side: str


@dataclass
class Comparison:
    """What is compared: `spans`, at most one of each partition; and what is not."""

    spans: list[Span] = field(default_factory=list)
    not_compared: list[NotCompared] = field(default_factory=list)
    absent: list[Absent] = field(default_factory=list)

    @property
    def offsets(self) -> int:
        """Offsets in all spans, whether or not a record is at each."""
        return span_sum(self.spans)


class Covered(NamedTuple):
    """A side as far as it matters here. lags: as `Kept.lags`, for partitions that it has never heard of."""

    topics: Collection[str]
    kept: Mapping[TopicPartition, Kept]
    lags: bool


def comparison(
    left: Covered,
    right: Covered,
    topics: Collection[str],
    limits: Mapping[TopicPartition, tuple[int | None, int | None]] | None = None,
) -> Comparison:
    """What both sides must have of these topics.

    limits: from where and up to where, for partitions that are not compared whole.
    """
    made = Comparison()
    for topic in sorted(topics):
        lacking = [side for side, one in zip(SIDES, (left, right), strict=True) if topic not in one.topics]
        made.absent += [Absent(topic, None, side) for side in lacking]
        if lacking:
            continue
        places = {place for one in (left, right) for place in one.kept if place.topic == topic}
        for place in sorted(places):
            _one(made, place, (left, right), (limits or {}).get(place, (None, None)))
    return made


def _one(
    made: Comparison,
    place: TopicPartition,
    sides: tuple[Covered, Covered],
    limit: tuple[int | None, int | None],
) -> None:
    kept = []
    for name, side, other in zip(SIDES, sides, reversed(sides), strict=True):
        here = side.kept.get(place)
        if here is None:
            start = other.kept[place].start
            here = Kept(start, start, side.lags)
            if not side.lags:
                made.absent.append(Absent(place.topic, place.partition, name))
        kept.append(here)
    start = max(one.start for one in kept)
    ends = [one.end for one in kept if one.lags]
    end = max(start, min(ends) if ends else max(one.end for one in kept))
    for name, one in zip(SIDES, kept, strict=True):
        _left_over(made, name, Span(*place, one.start, min(one.end, start)), GONE)
        _left_over(made, name, Span(*place, max(one.start, end), one.end), BEHIND)
    whole = Span(*place, start, end)
    span = limited(whole, *limit)
    for name, one in zip(SIDES, kept, strict=True):
        for rest in (whole._replace(end=span.start), whole._replace(start=span.end)):
            _left_over(made, name, rest._replace(end=min(rest.end, one.end)), LEFT_OUT)
    if span.length > 0:
        made.spans.append(span)


def limited(span: Span, start: int | None, end: int | None) -> Span:
    """The part of a span between two offsets; empty at its end where there is none."""
    begins = min(span.end, max(span.start, span.start if start is None else start))
    ends = max(begins, min(span.end, span.end if end is None else end))
    return span._replace(start=begins, end=ends)


def _left_over(made: Comparison, side: str, span: Span, why: str) -> None:
    if span.length > 0:
        made.not_compared.append(NotCompared(span, side, why))


def clipped(spans: Collection[Span], kept: Mapping[TopicPartition, Kept]) -> list[Span]:
    """The parts of spans that a side has: nothing else is asked of it."""
    found = []
    for span in spans:
        has = kept.get(TopicPartition(span.topic, span.partition))
        if has is not None:
            part = limited(span, has.start, has.end)
            found += [part] if part.length > 0 else []
    return found


def clipped_to(spans: Collection[Span], limits: Collection[Span]) -> list[Span]:
    """The parts of spans that lie in `limits`, of which there is at most one for each partition."""
    whole = {TopicPartition(span.topic, span.partition): Kept(span.start, span.end) for span in limits}
    return clipped(spans, whole)
