"""Which aborted transactions a consumer must know of that reads a range of a log under read_committed.

Rule: what is given with records was looked up after these were, in one step, in the chain that has them: a
compaction may take aborted records, and the entries of their transactions, out of the chain meanwhile.

Theory of operation. A transaction's entry is with its marker, which may lie in a later segment than its
records. So the segments of the range are looked at, and those behind it, until one says that nothing which
ends in it or later begins within the range: mostly the next one. The entries of a closed segment come from
memory, or from its rows; a segment that has none says so in the catalog. A compacted one has no aborted
records, so nobody needs to know of these.

Who has a segment's rows read keeps what concerns its own range: memory may have no room for all segments of
that at once. It is what began within the range, or was open at its first offset: no more than the range has
batches and the partition may have open transactions, however many end in those segments.
"""

from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import trio

from gateway.log.recovery.producers_at_end import read_aborted
from gateway.log.segment import UNKNOWN, Segment
from gateway.log.transactions.aborted import AbortedTransactions
from gateway.log.transactions.aborted_cache import AbortedCache
from mesh.reader import NotServed
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.errors import InvalidBatch

if TYPE_CHECKING:
    from gateway.log.context import LogContext
    from gateway.log.partition import Partition

Aborted = list[tuple[int, int]]
"""(producer id, first offset) of transactions, by their first offsets. (Kafka has them in the order in which
they ended, and its clients sort them.)"""

Spans = list[tuple[int, int, int]]
"""(producer id, first offset, last offset) of transactions, by their first offsets; the last offset is the
marker's.
"""

LOADS_AT_ONCE: Final = 4
"""Segments whose rows are read at the same time."""


class _Missing(Exception):
    """The entries of a segment are not in memory."""

    def __init__(self, segment: Segment) -> None:
        super().__init__(segment.address)
        self.segment = segment


class _Load:
    """The entries of a segment are being read. `found`: all, once that is `done`; None: that failed."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.found: AbortedTransactions | None = None


_Parts = dict[str, tuple[Spans, bool]]
"""What was found for a range in closed segments (by address), and whether there may be more in later ones.
What a segment of an address has is the same for good."""


class AbortedReader:
    """For all partitions of one gateway."""

    def __init__(self, context: "LogContext") -> None:
        self.cache = AbortedCache()
        self.loads = 0
        """Segments whose rows were read, in this life."""
        self._context = context
        self._loading: dict[str, _Load] = {}
        self._limit = trio.CapacityLimiter(LOADS_AT_ONCE)

    def known(self, partition: "Partition", offset: int, end: int) -> Aborted | None:
        """Those that who reads [offset, end) must know; None if some are not in memory."""
        try:
            return _without_ends(self._collect(partition, offset, end, {}))
        except _Missing:
            return None

    async def between(self, partition: "Partition", offset: int, end: int) -> Aborted:
        """As `known`, from the stores if need be; of the chain as it is when this returns. Raises KafkaError:
        NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR.
        """
        return _without_ends(await self.spans(partition, offset, end))

    async def spans(self, partition: "Partition", offset: int, end: int) -> Spans:
        """As `between`, with their ends: for who does not read from `offset` on. Raises KafkaError."""
        kept: _Parts = {}
        while True:
            try:
                return self._collect(partition, offset, end, kept)
            except _Missing as missing:
                segment = missing.segment
            of_segment = await self._load(partition, segment)
            if of_segment is not None:
                part: Spans = []
                goes_on = of_segment.collect(offset, end, part)
                kept[segment.address] = part, goes_on

    def _collect(self, partition: "Partition", offset: int, end: int, kept: _Parts) -> Spans:
        """Of the chain as it is now, what is not in memory from `kept`. Raises _Missing."""
        found: Spans = []
        for segment, of_segment in self._to_ask(partition, offset, end):
            if of_segment is not None:
                goes_on = of_segment.collect(offset, end, found)
            elif segment.address in kept:
                part, goes_on = kept[segment.address]
                found += part
            else:
                raise _Missing(segment)
            if not goes_on:
                break
        found.sort(key=itemgetter(1))
        return found

    def _to_ask(
        self, partition: "Partition", offset: int, end: int
    ) -> Iterator[tuple[Segment, AbortedTransactions | None]]:
        """The segments that may have some, with all that they have; None: it is not in memory."""
        for segment, opened in partition.chain.from_offset(offset):
            if segment.start_offset >= end and segment.ends_nothing_below >= end:
                return
            if opened is not None:
                yield segment, opened.aborted
            elif segment.is_open:
                yield segment, None  # an earlier life left it open: nobody knows yet what ended in it
            elif not segment.is_compacted and segment.aborted and _may_begin_below(segment, end):
                yield segment, self.cache.get(segment.address)

    async def _load(self, partition: "Partition", segment: Segment) -> AbortedTransactions | None:
        """The entries of a closed segment, from its rows; None: who was reading them could not. Raises
        KafkaError.
        """
        under_way = self._loading.get(segment.address)
        if under_way is not None:
            await under_way.done.wait()
            return under_way.found
        if segment.last_sequence is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, partition.reason)
        load = self._loading[segment.address] = _Load()
        try:
            async with self._limit:
                load.found = await read_aborted(self._context, segment)
        except (NotServed, InvalidBatch, ValueError, LookupError, TypeError) as error:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"the aborted transactions of segment {segment.address} cannot be read: {error}",
            ) from None
        finally:
            del self._loading[segment.address]
            load.done.set()
        self.loads += 1
        self.found(partition, segment.address, load.found)
        return load.found

    async def count(self, partition: "Partition", segment: Segment) -> tuple[int, int]:
        """How many aborted transactions end in a closed segment of its chain, and the lowest first offset of
        these (-1 without any). Raises KafkaError.
        """
        if segment.is_compacted:
            return 0, UNKNOWN  # of none are records left
        if segment.aborted == UNKNOWN:
            await self._load(partition, segment)
            segment = next((one for one in partition.chain.closed if one.address == segment.address), segment)
        return segment.aborted, segment.lowest_aborted

    def found(self, partition: "Partition", address: str, of_segment: AbortedTransactions) -> None:
        """These are all of a closed segment."""
        partition.chain.set_aborted(address, len(of_segment), of_segment.lowest)
        self.cache.put(address, of_segment)


def _may_begin_below(segment: Segment, end: int) -> bool:
    return segment.lowest_aborted == UNKNOWN or segment.lowest_aborted < end


def _without_ends(spans: Spans) -> Aborted:
    return [(producer_id, first) for producer_id, first, _ in spans]
