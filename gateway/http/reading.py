"""Reads of records for people: the fetch path, with a budget, and nothing of it stays in any cache.

Rule: a read goes on at the offset after the batch, by the batch's own header: whatever its records are, it
comes to an end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import trio

from gateway.http.failures import Failure
from gateway.http.limits import KIB, MIB
from gateway.http.shown_records import Preview, batch_row, record_row, shown_size
from wireproto.kafka.errors import KafkaError
from wireproto.records.compression import Codec
from wireproto.records.errors import InvalidBatch
from wireproto.records.header import BatchHeader, Buffer, read_header
from wireproto.records.iteration import inflated_records
from wireproto.records.outline import Outline, outlines

if TYPE_CHECKING:
    from gateway.http.turns import Turns
    from gateway.http.view import View
    from gateway.log.partition import Partition
    from gateway.log.tail_cache import Batch

MAX_READ_BYTES: Final = 8 * MIB
"""Bytes of log that one read looks at, but for a first batch that is larger."""

USUAL_READ_BYTES: Final = 4 * MIB
"""Bytes of log where nobody says how many."""

MIN_READ_BYTES: Final = 64 * KIB
"""Bytes of log that a read may be bound to."""

INFLATED_PART: Final = 4
"""So many times as many bytes may come of them when they are inflated."""

MAX_BATCH_BYTES: Final = 16 * MIB
"""Bytes of one batch that is inflated; a larger one is named and passed over."""

MAX_SHOWN_BYTES: Final = 4 * MIB
"""Characters of the records of one answer, about."""

READ_SECONDS: Final = 10.0
"""Seconds of one read."""

READS_WAITING: Final = 4
"""Reads that may wait for others; a further one is told to come again."""

AT_ONCE_BYTES: Final = 1 * MIB
"""Bytes of a partition that are held at a time, but for a batch that is larger."""


@dataclass(slots=True)
class Budget:
    """What one read may still do. `stopped` says which part of it is spent."""

    bytes: int = USUAL_READ_BYTES
    deadline: float = field(default_factory=lambda: trio.current_time() + READ_SECONDS)
    inflated: int = 0
    shown: int = MAX_SHOWN_BYTES
    read: int = 0
    batches: int = 0
    stopped: str | None = None
    began: float = field(default_factory=perf_counter)

    def __post_init__(self) -> None:
        self.inflated = self.bytes * INFLATED_PART

    def spend(self, batch: int, inflated: int) -> None:
        """A batch was looked at."""
        self.read += batch
        self.batches += 1
        self.bytes -= batch
        self.inflated -= inflated

    def is_spent(self) -> bool:
        """Whether the read is to end here."""
        if self.stopped is None:
            if self.bytes <= 0 or self.inflated <= 0 or self.shown <= 0:
                self.stopped = "bytes"
            elif trio.current_time() >= self.deadline:
                self.stopped = "seconds"
        return self.stopped is not None


class FoundRecord(NamedTuple):
    """A record as it is shown, its timestamp, and the header of its batch."""

    timestamp: int
    row: dict[str, Any]
    batch: BatchHeader


@dataclass(slots=True)
class PartitionRead:
    """A read of one partition from `begin` up to `end`: what is found, and where it goes on.

    With `newest` only the last `limit` rows are kept; else it stops after so many.
    """

    partition: Partition
    begin: int
    end: int
    limit: int
    newest: bool = False
    next: int = 0
    error: str | None = None
    rows: deque[FoundRecord] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.next = self.begin

    @property
    def done(self) -> bool:
        return self.next >= self.end

    def wants_more(self) -> bool:
        """Whether there is more to read of it, and to show."""
        return not self.done and self.error is None and (self.newest or len(self.rows) < self.limit)


@asynccontextmanager
async def place(view: View) -> AsyncIterator[None]:
    """One of the few reads at once. Raises Failure: too many wait already."""
    if view.reads.statistics().tasks_waiting >= READS_WAITING:
        raise Failure(
            HTTPStatus.TOO_MANY_REQUESTS,
            "busy",
            f"{view.reads.borrowed_tokens:.0f} reads of records are under way, and others wait",
            "Ask again in a moment.",
            (("Retry-After", "2"),),
        )
    async with view.reads:
        yield


async def read(view: View, wanted: PartitionRead, budget: Budget, preview: Preview) -> None:
    """Read one partition as far as the budget goes; what goes wrong is told in `error`."""
    with trio.move_on_at(budget.deadline) as waited:
        try:
            while wanted.wants_more() and not budget.is_spent():
                most = max(1, min(AT_ONCE_BYTES, budget.bytes))
                batches = await wanted.partition.look(wanted.next, most)
                if not batches:
                    break
                for batch in batches:
                    if not wanted.wants_more() or budget.is_spent():
                        break
                    await _take(view, wanted, batch, budget, preview)
        except KafkaError as error:
            wanted.error = f"{error.code.name}: {error.message}"
    if waited.cancelled_caught:
        budget.stopped = "seconds"


async def _take(view: View, wanted: PartitionRead, batch: Batch, budget: Budget, preview: Preview) -> None:
    """Take the records of one batch that are asked for."""
    header = read_header(batch)
    try:
        body = await inflated(batch, header)
        budget.spend(len(batch), len(body))
        async with view.turns.working():
            if await _take_records(view, wanted, header, body, budget, preview):
                return
    except InvalidBatch as error:
        budget.spend(len(batch), 0)
        wanted.error = (
            f"the batch of offsets {header.base_offset} to {header.last_offset} cannot be read: {error}"
        )
    wanted.next = max(wanted.next, header.last_offset + 1)


async def inflated(batch: Batch, header: BatchHeader) -> Buffer:
    """The records of a batch; compressed ones are inflated in a thread. Raises InvalidBatch."""
    if header.codec == Codec.NONE:
        return inflated_records(batch, header, MAX_BATCH_BYTES)
    return await trio.to_thread.run_sync(inflated_records, batch, header, MAX_BATCH_BYTES)


async def _take_records(
    view: View,
    wanted: PartitionRead,
    header: BatchHeader,
    body: Buffer,
    budget: Budget,
    preview: Preview,
) -> bool:
    """True: the read ends within this batch. Raises InvalidBatch."""
    for record in _visible(body, header, wanted):
        if record is not None:
            if not wanted.newest and len(wanted.rows) >= wanted.limit:
                return True
            row = record_row(wanted.partition, header, body, record, preview)
            budget.shown -= shown_size(row)
            wanted.rows.append(FoundRecord(record.timestamp, row, header))
            if len(wanted.rows) > wanted.limit:
                budget.shown += shown_size(wanted.rows.popleft().row)
            wanted.next = record.offset + 1
        if view.turns.spent:
            await view.turns.breathe()
            if budget.is_spent():
                return True
        elif budget.shown <= 0:
            budget.stopped = "bytes"
            return True
    return False


def _visible(body: Buffer, header: BatchHeader, wanted: PartitionRead) -> Iterator[Outline | None]:
    """The records from where the read is; None for one before it. Those of control batches are no one's."""
    if header.is_control:
        return
    begin = wanted.next
    for record in outlines(body, header):
        yield record if begin <= record.offset < wanted.end else None


