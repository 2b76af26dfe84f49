"""The audit itself: sums of both sides, then the ranges that differ, record by record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Final, TypeVar

from dafka_pipeline.audit import closer, compacted, gaps
from dafka_pipeline.audit.coverage import (
    GONE,
    LEFT,
    RIGHT,
    SIDES,
    Comparison,
    NotCompared,
    clipped_to,
    comparison,
    limited,
)
from dafka_pipeline.audit.details import detailed
from dafka_pipeline.audit.records import differences, keep, no_differences, rounds
from dafka_pipeline.audit.settings import AuditOptions
from dafka_pipeline.audit.sides import Side
from dafka_pipeline.audit.sums import Range, Sum, differing, merged, range_offsets, sums_of
from dafka_pipeline.audit.verdict import Compared, Verdict
from dafka_pipeline.failures import PipelineError
from dafka_pipeline.kafka.cluster import TopicPartition
from dafka_pipeline.ranges import Span, span_sum
from dafka_pipeline.spark.errors import is_sparks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CUTS: Final = 5
"""How often retention may take what is being read before the audit gives up."""

T = TypeVar("T")


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

        def work(spans: Sequence[Span]) -> tuple[dict[Range, Sum], dict[Range, Sum]]:
            return sums_of(*self._frames(spans), size, strong=options.strong, ignore_type=options.ignore_type)

        with self._timed("sums"):
            sums = self._while_it_is_cut(work, plan)
        _count(verdict, *sums)
        found = differing(*sums)
        verdict.ranges = len(sums[0].keys() | sums[1].keys())
        verdict.read_again = len(found)
        self._leave_out_gone(plan)
        return merged(found, size, plan.spans)

    def _look_closer(self, plan: Comparison, suspects: Sequence[Span]) -> None:
        options, verdict = self._options, self._verdict
        options.say(f"{verdict.read_again} ranges differ: reading {span_sum(suspects):,} offsets again.")
        with ExitStack() as kept, self._timed("records"):

            def work(spans: Sequence[Span]) -> DataFrame:
                return self._differing(clipped_to(suspects, spans), kept)

            found = self._while_it_is_cut(work, plan)
            found = self._without_gone(found, plan)
            found = gaps.without_known(found, self._sides, verdict, kept)
            if options.compacted:
                found = compacted.without_explained(
                    self._spark, found, self._sides, plan, options, verdict, kept
                )
            closer.judge(found, options.rows, verdict, kept)
        if verdict.named:
            with self._timed("details"):
                frames = self._sides[LEFT], self._sides[RIGHT]
                verdict.named = detailed(self._spark, *frames, verdict.named, options)
        self._refuse_ghosts()

    def _differing(self, suspects: Sequence[Span], kept: ExitStack) -> DataFrame:
        """All places that differ, kept on disk. A round is worked off before the next."""
        options = self._options
        frames: list[DataFrame] = []
        for portion in rounds(suspects):
            options.check()
            made = differences(*self._frames(portion), strong=options.strong, ignore_type=options.ignore_type)
            frames.append(keep(made, kept))
            frames[-1].count()
        if not frames:
            return no_differences(self._spark)
        return reduce(lambda one, other: one.unionByName(other), frames)

    def _while_it_is_cut(self, work: Callable[[Sequence[Span]], T], plan: Comparison) -> T:
        """What `work` makes of the plan's spans; made again without what retention took while it read.

        Spark's reader passes over what is gone, and fails when two of its tasks come upon it in one
        partition.
        """
        for _ in range(CUTS):
            self._options.check()
            try:
                return work(plan.spans)
            except Exception as error:
                if not is_sparks(error) or not self._leave_out_gone(plan):
                    raise
        raise PipelineError(
            f"Retention cut a log {CUTS} times while the audit read its beginning: begin later, with --from."
        )

    def _frames(self, spans: Sequence[Span]) -> tuple[DataFrame, DataFrame]:
        left, right = self._sides.values()
        return left.read(self._spark, spans), right.read(self._spark, spans)

    def _leave_out_gone(self, plan: Comparison) -> bool:
        """Take out of the plan what retention has taken since it was made; whether there was something."""
        before = plan.spans
        for side in SIDES:
            begins = self._begins(side, plan.spans)
            for span in plan.spans:
                begin = begins.get(TopicPartition(span.topic, span.partition), span.start)
                if begin > span.start:
                    self._say_gone(side, span._replace(end=min(begin, span.end)))
            plan.spans = [
                limited(span, begins.get(TopicPartition(span.topic, span.partition)), None)
                for span in plan.spans
            ]
        plan.spans = [span for span in plan.spans if span.length > 0]
        return plan.spans != before

    def _begins(self, side: str, spans: Sequence[Span]) -> Mapping[TopicPartition, int]:
        ask = self._sides[side].begins
        return ask([TopicPartition(span.topic, span.partition) for span in spans]) if ask is not None else {}

    def _without_gone(self, found: DataFrame, plan: Comparison) -> DataFrame:
        """Without records that retention took before they were read a second time."""
        from pyspark.sql import functions as sql

        before = plan.spans
        if not self._leave_out_gone(plan):
            return found
        starts = {span[:2]: span.start for span in plan.spans}
        for span in before:
            start = starts.get(span[:2], span.end)
            if start > span.start:
                here = (sql.col("topic") == span.topic) & (sql.col("partition") == span.partition)
                found = found.where(~(here & (sql.col("offset") < start)))
        return found

    def _say_gone(self, side: str, span: Span) -> None:
        other = LEFT if side == RIGHT else RIGHT
        self._verdict.not_compared.append(NotCompared(span, other, GONE))
        self._verdict.notes.append(
            f"{self._sides[side].name} deleted offsets {span.start} to {span.end - 1} of "
            f"{span.topic}/{span.partition} while the audit read them (retention)."
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
