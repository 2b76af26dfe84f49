"""One compaction of one log: read the dirty part's keys, write the front anew, swap it into the chain.

Rule: no store ever rewrites an address. What is left of a run of closed segments goes to new addresses; one
catalog transaction puts these into the chain in the old ones' place; the old ones are deleted only after w
members of each new one have heard where it ends, so that a catalog that is lost right now can still be read
back: a compaction none of whose segments a store knows as closed has not happened.

Killed at any point: before that transaction the log is as it was, and the next life has the new addresses
forgotten (`gateway.log.compaction.left_over`); after it, the old ones' tombstones are in the catalog.

The sources are closed segments and never change. Whatever else happens to them meanwhile (retention drops
one, a member is replaced) is seen by the transaction, which compares their entries.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import trio

from gateway.catalog import keys
from gateway.catalog.interface import Compare, CompareFailed
from gateway.log import partition as partition_module
from gateway.log.closer import Closer
from gateway.log.compaction.left_over import forget_outputs
from gateway.log.compaction.output import MAX_OUTPUTS, Abandoned, OutputWriter
from gateway.log.compaction.reading import Cleaned, clean, learn
from gateway.log.compaction.rules import DEDUPE_BUFFER_BYTES, Cleanable, NewestOffsets
from gateway.log.compaction.transactions import TransactionsGoneThrough
from gateway.log.fences import Overtaken
from gateway.log.notes import tombstone
from gateway.log.partition import Partition
from gateway.log.recovery.producers_at_end import read_producers
from gateway.log.segment import Segment
from gateway.log.tail_cache import Batch
from gateway.log.transactions.aborted_reading import Aborted
from mesh import crash_points
from mesh.reader import NotServed
from wireproto.kafka.errors import KafkaError

if TYPE_CHECKING:
    from gateway.log.context import LogContext

MAX_SOURCES = 24
"""Segments that are replaced in one transaction: each is three of its 120 puts and deletes."""

MAX_FULL_OUTPUTS = 4
"""How many segments could have as many batches as any may have: such a one is not made larger."""

PIECE_BYTES = 1024 * 1024
PIECE_RECORDS = 512
"""What is read, and given to the worker thread, at a time."""

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

Rest = Callable[[int, float], Awaitable[None]]
"""Called after each piece with its bytes and the seconds that the thread took: it bounds the rate."""


class CompactionRun:
    """One compaction; `run` does it. `records_removed`, `bytes_before` and `bytes_after` are its outcome."""

    def __init__(
        self,
        context: "LogContext",
        partition: Partition,
        plan: Cleanable,
        rest: Rest,
        buffer_bytes: int = DEDUPE_BUFFER_BYTES,
    ) -> None:
        self.records_removed = 0
        self.unreadable = 0
        self.bytes_before = 0
        self.bytes_after = 0
        self.sources: list[Segment] = list(partition.chain.closed[: plan.segments])
        self._context = context
        self._partition = partition
        self._first_dirty = max(plan.first_dirty, partition.log_start_offset)
        self._rest = rest
        self._newest = NewestOffsets(buffer_bytes)
        self._gone_through = TransactionsGoneThrough()
        self._swapped: set[str] = set()
        """Addresses of sources that were replaced already."""

    @property
    def was_overtaken(self) -> bool:
        """Some of its sources have left the chain: it is to be looked at anew, and nothing is wrong."""
        left = {segment.address for segment in self._partition.chain.closed} | self._swapped
        return any(segment.address not in left for segment in self.sources)

    async def run(self) -> None:
        """Compact. Raises Abandoned: what was not swapped has not changed, and may be tried again later.

        A long chain is swapped in several parts, oldest first: to leave out what a later record supersedes is
        right at any time.
        """
        try:
            await self._learn()
            for sources in in_parts(self.sources, self._partition.topic.settings.segment_bytes):
                await self._compact(sources)
        except (NotServed, KafkaError) as error:
            raise Abandoned(str(error)) from None

    async def _compact(self, sources: Sequence[Segment]) -> None:
        """Write these segments anew and swap them."""
        snapshot = await self._producers(sources[-1])
        writer = OutputWriter(self._context, self._partition, sources, snapshot)
        try:
            await self._write(writer, sources)
            await writer.finish()
            crash_points.reach("before-compaction-swap")
            with trio.CancelScope(shield=True):
                await self._swap(writer, sources)
        finally:
            writer.forget()
            with trio.CancelScope(shield=True):
                await forget_outputs(self._context, writer.noted)

    async def _learn(self) -> None:
        """Fill the key map, and cut the sources where it was full."""
        transactions = TransactionsGoneThrough()
        for place, segment in enumerate(self.sources):
            if (segment.end_offset or 0) <= self._first_dirty:
                continue
            if not await self._learn_from(segment, transactions):
                del self.sources[place + 1 :]
                return

    async def _learn_from(self, segment: Segment, transactions: TransactionsGoneThrough) -> bool:
        """Whether there is room for more behind this segment."""
        transactions.begin(await self._aborted(segment))
        async with aclosing(self._pieces(segment)) as pieces:
            async for batches in pieces:
                work = partial(learn, self._newest, batches, self._first_dirty, transactions)
                if not await self._in_thread(batches, work):
                    return False
        return True

    async def _producers(self, segment: Segment) -> bytes:
        """The idempotence state behind a segment, as a snapshot."""
        try:
            producers = (await read_producers(self._context, segment)).producers
        except (ValueError, KeyError) as error:
            raise Abandoned(f"the producers of segment {segment.address}: {error}") from None
        return producers.snapshot(self._context.now_ms()) if producers.count else b""

    async def _write(self, writer: OutputWriter, sources: Sequence[Segment]) -> None:
        now_ms = self._context.now_ms()
        delete_retention_ms = self._partition.topic.settings.delete_retention_ms
        last_offset = (sources[-1].end_offset or 0) - 1
        gone_through = self._gone_through
        for segment in sources:
            gone_through.begin(await self._aborted(segment))
            async with aclosing(self._pieces(segment)) as pieces:
                async for batches in pieces:
                    work = partial(
                        clean,
                        self._newest,
                        batches,
                        now_ms,
                        delete_retention_ms,
                        last_offset,
                        gone_through,
                    )
                    await self._write_piece(writer, batches, await self._in_thread(batches, work))

    async def _aborted(self, segment: Segment) -> Aborted:
        """The aborted transactions that a segment, which lies below the last stable offset, has a part of,
        by their first offsets: so the segment is gone through. Raises KafkaError.
        """
        end = segment.end_offset or 0
        return await self._context.aborted.between(self._partition, segment.start_offset, end)

    async def _write_piece(self, writer: OutputWriter, batches: Sequence[Batch], cleaned: Cleaned) -> None:
        self.records_removed += cleaned.records_removed
        self.unreadable += cleaned.unreadable
        for header, batch in cleaned.batches:
            await writer.append(header, batch)
            self.bytes_after += len(batch)
        self.bytes_before += sum(map(len, batches))
        crash_points.reach("during-compaction")

    async def _pieces(self, segment: Segment) -> AsyncGenerator[Sequence[Batch], None]:
        """The batches of a segment, a piece at a time. Raises KafkaError."""
        sequence, offset, last = 0, segment.start_offset, segment.last_sequence or 0
        while sequence <= last:
            count = min(last - sequence + 1, PIECE_RECORDS)
            batches, offset = await self._context.cold.read_range(
                self._partition, segment, offset, sequence, count, PIECE_BYTES
            )
            sequence += len(batches)
            yield batches

    async def _in_thread(self, batches: Sequence[Batch], work: Callable[[], Result]) -> Result:
        started = trio.current_time()
        result = await trio.to_thread.run_sync(work)
        await self._rest(sum(map(len, batches)), trio.current_time() - started)
        return result

    # the swap ---------------------------------------------------------------------------------------------

    async def _swap(self, writer: OutputWriter, sources: Sequence[Segment]) -> None:
        """One transaction: the new segments are in the chain, the old ones are to be deleted."""
        context, partition = self._context, self._partition
        cleaned_to = min(self._newest.upto, sources[-1].end_offset or 0)
        made = [output.closed(cleaned_to, context.now_ms()) for output in writer.outputs]
        if not made or made[-1].end_offset != sources[-1].end_offset:
            raise Abandoned("what was written does not end where the sources do")
        with context.closer.expect(segment.address for segment in made):
            while True:
                await context.fences.free([partition])
                writer.check()
                compares, puts, deletes = self._changes(sources, made)
                compares += [*writer.notes, *self._members(made)]
                try:
                    await context.fences.transact([partition], puts, deletes, compares)
                except CompareFailed as failed:
                    if failed.key.startswith(keys.COMPACTING):
                        raise Abandoned("another gateway has given it up") from None
                    if failed.key.startswith(keys.STORES):
                        context.stores.load()
                except Overtaken:
                    pass
                else:
                    break
            for segment in made:
                context.closer.begin([segment], context.segments_dropped)
        addresses = [segment.address for segment in sources]
        self._swapped.update(addresses)
        partition.compacted(addresses, made)
        crash_points.reach("after-compaction-swap")
        context.segments_dropped()

    def _members(self, made: Sequence[Segment]) -> list[Compare]:
        """That the members of these get new segments. Raises Abandoned: not any more."""
        compares = self._context.stores.as_members({name for segment in made for name in segment.members})
        if compares is None:
            raise Abandoned("a store that was to keep it gets no new segments any more")
        return compares

    def _changes(
        self, sources: Sequence[Segment], made: Sequence[Segment]
    ) -> tuple[list[Compare], dict[str, bytes], list[str]]:
        partition = self._partition
        compares: list[Compare] = []
        puts: dict[str, bytes] = {}
        deletes: list[str] = []
        after = [segment.address for segment in made]
        for source in sources:
            key = keys.segment_key(partition.topic.id, partition.index, source.start_offset, source.address)
            entry = self._context.catalog.get(key)
            if entry is None:
                raise Abandoned(f"segment {source.address} has left the chain")
            compares.append(Compare(key, entry.mod_revision))
            deletes += [key, keys.closing_key(source.address)]
            keepers = Segment.unpack(entry.value).keepers
            puts |= tombstone(source.address, partition.log, source.epoch, keepers, after=after)
        for segment in made:
            start = segment.start_offset
            puts[keys.segment_key(partition.topic.id, partition.index, start, segment.address)] = (
                segment.pack()
            )
            Closer.note(segment, partition.log, puts)
            deletes.append(keys.compacting_key(segment.address))
        return compares, puts, deletes


def in_parts(sources: Sequence[Segment], segment_bytes: int) -> list[list[Segment]]:
    """Runs of these segments, each of which is replaced in one transaction."""
    parts: list[list[Segment]] = []
    size = batches = 0
    for segment in sources:
        size += max(0, segment.size)
        batches += _batches(segment)
        if (
            not parts
            or len(parts[-1]) == MAX_SOURCES
            or size > MAX_OUTPUTS * segment_bytes
            or batches > MAX_FULL_OUTPUTS * partition_module.MAX_SEGMENT_BATCHES
        ):
            parts.append([])
            size, batches = max(0, segment.size), _batches(segment)
        parts[-1].append(segment)
    return parts


def _batches(segment: Segment) -> int:
    """How many it has at most."""
    return (segment.last_sequence or 0) + 1
