"""What one answer has so far: batches from memory and from stores, within the limits of its request.

Memory. The records of an answer count against the gateway's budget of answers, and are held only once that
much of it is reserved: until then a Fetch knows how many bytes there are for it, and takes them when it may
answer. (They would otherwise outlive the tail cache's bound: ten thousand parked consumers that each hold
half of what they ask for.)
"""

from __future__ import annotations

from collections.abc import Iterable

import trio

from gateway.common.costs import COLD_BATCH, COLD_READ, HOT_BATCH
from gateway.common.handlers import Request
from gateway.common.work import BREATH
from gateway.fetch.fetched_partition import FetchedPartition, bytes_of, within
from gateway.log.partition import Partition
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.fetch import FetchPartitionResult, FetchRequest

MAX_RESPONSE_BYTES = 55 * 1024 * 1024
"""Records in one answer, whatever is asked for, but for a first batch that is larger: the default of Kafka's
`fetch.max.bytes` of the broker; Java consumers ask for 50 MiB."""

MAX_COLD_READS_AT_ONCE = 8
"""Partitions that one Fetch reads from stores at the same time: enough to have a store always busy, and an
eighth of what the gateway reads at once, so that others have their turn."""

READ_COMMITTED = 1
"""The isolation level of a Fetch (`IsolationLevel`)."""

RESULT_BYTES = 64
"""Bytes of an answer for each partition beside its records and its topic's name, rounded up."""


