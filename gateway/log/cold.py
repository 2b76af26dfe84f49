"""Reads of what is not in memory: from one member of the segment, checked before it is shown.

Rule: what comes from the mesh is checked: the batch's CRC, base offset = previous last offset + 1, epoch that
of the segment (in a compacted one: a greater base offset, no later epoch), nothing at or above the high
watermark. A bad copy is reported and the next member asked; with no good one it is an error
(KAFKA_STORAGE_ERROR), never a shorter log.

Where an offset lies in a segment is asked of the store once (LOOKUP); a consumer that goes on reading finds
its place in `_cursors`, which remembers the sequence after each range that was read.
"""

import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import trio

from gateway.log.read_ahead import Range, ReadAhead
from gateway.log.segment import Segment
from gateway.log.tail_cache import Batch
from gateway.log.transactions.aborted_reading import Aborted
from gateway.log.transactions.open_transactions import UNDECIDED
from mesh.reader import NotServed
from wireproto.dafka.additions import LOOKUP_MAX_TIMESTAMP, LOOKUP_OFFSET, LOOKUP_TIMESTAMP, AddressStatus
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.batch import check_stored
from wireproto.records.errors import InvalidBatch, corrupt
from wireproto.records.header import read_header
from wireproto.records.iteration import find_timestamp, largest_timestamp
from wireproto.records.row import ROW_BYTES, Row

if TYPE_CHECKING:
    from gateway.log.context import LogContext
    from gateway.log.partition import Partition

MAX_CURSORS = 10_000
"""Places remembered: about one per consumer and partition."""

MAX_RECORDS = 512
"""Batches asked for at once: of small ones each step on their way is a stretch of some two milliseconds."""

MAX_INFLATED_BYTES = 16 * 1024 * 1024
"""A batch is inflated up to here to find a timestamp in it; the walk over its records is Python, in a thread.
"""

MAX_FALSE_HEADERS = 1000
"""Batches looked at after one whose header claims a timestamp that none of its records has."""

logger = logging.getLogger(__name__)


