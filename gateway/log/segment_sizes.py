"""Sizes of closed segments that nobody has noted: those that a crash left open, or an older version wrote.

The rows say how large each batch is. They are read once, in the background, and the sums go into the catalog:
those of many segments with one transaction, because a crash leaves one in each partition.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final

import trio

from gateway.catalog import keys
from gateway.catalog.interface import Compare, CompareFailed
from gateway.log.fences import Changes
from gateway.log.segment import UNKNOWN, Segment
from mesh.reader import NotServed
from wireproto.records.errors import InvalidBatch
from wireproto.records.row import ROW_BYTES, Row

if TYPE_CHECKING:
    from gateway.log.context import LogContext
    from gateway.log.partition import Partition

NOTED_TOGETHER: Final = 64
"""Segments whose sizes go into the catalog with one transaction."""

COUNTED_AT_ONCE: Final = 8
"""Segments whose rows are asked for at the same time: readers of logs wait in the same queue of a store."""

LARGE_BATCHES: Final = 1000
"""Batches of a segment whose rows are some 70 KB: of larger ones, up to 14 MB, one is read at a time."""

SUMMED_AT_ONCE_BYTES: Final = 64 * ROW_BYTES
"""Rows that are added up on the loop, in some hundred microseconds; more of them in a thread."""

logger = logging.getLogger(__name__)


async def count_sizes(context: "LogContext", partitions: "Iterable[Partition]") -> None:
    """Find out and note the sizes of these partitions' closed segments that are not known.

    One that cannot be read now stays unknown, and is tried again the next time.
    """
    unknown = _unknown(context, partitions)
    while some := list(islice(unknown, NOTED_TOGETHER)):
        sizes = await _count_some(context, [segment for _, segment in some])
        if sizes:
            await _note(context, dict.fromkeys(one for one, _ in some), sizes)


def _unknown(
    context: "LogContext", partitions: "Iterable[Partition]"
) -> "Iterator[tuple[Partition, Segment]]":
    for partition in partitions:
        for segment in [one for one in partition.chain.closed if one.size == UNKNOWN and not one.is_open]:
            # Others' retention must not wait for each of those whose stores are away.
            if any(map(context.stores.live, segment.members)):
                yield partition, segment


async def _count_some(context: "LogContext", segments: Sequence[Segment]) -> dict[str, int]:
    """The sizes of these segments by address, as far as they can be read."""
    sizes: dict[str, int] = {}
    waiting = iter(segments)
    large = trio.Lock()

    async def worker() -> None:
        for segment in waiting:
            try:
                async with large if (segment.last_sequence or 0) >= LARGE_BATCHES else nullcontext():
                    sizes[segment.address] = await _count(context, segment)
            except (NotServed, InvalidBatch) as error:
                logger.debug("the size of segment %s is not known: %s", segment.address, error)

    async with trio.open_nursery() as nursery:
        for _ in range(min(COUNTED_AT_ONCE, len(segments))):
            nursery.start_soon(worker)
    return sizes


async def _count(context: "LogContext", segment: Segment) -> int:
    """Bytes of a segment's batches. Raises NotServed."""
    last = segment.last_sequence or 0
    members = context.stores.live_first(segment.members, segment.address)
    rows = await context.reader.rows(members, segment.address, 0, last)
    if len(rows) <= SUMMED_AT_ONCE_BYTES:
        return _sum_of_sizes(rows)
    return await trio.to_thread.run_sync(_sum_of_sizes, rows)


def _sum_of_sizes(rows: bytes) -> int:
    return sum(Row.unpack(rows[start : start + ROW_BYTES]).size for start in range(0, len(rows), ROW_BYTES))


async def _note(context: "LogContext", partitions: "Iterable[Partition]", sizes: Mapping[str, int]) -> None:
    """Put the sizes, by address, into the catalog and into memory, but for segments that have gone."""
    noted: dict[Partition, list[str]] = {}

    def note(partition: "Partition", changes: Changes) -> bool:
        noted[partition] = []
        for segment in partition.chain.closed:
            if segment.address not in sizes:
                continue
            key = keys.segment_key(partition.topic.id, partition.index, segment.start_offset, segment.address)
            entry = context.catalog.get(key)
            if entry is not None:
                counted = replace(Segment.unpack(entry.value), size=sizes[segment.address])
                changes.compares.append(Compare(key, entry.mod_revision))
                changes.puts[key] = counted.pack()
                noted[partition].append(segment.address)
        return bool(noted[partition])

    try:
        changed = await context.fences.change(partitions, note)
    except CompareFailed:
        return  # a member was replaced, or one was dropped: the next time
    for partition in changed:
        for address in noted[partition]:
            partition.chain.set_size(address, sizes[address])
