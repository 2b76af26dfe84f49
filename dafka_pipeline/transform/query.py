"""A streaming query as a part of a job: watched, told about, stopped between two batches, started again when
it fails.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from dafka_pipeline.failures import KafkaAway, PipelineError, RecordsGone, UsageFailure
from dafka_pipeline.running.report import Progress, Report
from dafka_pipeline.running.stopping import Stop
from dafka_pipeline.spark.errors import explain_spark, is_sparks, root_cause, words_of

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

POLL_SECONDS: Final = 1
"""Between two looks at the query; a signal is noticed so soon."""
FAILURES: Final = 5
"""How often in a row a query may fail without a batch in between that came through."""
FIRST_WAIT_SECONDS: Final = 1.0
"""Before the query is started again; doubled each time."""


class Counts:
    """What the progress of a query's batches adds up to, over restarts of the query."""

    def __init__(self) -> None:
        self.rows = 0
        self.batches = 0
        self.newest = -1
        self._told_at = time.monotonic()

    def take(self, batches: list[Mapping[str, Any]]) -> Progress | None:
        """Count batches that are new; what to tell, if there are any."""
        new = [one for one in batches if one["batchId"] > self.newest and one.get("numInputRows") is not None]
        new = [one for one in new if "addBatch" in one["durationMs"]]
        if not new:
            return None
        rows = sum(one["numInputRows"] for one in new)
        now = time.monotonic()
        per_second = rows / max(now - self._told_at, 0.001)
        self._told_at = now
        self.rows += rows
        self.batches += len(new)
        self.newest = new[-1]["batchId"]
        phases = {name: ms / 1000 for name, ms in new[-1]["durationMs"].items()}
        return Progress(self.rows, rows_per_second=per_second, lag_records=lag_of(new[-1]), phases=phases)


def lag_of(batch: Mapping[str, Any]) -> int:
    """Records (offsets, to be exact) that were in the sources and not in a batch when this one was
    planned.
    """
    lag = 0
    for source in batch["sources"]:
        end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
        for topic, partitions in latest.items():
            for partition, offset in partitions.items():
                lag += max(0, offset - end.get(topic, {}).get(partition, 0))
    return lag


def _offsets(given: Any) -> Mapping[str, Mapping[str, int]]:
    """Spark gives them as JSON, as an object, or as something else where there are none."""
    if isinstance(given, str):
        return json.loads(given) if given.startswith("{") else {}
    return given or {}


class Looks(Protocol):
    """Sees whether the topics are still those that the query began with."""

    def look_if_due(self) -> None:
        """Raises to end the job. Called about every second."""

    def look(self) -> None:
        """As `look_if_due`, now. Raises KafkaAway, too."""


class Runner:
    """Keeps a query going until it ends by itself, is stopped, or cannot go on.

    start: makes the query again; what it raises is handled as the query's failure.
    failure: what our own code in the query's batches raised last, if anything: Spark tells it as text alone.
    """

    def __init__(
        self,
        start: Callable[[], StreamingQuery],
        failure: Callable[[], PipelineError | None],
        topics: Looks,
        report: Report,
        stop: Stop,
        deadline_seconds: float,
    ) -> None:
        self._start = start
        self._failure = failure
        self._topics = topics
        self._report = report
        self._stop = stop
        self._deadline_seconds = deadline_seconds
        self.counts = Counts()

    def run(self, wait_for_kafka: Callable[[], None]) -> None:
        """Raises what `topics` raises, and PipelineError when the query fails for good, or again and again.

        wait_for_kafka: returns when Kafka answers; whatever it raises ends the job.
        """
        failures = 0
        while not self._stop.asked:
            batches = self.counts.batches
            try:
                self._run_once()
            except Exception as error:  # noqa: BLE001  # whatever Spark and Py4J raise; it is judged
                if self._stop.asked:
                    return
                failures = 1 if self.counts.batches > batches else failures + 1
                self._judge(error, failures)
                wait_for_kafka()
                self._stop.sleep(FIRST_WAIT_SECONDS * 2 ** (failures - 1))
            else:
                return

    def _judge(self, error: Exception, failures: int) -> None:
        """Returns when the query may be started again."""
        cause = (is_sparks(error) and self._failure()) or explained(error)
        try:
            # A topic that was deleted explains most of what Spark says about it.
            self._topics.look()
        except KafkaAway:
            # And so does a server that is away.
            cause = cause if cause.retriable else KafkaAway(str(cause))
        if not cause.retriable:
            raise cause from error
        if failures >= FAILURES:
            raise PipelineError(
                f"The query failed {failures} times in a row: {cause} The same command goes on where it is."
            ) from error
        self._report.retrying(f"The query failed and is started again: {cause}")

    def _run_once(self) -> None:
        query = self._start()
        try:
            while not query.awaitTermination(POLL_SECONDS):
                self._tell(query)
                if self._stop.asked:
                    self._come_to_an_end(query)
                    return
                self._topics.look_if_due()
            self._tell(query)
            failure = self._failure()
            if failure is not None:
                # Spark could not even tell it.
                raise failure
        finally:
            query.stop()

    def _come_to_an_end(self, query: StreamingQuery) -> None:
        """Wait until the batch that runs is done, as long as the deadline allows."""
        deadline = time.monotonic() + self._deadline_seconds
        newest = self.counts.newest
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
            query.awaitTermination(POLL_SECONDS)
            self._tell(query)
            if self.counts.newest > newest:
                return
        self._tell(query)

    def _tell(self, query: StreamingQuery) -> None:
        last = query.lastProgress
        if last is None or last["batchId"] <= self.counts.newest:
            return
        batches: list[Any] = [last] if last["batchId"] == self.counts.newest + 1 else query.recentProgress
        progress = self.counts.take(batches)
        if progress is not None:
            self._report.progress(progress)


def explained(error: Exception) -> PipelineError:
    """What a failure of the query means for whoever started it."""
    from pyspark.errors import AnalysisException

    if isinstance(error, AnalysisException):
        return UsageFailure(
            f"Spark does not run the function's result as a stream: {root_cause(words_of(error))} (see "
            "--output-mode, and withWatermark for aggregates that are written when they are final)"
        )
    cause = explain_spark(error)
    if isinstance(cause, RecordsGone):
        return PipelineError(
            f"{cause} --on-loss skip goes on with what there still is; a new --checkpoint starts over."
        )
    return cause