class ColdReader:
    """Reads for all partitions of one gateway."""

    def __init__(self, context: "LogContext") -> None:
        self.ahead = ReadAhead()
        self.reads = 0
        self.bad_copies = 0
        self._context = context
        self._cursors: OrderedDict[tuple[str, int], int] = OrderedDict()

    async def read(self, partition: "Partition", offset: int, max_bytes: int) -> Sequence[Batch]:
        """Batches from the one that holds `offset` (a visible one), at least one; where compaction has taken
        that one away, from the next one. Raises KafkaError.
        """
        while True:
            segment = self._segment_at(partition, offset)
            try:
                return await self._read_of(partition, segment, offset, max_bytes)
            except KafkaError:
                # Dropped, or compacted into another one, while it was read: then that is no failure.
                if partition.chain.holds(segment.address):
                    raise

    async def read_committed(
        self, partition: "Partition", offset: int, max_bytes: int
    ) -> tuple[Sequence[Batch], Aborted]:
        """As `read`, of what lies below the last stable offset, with the aborted transactions that it is part
        of: both from one chain. Nothing if `offset` lies above it. Raises KafkaError: NOT_LEADER_OR_FOLLOWER
        while that is not known.
        """
        while True:
            # As it is now: a log start that moves into an open transaction takes it along, and what is being
            # read may be of that.
            stable = partition.last_stable_offset
            if stable == UNDECIDED:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition is led elsewhere, or anew")
            if offset >= stable:
                return (), []
            segment = self._segment_at(partition, offset)
            try:
                contents = await self._read_of(partition, segment, offset, max_bytes)
                contents = [batch for batch in contents if read_header(batch).last_offset < stable]
                end = read_header(contents[-1]).last_offset + 1 if contents else offset
                aborted = await self._context.aborted.between(partition, offset, end)
            except KafkaError:
                if partition.chain.holds(segment.address):
                    raise
            else:
                if partition.chain.holds(segment.address):
                    return contents, aborted

    async def _read_of(
        self, partition: "Partition", segment: Segment, offset: int, max_bytes: int
    ) -> Sequence[Batch]:
        contents = await self.ahead.take(Range(segment.address, offset, max_bytes))
        goes_on = contents is not None or (segment.address, offset) in self._cursors
        if contents is None:
            contents = await self._read(partition, segment, offset, max_bytes)
        if goes_on:
            self._go_ahead(partition, segment, read_header(contents[-1]).last_offset + 1, max_bytes)
        return contents

    def _go_ahead(self, partition: "Partition", segment: Segment, offset: int, max_bytes: int) -> None:
        """Have the next range of the same segment read, unless it is in memory or there is none yet."""
        sequence = self._cursors.get((segment.address, offset))
        if sequence is None or partition.hot.holds(offset):
            return
        with contextlib.suppress(KafkaError):
            if sequence <= self._bound(partition, segment):
                self.ahead.start(
                    Range(segment.address, offset, max_bytes),
                    partition.topic.settings.max_message_bytes,
                    partial(self._read, partition, segment, offset, max_bytes),
                )

    async def _read(
        self, partition: "Partition", segment: Segment, offset: int, max_bytes: int
    ) -> Sequence[Batch]:
        bound = self._bound(partition, segment)
        sequence = self._cursors.get((segment.address, offset))
        if sequence is None:
            sequence = await self._locate(segment, offset, bound)
        count = min(bound - sequence + 1, MAX_RECORDS)
        contents, end = await self._read_at(partition, segment, offset, sequence, count, max_bytes)
        self._remember(segment.address, end, sequence + len(contents))
        return contents

    async def _read_at(
        self, partition: "Partition", segment: Segment, offset: int, sequence: int, count: int, max_bytes: int
    ) -> tuple[Sequence[Batch], int]:
        """Batches from `sequence` on, which holds `offset`, and the offset after them: from the first member
        that has a good copy. Raises KafkaError.
        """
        self.reads += 1
        failed = damaged = ""
        for member in self._members(segment):
            try:
                contents = await self._context.reader.read(
                    (member,), segment.address, partition.topic.name, sequence, count, max_bytes
                )
                return contents, _check(segment, offset, contents)
            except NotServed as error:
                failed = str(error)
            except InvalidBatch as error:
                self.bad_copies += 1
                damaged = f"a stored batch is damaged: {error}"
                logger.error("store %s gave a bad copy of segment %s: %s", member, segment.address, error)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, damaged or failed)

    async def look(self, partition: "Partition", offset: int, max_bytes: int) -> Sequence[Batch]:
        """As `read`, for who looks at a log and is no consumer: no place is remembered, and nothing read
        ahead. Raises KafkaError.
        """
        while True:
            segment = self._segment_at(partition, offset)
            try:
                bound = self._bound(partition, segment)
                sequence = await self._locate(segment, offset, bound)
                count = min(bound - sequence + 1, MAX_RECORDS)
                contents, _ = await self._read_at(partition, segment, offset, sequence, count, max_bytes)
            except KafkaError:
                if partition.chain.holds(segment.address):
                    raise
            else:
                return contents

    async def read_range(
        self, partition: "Partition", segment: Segment, offset: int, sequence: int, count: int, max_bytes: int
    ) -> tuple[Sequence[Batch], int]:
        """For work in the background: batches of a closed segment from `sequence` on, where `offset` is next,
        and the offset after them. Nothing is remembered or read ahead. Raises KafkaError.
        """
        return await self._read_at(partition, segment, offset, sequence, count, max_bytes)

    def _members(self, segment: Segment) -> Sequence[str]:
        """In the order in which they are asked."""
        return self._context.stores.live_first(segment.members, segment.address)

    def _segment_at(self, partition: "Partition", offset: int) -> Segment:
        if partition.withheld:
            # It was looked at before this read had its turn. Its chain is empty where another one leads it:
            # that says nothing of the offset.
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, partition.reason)
        segment = partition.chain.segment_at(offset)
        if segment is None or offset < partition.log_start_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"no segment holds offset {offset}")
        return segment

    @staticmethod
    def _bound(partition: "Partition", segment: Segment) -> int:
        """The last sequence of a segment that may be shown.

        It may have been announced or closed since the chain was looked at, so it is known by its address.
        """
        if segment.last_sequence is not None:
            return segment.last_sequence
        durable_upto = partition.chain.durable_upto(segment.address)
        if durable_upto is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, partition.reason)
        return durable_upto

    async def _locate(self, segment: Segment, offset: int, bound: int) -> int:
        if offset == segment.start_offset:
            return 0
        found = await self._lookup(segment, LOOKUP_OFFSET, offset, bound)
        if found is None:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"segment {segment.address} should hold offset {offset}, and no store finds it there",
            )
        return found.sequence

    async def _lookup(self, segment: Segment, kind: int, target: int, bound: int) -> AddressStatus | None:
        try:
            members = self._members(segment)
            return await self._context.reader.lookup(members, segment.address, kind, target, bound)
        except NotServed as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from None

    def _remember(self, address: str, offset: int, sequence: int) -> None:
        self._cursors[address, offset] = sequence
        if len(self._cursors) > MAX_CURSORS:
            self._cursors.popitem(last=False)

    # timestamps --------------------------------------------------------------------------------------------

    async def offset_for_timestamp(self, partition: "Partition", target: int) -> tuple[int, int, int] | None:
        """(offset, timestamp, epoch) of the first visible record at or after `target` ms, or None. Raises
        KafkaError.
        """
        for segment in partition.chain.segments():
            if not segment.is_open and (
                segment.max_timestamp < target or (segment.end_offset or 0) <= partition.log_start_offset
            ):
                continue
            bound = self._bound(partition, segment)
            found = await self._lookup(segment, LOOKUP_TIMESTAMP, target, bound) if bound >= 0 else None
            if found is not None:
                answer = await self._first_record(partition, segment, found, target, bound)
                if answer is not None:
                    return answer
        return None

    async def _first_record(
        self, partition: "Partition", segment: Segment, found: AddressStatus, target: int, bound: int
    ) -> tuple[int, int, int] | None:
        """The record: in the batch at `found`, or after it if that one's header lies."""
        sequence = found.sequence
        row = Row.unpack(found.row)
        for _ in range(MAX_FALSE_HEADERS):
            if row.max_timestamp >= target and row.last_offset >= partition.log_start_offset:
                batch = await self._batch(partition, segment, row, sequence)
                first_offset = partition.log_start_offset
                record = await _in_thread(
                    partial(find_timestamp, batch, target, MAX_INFLATED_BYTES, first_offset=first_offset)
                )
                if record is not None:
                    return record[0], record[1], _epoch_of(partition, segment, record[0])
            if sequence == bound:
                return None
            sequence += 1
            row = Row.unpack(await self._row(segment, sequence))
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, "too many batches whose headers claim timestamps they have not"
        )

    async def _row(self, segment: Segment, sequence: int) -> bytes:
        try:
            members = self._members(segment)
            return await self._context.reader.rows(members, segment.address, sequence, sequence)
        except NotServed as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from None

    async def max_timestamp(self, partition: "Partition") -> tuple[int, int, int] | None:
        """(offset, timestamp, epoch) of the first visible record with the highest timestamp, or None."""
        best: tuple[int, Segment, AddressStatus] | None = None
        for segment in partition.chain.segments():
            if segment.end_offset is not None and segment.end_offset <= partition.log_start_offset:
                continue
            bound = self._bound(partition, segment)
            if bound < 0 or (best and not segment.is_open and segment.max_timestamp <= best[0]):
                continue
            found = await self._largest(partition, segment, bound)
            if found is not None:
                highest = Row.unpack(found.row).max_timestamp
                if best is None or highest > best[0]:
                    best = highest, segment, found
        if best is None or best[0] < 0:
            return None
        batch = await self._batch(partition, best[1], Row.unpack(best[2].row), best[2].sequence)
        record = await _in_thread(partial(_first_of_largest, batch))
        return None if record is None else (record[0], record[1], _epoch_of(partition, best[1], record[0]))

    async def _largest(self, partition: "Partition", segment: Segment, bound: int) -> AddressStatus | None:
        """The first batch of a segment with its highest timestamp, of those that the log start leaves."""
        start = partition.log_start_offset
        found = await self._lookup(segment, LOOKUP_MAX_TIMESTAMP, 0, bound)
        if found is None or Row.unpack(found.row).last_offset >= start:
            return found
        # Only the rows know what comes after it: running maxima do not.
        first = await self._lookup(segment, LOOKUP_OFFSET, start, bound)
        if first is None:
            return None
        try:
            members = self._members(segment)
            rows = await self._context.reader.rows(members, segment.address, first.sequence, bound)
        except NotServed as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from None
        place, row = await trio.to_thread.run_sync(_largest_row, rows)
        return found._replace(sequence=first.sequence + place, row=row)

    async def _batch(self, partition: "Partition", segment: Segment, row: Row, sequence: int) -> Batch:
        offset = row.base_offset
        hot = partition.read_hot(offset, 1, whole=True)
        if hot:
            return hot[0]
        # Not as a consumer reads, who may go on: nothing is remembered, and nothing read ahead.
        contents, _ = await self._read_at(partition, segment, offset, sequence, 1, 1)
        return contents[0]


