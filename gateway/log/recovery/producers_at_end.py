"""The idempotence state at the end of a segment: what its announcement held, and its rows.

So a start, or a compaction, reads one segment's rows and nothing that grows with the log. What a compaction
has written was announced with the state behind it: its rows are older than that. Applied after it they would
bring back producers that had expired, with a part of their batches, and push out newer ones. A partition that
has no segment left (all of them expired) has its producers in the catalog instead, put there by the very
transaction that drops the last one: records that are gone must not be appended again by a late retry.
"""

import base64
import contextlib
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import trio

from gateway.catalog import keys
from gateway.log.idempotence.snapshot import InvalidSnapshot
from gateway.log.idempotence.state import ProducerState
from gateway.log.transactions.aborted import AbortedTransactions
from gateway.log.transactions.aborted_replay import AbortedReplay
from wireproto.records.errors import InvalidBatch
from wireproto.records.row import ROW_BYTES, Row, row_of, unmarked

if TYPE_CHECKING:
    from gateway.log.context import LogContext
    from gateway.log.segment import Segment

ROWS_AT_ONCE = 4096
"""Rows applied to an idempotence state before other tasks run."""


class AtEnd(NamedTuple):
    """The idempotence state after the last record of a segment, and the aborted transactions that end in it
    (nobody needs those of a compacted one).
    """

    producers: ProducerState
    aborted: AbortedTransactions


async def read_producers(
    context: "LogContext", segment: "Segment", limit: trio.CapacityLimiter | None = None
) -> AtEnd:
    """What there is after the last record of a closed segment; `limit` is taken while many rows are read.

    Raises NotServed, ValueError, KeyError.
    """
    now_ms = context.now_ms()
    state, aborted = ProducerState(keeps=context.producers.keeps), AbortedTransactions()

    def take(snapshot: bytes) -> None:
        nonlocal state
        state = _unpack(snapshot, context, now_ms)

    def apply(rows: bytes) -> None:
        for start in range(0, len(rows), ROW_BYTES):
            ended = state.apply_row(Row.unpack(rows[start : start + ROW_BYTES]), now_ms)
            if ended is not None:
                aborted.add(ended)

    await _replay(context, segment, take, apply, limit)
    return AtEnd(state, aborted)


async def read_aborted(context: "LogContext", segment: "Segment") -> AbortedTransactions:
    """The aborted transactions that end in a closed segment, which is not compacted.

    Raises NotServed, ValueError, KeyError.
    """
    replay = AbortedReplay()

    def take(snapshot: bytes) -> None:
        replay.begin(_unpack(snapshot, context, context.now_ms()).open_transactions())

    await _replay(context, segment, take, replay.feed)
    return replay.aborted


async def _replay(
    context: "LogContext",
    segment: "Segment",
    take: Callable[[bytes], None],
    apply: Callable[[bytes], None],
    limit: trio.CapacityLimiter | None = None,
) -> None:
    """Give `take` the snapshot that a segment begins with, and `apply` its rows, in order, unless it is
    compacted; `limit` is taken while many are read. Raises NotServed, ValueError, KeyError.
    """
    members = context.stores.live_first(segment.members, segment.address)
    last = segment.last_sequence or 0
    beginning = await context.reader.beginning(members, segment.address, last)
    take(base64.b64decode(json.loads(beginning.announcement.details)["producers"]))
    if segment.is_compacted:
        return
    subject = beginning.announcement.subject
    apply(await _with_markers(context, segment, members, subject, beginning.rows, 0))
    applied = len(beginning.rows) // ROW_BYTES
    if applied <= last:
        async with limit or contextlib.nullcontext():
            for first in range(applied, last + 1, ROWS_AT_ONCE):
                end = min(last, first + ROWS_AT_ONCE - 1)
                rows = await context.reader.rows(members, segment.address, first, end)
                apply(await _with_markers(context, segment, members, subject, rows, first))


async def _with_markers(
    context: "LogContext", segment: "Segment", members: Sequence[str], subject: str, rows: bytes, first: int
) -> bytes:
    """These rows, the first of them of the sequence `first`. A store of a release from before transactions
    has made those of control batches without what the marker says: that is read from the batches. Raises
    NotServed, ValueError.
    """
    places = list(unmarked(rows))
    if not places:
        return rows
    made = bytearray(rows)
    for place in places:
        sequence = first + place
        (content,) = await context.reader.read(members, segment.address, subject, sequence, 1, 1)
        try:
            row = row_of(content, -1)
        except InvalidBatch as error:
            raise ValueError(f"batch {sequence} of segment {segment.address}: {error}") from None
        made[place * ROW_BYTES : (place + 1) * ROW_BYTES] = row.pack()
    return bytes(made)


def producers_of_empty_log(context: "LogContext", topic_id: bytes, index: int) -> ProducerState:
    """The state of a partition without segments. Raises ValueError."""
    entry = context.catalog.get(keys.producers_key(topic_id, index))
    return _unpack(b"" if entry is None else entry.value, context, context.now_ms())


def _unpack(snapshot: bytes, context: "LogContext", now_ms: int) -> ProducerState:
    keeps = context.producers.keeps
    try:
        if not snapshot:
            return ProducerState(keeps=keeps)
        return ProducerState.from_snapshot(snapshot, now_ms, keeps=keeps)
    except InvalidSnapshot as error:
        raise ValueError(str(error)) from None
