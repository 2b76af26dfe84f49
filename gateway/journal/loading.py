"""Reads a partition of an internal topic from its start to its high watermark, a range at a time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import trio

from gateway.journal.replay import Replay, Slices
from gateway.log.partition import Partition
from gateway.log.tail_cache import Batch
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.compression import Codec
from wireproto.records.control import read_marker
from wireproto.records.errors import InvalidBatch
from wireproto.records.header import BatchHeader, read_header
from wireproto.records.iteration import inflated_records

LOAD_BYTES: Final = 1024 * 1024
"""Read at once. Kafka's `offsets.load.buffer.size` is five times that; a smaller range is in memory for less
time, and the store reads the next one meanwhile."""

MAX_INFLATED_BYTES: Final = 64 * 1024 * 1024
"""A batch is inflated up to here. What the gateway writes is not compressed; tools may have written there."""

INFLATED_AT_ONCE_BYTES: Final = 16 * 1024
"""A larger compressed batch is inflated in a worker thread."""


async def load_partition(partition: Partition, replay: Replay) -> None:
    """Have the replay take all that a partition has, and finish it.

    Raises KafkaError: COORDINATOR_LOAD_IN_PROGRESS until the partition is recovered, otherwise what keeps
    it from being read. Nothing is kept of what was read till then.
    """
    offset = partition.log_start_offset
    while True:
        if not partition.available:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, partition.reason)
        if offset >= partition.high_watermark:
            await _in_slices(replay.finish())
            return
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
    """Have the replay take these batches, while others have their turns."""
    for batch in batches:
        header = read_header(batch)
        try:
            if header.is_control:
                await _in_slices(replay.end(header, read_marker(batch)))
                continue
            body = await _inflated(batch, header)
        except InvalidBatch as error:
            replay.set_aside(header, error)
        else:
            await _in_slices(replay.feed(header, body, first_offset))
    await trio.lowlevel.checkpoint()


async def _inflated(batch: Batch, header: BatchHeader) -> bytes:
    """The records of a batch. Raises InvalidBatch."""
    inflate = partial(inflated_records, batch, header, MAX_INFLATED_BYTES)
    if header.codec == Codec.NONE or header.size <= INFLATED_AT_ONCE_BYTES:
        return bytes(inflate())
    return bytes(await trio.to_thread.run_sync(inflate))


async def _in_slices(slices: Slices) -> None:
    for _ in slices:
        await trio.lowlevel.checkpoint()
