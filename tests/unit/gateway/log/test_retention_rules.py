"""What retention drops, decided from sizes and times alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.log.retention_rules import SegmentFacts, count_breached, counts_within_disks

NOW = 1_000_000


def log(*segments: tuple[int, int]) -> list[SegmentFacts]:
    """Segments of (size, age in ms), oldest first, ten offsets each."""
    return [SegmentFacts(10 * (i + 1), size, NOW - age) for i, (size, age) in enumerate(segments)]


@pytest.mark.parametrize(
    ("segments", "retention_ms", "retention_bytes", "count"),
    [
        ([], 0, 0, 0),
        ([(1, 500)], -1, -1, 0),
        # by time: strictly older than the limit
        ([(1, 101), (1, 100), (1, 99)], 100, -1, 1),
        ([(1, 102), (1, 101), (1, 50)], 100, -1, 2),
        ([(1, 102), (1, 101)], 100, -1, 2),
        # one that is young keeps the older ones behind it
        ([(1, 50), (1, 500)], 100, -1, 0),
        # a timestamp in the future is no age
        ([(1, -5000), (1, 500)], 100, -1, 0),
        ([(1, 0)], 0, -1, 0),
        ([(1, 1)], 0, -1, 1),
        # by size: never below the limit
        ([(10, 0), (10, 0), (10, 0)], -1, 20, 1),
        ([(10, 0), (10, 0), (10, 0)], -1, 19, 1),
        ([(10, 0), (10, 0), (10, 0)], -1, 21, 0),
        ([(10, 0), (10, 0), (10, 0)], -1, 10, 2),
        ([(10, 0), (10, 0), (10, 0)], -1, 0, 3),
        ([(10, 0), (10, 0)], -1, 20, 0),
        ([(10, 0), (10, 0)], -1, 100, 0),
        # what is not known weighs nothing, and stops nothing
        ([(0, 0), (10, 0), (10, 0)], -1, 20, 1),
        # both: by size first, by time what is left
        ([(10, 0), (10, 500), (10, 0)], 100, 20, 2),
        ([(10, 500), (10, 0), (10, 0)], 100, 20, 1),
    ],
)
def test_how_many_segments_go(
    segments: list[tuple[int, int]], retention_ms: int, retention_bytes: int, count: int
) -> None:
    assert (
        count_breached(log(*segments), NOW, retention_ms=retention_ms, retention_bytes=retention_bytes)
        == count
    )


SEGMENTS = st.lists(st.tuples(st.integers(0, 50), st.integers(-50, 50)), max_size=12)


@given(SEGMENTS, st.integers(-1, 60), st.integers(-1, 300))
def test_what_stays_is_wanted_and_what_goes_is_not(
    segments: list[tuple[int, int]], retention_ms: int, retention_bytes: int
) -> None:
    facts = log(*segments)
    count = count_breached(facts, NOW, retention_ms=retention_ms, retention_bytes=retention_bytes)
    kept = sum(segment.size for segment in facts[count:])
    by_time = count_breached(facts, NOW, retention_ms=retention_ms, retention_bytes=-1)
    by_size = count_breached(facts, NOW, retention_ms=-1, retention_bytes=retention_bytes)
    assert count >= max(by_time, by_size)
    if retention_bytes >= 0 and sum(segment.size for segment in facts) >= retention_bytes:
        assert sum(segment.size for segment in facts[by_size:]) >= retention_bytes
        if by_size < len(facts):
            assert sum(segment.size for segment in facts[by_size + 1 :]) < retention_bytes
    if retention_ms >= 0 and count < len(facts):
        assert NOW - facts[count].largest_timestamp <= retention_ms
    if retention_ms < 0 and retention_bytes < 0:
        assert (count, kept) == (0, sum(size for size, _ in segments))


def on(members: str, *segments: tuple[int, int]) -> list[SegmentFacts]:
    return [segment._replace(members=tuple(members)) for segment in log(*segments)]


@pytest.mark.parametrize(
    ("logs", "allowed", "counts"),
    [
        ({"a": on("x", (10, 3), (10, 1))}, {"x": 20}, {"a": 0}),
        ({"a": on("x", (10, 3), (10, 1))}, {"x": 19}, {"a": 1}),
        ({"a": on("x", (10, 3), (10, 1))}, {"x": -5}, {"a": 2}),
        ({"a": on("x", (10, 3), (10, 1))}, {}, {"a": 0}),
        # the oldest of all partitions go first
        (
            {"a": on("x", (10, 9), (10, 2)), "b": on("x", (10, 8), (10, 7), (10, 1))},
            {"x": 20},
            {"a": 1, "b": 2},
        ),
        # of a full store only: what lies on others stays
        ({"a": on("x", (10, 9)), "b": on("y", (10, 1), (10, 1))}, {"x": 10, "y": 10}, {"a": 0, "b": 1}),
        # a segment of another store goes if one behind it has to
        ({"a": on("x", (10, 9)) + on("y", (10, 8), (10, 7))}, {"x": 10, "y": 10}, {"a": 2}),
        ({"a": on("xy", (10, 9), (10, 8))}, {"x": 100, "y": 15}, {"a": 1}),
        ({"a": []}, {"x": 0}, {"a": 0}),
    ],
)
def test_the_share_of_the_disks(
    logs: dict[str, list[SegmentFacts]], allowed: dict[str, int], counts: dict[str, int]
) -> None:
    assert counts_within_disks(logs, allowed) == counts


@given(st.dictionaries(st.sampled_from("abc"), SEGMENTS), st.integers(0, 400))
def test_no_more_goes_than_the_disk_asks_for(logs: dict[str, list[tuple[int, int]]], allowed: int) -> None:
    facts = {name: on("x", *segments) for name, segments in logs.items()}
    counts = counts_within_disks(facts, {"x": allowed})
    left = sum(segment.size for name in facts for segment in facts[name][counts[name] :])
    assert left <= allowed
    gone = [segment for name in facts for segment in facts[name][: counts[name]]]
    if gone:
        assert left + max(segment.size for segment in gone) > allowed
