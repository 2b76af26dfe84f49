from __future__ import annotations

from itertools import pairwise

import pytest

from dafka_pipeline.audit.kafka_side import in_few
from dafka_pipeline.audit.records import ROUND_OFFSETS, ROUND_SPANS, rounds
from dafka_pipeline.audit.sums import RANGES, Range, Sum, differing, merged, range_offsets
from dafka_pipeline.failures import UsageFailure
from dafka_pipeline.ranges import Span, span_sum


def span(start: int, end: int, partition: int = 0) -> Span:
    return Span("t", partition, start, end)


def test_ranges_grow_when_there_would_be_too_many() -> None:
    assert range_offsets([span(0, 10**6)], 65_536, strong=False) == 65_536
    for offsets in (10**10, 10**13):
        size = range_offsets([span(0, offsets)], 65_536, strong=False)
        assert offsets // size <= RANGES
        assert offsets // size > RANGES // 4
        assert size % 65_536 == 0


def test_many_partitions_get_a_range_each() -> None:
    spans = [span(0, 10, number) for number in range(RANGES)]
    assert range_offsets(spans, 16, strong=False) == 16


def test_strong_ranges_stay_so_small_that_their_digests_fit_into_memory() -> None:
    assert range_offsets([span(0, 10**9)], 65_536, strong=True) == 65_536
    with pytest.raises(UsageFailure, match="--from"):
        range_offsets([span(0, 10**13)], 65_536, strong=True)


ONE = Sum(rows=3, first=0, last=9, low=1, high=2, either=3)


@pytest.mark.parametrize(
    "change",
    [{"rows": 4}, {"first": 1}, {"last": 8}, {"low": 2}, {"high": 3}, {"either": 0}, {"digest": "x"}],
    ids=lambda change: next(iter(change)),
)
def test_each_part_of_a_sum_counts(change: dict[str, int]) -> None:
    place = Range("t", 0, 0)
    assert differing({place: ONE}, {place: ONE}) == []
    assert differing({place: ONE}, {place: ONE._replace(**change)}) == [place]  # type: ignore[arg-type]


def test_a_range_of_one_side_alone_differs() -> None:
    here, there, both = Range("t", 0, 0), Range("t", 1, 0), Range("u", 0, 5)
    assert differing({here: ONE, both: ONE}, {there: ONE, both: ONE}) == [here, there]


def test_neighbours_are_read_together_and_only_what_is_compared() -> None:
    ranges = [Range("t", 0, number) for number in (0, 1, 4, 9)] + [Range("t", 1, 0), Range("t", 2, 0)]
    spans = [span(5, 43), span(0, 100, 1)]
    assert merged(ranges, 10, spans) == [span(5, 20), span(40, 43), span(0, 10, 1)]


def test_rounds_hold_everything_once_and_are_bounded() -> None:
    spans = [span(n * 100, n * 100 + 10) for n in range(200)] + [
        span(0, 3 * ROUND_OFFSETS + 5, 1),
        span(0, 7, 2),
    ]
    made = list(rounds(spans))
    assert all(len(one) <= ROUND_SPANS and span_sum(one) <= ROUND_OFFSETS for one in made)
    assert [part for one in made for part in one if part.partition != 1] == [
        s for s in spans if s.partition != 1
    ]
    long = [part for one in made for part in one if part.partition == 1]
    assert (long[0].start, long[-1].end) == (0, 3 * ROUND_OFFSETS + 5)
    assert all(one.end == other.start for one, other in pairwise(long))
    assert list(rounds([])) == []


def test_spans_of_one_partition_are_read_in_few_reads() -> None:
    spans = [span(0, 1), span(10, 11), span(12, 13), span(100, 101), span(5, 6, 1)]
    assert in_few(spans, 4) == sorted(spans)
    assert in_few(spans, 3) == [span(0, 1), span(10, 13), span(100, 101), span(5, 6, 1)]
    assert in_few(spans, 2) == [span(0, 13), span(100, 101), span(5, 6, 1)]
    assert in_few(spans, 1) == [span(0, 101), span(5, 6, 1)]
