"""Rounds in the merged order, against the order worked out record by record."""

from __future__ import annotations

import random

import pytest

from dafka_pipeline.ranges import Span
from dafka_pipeline.replay.merging import BEFORE_ALL, Bucket, Merging, Place, Round, bucket_offsets

SIZE = 4


def placed(partitions: dict[int, dict[int, int]]) -> list[Place]:
    """Every record's place. partitions: offset -> time, for each."""
    places = []
    for partition, records in partitions.items():
        newest = BEFORE_ALL
        for offset, time in sorted(records.items()):
            newest = max(newest, time)
            places.append(Place(newest, partition, offset))
    return sorted(places)


def buckets(partitions: dict[int, dict[int, int]]) -> list[Bucket]:
    made: dict[tuple[int, int], list[int]] = {}
    for partition, records in partitions.items():
        for offset, time in records.items():
            made.setdefault((partition, offset // SIZE), []).append(time)
    return [
        Bucket(partition, number * SIZE, (number + 1) * SIZE, len(times), max(times))
        for (partition, number), times in made.items()
    ]


def read(one: Round, partitions: dict[int, dict[int, int]]) -> list[Place]:
    """What a round gives: its parts alone are read, from the seed on, and cut."""
    found = []
    for span, seed in one.parts:
        newest = seed
        for offset, time in sorted(partitions[span.partition].items()):
            if span.start <= offset < span.end:
                newest = max(newest, time)
                found.append(Place(newest, span.partition, offset))
    return sorted(
        place
        for place in found
        if (one.start is None or place >= one.start) and (one.end is None or place < one.end)
    )


@pytest.mark.parametrize("seed", range(300))
def test_the_rounds_are_the_whole_order(seed: int) -> None:
    """For all kinds of times: with holes, going back, one far ahead, all the same."""
    chance = random.Random(seed)
    spread = chance.choice([1, 5, 1000])
    partitions = {
        partition: {
            offset: chance.choice([chance.randrange(spread), -1, 10**15]) if chance.random() < 0.1
            else chance.randrange(spread) + offset * chance.choice([0, 1])
            for offset in range(chance.randrange(5), chance.randrange(60))
            if chance.random() < chance.choice([0.3, 1.0])
        }
        for partition in chance.sample(range(9), chance.randint(1, 4))
    }  # fmt: skip
    everything = placed(partitions)
    merging = Merging.of("t", buckets(partitions))
    rounds = merging.rounds(None, chance.choice([1, 7, 1000]))
    assert [place for one in rounds for place in read(one, partitions)] == everything
    if rounds:
        assert rounds[0].start is None
        assert rounds[-1].end is None
    # From any end of a round on, whatever the size of later rounds.
    for done, one in enumerate(rounds[:-1], 1):
        later = merging.rounds(one.end, chance.choice([1, 13, 1000]))
        behind = [place for other in rounds[done:] for place in read(other, partitions)]
        assert [place for other in later for place in read(other, partitions)] == behind


def test_a_time_far_ahead_does_not_make_one_round_of_all_that_follows() -> None:
    partitions = {0: {offset: 10**15 if offset == 0 else offset for offset in range(400)}}
    rounds = Merging.of("t", buckets(partitions)).rounds(None, 40)
    assert [one.records for one in rounds] == [40] * 10


def test_buckets_are_small_beside_a_round_and_not_too_many() -> None:
    assert bucket_offsets([Span("t", 0, 0, 1000)], 1 << 20) == 1 << 19
    assert bucket_offsets([Span("t", n, 0, 1000) for n in range(100)], 1 << 20) == 4096
    assert bucket_offsets([Span("t", 0, 0, 10**12)], 1 << 20) == 1 << 24
    assert bucket_offsets([Span("t", n, 0, 10) for n in range(100)], 10) == 64
