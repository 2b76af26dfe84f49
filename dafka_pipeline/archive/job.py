"""The archive job: look at Kafka, plan, run a batch, look again.

How it is exactly once: a batch's spans begin where the newest commit of the table says that it ends, and the
commit that adds their records says where they end. A kill at any moment leaves one or the other; there is
nothing else that would have to agree with it. See `table/state.py` for what shuts out a second archiver.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

from dafka_pipeline.archive import gaps
from dafka_pipeline.archive.batch import Done, cost, run_batch
from dafka_pipeline.archive.looking import look_at, missing_topics, starting_offsets
from dafka_pipeline.archive.opening import archive_to, is_ours, newest_state, take_over
from dafka_pipeline.archive.plan import DOUBTFUL, Gap, Plan, plan
from dafka_pipeline.archive.settings import STOP, ArchiveSettings
from dafka_pipeline.archive.snapshots import Snapshots
from dafka_pipeline.compact.job import compact_older_than
from dafka_pipeline.decode.job import Decoder
from dafka_pipeline.failures import PipelineError, RecordsGone, Refused, Stopped
from dafka_pipeline.kafka.cluster import Cluster, TopicPartition
from dafka_pipeline.kafka.options import KafkaOptions
from dafka_pipeline.kafka.sampling import average_bytes
from dafka_pipeline.ranges import Span, fair_spans, span_sum
from dafka_pipeline.running.fail_points import fail_point
from dafka_pipeline.running.report import Progress, Report
from dafka_pipeline.running.stopping import Stop
from dafka_pipeline.running.waiting import patiently
from dafka_pipeline.spark.errors import explain_spark
from dafka_pipeline.table import layout
from dafka_pipeline.table.lock import held
from dafka_pipeline.table.log import Commit
from dafka_pipeline.table.state import State, parse_state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

FAILURES: Final = 6
"""Batches that may fail one after the other before the job gives up."""
FIRST_WAIT_SECONDS: Final = 1.0
"""After the first failure; twice as long after each further one."""
SETTLE_SECONDS: Final = 60.0
"""How long a log may end before what was archived until that is believed: a leader that has just changed may
say so for a moment."""
SAMPLED_TOPICS: Final = 20
"""How many new topics are sampled at once, the largest first: a sample takes some ten milliseconds."""
COMPACT_EVERY_SECONDS: Final = 3600.0
"""Between two looks for days to compact: a day is closed once a day."""
LOOK_AGAIN_SECONDS: Final = 2.0


@dataclass
class Totals:
    """What one run of the job has done: records added, batches, offsets lost, records not decoded."""

    rows: int = 0
    batches: int = 0
    lost: int = 0
    dead_letters: int = 0


class Archiver:
    """One run of the job on one archive.

    patience_seconds: how long a Kafka may be away; None for ever.
    """

    def __init__(
        self,
        spark: SparkSession,
        kafka: KafkaOptions,
        settings: ArchiveSettings,
        report: Report,
        stop: Stop,
        *,
        patience_seconds: float | None = None,
    ) -> None:
        self._settings = settings
        self._kafka = kafka
        self._cluster = Cluster(kafka)
        self._report = report
        self._stop = stop
        self._patience = patience_seconds
        self._archive = archive_to(spark, settings)
        self._snapshots = Snapshots(self._archive, self._cluster, report)
        self._decoder = None if settings.decode is None else Decoder(self._archive, settings.decode)
        self._state: State
        self._totals = Totals()
        self._start: str | int = settings.start
        self._went_back_since: float | None = None
        self._caught_up_at = time.time()
        self._compacted_at = -COMPACT_EVERY_SECONDS
        self._goal: Mapping[TopicPartition, int] | None = None

    def run(self) -> Totals:
        """Until what was there at the start is read (`every_seconds` is None), or until it is stopped.

        Raises:
            Refused: another archiver is at work; a loss under `on_loss=stop`; a log that went back; a
                directory that is no archive.
            KafkaAway: for longer than the patience.
            PipelineError: FAILURES batches failed one after the other.
        """
        with held(self._settings.to / layout.ARCHIVER_LOCK, "An archive job"):
            try:
                self._begin()
                while self._step():
                    pass
            except Stopped:
                self._report.say("Stopped. The next start goes on where the table ends.")
        return self._totals

    def _begin(self) -> None:
        look = self._ask(lambda: look_at(self._cluster, self._settings))
        found = newest_state(self._archive)
        problem = missing_topics(self._settings, look, () if found is None else found.said.topics)
        if problem is not None:
            raise problem
        kept = parse_state(self._archive.files.read(layout.STATE_FILE))
        if found is not None and (kept is None or kept.number < found.said.number):
            # The last run ended between a batch and the look at what it lacks.
            self._look_for_losses(found.commit, found.said)
        self._start = self._settings.start if found is None else "earliest"
        with self._committing():
            self._state = take_over(self._archive)
        fail_point("archive-after-start")
        self._decode()
        if self._settings.every_seconds is None:
            self._goal = look.end

    def _step(self) -> bool:
        """One look and at most one batch; whether to go on."""
        more = self._try_again()
        if not more and self._settings.every_seconds is None:
            return False
        if not more:
            self._pause(self._settings.every_seconds or 0.0)
        if self._stop.asked:
            raise Stopped("asked to")
        return True

    def _try_again(self) -> bool:
        failed = 0
        while True:
            try:
                return self._look_and_read()
            except Exception as exception:  # Spark's and Py4J's errors have no common ancestor
                error = exception if isinstance(exception, PipelineError) else explain_spark(exception)
                if self._stop.asked:
                    raise Stopped("asked to") from exception
                failed += 1
                # Records that went while they were read are a matter for the next look.
                again = error.retriable or isinstance(error, RecordsGone)
                if not again or failed == FAILURES:
                    raise error from exception
                self._report.retrying(f"{error} Trying again ({failed} of {FAILURES - 1}).")
                self._pause(FIRST_WAIT_SECONDS * 2 ** (failed - 1))
                self._reload()

    def _look_and_read(self) -> bool:
        """Whether something waits still."""
        look = self._ask(lambda: look_at(self._cluster, self._settings))
        new = [name for name in look.topics if name not in self._state.topics]
        starts = self._ask(lambda: starting_offsets(self._cluster, look, new, self._start))
        made = plan(self._state, look, starts)
        if self._went_back(made):
            self._pause(LOOK_AGAIN_SECONDS)
            return True
        self._lose(made.gaps, made.losses)
        for line in made.news:
            self._report.say(line)
        self._ask(lambda: self._snapshots.take_if_due(look))
        waiting = made.waiting if self._goal is None else below(made.waiting, self._goal)
        self._start = "earliest"
        changed = made.topics != dict(self._state.topics)
        self._state = replace(self._state, topics=made.topics)
        if not waiting:
            if changed:
                self._commit([])
            self._decode()
            self._caught_up(made)
            return False
        self._sample(waiting)
        weights = cost(self._state, {span.topic for span in waiting})
        spans = fair_spans(waiting, weights, self._settings.max_batch_bytes)
        self._tell(self._commit(spans), span_sum(waiting) - span_sum(spans))
        return True

    def _sample(self, waiting: Collection[Span]) -> None:
        """Weigh topics that have never been in a batch by a few of their records."""
        largest: dict[str, Span] = {}
        for span in waiting:
            if (
                span.topic not in self._state.weights
                and span.length > largest.get(span.topic, span).length - 1
            ):
                largest[span.topic] = span
        for span in sorted(largest.values(), key=lambda one: -one.length)[:SAMPLED_TOPICS]:
            average = average_bytes(self._cluster, span)
            if average is not None:
                weights = {**self._state.weights, span.topic: average}
                self._state = replace(self._state, weights=weights)

    def _commit(self, spans: Collection[Span]) -> Done:
        with self._committing():
            done = run_batch(
                self._archive, self._kafka, self._state, spans, loss_is_fine=self._settings.on_loss != STOP
            )
        self._state = done.state
        self._look_for_losses(done.commit, done.state)
        self._doubt_if_made_again(spans)
        fail_point("archive-before-copy")
        # The copy says that the batch was looked at, too.
        self._archive.files.write(layout.STATE_FILE, done.state.to_json())
        self._decode()
        return done

    def _doubt_if_made_again(self, spans: Collection[Span]) -> None:
        """Spark reads by name: a topic that was made again since the look may have given its own records."""
        now = self._ask(lambda: self._cluster.topics({span.topic for span in spans}))
        doubtful = [
            Gap(span, self._state.topics[span.topic].topic_id, DOUBTFUL)
            for span in spans
            if (topic := now.get(span.topic)) is not None
            and topic.topic_id != self._state.topics[span.topic].topic_id
            and self._state.topics[span.topic].topic_id is not None
        ]
        if doubtful:
            with self._committing():
                gaps.record(self._archive, doubtful)
            places = ", ".join(f"{one.span.topic}/{one.span.partition}" for one in doubtful[:10])
            self._report.say(
                f"{places} was made again while it was read: the batch's records may be the new topic's. "
                f"They are in the archive, and in {layout.GAPS} as {DOUBTFUL}."
            )

    def _decode(self) -> None:
        if self._decoder is None:
            return
        with self._committing():
            bad = self._decoder.catch_up(self._state)
        self._totals.dead_letters += bad
        if bad:
            self._report.say(
                f"{bad:,} records could not be decoded: see {layout.DEAD_LETTERS}.", dead_letters=bad
            )

    def _reload(self) -> None:
        """Where the table is after a failure, which may have come after its commit."""
        if not is_ours(self._archive, self._state.run):
            raise Refused(
                f"Another archiver has taken {self._archive.location} over. Stop it first, if this one "
                "is to go on."
            )
        found = newest_state(self._archive)
        # Before the first batch of this run the newest state is that of the one before.
        if found is not None and found.said.run == self._state.run:
            new = found.said.number > self._state.number
            self._state = found.said
            if new:
                self._look_for_losses(found.commit, found.said)

    def _look_for_losses(self, commit: Commit, state: State) -> None:
        lost = self._ask(lambda: gaps.lost_in(self._archive, self._cluster, commit, state))
        self._lose(
            lost,
            [
                f"{gap.span.topic}/{gap.span.partition}: offsets {gap.span.start} to {gap.span.end - 1} went "
                "while they were read"
                for gap in lost
            ],
        )

    def _lose(self, found: Collection[Gap], losses: Collection[str]) -> None:
        if not found:
            return
        text = "; ".join(losses)
        if self._settings.on_loss == STOP:
            raise Refused(
                f"{text}. Nothing that is archived is touched. To write the loss into {layout.GAPS} and go "
                "on: the same command with --on-loss record."
            )
        with self._committing():
            gaps.record(self._archive, found)
        self._totals.lost += span_sum(gap.span for gap in found)
        self._report.say(f"Recorded as lost: {text}.", lost=span_sum(gap.span for gap in found))

    def _went_back(self, made: Plan) -> bool:
        """Whether a log ends before what is archived; raises Refused when it stays so."""
        if not made.went_back:
            self._went_back_since = None
            return False
        now = time.monotonic()
        if self._went_back_since is None:
            self._went_back_since = now
        if now - self._went_back_since >= SETTLE_SECONDS:
            raise Refused(
                f"{'; '.join(made.went_back)}. The server has lost records that are archived, or it is "
                "another one. Their offsets would be given again to other records: archive to a new "
                "directory, and keep this one; 'dafka-pipeline replay' puts its records back."
            )
        return True

    def _caught_up(self, made: Plan) -> None:
        self._compact_if_due()
        self._caught_up_at = time.time()
        self._report.progress(
            Progress(
                self._totals.rows,
                lag_records=span_sum(made.waiting),
                lag_seconds=0.0,
                rows_lost=self._totals.lost,
            )
        )

    def _compact_if_due(self) -> None:
        days, now = self._settings.compact_after_days, time.monotonic()
        if days is None or now - self._compacted_at < COMPACT_EVERY_SECONDS:
            return
        self._compacted_at = now
        compact_older_than(self._archive, days, self._committing, self._report, self._stop)

    def _tell(self, done: Done, waiting: int) -> None:
        self._totals.rows += done.commit.rows
        self._totals.batches += 1
        self._report.progress(
            Progress(
                self._totals.rows,
                self._totals.rows + waiting,
                rows_per_second=done.commit.rows / done.seconds,
                lag_records=waiting,
                lag_seconds=time.time() - self._caught_up_at,
                rows_lost=self._totals.lost,
                phases={"batch": done.seconds},
            )
        )

    def _ask(self, question: Callable[[], T]) -> T:
        return patiently(question, self._stop, self._report, self._patience)

    def _pause(self, seconds: float) -> None:
        if self._stop.sleep(seconds):
            raise Stopped("asked to")

    @contextmanager
    def _committing(self) -> Iterator[None]:
        """Compactions of this machine come in between batches."""
        with held(self._settings.to / layout.COMMIT_LOCK, "A commit", stop=self._stop, say=self._report.say):
            yield


def below(spans: Collection[Span], goal: Mapping[TopicPartition, int]) -> list[Span]:
    """What of the spans lies below the goal; a partition without a goal came later and waits for the
    next run.
    """
    cut = [span._replace(end=min(span.end, goal.get(TopicPartition(*span[:2]), 0))) for span in spans]
    return [span for span in cut if span.length > 0]
