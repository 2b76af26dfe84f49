"""The driver's side of a publication: rounds of Spark tasks, each begun only when what was sent before is
known.
"""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from dafka_pipeline.failures import PipelineError, Refused, Stopped, UsageFailure
from dafka_pipeline.kafka.cluster import Cluster, TopicPartition
from dafka_pipeline.producing.buckets import numbers_for
from dafka_pipeline.producing.checks import check_same, check_target, open_stream
from dafka_pipeline.producing.plan import SPARK_SETTINGS, Plan, Published, Sent
from dafka_pipeline.producing.positions import prefix_of
from dafka_pipeline.producing.rows import sent_columns
from dafka_pipeline.producing.sender import LATER, NEVER
from dafka_pipeline.producing.stream_file import Lease, Stream, Tail, final_after, parse_stream
from dafka_pipeline.producing.tail import Found, read_tails
from dafka_pipeline.producing.task import DONE, RESULT_SCHEMA, TIME, RetriedTask, Task, send_rows
from dafka_pipeline.running.fail_points import fail_point
from dafka_pipeline.running.report import Report
from dafka_pipeline.running.stopping import Stop
from dafka_pipeline.running.waiting import patiently
from dafka_pipeline.spark.errors import explain_spark
from dafka_pipeline.table.location import Files
from dafka_pipeline.table.lock import held

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

T = TypeVar("T")

FAILED: Final = LATER
TASKS_AT_MOST: Final = 200
"""Tasks of a round; a task has several target partitions where there are more of them."""
FAILURES_AT_MOST: Final = 5
"""Rounds that may fail one after the other without having sent anything."""
LEASE_SECONDS_AT_MOST: Final = 3600.0
DEFAULT_BATCH_BYTES: Final = 1_000_000
ARROW: Final = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20),
}
"""What a task gets from Spark at a time: Spark's own limit of 256 MiB would be in Python three times."""


