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
from typing import TYPE_CHECKING

import trio

from gateway.catalog import keys
from gateway.log.idempotence.snapshot import InvalidSnapshot
from gateway.log.idempotence.state import ProducerState
from wireproto.records.row import ROW_BYTES, Row

if TYPE_CHECKING:
    from gateway.log.context import LogContext
    from gateway.log.segment import Segment

ROWS_AT_ONCE = 4096
"""Rows applied to an idempotence state before other tasks run."""


async def read_producers(
    context: "LogContext", segment: "Segment", limit: trio.CapacityLimiter | None = None
) -> ProducerState:
    """The state after the last record of a closed segment; `limit` is taken while many rows are read.

    Raises NotServed, ValueError, KeyError.
    """
    now_ms = context.now_ms()
    members = context.stores.live_first(segment.members, segment.address)
    last = segment.last_sequence or 0
    beginning = await context.reader.beginning(members, segment.address, last)
    state = _unpack(base64.b64decode(json.loads(beginning.announcement.details)["producers"]), now_ms)
    if segment.is_compacted:
        return state
    _apply(state, beginning.rows, now_ms)
    applied = len(beginning.rows) // ROW_BYTES
    if applied <= last:
        async with limit or contextlib.nullcontext():
            for first in range(applied, last + 1, ROWS_AT_ONCE):
                end = min(last, first + ROWS_AT_ONCE - 1)
                _apply(state, await context.reader.rows(members, segment.address, first, end), now_ms)
    return state


def _apply(state: ProducerState, rows: bytes, now_ms: int) -> None:
    for start in range(0, len(rows), ROW_BYTES):
        state.apply_row(Row.unpack(rows[start : start + ROW_BYTES]), now_ms)


def producers_of_empty_log(context: "LogContext", topic_id: bytes, index: int) -> ProducerState:
    """The state of a partition without segments. Raises ValueError."""
    entry = context.catalog.get(keys.producers_key(topic_id, index))
    return _unpack(b"" if entry is None else entry.value, context.now_ms())


def _unpack(snapshot: bytes, now_ms: int) -> ProducerState:
    try:
        return ProducerState.from_snapshot(snapshot, now_ms) if snapshot else ProducerState()
    except InvalidSnapshot as error:
        raise ValueError(str(error)) from None
