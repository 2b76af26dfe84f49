from __future__ import annotations

from collections.abc import Mapping

import pytest

from dafka_pipeline.audit.coverage import (
    BEHIND,
    GONE,
    LEFT,
    LEFT_OUT,
    RIGHT,
    Absent,
    Covered,
    Kept,
    NotCompared,
    clipped,
    clipped_to,
    comparison,
    limited,
)
from dafka_pipeline.kafka.cluster import TopicPartition
from dafka_pipeline.ranges import Span

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def span(start: int, end: int, partition: int = 0) -> Span:
    return Span("t", partition, start, end)


def archive(start: int, end: int) -> Covered:
    return Covered({"t"}, {P0: Kept(start, end, True)}, True)


def log(start: int, end: int) -> Covered:
    return Covered({"t"}, {P0: Kept(start, end)}, False)


@pytest.mark.parametrize(
    ("left", "right", "compared", "apart"),
    [
        (archive(0, 10), log(0, 10), span(0, 10), []),
        # Retention has moved the log's beginning.
        (archive(0, 10), log(4, 10), span(4, 10), [(span(0, 4), LEFT, GONE)]),
        # The archive began later.
        (archive(4, 10), log(0, 10), span(4, 10), [(span(0, 4), RIGHT, GONE)]),
        # The topic is ahead of its archive.
        (archive(0, 10), log(0, 12), span(0, 10), [(span(10, 12), RIGHT, BEHIND)]),
        # The log has lost its end: what the archive has there is missing in it.
        (archive(0, 10), log(0, 8), span(0, 10), []),
        (archive(0, 10), archive(0, 8), span(0, 8), [(span(8, 10), LEFT, BEHIND)]),
        (log(0, 10), log(0, 8), span(0, 10), []),
        (log(3, 10), log(0, 8), span(3, 10), [(span(0, 3), RIGHT, GONE)]),
        # Nothing in common.
        (archive(0, 5), log(7, 10), None, [(span(0, 5), LEFT, GONE), (span(7, 10), RIGHT, BEHIND)]),
        (archive(0, 0), log(0, 0), None, []),
    ],
)
def test_what_both_must_have(
    left: Covered, right: Covered, compared: Span | None, apart: list[tuple[Span, str, str]]
) -> None:
    made = comparison(left, right, ["t"])
    assert made.spans == ([compared] if compared else [])
    assert made.not_compared == [NotCompared(*one) for one in apart]
    assert not made.absent
    other = {LEFT: RIGHT, RIGHT: LEFT}
    turned = comparison(right, left, ["t"])
    assert turned.spans == made.spans
    assert sorted(turned.not_compared) == sorted(
        NotCompared(one, other[side], why) for one, side, why in apart
    )


def both(kept: Mapping[TopicPartition, Kept], *, lags: bool) -> Covered:
    return Covered({"t"}, kept, lags)


def test_a_partition_that_an_archive_does_not_know_may_come_yet() -> None:
    left = both({P0: Kept(0, 3, True)}, lags=True)
    right = both({P0: Kept(0, 3), P1: Kept(2, 5)}, lags=False)
    made = comparison(left, right, ["t"])
    assert made.spans == [span(0, 3)]
    assert made.not_compared == [NotCompared(span(2, 5, 1), RIGHT, BEHIND)]
    assert not made.absent


def test_a_partition_that_a_log_does_not_have_is_absent_and_its_records_are_missing() -> None:
    left = both({P0: Kept(0, 3, True), P1: Kept(2, 5, True)}, lags=True)
    right = both({P0: Kept(0, 3)}, lags=False)
    made = comparison(left, right, ["t"])
    assert made.spans == [span(0, 3), span(2, 5, 1)]
    assert made.absent == [Absent("t", 1, RIGHT)]


def test_a_topic_that_a_side_does_not_have_is_absent() -> None:
    made = comparison(archive(0, 3), Covered(set(), {}, False), ["t", "u"])
    assert made.absent == [Absent("t", None, RIGHT), Absent("u", None, LEFT), Absent("u", None, RIGHT)]
    assert not made.spans


@pytest.mark.parametrize(
    ("limit", "compared", "left_out"),
    [
        ((3, 7), span(3, 7), [(0, 3, LEFT), (7, 10, LEFT), (0, 3, RIGHT), (7, 10, RIGHT)]),
        ((None, 7), span(0, 7), [(7, 10, LEFT), (7, 10, RIGHT)]),
        ((20, None), None, [(0, 10, LEFT), (0, 10, RIGHT)]),
        ((7, 3), None, [(0, 7, LEFT), (7, 10, LEFT), (0, 7, RIGHT), (7, 10, RIGHT)]),
    ],
)
def test_limits(
    limit: tuple[int | None, int | None], compared: Span | None, left_out: list[tuple[int, int, str]]
) -> None:
    made = comparison(archive(0, 10), log(0, 10), ["t"], {P0: limit})
    assert made.spans == ([compared] if compared else [])
    assert made.not_compared == [NotCompared(span(a, b), side, LEFT_OUT) for a, b, side in left_out]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (None, None, (2, 8)),
        (0, 99, (2, 8)),
        (3, None, (3, 8)),
        (None, 3, (2, 3)),
        (9, None, (8, 8)),
        (5, 4, (5, 5)),
    ],
)
def test_a_part_of_a_span(start: int | None, end: int | None, expected: tuple[int, int]) -> None:
    assert limited(span(2, 8), start, end) == span(*expected)


def test_only_what_a_side_has_is_asked_of_it() -> None:
    kept = {P0: Kept(2, 8)}
    assert clipped([span(0, 4), span(6, 9), span(8, 12), span(0, 5, 1)], kept) == [span(2, 4), span(6, 8)]
    assert clipped_to([span(0, 4), span(6, 9)], [span(3, 7)]) == [span(3, 4), span(6, 7)]
