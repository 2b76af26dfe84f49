"""Runs of the transform job in this process, whole ones and ones that die on the way; what must come out."""

from __future__ import annotations

import io
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from pyspark.sql import SparkSession

from dafka_pipeline.commands.options import Run
from dafka_pipeline.kafka.options import KafkaOptions
from dafka_pipeline.producing import POSITION_HEADER, Timing, publisher
from dafka_pipeline.running.report import Report
from dafka_pipeline.running.stopping import Stop
from dafka_pipeline.spark.session import SparkOptions
from dafka_pipeline.table.location import Location
from dafka_pipeline.transform import outbox, publishing
from dafka_pipeline.transform.binding import EXACTLY_ONCE
from dafka_pipeline.transform.function import load_function
from dafka_pipeline.transform.job import Transform
from dafka_pipeline.transform.query import Counts
from dafka_pipeline.transform.settings import TransformSettings
from tests.clients.stored import committed_records
from tests.differential.batches import Record
from tests.pipelines.dying import dying_at

JOBS = str(Path(__file__).with_name("transform_jobs.py"))
PATIENCE_SECONDS = 180.0
PER_BATCH = 20
QUICK = Timing(lease=20, message=3, stall=2, spread=1, clocks=0.5)


def run_of(bootstrap: str, stop: Stop | None = None, **conf: str) -> Run:
    """A call of the command; what it says is in `run.report`'s text."""
    report = Report("transform", out=io.StringIO())
    return Run("transform", KafkaOptions(bootstrap), SparkOptions(conf=conf), report, stop or Stop(), 30.0)


def transform(
    spark: SparkSession,
    bootstrap: str,
    function: str,
    source: str,
    target: str,
    checkpoint: Path,
    *,
    run: Run | None = None,
    **more: Any,
) -> Counts:
    """`transform --once`, unless `every_seconds` is given."""
    settings = TransformSettings(
        sources=tuple(source.split(",")),
        targets=tuple(target.split(",")),
        checkpoint=Location.of(str(checkpoint)),
        function=f"{JOBS}:{function}",
        **{"every_seconds": None, **more},
    )
    # Its settings of state stores are its session's: this one is used by others.
    own = spark.newSession()
    return Transform(run or run_of(bootstrap), settings, load_function(settings.function), own, QUICK).run()


def exactly_once(*arguments: Any, **more: Any) -> Counts:
    return transform(*arguments, delivery=EXACTLY_ONCE, **more)


class Running:
    """`transform --every 200ms` in a thread; leaving the block asks it to stop, and waits for its end.

    result: what it returned. failure: what it raised.
    """

    def __init__(self, spark: SparkSession, bootstrap: str, *arguments: Any, **more: Any) -> None:
        self._stop = Stop()
        self._arguments = (spark, bootstrap, *arguments)
        self._more = {"every_seconds": 0.2, "run": run_of(bootstrap, self._stop), **more}
        self._thread = threading.Thread(target=self._run)
        self.result: Counts | None = None
        self.failure: BaseException | None = None

    def _run(self) -> None:
        try:
            self.result = transform(*self._arguments, **self._more)
        except BaseException as failure:  # noqa: BLE001  # a test looks at it
            self.failure = failure

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.ask()
        self.wait_for_end()

    def wait_until(self, happened: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not happened():
            assert self._thread.is_alive(), self.failure
            assert time.monotonic() < deadline, "did not happen"
            time.sleep(0.05)

    def wait_for_end(self) -> None:
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()


class KilledInBatch(Exception):
    """As `Killed`, for code that Spark calls: only an Exception comes back through it."""


@contextmanager
def killed_at(place: str, time: int = 1) -> Iterator[None]:
    """The run in this block dies at the fail point, at that time of passing it."""
    modules = (outbox, publishing, publisher)
    with dying_at(place, time, modules, KilledInBatch), pytest.raises(Exception, match="Killed"):
        yield


def without_position(records: Sequence[tuple[int, Record]]) -> list[Record]:
    """Records of a target as the function made them."""
    found = []
    for _, one in records:
        assert one.headers[-1][0] == POSITION_HEADER
        found.append(Record(one.value, one.key, one.timestamp, one.headers[:-1]))
    return found


def numbers_in(bootstrap: str, topic: str, partitions: int) -> dict[bytes | None, list[bytes | None]]:
    """What a target of `numbers_per_key` holds: values by key, in order; a key is in one partition."""
    found: dict[bytes | None, list[bytes | None]] = defaultdict(list)
    where: dict[bytes | None, int] = {}
    for partition in range(partitions):
        for _, record in committed_records(bootstrap, topic, partition):
            assert where.setdefault(record.key, partition) == partition
            found[record.key].append(record.value)
    return dict(found)


def numbers_of(records: Sequence[Record]) -> dict[bytes | None, list[bytes]]:
    """What `numbers_per_key` has to make of these."""
    made: dict[bytes | None, list[bytes]] = defaultdict(list)
    for record in records:
        made[record.key].append(b"%d" % (len(made[record.key]) + 1))
    return dict(made)


def keyed_records(count: int, keys: int = 10) -> list[Record]:
    """Records of a few keys, some more often than others."""
    return [Record(b"value %d" % n, b"key %d" % (n * n % keys)) for n in range(count)]
