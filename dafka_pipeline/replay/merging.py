"""The order of records of several partitions that go into others by key, and rounds in that order. Pure.

A record's place is (the newest time in its partition up to it, its partition, its offset): no partition's own
order is broken, and records of about the same time are near each other. A partition's places ascend with its
offsets, so what lies below a place is the front of each partition, and a round is what lies between two
places. Where the front ends exactly is known inside of one bucket of offsets only; it is read and cut there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

from dafka_pipeline.ranges import Span

BEFORE_ALL: Final = -(1 << 63)
BUCKETS_AT_MOST: Final = 100_000
"""Runs of one replay: what the driver holds."""
SMALLEST_BUCKET: Final = 64


class Place(NamedTuple):
    """The place of a record in the merged order."""

    newest_ms: int
    partition: int
    offset: int


class Bucket(NamedTuple):
    """Records of one partition: how many, and their newest time, between two offsets."""

    partition: int
    start: int
    end: int
    records: int
    newest_ms: int


class Front(NamedTuple):
    """A bucket with the newest time before it and up to its end."""

    bucket: Bucket
    before_ms: int
    after_ms: int

    @property
    def first(self) -> Place:
        """No record of it lies before this place."""
        return Place(self.before_ms, self.bucket.partition, self.bucket.start)

    @property
    def behind(self) -> Place:
        """All records of it lie before this place, and all of its partition's later ones do not."""
        return Place(self.after_ms, self.bucket.partition, self.bucket.end)


class Part(NamedTuple):
    """Offsets of a partition to be read for a round; seed_ms: the newest time before them."""

    span: Span
    seed_ms: int


class Round(NamedTuple):
    """Records from place `start` up to but without `end`; None is behind all."""

    start: Place | None
    end: Place | None
    parts: tuple[Part, ...]
    records: int


def bucket_offsets(spans: Sequence[Span], round_offsets: int) -> int:
    """How many offsets a bucket has: a power of two, small beside a round, and not too many of them."""
    total = sum(span.length for span in spans)
    size = SMALLEST_BUCKET
    while size * 2 * 2 * len(spans) <= round_offsets or total > size * BUCKETS_AT_MOST:
        size *= 2
    return size


@dataclass(frozen=True)
class Merging:
    """The merged order of one topic's records."""

    topic: str
    fronts: tuple[Front, ...]

    @classmethod
    def of(cls, topic: str, buckets: Iterable[Bucket]) -> Merging:
        made = []
        for _, those in groupby(sorted(buckets), key=lambda one: one.partition):
            before = BEFORE_ALL
            for bucket in those:
                after = max(before, bucket.newest_ms)
                made.append(Front(bucket, before, after))
                before = after
        return cls(topic, tuple(made))

    def rounds(self, start: Place | None, records: int) -> list[Round]:
        """From a place on, each of about so many records."""
        cuts = [start]
        waiting = 0
        left = sorted(
            (one for one in self.fronts if start is None or one.behind > start), key=lambda one: one.behind
        )
        for front in left:
            waiting += front.bucket.records
            if waiting >= records:
                cuts.append(front.behind)
                waiting = 0
        ends: list[Place | None] = [*cuts[1:], None]
        if left and cuts[-1] == left[-1].behind:
            # The last cut is behind all.
            ends = [*cuts[1:-1], None]
        return [self._round(first, end) for first, end in zip(cuts, ends, strict=False)] if left else []

    def _round(self, start: Place | None, end: Place | None) -> Round:
        parts, records = [], 0
        for partition, those in groupby(self.fronts, key=lambda one: one.bucket.partition):
            inside = [
                one
                for one in those
                if (start is None or one.behind > start) and (end is None or one.first < end)
            ]
            if inside:
                span = Span(self.topic, partition, inside[0].bucket.start, inside[-1].bucket.end)
                parts.append(Part(span, inside[0].before_ms))
                records += sum(one.bucket.records for one in inside)
        return Round(start, end, tuple(parts), records)
