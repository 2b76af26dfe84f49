"""A task: sends the rows that Spark gives it, and returns for each target partition what it did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dafka_pipeline.kafka.cluster import TopicPartition
from dafka_pipeline.producing.plan import Plan
from dafka_pipeline.producing.positions import prefix_of
from dafka_pipeline.producing.rows import Rows, rows_of
from dafka_pipeline.producing.sender import Ended, Progress, Sender, producer_settings
from dafka_pipeline.producing.stream_file import Tail
from dafka_pipeline.producing.tail import read_tails
from dafka_pipeline.producing.transactional import TransactionalSender

if TYPE_CHECKING:
    import pyarrow as pa

RESULT_SCHEMA: Final = (
    "slot INT, records BIGINT, size_bytes BIGINT, skipped BIGINT, last ARRAY<BIGINT>, last_offset BIGINT, "
    "ended STRING, why STRING"
)
"""A row for each target partition, and a last one without a number that says how the task ended."""
DONE, TIME = "done", "time"
"""How a task ends well: all rows are in their targets; or its time was over, and what it had queued is."""


@dataclass(frozen=True)
class Task:
    """What all tasks of a round know.

    slots: the target partitions; rows name them by their number here.
    known: their last own records, as long as nobody else can have sent more.
    floors: where own records can begin. ends: where the next record goes.
    soft, until: see `Sender`. rate: of one task.
    batch_bytes: how large a batch of several records may be.
    """

    plan: Plan
    transactions: bool
    slots: tuple[TopicPartition, ...]
    known: Mapping[TopicPartition, Tail]
    floors: Mapping[TopicPartition, int]
    soft: float
    until: float
    rate: float
    batch_bytes: int

    def begin(self, at: TopicPartition) -> Progress:
        """Where a target partition is, as the driver knows it."""
        tail = self.known.get(at)
        last, offset = (tail.position, tail.offset) if tail else (None, -1)
        exact = not self.plan.append and not self.transactions
        following = offset + 1 if tail else self.floors[at]
        return Progress(at, last, offset, following if exact else None)

    def begin_by_tail(self, at: TopicPartition) -> Progress:
        """Where a target partition is, as it says itself."""
        floors = {at: self.floors[at]}
        tail = read_tails(self.plan.kafka, self.plan.header, prefix_of(self.plan.stream), floors)[at].tail
        known = self.known.get(at)
        # What is known was acknowledged. Retention may have taken it, or a transaction of somebody else that
        # is open may still hide it.
        if known is not None and (tail is None or tail.position < known.position):
            tail = known
        return Progress(at, tail.position, tail.offset, None) if tail else Progress(at, None, -1, None)


class RetriedTask(RuntimeError):
    """Spark has started a task again whose first attempt may still live; the driver begins a new round
    instead.
    """


def send_rows(task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function of `mapInArrow`: rows as `rows.sent_columns` makes them, ordered by target partition
    and position.
    """
    if not task.transactions:
        _refuse_retries()
    sending: _Sending = _Transactional(task) if task.transactions else _Idempotent(task)
    ended, why = DONE, ""
    try:
        try:
            for batch in batches:
                if not all(sending.send(rows) for rows in rows_of(batch)):
                    ended = TIME
                    break
            sending.finish()
        except Ended as error:
            ended, why = error.kind, error.why
    finally:
        sending.close()
    yield _result(sending.progress, ended, why)


def _refuse_retries() -> None:
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:
        raise RetriedTask("this task was tried before: its first attempt may still be sending")


class _Sending:
    """The target partitions of one task."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.progress: dict[int, Progress] = {}

    def send(self, rows: Rows) -> bool:
        raise NotImplementedError

    def finish(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class _Idempotent(_Sending):
    """One producer for all of them."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        settings = producer_settings(task.plan, task.batch_bytes)
        self._sender = Sender(task.plan, task.soft, task.until, task.rate, settings)

    def send(self, rows: Rows) -> bool:
        to = self.progress.get(rows.slot)
        if to is None:
            to = self.progress[rows.slot] = self.task.begin(self.task.slots[rows.slot])
            # What the driver knows; nobody else has sent since.
            self._known = to.last
        skip = rows.behind(self._known)
        to.skipped += skip
        return self._sender.send(rows, skip, to)

    def finish(self) -> None:
        self._sender.finish()

    def close(self) -> None:
        self._sender.close()


class _Transactional(_Sending):
    """One producer for each, one after the other; the first thing it does is to fence the one before it."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._sender: TransactionalSender | None = None
        self._slot = -1
        self._known: Any = None

    def send(self, rows: Rows) -> bool:
        if rows.slot != self._slot:
            self.finish()
            self.close()
            at = self.task.slots[rows.slot]
            self._sender = TransactionalSender(
                self.task.plan, self.task.batch_bytes, at, self.task.rate, self.task.soft
            )
            self._slot = rows.slot
            # Only now: the tail can grow no more by anybody else.
            to = self.progress[rows.slot] = self.task.begin_by_tail(at)
            self._known = to.last
        assert self._sender is not None
        to = self.progress[rows.slot]
        skip = rows.behind(self._known)
        to.skipped += skip
        return self._sender.send(rows, skip, to)

    def finish(self) -> None:
        if self._sender is not None:
            self._sender.finish()

    def close(self) -> None:
        if self._sender is not None:
            self._sender.close()
            self._sender = None


def _result(progress: Mapping[int, Progress], ended: str, why: str) -> pa.RecordBatch:
    import pyarrow as pa

    rows: list[tuple[Any, ...]] = [
        (slot, one.records, one.size_bytes, one.skipped, one.last and list(one.last), one.last_offset, "", "")
        for slot, one in progress.items()
    ]
    rows.append((None, 0, 0, 0, None, -1, ended, why))
    types = [pa.int32(), *[pa.int64()] * 3, pa.list_(pa.int64()), pa.int64(), pa.string(), pa.string()]
    names = [part.split()[0] for part in RESULT_SCHEMA.split(", ")]
    arrays = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names)