def _check(segment: Segment, offset: int, contents: Sequence[Batch]) -> int:
    """The offset after these batches. Raises InvalidBatch when one of them is not what it must be."""
    if segment.is_compacted:
        return _check_compacted(segment, offset, contents)
    expected = -1
    for content in contents:
        header = check_stored(content)
        if expected < 0 and not header.base_offset <= offset <= header.last_offset:
            raise corrupt(f"offset {offset} was asked for, {header.base_offset} came")
        if expected >= 0 and header.base_offset != expected:
            raise corrupt(f"offset {header.base_offset} follows {expected - 1}")
        if header.leader_epoch != segment.epoch:
            raise corrupt(f"epoch {header.leader_epoch} in a segment of {segment.epoch}")
        expected = header.last_offset + 1
    return expected


def _check_compacted(segment: Segment, offset: int, contents: Sequence[Batch]) -> int:
    """As `_check`, where batches may be missing and come from several epochs."""
    expected = segment.start_offset
    for content in contents:
        header = check_stored(content)
        if header.base_offset < expected or header.last_offset < offset:
            raise corrupt(f"offset {header.base_offset} follows {expected - 1}, and {offset} was asked for")
        if header.leader_epoch > segment.epoch:
            raise corrupt(f"epoch {header.leader_epoch} in a segment that was compacted in {segment.epoch}")
        expected = header.last_offset + 1
    return expected


def _epoch_of(partition: "Partition", segment: Segment, offset: int) -> int:
    """The leader epoch of a record."""
    return partition.epoch_at(offset) if segment.is_compacted else segment.epoch


def _largest_row(rows: bytes) -> tuple[int, bytes]:
    """The first of these rows with the highest timestamp: its place and itself."""
    parts = [rows[start : start + ROW_BYTES] for start in range(0, len(rows), ROW_BYTES)]
    best = max(range(len(parts)), key=lambda place: (Row.unpack(parts[place]).max_timestamp, -place))
    return best, parts[best]


def _first_of_largest(batch: Batch) -> tuple[int, int] | None:
    """The first record with the largest timestamp that any record of the batch has."""
    return find_timestamp(batch, largest_timestamp(batch, MAX_INFLATED_BYTES), MAX_INFLATED_BYTES)


async def _in_thread(search: Callable[[], tuple[int, int] | None]) -> tuple[int, int] | None:
    """Inflate a batch in a worker thread. Raises KafkaError when it cannot be read."""
    try:
        return await trio.to_thread.run_sync(search)
    except InvalidBatch as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
