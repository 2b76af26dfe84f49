"""Reads a partition of `__consumer_offsets` from its start to its high watermark, a range at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import trio

from gateway.groups.replay import LoadedGroup, Replay
from gateway.log.partition import Partition
from gateway.log.tail_cache import Batch
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.header import read_header

LOAD_BYTES: Final = 1024 * 1024
"""Read at once. Kafka's `offsets.load.buffer.size` is five times that; a smaller range is in memory for less
time, and the store reads the next one meanwhile."""

FEED_BYTES: Final = 16 * 1024
"""More than this is gone through in a worker thread: some hundred records take a millisecond."""

FINISH_RECORDS: Final = 100
"""More than so many are decoded in a worker thread: they take a millisecond."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a partition of the topic has."""

    groups: dict[str, LoadedGroup]
    """By their ids."""
    unreadable_batches: int
    """Those that were passed over."""


async def load_partition(partition: Partition) -> Loaded:
    """The groups of a partition.

    Raises KafkaError: COORDINATOR_LOAD_IN_PROGRESS until the partition is recovered, otherwise what keeps
    it from being read. Nothing is kept of what was read till then.
    """
    replay = Replay(partition.index)
    offset = partition.log_start_offset
    while True:
        if not partition.available:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, partition.reason)
        if offset >= partition.high_watermark:
            if replay.keys <= FINISH_RECORDS:
                groups = replay.finish()
            else:
                groups = await trio.to_thread.run_sync(replay.finish)
            return Loaded(groups, replay.unreadable_batches)
        batches = await _read(partition, offset)
        await _feed(replay, batches, offset)
        offset = read_header(batches[-1]).last_offset + 1


async def _read(partition: Partition, offset: int) -> Sequence[Batch]:
    """The batches from the one that holds `offset`, one at least. Raises KafkaError."""
    error = partition.check_fetch_offset(offset)
    if error is not ErrorCode.NONE:
        raise KafkaError(error, f"{partition!r} cannot be read at offset {offset}")
    return partition.read_hot(offset, LOAD_BYTES, whole=True) or await partition.read_cold(offset, LOAD_BYTES)


async def _feed(replay: Replay, batches: Sequence[Batch], first_offset: int) -> None:
    feed = partial(replay.feed, batches, first_offset)
    if sum(map(len, batches)) > FEED_BYTES:
        await trio.to_thread.run_sync(feed)
    else:
        feed()
        await trio.lowlevel.checkpoint()
