"""Transactional batches and markers for logs of tests, and what a client shows of what it was given."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from gateway.common.marker import Marker
from gateway.log.appends import Append
from gateway.log.partition import Partition
from gateway.log.tail_cache import Batch
from gateway.log.transactions.aborted_reading import Aborted
from tests.unit.gateway.log.fake_log import NOW_MS, header_of
from wireproto.records.builder import build_batch
from wireproto.records.control import read_marker
from wireproto.records.header import TRANSACTIONAL_FLAG, read_header
from wireproto.records.iteration import iter_records

PID = 7
COORDINATOR_EPOCH = 5


def transactional(
    *values: bytes | None, pid: int = PID, epoch: int = 0, sequence: int = 0, key: bytes | None = None
) -> bytes:
    """A batch of records, in a transaction of its producer."""
    records: list[Any] = [(key, value, [], NOW_MS) for value in values or (b"value",)]
    return build_batch(
        records,
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=sequence,
        attributes=TRANSACTIONAL_FLAG,
    )


def append(partition: Partition, content: bytes, *, now_ms: int = NOW_MS) -> Append:
    view = memoryview(bytearray(content))
    return partition.append(header_of(view), view, -1, now_ms)


def marker(
    pid: int = PID,
    *,
    commit: bool = False,
    epoch: int = 0,
    coordinator_epoch: int = COORDINATOR_EPOCH,
    number: int = 0,
) -> Marker:
    return Marker(pid, epoch, coordinator_epoch, commit, number)


def as_shown(batches: Sequence[Batch], aborted: Aborted) -> list[tuple[int, bytes | None]]:
    """Offsets and values that a client under read_committed shows (``CompletedFetch.nextFetchedRecord``).
    What is listed comes in any order: clients sort it.
    """
    listed, being_aborted = deque(sorted(aborted, key=itemgetter(1))), set[int]()
    shown = []
    for batch in batches:
        header = read_header(batch)
        while listed and listed[0][1] <= header.last_offset:
            being_aborted.add(listed.popleft()[0])
        if header.is_control:
            if not read_marker(bytes(batch)).is_commit:
                being_aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in being_aborted):
            shown += [(record.offset, record.value) for record in iter_records(batch)]
    return shown
