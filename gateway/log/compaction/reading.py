"""Compaction's work on batches, in a worker thread: one piece of a segment at a time.

Rule: what cannot be read stays. A producer's batch may hold records that do not parse, under a right CRC;
such a batch keeps its place and its bytes.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gateway.log.compaction.rules import NewestOffsets
from gateway.log.compaction.transactions import TransactionsGoneThrough
from gateway.log.tail_cache import Batch
from wireproto.records.compaction import compact_batch, empty_batch, walk, with_delete_horizon
from wireproto.records.errors import InvalidBatch
from wireproto.records.header import BatchHeader, read_header


class Cleaned(NamedTuple):
    """What is left of a piece of a segment: batches with their headers, in order."""

    batches: list[tuple[BatchHeader, Batch]]
    records_removed: int
    unreadable: int


def learn(
    newest: NewestOffsets,
    batches: Sequence[Batch],
    first_dirty: int,
    transactions: TransactionsGoneThrough,
) -> bool:
    """Take the keys of these batches from offset `first_dirty` on; false once there is no room for more."""
    for batch in batches:
        header = read_header(batch)
        if header.is_control:
            transactions.may_go(header)
        elif transactions.is_aborted(header):
            newest.upto = max(newest.upto, header.last_offset + 1)
            continue
        if header.last_offset < first_dirty:
            continue
        if not header.is_control:
            try:
                # All of it or nothing: whoever reads the log passes such a batch over as a whole.
                keys = list(_keys(batch, first_dirty))
            except InvalidBatch:
                keys = []  # it stays as it is
            if not newest.add(keys):
                return False
        newest.upto = max(newest.upto, header.last_offset + 1)
    return True


def _keys(batch: Batch, first_dirty: int) -> Iterator[tuple[int, bytes | None]]:
    for place in walk(batch):
        if place.offset >= first_dirty:
            yield place.offset, place.key


def clean(
    newest: NewestOffsets,
    batches: Sequence[Batch],
    now_ms: int,
    delete_retention_ms: int,
    last_offset: int,
    transactions: TransactionsGoneThrough,
) -> Cleaned:
    """What compaction leaves of these batches. The one that ends with `last_offset` stays, even if empty:
    without it nobody could tell where the segment ends.
    """
    left: list[tuple[BatchHeader, Batch]] = []
    removed = unreadable = 0
    for batch in batches:
        header = read_header(batch)
        is_last = header.last_offset >= last_offset
        if header.is_control:
            may_go = transactions.may_go(header)
            kept = _marker_left(header, batch, now_ms, delete_retention_ms) if may_go else batch
            if kept is None and is_last:
                kept = batch
            if kept is not None:
                left.append((read_header(kept), kept))
            continue
        if transactions.is_aborted(header):
            removed += header.count
            if is_last:
                empty = empty_batch(header)
                left.append((read_header(empty), empty))
            continue
        horizon = header.delete_horizon
        keep_tombstones = horizon is None or now_ms < horizon

        def keep(
            offset: int, key: bytes | None, has_value: bool, *, keep_tombstones: bool = keep_tombstones
        ) -> bool:
            return newest.keeps(offset, key, has_value=has_value, keep_tombstones=keep_tombstones)

        try:
            outcome = compact_batch(batch, keep, now_ms + delete_retention_ms)
        except InvalidBatch:
            unreadable += 1
            left.append((header, batch))
            continue
        removed += outcome.dropped
        kept = outcome.batch
        if kept is None and is_last:
            kept = empty_batch(header)
        if kept is not None:
            left.append((read_header(kept), kept))
    return Cleaned(left, removed, unreadable)


def _marker_left(header: BatchHeader, batch: Batch, now_ms: int, delete_retention_ms: int) -> Batch | None:
    """What is left of a marker of whose transaction there is nothing: itself, with the time from which it may
    go, until that is over.
    """
    horizon = header.delete_horizon
    if horizon is None:
        return with_delete_horizon(batch, now_ms + delete_retention_ms)
    return batch if now_ms < horizon else None
