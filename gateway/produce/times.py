"""The records of a refused batch whose timestamps are out of bounds, named as Kafka names them."""

from collections.abc import Iterator
from itertools import islice
from typing import Final, TypeAlias

import trio

from gateway.common.workers import MIN_THREADS, Look, Workers
from wireproto.records.batch import BatchHeader, InvalidBatch, read_header
from wireproto.records.header import NO_TIMESTAMP, Buffer
from wireproto.records.iteration import inflated_records, iter_times

MAX_RECORDS_AT_ONCE = 256
"""Records of a batch that are looked through without a pause: a third of a millisecond."""

MAX_LOOKED_THROUGH_AT_ONCE_BYTES = 64 * 1024
"""A batch that has no more is looked through at once if it is no larger than this when inflated; others are
inflated in a worker thread."""

MAX_LOOKED_THROUGH_BYTES = 16 * 1024 * 1024
"""Inflated size of a batch up to which its records are named; beyond it the answer names none. Producers
make batches of some kilobytes."""

Outside: TypeAlias = list[tuple[int, str | None]]
"""(place in the batch, words) of each record."""

_SAYS: Final = (
    "Timestamp {} of message with offset {} is out of range. The timestamp should be within [{}, {}]"
)

_workers = Workers(MIN_THREADS)
"""Two of them are looked through at the same time, one of each client."""


def few_enough(header: BatchHeader, records: memoryview) -> bool:
    """Whether the batch can be looked through on the loop at once."""
    return header.count <= MAX_RECORDS_AT_ONCE and len(records) <= MAX_LOOKED_THROUGH_AT_ONCE_BYTES


def name_now(records: memoryview, bounds: tuple[int, int], names: int) -> Outside:
    """The records that are outside of (earliest, latest), in milliseconds since 1970: so many of them; none
    if it inflates to too much.
    """
    found: Outside = []
    if names <= 0:
        return found
    try:
        header = read_header(records)
        body = inflated_records(records, header, MAX_LOOKED_THROUGH_AT_ONCE_BYTES)
        for some in _slices(body, header, bounds):
            found += some
    except InvalidBatch:
        return []
    return found[:names]


async def name_in_slices(records: memoryview, bounds: tuple[int, int], names: int, client: str) -> Outside:
    """As `name_now`, inflated in a worker thread and looked through while others have their turns, as soon
    as `client` has a place for it.
    """
    found: Outside = []
    try:
        header = read_header(records)

        def inflate(look: Look) -> Buffer:
            return inflated_records(records, header, MAX_LOOKED_THROUGH_BYTES, look)

        async with _workers.place(client):
            body = await _workers.in_thread(inflate)
            for some in _slices(body, header, bounds):
                found += some
                if len(found) >= names:
                    break
                await trio.lowlevel.checkpoint()
    except InvalidBatch:
        return []
    return found[:names]


def _slices(body: Buffer, header: BatchHeader, bounds: tuple[int, int]) -> Iterator[Outside]:
    """Those of the next MAX_RECORDS_AT_ONCE records that are outside of the bounds. Raises InvalidBatch."""
    earliest, latest = bounds
    times = iter_times(body, header)
    for first in range(0, header.count, MAX_RECORDS_AT_ONCE):
        yield [
            (place, _SAYS.format(time, offset, earliest, latest))
            for place, (offset, time) in enumerate(islice(times, MAX_RECORDS_AT_ONCE), first)
            if time != NO_TIMESTAMP and not earliest <= time <= latest
        ]
