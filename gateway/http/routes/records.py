"""Records of a topic: a few at a time, and one by itself."""

from __future__ import annotations

import re
from datetime import datetime
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.http.failures import bad_parameter, not_found
from gateway.http.paging import cursor, decode_cursor
from gateway.http.reading import (
    MAX_READ_BYTES,
    MIN_READ_BYTES,
    USUAL_READ_BYTES,
    Budget,
    PartitionRead,
    inflated,
    merged,
    place,
    read,
    shown,
)
from gateway.http.router import Ask, Parameter, Route
from gateway.http.routes.topics import AFTER, find_partition, find_topic
from gateway.http.shown_records import (
    MAX_WHOLE_BYTES,
    WHOLE_BYTES,
    WHOLE_HEADER_BYTES,
    WHOLE_HEADERS,
    Preview,
    batch_row,
    record_row,
)
from gateway.http.target import Target, whole_number
from gateway.http.view import View, now_ms
from wireproto.kafka.errors import KafkaError
from wireproto.records.errors import InvalidBatch
from wireproto.records.header import read_header
from wireproto.records.outline import outlines

if TYPE_CHECKING:
    from gateway.log.partition import Partition
    from gateway.log.topic import Topic

MAX_RECORDS: Final = 500
"""Records of one answer."""

MAX_PARTITIONS_READ: Final = 100
"""Partitions that one read goes through: as many as have room in a cursor."""

MAX_LAST: Final = 100_000
"""The N of `last:N`: a read is spent before."""

FROM_WANTED: Final = "last:N, offset:N, time:ISO (with a zone) or start"

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)", re.ASCII)
"""What is let through to the parser, which takes more."""


class Place:
    """Where a read begins: one of these is not None."""

    __slots__ = ("last", "offset", "time_ms")

    def __init__(
        self, *, last: int | None = None, offset: int | None = None, time_ms: int | None = None
    ) -> None:
        self.last = last
        self.offset = offset
        self.time_ms = time_ms

    async def begin(self, partition: Partition) -> int:
        """The offset in this partition. Raises KafkaError."""
        start, end = partition.log_start_offset, partition.high_watermark
        if self.last is not None:
            return max(start, end - self.last)
        if self.offset is not None:
            return min(max(start, self.offset), end)
        assert self.time_ms is not None
        found = await partition.offset_for_timestamp(self.time_ms)
        return end if found is None else found[0]


def parse_from(text: str) -> Place:
    """A `from` parameter. Raises Failure."""
    kind, _, rest = text.partition(":")
    number = whole_number(rest)
    if kind == "last" and number is not None and 1 <= number <= MAX_LAST:
        return Place(last=number)
    if kind == "offset" and number is not None:
        return Place(offset=number)
    if text == "start":
        return Place(offset=0)
    if kind == "time" and _TIME.fullmatch(rest):
        try:
            seconds = datetime.fromisoformat(rest).timestamp()
        except (ValueError, OverflowError):
            raise bad_parameter("from", text, FROM_WANTED) from None
        return Place(time_ms=max(0, int(seconds * 1000)))
    raise bad_parameter("from", text, FROM_WANTED)


async def records(ask: Ask) -> dict[str, Any]:
    """The route of some records."""
    view, target = ask.view, ask.target
    target.only("from", "partition", "limit", "max_bytes", "after")
    topic = find_topic(view, ask.places["topic"])
    limit = target.number("limit", 50, 1, MAX_RECORDS)
    budget = Budget(target.number("max_bytes", USUAL_READ_BYTES, MIN_READ_BYTES, MAX_READ_BYTES))
    where = parse_from(target.text("from", "last:50"))
    async with place(view):
        if target.text("after"):
            newest, too_many = False, False
            reads = _go_on(topic, target.text("after"), limit)
        else:
            newest = where.last is not None
            wanted, too_many = partitions_wanted(topic, target)
            reads = await _begin(wanted, where, limit, budget)
        preview = Preview(hidden=view.hide_values)
        for one in reads:
            if budget.is_spent():
                break
            await read(view, one, budget, preview)
        async with view.turns.working():
            found = merged(reads, limit, newest=newest)
            items = await shown(found, view.turns)
    stopped = budget.stopped or ("partitions" if too_many else None)
    return _answer(topic, reads, items, stopped, budget)


def partitions_wanted(topic: Topic, target: Target) -> tuple[list[Partition], bool]:
    """The partitions that a request names, and whether there are more than are read. Raises Failure."""
    text = target.text("partition", "all")
    if text != "all":
        return [find_partition(topic, text)], False
    filled = [one for one in topic.partitions if one.high_watermark > one.log_start_offset]
    return filled[:MAX_PARTITIONS_READ], len(filled) > MAX_PARTITIONS_READ


async def _begin(
    partitions: list[Partition], where: Place, limit: int, budget: Budget
) -> list[PartitionRead]:
    reads = []
    newest = where.last is not None
    with trio.move_on_at(budget.deadline) as waited:
        for partition in partitions:
            made = PartitionRead(partition, 0, partition.high_watermark, limit, newest=newest)
            try:
                made.begin = made.next = await where.begin(partition)
            except KafkaError as error:
                made.error = f"{error.code.name}: {error.message}"
                made.begin = made.next = partition.log_start_offset
            reads.append(made)
    if waited.cancelled_caught:
        budget.stopped = "seconds"
    return reads