class Reading:
    """The records of one answer. `found` counts their bytes, with the room that is kept for cold partitions.

    `failed`: reading met an error, which is an answer by itself: nobody waits for more.
    """

    def __init__(self, request: Request) -> None:
        body: FetchRequest = request.body
        most = MAX_RESPONSE_BYTES
        if request.charges is not None:
            most = min(most, request.charges.most_to_fetch)
        self.max_bytes = max(0, min(body.max_bytes, most))
        # More than the answer may hold cannot be waited for (`KafkaApis.handleFetchRequest`).
        self.min_bytes = min(body.min_bytes, self.max_bytes)
        self.committed = body.isolation_level == READ_COMMITTED
        """Nothing of open transactions is given, and of others which were aborted."""
        self.found = 0
        self.failed = False
        self.cold: dict[FetchedPartition, None] = {}
        """Those that are to be read from stores, the first first."""
        self._request = request
        self._hot: dict[FetchedPartition, None] = {}
        """Those that give records from memory."""
        self.waited = False
        """Others had their turn since something was read: it may be gone, or of another leader."""

    @property
    def enough(self) -> bool:
        return self.failed or bool(self.cold) or self.found >= self.min_bytes

    def read(self, wanted: FetchedPartition, partition: Partition) -> None:
        """See how much is in memory of one partition, in the room that the others leave."""
        self._take_out(wanted)
        wanted.error = self._check(wanted, partition)
        if wanted.error is not ErrorCode.NONE:
            self.failed = True
            return
        wanted.end = partition.visible_end(self.committed)
        wanted.whole = self.found == 0
        wanted.limit = max(0, min(self.max_bytes - self.found, wanted.ask.max_bytes))
        if not wanted.limit and not wanted.whole:
            return
        size = partition.hot_bytes(
            wanted.ask.fetch_offset, wanted.limit, whole=wanted.whole, committed=self.committed
        )
        if size is None:
            self.cold[wanted] = None
            wanted.size = max(1, wanted.limit)
        elif size:
            wanted.size = size
            self._hot[wanted] = None
        self.found += wanted.size

    def end_of(self, result: FetchPartitionResult) -> int:
        """The offset behind what a partition shows to this Fetch."""
        return result.last_stable_offset if self.committed else result.high_watermark

    def drop(self, wanted: FetchedPartition, error: ErrorCode) -> None:
        """There is no such partition, or not any more."""
        self._take_out(wanted)
        wanted.partition, wanted.error = None, error

    def _take_out(self, wanted: FetchedPartition) -> None:
        """What was read of it counts no more."""
        self.found -= wanted.size
        wanted.size = 0
        self._hot.pop(wanted, None)
        self.cold.pop(wanted, None)

    async def reserve(self, partitions: int) -> None:
        """Wait for the memory of an answer that tells of so many partitions."""
        request = self._request
        many = partitions > BREATH
        self.waited |= many
        if self.found or many:
            memory = self._memory(partitions)
            if not request.try_reserve(memory):
                self.waited = True
                await request.reserve(memory)

    async def take(self) -> None:
        """Have the records that are in memory."""
        for done, wanted in enumerate(tuple(self._hot), 1):
            self._take(wanted)
            if not done % BREATH:
                await self._request.work.breath()

    async def read_cold(self, others: Iterable[FetchedPartition]) -> None:
        """Read the cold partitions, some at a time; `others` are all, in the order of the answer."""
        if not self.cold:
            return
        cold = list(self.cold)
        first = cold[0]
        if len(cold) == 1:
            await self._read_cold(first)
        else:
            left = iter(cold)

            async def read_some() -> None:
                for wanted in left:
                    await self._read_cold(wanted)

            async with trio.open_nursery() as nursery:
                for _ in cold[:MAX_COLD_READS_AT_ONCE]:
                    nursery.start_soon(read_some)
        if first.whole and (size := bytes_of(first.records)) > first.limit:
            _cut(others, first, self.max_bytes - size)

    async def _read_cold(self, wanted: FetchedPartition) -> None:
        partition, work = wanted.partition, self._request.work
        assert partition is not None
        if self._request.gone:
            return  # nobody is there to be answered
        # What comes next pays: the memory of the answer is reserved. What it costs shows when it is done, and
        # others of its client begin meanwhile: it will be as much as the last one.
        expected = work.turns.cold_read
        work.owes(expected)
        offset, limit = wanted.ask.fetch_offset, max(1, wanted.limit)
        try:
            if self.committed:
                records, wanted.aborted = await partition.read_committed(offset, limit)
            else:
                records = await partition.read_cold(offset, limit)
        except KafkaError as error:
            wanted.error = error.code
            return
        cost = COLD_READ + len(records) * COLD_BATCH
        work.turns.cold_read = cost
        work.owes(cost - expected)
        # A store gives one batch at least, however large.
        wanted.records = records if wanted.whole else within(records, wanted.limit)

    def _check(self, wanted: FetchedPartition, partition: Partition) -> ErrorCode:
        if partition.deleted:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        # Here any epoch below 0 means that none is given (`FetchRequest.optionalEpoch`).
        error = partition.check_leader_epoch(max(-1, wanted.ask.current_leader_epoch))
        if error is not ErrorCode.NONE:
            return error
        return partition.check_fetch_offset(wanted.ask.fetch_offset, committed=self.committed)

    def _take(self, wanted: FetchedPartition) -> None:
        """The records of one partition, no more than was reserved; what has left memory since is cold."""
        partition = wanted.partition
        assert partition is not None
        if self.waited:
            wanted.error = self._check(wanted, partition)
            if wanted.error is not ErrorCode.NONE:
                return
            wanted.limit, wanted.whole = wanted.size, False
        offset = wanted.ask.fetch_offset
        records = partition.read_hot(offset, wanted.limit, whole=wanted.whole, committed=self.committed)
        aborted = partition.known_aborted(offset, records) if records and self.committed else []
        if records is None or aborted is None:
            self.cold[wanted] = None
        else:
            self._request.work.owes(len(records) * HOT_BATCH)
            wanted.records, wanted.aborted = records, aborted

    def _memory(self, partitions: int) -> int:
        """Bytes that the answer may hold.

        The first batch of a store comes whole, however large, and the topic's limit is the best that is known
        of it. Beside the records, the names of the request come back.
        """
        size = self.found
        first = next(iter(self.cold), None)
        if first is not None and first.whole:  # there is no other: it is the first that gives anything
            assert first.partition is not None
            size += max(0, first.partition.topic.settings.max_message_bytes - first.size)
        if partitions > BREATH:
            size += len(self._request.frame) + RESULT_BYTES * partitions
        return size


def _cut(all_wanted: Iterable[FetchedPartition], first: FetchedPartition, left: int) -> None:
    """`first` gave a batch above its limit: the others share what it left."""
    for wanted in all_wanted:
        if wanted.records and wanted is not first:
            wanted.records = within(wanted.records, left)
            left -= bytes_of(wanted.records)
