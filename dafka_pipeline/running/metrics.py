"""A job's figures for Prometheus, served on `--metrics HOST:PORT`. Jobs know nothing of it: it hears their
reports.

Names and units follow Prometheus' conventions. The label of the command is `command`, since `job` is what
Prometheus itself calls whom it asks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.registry import Collector

from dafka_pipeline.failures import UsageFailure
from dafka_pipeline.running.report import Progress

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

MOST_TOPICS: Final = 100
"""Topics with series of their own: each costs Prometheus memory for as long as it keeps data."""
OTHER_TOPICS: Final = "(other)"
ALL_TOPICS: Final = ""
"""The label where a job does not say which topics its records are of."""
MOST_PHASES: Final = 30


class JobMetrics(Collector):
    """What one call of a command did, heard from its report."""

    def __init__(self, command: str, *, now: Callable[[], float] = time.time) -> None:
        self._command = command
        self._now = now
        self._lock = threading.Lock()
        self._progress: Progress | None = None
        self._phases: dict[str, tuple[int, float]] = {}
        self._batches = 0
        self._failures = 0
        self._waiting = False
        self._succeeded_at: float | None = None

    def progressed(self, progress: Progress) -> None:
        with self._lock:
            self._progress = progress
            self._succeeded_at = self._now()
            self._batches += bool(progress.phases)
            for phase, seconds in progress.phases.items():
                if phase in self._phases or len(self._phases) < MOST_PHASES:
                    count, total = self._phases.get(phase, (0, 0.0))
                    self._phases[phase] = (count + 1, total + seconds)

    def waits(self, waiting: bool) -> None:
        with self._lock:
            self._waiting = waiting

    def retried(self) -> None:
        with self._lock:
            self._failures += 1

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            yield from self._state()
            yield self._summary()
            if self._progress is not None:
                yield from self._figures(self._progress)

    def _state(self) -> Iterator[Metric]:
        yield self._gauge("up", "1 while the job runs.", 1)
        waiting = int(self._waiting)
        yield self._gauge("waiting_for_kafka", "1 while no broker answers and the job waits.", waiting)
        yield self._counter("batches", "Steps of the job that are done and safe.", self._batches)
        yield self._counter(
            "failures", "Steps that failed; each is done again, or was the last.", self._failures
        )
        if self._succeeded_at is not None:
            yield self._gauge(
                "last_success_timestamp_seconds",
                "When the last step was done, or it was seen that nothing waits.",
                self._succeeded_at,
            )

    def _summary(self) -> Metric:
        family = SummaryMetricFamily(
            "dafka_pipeline_batch_phase_seconds", "Time in the parts of a step.", labels=["command", "phase"]
        )
        for phase, (count, seconds) in sorted(self._phases.items()):
            family.add_metric([self._command, phase], count_value=count, sum_value=seconds)
        return family

    def _figures(self, progress: Progress) -> Iterator[Metric]:
        records = CounterMetricFamily(
            "dafka_pipeline_records", "Records archived, sent or compared.", labels=["command", "topic"]
        )
        for topic, count in bounded(progress).items():
            records.add_metric([self._command, topic], count)
        yield records
        lost = "Records that were no longer in Kafka and are recorded as gaps."
        yield self._counter("records_lost", lost, progress.rows_lost)
        rate = "Records in a second of the last step."
        yield self._gauge("records_per_second", rate, progress.rows_per_second)
        if progress.total is not None:
            yield self._gauge("expected_records", "Records when all is done.", progress.total)
        if progress.lag_records is not None:
            yield self._gauge("lag_records", "Records that wait in Kafka.", progress.lag_records)
        if progress.lag_seconds is not None:
            yield self._gauge("lag_seconds", "How old the oldest record that waits is.", progress.lag_seconds)

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"dafka_pipeline_{name}", text, labels=["command"])
        family.add_metric([self._command], value)
        return family

    def _counter(self, name: str, text: str, value: float) -> Metric:
        family = CounterMetricFamily(f"dafka_pipeline_{name}", text, labels=["command"])
        family.add_metric([self._command], value)
        return family


def bounded(progress: Progress) -> dict[str, int]:
    """Records by topic: the largest have their names, the rest is one, and all together are `done`."""
    largest = sorted(progress.by_topic.items(), key=lambda one: (-one[1], one[0]))[:MOST_TOPICS]
    rest = progress.done - sum(count for _, count in largest)
    named = dict(largest)
    if not named:
        return {ALL_TOPICS: progress.done}
    return named | ({OTHER_TOPICS: rest} if rest > 0 else {})


@contextmanager
def served(metrics: JobMetrics, address: str) -> Iterator[str]:
    """Serve them over HTTP while the block runs; gives the address that was bound, for port 0.

    Raises UsageFailure for an address that is none, or is taken.
    """
    host, port = parse_address(address)
    registry = CollectorRegistry()
    registry.register(metrics)
    ProcessCollector(registry=registry)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise UsageFailure(
            f"--metrics {address}: {error.strerror or error}. Give a HOST:PORT of this machine that is free."
        ) from error
    try:
        yield f"{f'[{host}]' if ':' in host else host}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def parse_address(address: str) -> tuple[str, int]:
    """HOST and PORT of `HOST:PORT`, `[::1]:PORT`. Raises UsageFailure."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 0xFFFF:
        raise UsageFailure(
            f"--metrics {address}: give HOST:PORT, e.g. 127.0.0.1:9405; port 0 takes a free one."
        )
    return host.removeprefix("[").removesuffix("]"), int(port)