def _go_on(topic: Topic, text: str, limit: int) -> list[PartitionRead]:
    """The reads of a cursor. Raises Failure."""
    value = decode_cursor(text)
    wanted = "what `next` was"
    if not isinstance(value, dict) or len(value) > MAX_PARTITIONS_READ:
        raise bad_parameter("after", text, wanted)
    reads = []
    for key, offset in value.items():
        index = whole_number(key)
        if index is None or index >= len(topic.partitions) or type(offset) is not int or offset < 0:
            raise bad_parameter("after", text, wanted)
        partition = topic.partitions[index]
        end = partition.high_watermark
        reads.append(PartitionRead(partition, min(max(offset, partition.log_start_offset), end), end, limit))
    return reads


def _answer(
    topic: Topic, reads: list[PartitionRead], items: dict[str, Any], stopped: str | None, budget: Budget
) -> dict[str, Any]:
    ended = all(one.done or one.error is not None for one in reads)
    following = None
    if not all(one.done for one in reads):
        following = cursor({str(one.partition.index): one.next for one in reads})
    return {
        "as_of": now_ms(),
        "topic": topic.name,
        "order": "time" if len(reads) > 1 else "offset",
        **items,
        "partitions": [read_row(one) for one in reads],
        "next": following,
        "stopped": stopped or (None if ended else "limit"),
        "read": {
            "bytes": budget.read,
            "batches": budget.batches,
            "seconds": round(perf_counter() - budget.began, 4),
        },
    }


def read_row(one: PartitionRead) -> dict[str, Any]:
    """How far a partition was read."""
    return {
        "partition": one.partition.index,
        "start": str(one.partition.log_start_offset),
        "end": str(one.end),
        "from": str(one.begin),
        "next": str(one.next),
        "done": one.done,
        "error": one.error,
    }


async def record(ask: Ask) -> dict[str, Any]:
    """The route of one record."""
    view, target = ask.view, ask.target
    target.only("max_bytes")
    most = target.number("max_bytes", WHOLE_BYTES, 1, MAX_WHOLE_BYTES)
    topic = find_topic(view, ask.places["topic"])
    partition = find_partition(topic, ask.places["partition"])
    offset = whole_number(ask.places["offset"])
    if offset is None:
        raise bad_parameter("offset", ask.places["offset"], "an offset: a number from 0 on")
    start, end = partition.log_start_offset, partition.high_watermark
    if not start <= offset < end:
        raise _no_record(f"the log has offsets from {start} to {end - 1}, and not {offset}")
    preview = Preview(most, WHOLE_HEADERS, min(most, WHOLE_HEADER_BYTES), hidden=view.hide_values)
    async with place(view):
        try:
            return await _one_record(view, partition, offset, preview)
        except KafkaError as error:
            raise _no_record(f"{error.code.name}: {error.message}") from None
        except InvalidBatch as error:
            raise _no_record(f"the batch that holds it cannot be read: {error}") from None


async def _one_record(view: View, partition: Partition, offset: int, preview: Preview) -> dict[str, Any]:
    for batch in await partition.look(offset, 1):
        header = read_header(batch)
        body = await inflated(batch, header)
        async with view.turns.working():
            for found in outlines(body, header):
                if found.offset == offset:
                    return {
                        "as_of": now_ms(),
                        "topic": partition.topic.name,
                        "record": record_row(partition, header, body, found, preview),
                        "batch": batch_row(partition.index, header),
                    }
                await view.turns.breathe()
        break
    raise _no_record(f"there is no record at offset {offset} any more: compaction has taken it away")


def _no_record(detail: str) -> Exception:
    return not_found("no-record", detail, "Look at the records around it.")


_MAX_BYTES: Final = Parameter(
    "max_bytes",
    {
        "type": "integer",
        "minimum": MIN_READ_BYTES,
        "maximum": MAX_READ_BYTES,
        "default": USUAL_READ_BYTES,
    },
    "Bytes of log that are read.",
)

ROUTES: Final = (
    Route(
        "topics/{topic}/records",
        "Some records of a topic.",
        records,
        (
            Parameter("from", {"type": "string", "default": "last:50"}, FROM_WANTED),
            Parameter("partition", {"type": "string", "default": "all"}, "A number, or all."),
            Parameter("limit", {"type": "integer", "minimum": 1, "maximum": MAX_RECORDS, "default": 50}),
            _MAX_BYTES,
            AFTER,
        ),
    ),
    Route(
        "topics/{topic}/partitions/{partition}/records/{offset}",
        "One record.",
        record,
        (
            Parameter(
                "max_bytes",
                {"type": "integer", "minimum": 1, "maximum": MAX_WHOLE_BYTES, "default": WHOLE_BYTES},
                "Bytes of key and value that are shown.",
            ),
        ),
    ),
)
