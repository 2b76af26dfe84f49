"""What nobody has noted of closed segments: of those that a crash left open, or an older version wrote.

That is how large they are, and how many aborted transactions end in them. The rows say it of each batch. They
are read once, in the background, and the sums go into the catalog.
"""

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import trio

from gateway.catalog import keys
from gateway.catalog.interface import Compare, CompareFailed
from gateway.log.fences import Overtaken
from gateway.log.segment import UNKNOWN, Segment
from mesh.reader import NotServed
from wireproto.kafka.errors import KafkaError
from wireproto.records.errors import InvalidBatch
from wireproto.records.row import ROW_BYTES, Row

if TYPE_CHECKING:
    from gateway.log.context import LogContext
    from gateway.log.partition import Partition

logger = logging.getLogger(__name__)


async def count_sizes(context: "LogContext", partition: "Partition") -> None:
    """Find out and note what is not known of this partition's closed segments.

    One that cannot be read now stays unknown, and is tried again the next time.
    """
    for segment in [one for one in partition.chain.closed if _is_unknown(one)]:
        if not any(map(context.stores.live, segment.members)):
            continue  # others' retention must not wait for each of them
        try:
            size = await _count(context, segment) if segment.size == UNKNOWN else segment.size
            aborted, lowest = await context.aborted.count(partition, segment)
        except (NotServed, InvalidBatch, KafkaError) as error:
            logger.debug("the size of segment %s is not known: %s", segment.address, error)
            continue
        await _note(context, partition, replace(segment, size=size, aborted=aborted, lowest_aborted=lowest))


def _is_unknown(segment: Segment) -> bool:
    return not segment.is_open and UNKNOWN in {segment.size, segment.aborted}


async def _count(context: "LogContext", segment: Segment) -> int:
    """Bytes of a segment's batches. Raises NotServed."""
    last = segment.last_sequence or 0
    members = context.stores.live_first(segment.members, segment.address)
    rows = await context.reader.rows(members, segment.address, 0, last)
    return await trio.to_thread.run_sync(_sum_of_sizes, rows)


def _sum_of_sizes(rows: bytes) -> int:
    return sum(Row.unpack(rows[start : start + ROW_BYTES]).size for start in range(0, len(rows), ROW_BYTES))


async def _note(context: "LogContext", partition: "Partition", counted: Segment) -> None:
    """Put what was counted into the catalog and into memory, unless the segment has gone meanwhile."""
    address = counted.address
    await context.fences.free([partition])
    for segment in partition.chain.closed:
        if segment.address != address:
            continue
        key = keys.segment_key(partition.topic.id, partition.index, segment.start_offset, address)
        entry = context.catalog.get(key)
        if entry is None:
            return
        noted = replace(
            Segment.unpack(entry.value),
            size=counted.size,
            aborted=counted.aborted,
            lowest_aborted=counted.lowest_aborted,
        )
        try:
            compares = [Compare(key, entry.mod_revision)]
            await context.fences.transact([partition], {key: noted.pack()}, compares=compares)
        except (CompareFailed, Overtaken):
            return  # a member was replaced, or it was dropped: the next time
        partition.chain.set_size(address, counted.size)
        partition.chain.set_aborted(address, counted.aborted, counted.lowest_aborted)
        return