def merged(reads: list[PartitionRead], limit: int, *, newest: bool) -> list[FoundRecord]:
    """The records of several partitions by their times, each partition in its own order; `limit` of them: the
    first, or with `newest` the last. What is not shown is read again: `next` of each partition goes back.
    """
    if newest:
        return _last(reads, limit)
    rows: list[FoundRecord] = []
    heads = [read for read in reads if read.rows]
    while heads and len(rows) < limit:
        first = min(heads, key=lambda read: (read.rows[0].timestamp, read.partition.index))
        rows.append(first.rows.popleft())
        if not first.rows:
            heads.remove(first)
    for left in heads:
        left.next = int(left.rows[0].row["offset"])
    return rows


async def shown(found: list[FoundRecord], turns: Turns) -> dict[str, Any]:
    """`items` and `batches` of an answer. The caller works."""
    batches: dict[str, dict[str, Any]] = {}
    for _, row, header in found:
        if row["batch"] not in batches:
            batches[row["batch"]] = batch_row(row["partition"], header)
            await turns.breathe()
    return {"items": [one.row for one in found], "batches": batches}


def _last(reads: list[PartitionRead], limit: int) -> list[FoundRecord]:
    rows: list[FoundRecord] = []
    tails = [read for read in reads if read.rows]
    while tails and len(rows) < limit:
        last = max(tails, key=lambda read: (read.rows[-1].timestamp, read.partition.index))
        rows.append(last.rows.pop())
        if not last.rows:
            tails.remove(last)
    rows.reverse()
    return rows