class Publisher:
    """Sends frames of one stream. A context manager: it holds the stream's lock on this machine.

    Args:
        files, name: where the stream's file is kept (`NAME.json`), beside the table that the frames come
            from.
    """

    def __init__(
        self, spark: SparkSession, plan: Plan, files: Files, name: str, stop: Stop, report: Report
    ) -> None:
        self._spark = spark
        self._plan = plan
        self._files = files
        self._name = name
        self._stop = stop
        self._report = report
        self._cluster = Cluster(plan.kafka)
        self._lease_seconds = plan.timing.lease
        self._owner = secrets.token_hex(8)
        self._stack = ExitStack()
        self._stream: Stream | None = None
        self._progress: dict[TopicPartition, Tail] | None = None
        self._largest_batch: int | None = None

    def __enter__(self) -> Self:
        place = self._files.location / f"{self._name}.lock"
        self._stack.enter_context(held(place, f"Publishing as {self._plan.stream}"))
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()

    @property
    def stream(self) -> Stream:
        """The stream's file as it is now."""
        assert self._stream is not None, "not entered"
        return self._stream

    @property
    def slots(self) -> tuple[TopicPartition, ...]:
        """All target partitions."""
        return tuple(
            TopicPartition(topic, n)
            for topic, target in sorted(self.stream.targets.items())
            for n in range(len(target.floors))
        )

    def progress(self) -> Mapping[TopicPartition, Tail]:
        """Each target partition's last own record; waits until that is final.

        Raises Refused where a target has lost records that it had acknowledged, or has foreign ones.
        """
        if self._progress is None:
            self._await_final()
            found = self._patiently(self._read_tails)
            tails = {at: check_target(self.stream, at, one) for at, one in found.items()}
            self._progress = {at: tail for at, tail in tails.items() if tail is not None}
        return self._progress

    def publish(self, frame: DataFrame) -> Published:
        """Send the rows of the frame (see `plan.COLUMNS`) that lie above what their target partitions have.

        Goes on after failures for as long as rounds get further. Raises Refused, Stopped, or PipelineError
        when it
        cannot go on: what was sent stays, and is known.
        """
        began = time.monotonic()
        total: dict[TopicPartition, Sent] = {}
        rounds = failures = 0
        while True:
            if self._stop.asked:
                raise Stopped("asked to")
            self.progress()
            rounds += 1
            outcome, why, sent = self._round(frame)
            for at, one in sent.items():
                total[at] = _added(total.get(at), one)
            if outcome == DONE:
                return Published(total, rounds, time.monotonic() - began)
            if outcome == NEVER:
                raise Refused(f"Sending ended: {why}.")
            moved = any(one.records for one in sent.values())
            if moved:
                failures = 0
            elif outcome == TIME:
                # Spark took all of the lease before the first record came to its task.
                self._lease_seconds = min(self._lease_seconds * 2, LEASE_SECONDS_AT_MOST)
            if outcome != TIME:
                failures += 1
                self._report.say(f"A round of sending failed ({why}); going on with what it has not sent.")
                if failures >= FAILURES_AT_MOST:
                    raise PipelineError(f"Sending failed {failures} times without getting further: {why}.")

    # opening ----------------------------------------------------------------------------------------------

    def _open(self) -> None:
        text = self._files.read(self._file)
        if text is None:
            stream = self._patiently(lambda: open_stream(self._cluster, self._plan))
            self._write(stream)
        else:
            stream = parse_stream(text)
            self._patiently(lambda: check_same(stream, self._plan, self._cluster))
            self._stream = stream
        if not self.stream.transactions:
            self._check_spark()

    def _check_spark(self) -> None:
        conf = self._spark.sparkContext.getConf()
        for name, wanted in SPARK_SETTINGS.items():
            found = conf.get(name, "")
            local = _is_local(self._spark) and name != "spark.speculation"
            if found != wanted and not local:
                raise UsageFailure(
                    f"Publishing without transactions needs --conf {name}={wanted}, and it is "
                    f"{found or 'not set'}: Spark could run a task twice at a time."
                )

    @property
    def _file(self) -> str:
        return f"{self._name}.json"

    def _write(self, stream: Stream) -> None:
        self._files.write(self._file, stream.to_json())
        self._stream = stream

    def _check_owner(self) -> None:
        """Another driver may have waited for the end of our lease, where no lock reaches it."""
        now = parse_stream(self._files.read(self._file) or "")
        if now.lease.owner not in {self.stream.lease.owner, self._owner}:
            raise Refused(f"Another process publishes as {self._plan.stream} meanwhile. Stop one of the two.")

    # before a round ---------------------------------------------------------------------------------------

    def _await_final(self) -> None:
        stream = self.stream
        wait = final_after(stream, self._plan.timing, time.time(), this_machine(), self._owner)
        if wait <= 0:
            return
        self._report.say(
            f"Producers of {stream.stream} ended without a word: waiting {wait:.0f} s until nothing of "
            "them can arrive."
        )
        if self._stop.sleep(wait):
            raise Stopped("asked to")

    def _read_tails(self) -> dict[TopicPartition, Found]:
        floors = {at: self.stream.floor(at) for at in self.slots}
        return read_tails(self._plan.kafka, self._plan.header, prefix_of(self._plan.stream), floors)

    def _patiently(self, ask: Callable[[], T]) -> T:
        return patiently(ask, self._stop, self._report, None)

    # a round ----------------------------------------------------------------------------------------------

    def _round(self, frame: DataFrame) -> tuple[str, str, dict[TopicPartition, Sent]]:
        """How one round ended, why, and what it has sent."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException, PythonException

        self._check_owner()
        now = time.time()
        until = now + self._lease_seconds
        self._write(self.stream.leased(Lease(self._owner, until, False, self._machine)))
        fail_point("publish-leased")
        task = self._task(now + self._lease_seconds / 2, until)
        try:
            with _small_batches(self._spark):
                rows = self._job(frame, task).collect()
        except (PySparkException, Py4JError) as error:
            # Tasks of this round may live on: what they send is known once the lease is over.
            self._progress = None
            if self._stop.asked:
                raise Stopped("asked to") from error
            if isinstance(error, PythonException) and RetriedTask.__name__ not in str(error):
                raise
            explained = explain_spark(error)
            if isinstance(explained, UsageFailure):
                # No further round would go better.
                raise explained from error
            return FAILED, _first_line(error), {}
        fail_point("publish-sent")
        sent = {
            task.slots[row.slot]: Sent(
                row.records, row.size_bytes, row.skipped, row.last and tuple(row.last), row.last_offset
            )
            for row in rows
            if row.slot is not None
        }
        outcome, why = _outcome(rows)
        if outcome in {DONE, TIME}:
            self._ended_well(sent)
        else:
            self._progress = None
        return outcome, why, sent

    def _ended_well(self, sent: Mapping[TopicPartition, Sent]) -> None:
        tails = {at: Tail(one.last, one.last_offset) for at, one in sent.items() if one.last is not None}
        self._write(self.stream.ended(tails))
        self._progress = {**(self._progress or {}), **tails}

    def _task(self, soft: float, until: float) -> Task:
        slots = self.slots
        plan = self._plan
        at_once = min(self._tasks, self._spark.sparkContext.defaultParallelism)
        return Task(
            plan,
            self.stream.transactions,
            slots,
            dict(self._progress or {}),
            {at: self.stream.floor(at) for at in slots},
            soft,
            until,
            plan.records_per_second / max(1, at_once),
            self._batch_bytes(),
        )

    @property
    def _tasks(self) -> int:
        return min(len(self.slots), TASKS_AT_MOST)

    @property
    def _machine(self) -> str:
        """This machine, where the tasks run in processes below this one."""
        return this_machine() if _is_local(self._spark) else ""

    def _batch_bytes(self) -> int:
        if self._largest_batch is None:
            limits = [
                self._patiently(partial(self._cluster.config, topic, "max.message.bytes"))
                for topic in self._plan.targets
            ]
            self._largest_batch = min([DEFAULT_BATCH_BYTES, *(int(limit) for limit in limits if limit)])
        return self._largest_batch

    def _job(self, frame: DataFrame, task: Task) -> DataFrame:
        """The frame's rows, each target partition's in one task and in order, through the tasks'
        producers.
        """
        tasks = self._tasks
        numbers = ", ".join(map(str, numbers_for(tasks)))
        rows = frame.withColumn("slot", _expr(_slot_sql(self.stream)))
        placed = rows.withColumn("placed", _expr(f"element_at(array({numbers}), slot % {tasks} + 1)"))
        # Spark sorts by the first column's bits alone as far as they differ.
        first = ["position[0]", "slot"] if tasks == len(task.slots) else ["slot", "position[0]"]
        ordered = placed.repartition(tasks, "placed").sortWithinPartitions(*map(_expr, first), "position")
        sent = ordered.selectExpr(*sent_columns("slot", self._plan.stream))
        return sent.mapInArrow(partial(send_rows, task), RESULT_SCHEMA)


@contextmanager
def _small_batches(spark: SparkSession) -> Iterator[None]:
    before = {name: spark.conf.get(name) for name in ARROW}
    for name, value in ARROW.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, str(value))


def _expr(text: str) -> Any:
    from pyspark.sql.functions import expr

    return expr(text)


def _slot_sql(stream: Stream) -> str:
    """The number of a row's target partition among all; a row for another one ends the job."""
    cases, base = [], 0
    for topic, target in sorted(stream.targets.items()):
        name = topic.replace("\\", "\\\\").replace("'", "\\'")
        count = len(target.floors)
        cases.append(
            f"WHEN target = '{name}' AND target_partition BETWEEN 0 AND {count - 1} THEN {base} + "
            "target_partition"
        )
        base += count
    wrong = "raise_error(concat('no such target: ', target, '-', target_partition))"
    return f"CAST(CASE {' '.join(cases)} ELSE {wrong} END AS INT)"


def _outcome(rows: Collection[Row]) -> tuple[str, str]:
    """The worst of how the tasks ended."""
    ends = {row.ended: row.why for row in rows if row.slot is None}
    for kind in (NEVER, LATER, TIME):
        if kind in ends:
            return kind, ends[kind]
    return DONE, ""


def _added(before: Sent | None, now: Sent) -> Sent:
    if before is None:
        return now
    last, offset = (now.last, now.last_offset) if now.last is not None else (before.last, before.last_offset)
    return Sent(before.records + now.records, before.size_bytes + now.size_bytes, now.skipped, last, offset)


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "Error:" in line or "Exception:" in line]
    return (told or lines or [type(error).__name__])[-1].strip()


def _is_local(spark: SparkSession) -> bool:
    master = spark.sparkContext.master
    return bool(master == "local" or master.startswith("local["))


def this_machine() -> str:
    """This machine since its last start."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        boot = ""
    return f"{socket.gethostname()} {boot}".strip()
