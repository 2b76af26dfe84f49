"""The records of a refused batch whose timestamps are out of bounds, named as Kafka names them."""

from functools import partial
from typing import TypeAlias

import trio

from wireproto.records.batch import BatchHeader, InvalidBatch
from wireproto.records.header import NO_TIMESTAMP
from wireproto.records.iteration import iter_records

MAX_RECORDS_AT_ONCE = 256
"""Records of a batch that is looked through on the loop; those of a larger one in a worker thread."""

MAX_LOOKED_THROUGH_AT_ONCE_BYTES = 64 * 1024
"""And if it is no larger than this when inflated."""

MAX_LOOKED_THROUGH_BYTES = 16 * 1024 * 1024
"""Inflated size of a batch up to which its records are named; beyond it the answer names none. Producers
make batches of some kilobytes."""

_ONE_AT_A_TIME = 1

Outside: TypeAlias = list[tuple[int, str | None]]
"""(place in the batch, words) of each record."""

_limiter = trio.CapacityLimiter(_ONE_AT_A_TIME)


def few_enough(header: BatchHeader, records: memoryview) -> bool:
    """Whether the batch can be looked through on the loop."""
    return header.count <= MAX_RECORDS_AT_ONCE and len(records) <= MAX_LOOKED_THROUGH_AT_ONCE_BYTES


def name_now(records: memoryview, bounds: tuple[int, int], names: int) -> Outside:
    """The records that are outside of (earliest, latest), in milliseconds since 1970: so many of them; none
    if it inflates to too much.
    """
    return _outside(records, bounds, names, MAX_LOOKED_THROUGH_AT_ONCE_BYTES)


async def name_in_thread(records: memoryview, bounds: tuple[int, int], names: int) -> Outside:
    """As `name_now`, in a worker thread."""
    look = partial(_outside, records, bounds, names, MAX_LOOKED_THROUGH_BYTES)
    return await trio.to_thread.run_sync(look, limiter=_limiter)


def _outside(records: memoryview, bounds: tuple[int, int], names: int, limit: int) -> Outside:
    earliest, latest = bounds
    says = "Timestamp {} of message with offset {} is out of range. The timestamp should be within [{}, {}]"
    found: Outside = []
    if names <= 0:
        return found
    try:
        for index, record in enumerate(iter_records(records, limit)):
            time = record.timestamp
            if time != NO_TIMESTAMP and not earliest <= time <= latest:
                found.append((index, says.format(time, record.offset, earliest, latest)))
                if len(found) == names:
                    break
    except InvalidBatch:
        return []
    return found
