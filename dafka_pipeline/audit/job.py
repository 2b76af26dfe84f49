"""The audit itself: sums of both sides, then the ranges that differ, record by record."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import reduce
from typing import TYPE_CHECKING

from dafka_pipeline.audit import closer, compacted, gaps
from dafka_pipeline.audit.coverage import GONE, LEFT, RIGHT, SIDES, Comparison, NotCompared, comparison
from dafka_pipeline.audit.details import detailed
from dafka_pipeline.audit.records import differences, keep, rounds
from dafka_pipeline.audit.settings import AuditOptions
from dafka_pipeline.audit.sides import Side
from dafka_pipeline.audit.sums import Range, Sum, differing, merged, range_offsets, sums_of
from dafka_pipeline.audit.verdict import Compared, Verdict
from dafka_pipeline.failures import PipelineError
from dafka_pipeline.kafka.cluster import TopicPartition
from dafka_pipeline.ranges import Span, span_sum

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def audit_frames(spark: SparkSession, left: Side, right: Side, options: AuditOptions) -> Verdict:
    """Compare two sides.

    Raises PipelineError when a side can no more be read as it was pinned; the message says why. What Spark
    raises comes out as it is.
    """
    return _Audit(spark, left, right, options).run()


class _Audit:
    """One audit."""

    def __init__(self, spark: SparkSession, left: Side, right: Side, options: AuditOptions) -> None:
        self._spark = spark
        self._sides = {LEFT: left, RIGHT: right}
        self._options = options
        self._verdict = Verdict(
            left=left.name,
            right=right.name,
            pins={LEFT: dict(left.pin), RIGHT: dict(right.pin)},
            range_offsets=options.range_offsets,
            strong=options.strong,
            ignore_type=options.ignore_type,
            compacted_mode=options.compacted,
            notes=[*left.notes, *right.notes],
        )

    def run(self) -> Verdict:
        left, right = self._sides.values()
        topics = self._options.topics or sorted({*left.topics, *right.topics})
        plan = comparison(left.covered, right.covered, topics, self._options.limits)
        self._verdict.not_compared += plan.not_compared
        self._verdict.absent += plan.absent
        self._verdict.strays += [
            (name, place, rows)
            for name, side in self._sides.items()
            for place, rows in sorted(side.strays.items())
            if place.topic in topics
        ]
        self._verdict.compared = {
            TopicPartition(span.topic, span.partition): Compared(span.start, span.end) for span in plan.spans
        }
        if plan.spans:
            suspects = self._sum(plan)
            if suspects:
                self._look_closer(plan, suspects)
        return self._verdict

    def _sum(self, plan: Comparison) -> list[Span]:
        """The spans to be read again."""
        options, verdict = self._options, self._verdict
        size = range_offsets(plan.spans, options.range_offsets, strong=options.strong)
        verdict.range_offsets = size
        options.say(f"Comparing the sums of {plan.offsets:,} offsets in {len(plan.spans)} partitions.")
        frames = self._frames(plan.spans)
        with self._timed("sums"):
            sums = sums_of(*frames, size, strong=options.strong, ignore_type=options.ignore_type)
        _count(verdict, *sums)
        found = differing(*sums)
        verdict.ranges = len(sums[0].keys() | sums[1].keys())
        verdict.read_again = len(found)
        return merged(found, size, self._still_there(plan.spans))

    def _look_closer(self, plan: Comparison, suspects: Sequence[Span]) -> None:
        options = self._options
        options.say(
            f"{self._verdict.read_again} ranges differ: reading {span_sum(suspects):,} offsets again."
        )
        with ExitStack() as kept, self._timed("records"):
            found = self._differing(suspects, kept)
            found = self._without_gone(found, suspects)
            found = gaps.without_known(found, self._sides, self._verdict, kept)
            if options.compacted:
                found = compacted.without_explained(
                    self._spark, found, self._sides, plan, options, self._verdict, kept
                )
            closer.judge(found, options.rows, self._verdict, kept)
        if self._verdict.named and options.rows:
            with self._timed("details"):
                frames = self._sides[LEFT], self._sides[RIGHT]
                self._verdict.named = detailed(self._spark, *frames, self._verdict.named, options)
        self._refuse_ghosts()

    def _differing(self, suspects: Sequence[Span], kept: ExitStack) -> DataFrame:
        """All places that differ, kept on disk."""
        options = self._options
        frames: list[DataFrame] = []
        for portion in rounds(suspects):
            # The one before is worked off first: that is what bounds the disk that shuffling needs.
            _ = frames and frames[-1].count()
            options.check()
            made = differences(*self._frames(portion), strong=options.strong, ignore_type=options.ignore_type)
            frames.append(keep(made, kept))
        return reduce(lambda one, other: one.unionByName(other), frames)

    def _frames(self, spans: Sequence[Span]) -> tuple[DataFrame, DataFrame]:
        left, right = self._sides.values()
        return left.read(self._spark, spans), right.read(self._spark, spans)

    def _still_there(self, spans: Sequence[Span]) -> list[Span]:
        """The spans without what retention took while they were read; that is not compared then."""
        left: list[Span] = []
        begins = {side: self._begins(side, spans) for side in SIDES}
        for span in spans:
            place = TopicPartition(span.topic, span.partition)
            start = span.start
            for side, other in zip(SIDES, reversed(SIDES), strict=True):
                gone = span._replace(end=min(span.end, begins[side].get(place, span.start)))
                if gone.length > 0:
                    self._say_gone(side, NotCompared(gone, other, GONE))
                    start = max(start, gone.end)
            left += [span._replace(start=start)] if start < span.end else []
        return left

    def _begins(self, side: str, spans: Sequence[Span]) -> Mapping[TopicPartition, int]:
        ask = self._sides[side].begins
        return ask([TopicPartition(span.topic, span.partition) for span in spans]) if ask is not None else {}

    def _without_gone(self, found: DataFrame, suspects: Sequence[Span]) -> DataFrame:
        """Without records that retention took between the first reading and the second."""
        from pyspark.sql import functions as sql

        for side in SIDES:
            begins = self._begins(side, suspects)
            for span in suspects:
                begin = begins.get(TopicPartition(span.topic, span.partition), span.start)
                if begin <= span.start:
                    continue
                other = LEFT if side == RIGHT else RIGHT
                self._say_gone(side, NotCompared(span._replace(end=min(begin, span.end)), other, GONE))
                gone = (sql.col("topic") == span.topic) & (sql.col("partition") == span.partition)
                gone &= (sql.col("offset") < begin) & (sql.col(f"{side}_times") == 0)
                found = found.where(~gone)
        return found

    def _say_gone(self, side: str, what: NotCompared) -> None:
        self._verdict.not_compared.append(what)
        self._verdict.notes.append(
            f"{self._sides[side].name} deleted offsets {what.span.start} to {what.span.end - 1} of "
            f"{what.span.topic}/{what.span.partition} while the audit read them (retention)."
        )

    def _refuse_ghosts(self) -> None:
        """Sums that differ over records that do not: what was read the first time was not what was read the
        second.
        """
        verdict = self._verdict
        explained = (
            verdict.known_gaps or verdict.compacted or any(one.why == GONE for one in verdict.not_compared)
        )
        if not verdict.differences and not explained:
            raise PipelineError(
                "The sums of some records differed, and reading them again found none that does: what is "
                "under a side changed meanwhile. Audit again; if it happens again, please report it."
            )

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        self._options.check()
        began = time.monotonic()
        try:
            yield
        finally:
            self._verdict.seconds[what] = round(time.monotonic() - began, 3)


def _count(verdict: Verdict, left: Mapping[Range, Sum], right: Mapping[Range, Sum]) -> None:
    for side, sums in ((LEFT, left), (RIGHT, right)):
        for one, total in sums.items():
            compared = verdict.compared[TopicPartition(one.topic, one.partition)]
            setattr(compared, side, getattr(compared, side) + total.rows)
