"""Fetch (key 1), versions 4 to 18.

Behaviour: whole batches from the one that holds the fetch offset, raw, up to max_bytes and each partition's
max_bytes; the first batch of the first partition that has one is given even if it is larger. With less than
min_bytes and no error the answer waits for max_wait_ms at most, woken when a high watermark advances. An
offset outside of the log is OFFSET_OUT_OF_RANGE, never a silent reset; between high watermark and end the
answer is empty. A partition that is named twice has one place in the answer, its first, and is read as it was
named last: `FetchRequest.fetchData` is a LinkedHashMap.

Version notes: from 13 topics come by id (unknown: UNKNOWN_TOPIC_ID); sessions (7+) are declined by session id
0, as KIP-227 allows; read_committed (isolation 1) sees the same as read_uncommitted: there are no
transactions, the last stable offset is the high watermark. Skipped on purpose: follower fetches (a replica id
is ignored), preferred read replica (-1), diverging epochs.
"""

from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import trio

from gateway.api.answers import BREATH, encoded
from gateway.api.registry import Request, Response, api
from gateway.log.partition import FetchWaiter, Partition
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.fetch import (
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchTopic,
    TopicResults,
    decode_fetch,
    encode_fetch_response,
)

TOPIC_IDS_SINCE_VERSION = 13

MAX_WAIT_MS = 300_000
"""Longest that a Fetch is parked, whatever it asks for; Java's default is 500 ms."""

MAX_RESPONSE_BYTES = 64 * 1024 * 1024
"""Records in one answer, whatever is asked for; above Java's default fetch.max.bytes (50 MiB)."""

FULL_FETCH_EPOCHS = frozenset({0, -1})
"""Session epochs of a Fetch that names all its partitions (`FetchMetadata.isFull`); others go on with a
session."""

MAX_COLD_READS_AT_ONCE = 8
"""Partitions that one Fetch reads from stores at the same time: enough to have a store always busy, and an
eighth of what the gateway reads at once, so that others have their turn."""

RESULT_BYTES = 64
"""Bytes of an answer for each partition beside its records and its topic's name, rounded up."""

JOIN_ABOVE_BUFFERS = 64
"""More batches than so many for one partition are small ones: one copy is cheaper than as many write vectors.
"""


class Wanted:
    """One partition of the request, and what was found for it."""

    __slots__ = ("ask", "error", "high_watermark", "limit", "partition", "records", "size", "whole")

    def __init__(self, ask: FetchPartition, partition: Partition | None, error: ErrorCode) -> None:
        self.ask = ask
        self.partition = partition
        self.error = error
        self.records: Sequence[Any] = ()
        self.size = 0
        """Bytes of `records`; those that may come while they are to be read from a store."""
        self.limit = 0
        self.whole = False
        """The last read: how many bytes it might give, and whether one batch however large."""
        self.high_watermark = 0
        """What it was then."""

    def result(self) -> FetchPartitionResult:
        partition = self.partition
        if partition is None or self.error is not ErrorCode.NONE:
            return FetchPartitionResult(self.ask.index, self.error)
        records = self.records
        if len(records) > JOIN_ABOVE_BUFFERS:
            records = (b"".join(records),)
        high_watermark = partition.high_watermark
        return FetchPartitionResult(
            self.ask.index,
            ErrorCode.NONE,
            high_watermark,
            high_watermark,
            partition.log_start_offset,
            records,
        )


class FetchJob:
    """One Fetch on its way to its answer.

    Everything is read once. If that is too little, the job is parked at its partitions, which say when they
    advance, and reads only those again. `_found` is what the answer has so far, in bytes, with the room that
    is kept for cold partitions.

    A client may name 100,000 partitions: whatever is done for each of them lets others have their turn after
    every `BREATH`.
    """

    def __init__(self, request: Request, broker: Any) -> None:
        body: FetchRequest = request.body
        self._request = request
        self._broker = broker
        self._max_bytes = max(0, min(body.max_bytes, MAX_RESPONSE_BYTES))
        # More than the answer may hold cannot be waited for (`KafkaApis.handleFetchRequest`).
        self._min_bytes = min(body.min_bytes, self._max_bytes)
        self._topics: list[tuple[FetchTopic, list[Wanted]]] = []
        self._wanted: dict[tuple[str | bytes | None, int], Wanted] = {}
        """All partitions, by topic and index, in the order in which they were named first."""
        self._cold: list[Wanted] = []
        self._found = 0
        self._failed = False
        self._hurried = request.shutting_down.is_set()
        self._advanced: set[Partition] = set()
        self._woken = trio.Event()

    def advanced(self, partition: Partition | None = None, /) -> None:
        """A partition that this Fetch waits for has something new (`gateway.log.partition.FetchWaiter`);
        without one, it is to answer with what there is.
        """
        if partition is None:
            self._hurried = True
        else:
            self._advanced.add(partition)
        self._woken.set()

    async def run(self) -> list[TopicResults]:
        """Read, waiting if there is too little, and give the results."""
        body: FetchRequest = self._request.body
        await self._resolve()
        await self._read_all()
        if not self._enough() and body.max_wait_ms > 0:
            await self._wait(min(body.max_wait_ms, MAX_WAIT_MS) / 1000)
        if self._found or len(self._wanted) > BREATH:
            await self._request.reserve(self._memory())
        if self._cold:
            await self._read_all_cold()
        return await self._results()

    @property
    def partitions(self) -> int:
        """How many partitions the answer tells of."""
        return len(self._wanted)

    async def _resolve(self) -> None:
        """Find the partitions that are named, each once."""
        all_wanted, topics = self._wanted, self._topics
        named = 0
        for topic in self._request.body.topics:
            named += 1
            if not named % BREATH:
                await trio.lowlevel.checkpoint()
            known, missing = self._partitions_of(topic)
            key = topic.topic_id if topic.name is None else topic.name
            group: list[Wanted] = []
            for ask in topic.partitions:
                named += 1
                if not named % BREATH:
                    await trio.lowlevel.checkpoint()
                wanted = all_wanted.get((key, ask.index))
                if wanted is not None:
                    wanted.ask = ask
                    continue
                if 0 <= ask.index < len(known):
                    wanted = Wanted(ask, known[ask.index], ErrorCode.NONE)
                else:
                    wanted = Wanted(ask, None, missing)
                all_wanted[key, ask.index] = wanted
                group.append(wanted)
            if not group:
                continue
            if topics and (topics[-1][0].name, topics[-1][0].topic_id) == (topic.name, topic.topic_id):
                topics[-1][1].extend(group)  # as `FetchResponse.toMessage` does
            else:
                topics.append((topic, group))

    def _partitions_of(self, topic: FetchTopic) -> tuple[Sequence[Partition], ErrorCode]:
        """The partitions of a topic, and the error for those it has not."""
        if topic.name is not None:
            found = self._broker.topics.get(topic.name)
        else:
            found = self._broker.topics.by_id(topic.topic_id)
            if found is None:
                return (), ErrorCode.UNKNOWN_TOPIC_ID
        return () if found is None else found.partitions, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    async def _read_all(self) -> None:
        for done, wanted in enumerate(self._wanted.values(), 1):
            self._read(wanted)
            if not done % BREATH:
                await trio.lowlevel.checkpoint()

    def _memory(self) -> int:
        """Bytes that the answer may hold.

        The first batch of a store comes whole, however large, and the topic's limit is the best that is known
        of it. Beside the records, the names of the request come back.
        """
        size = self._found
        if self._cold and self._cold[0].whole:  # there is no other: it is the first that gives anything
            first = self._cold[0]
            assert first.partition is not None
            size += max(0, first.partition.topic.settings.max_message_bytes - first.size)
        if len(self._wanted) > BREATH:
            size += len(self._request.frame) + RESULT_BYTES * len(self._wanted)
        return size

    async def _results(self) -> list[TopicResults]:
        answered: list[TopicResults] = []
        done = 0
        for topic, group in self._topics:
            results: list[FetchPartitionResult] = []
            answered.append((topic.name, topic.topic_id, results))
            for wanted in group:
                results.append(wanted.result())
                done += 1
                if not done % BREATH:
                    await trio.lowlevel.checkpoint()
        return answered

    def _enough(self) -> bool:
        return bool(self._failed or self._cold or not self._wanted or self._found >= self._min_bytes)

    async def _wait(self, seconds: float) -> None:
        wanted_of: dict[Partition, Wanted] = {}
        parked: set[FetchWaiter] = self._broker.parked
        parked.add(self)
        try:
            await self._park(wanted_of)
            with trio.move_on_after(seconds):
                while not self._enough() and not self._hurried:
                    await self._woken.wait()
                    self._woken = trio.Event()
                    advanced, self._advanced = self._advanced, set()
                    for done, partition in enumerate(advanced, 1):
                        self._read(wanted_of[partition])
                        if not done % BREATH:
                            await trio.lowlevel.checkpoint()
        finally:
            parked.discard(self)
            for partition in wanted_of:
                partition.remove_waiter(self)

    async def _park(self, wanted_of: dict[Partition, Wanted]) -> None:
        """Wait at all partitions, noting for each what it is wanted for."""
        for done, wanted in enumerate(self._wanted.values(), 1):
            partition = wanted.partition
            if partition is not None:
                wanted_of[partition] = wanted
                partition.add_waiter(self)
                if partition.high_watermark != wanted.high_watermark or partition.deleted:
                    self.advanced(partition)  # since it was read
            if not done % BREATH:
                await trio.lowlevel.checkpoint()

    def _read(self, wanted: Wanted) -> None:
        """Read what is in memory of one partition, in the room that the others leave."""
        partition, ask = wanted.partition, wanted.ask
        if partition is None:
            self._failed = True
            return
        if partition.deleted:
            by_id = self._request.header.api_version >= TOPIC_IDS_SINCE_VERSION
            wanted.error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            # Here any epoch below 0 means that none is given (`FetchRequest.optionalEpoch`).
            wanted.error = partition.check_leader_epoch(max(-1, ask.current_leader_epoch))
            if wanted.error is ErrorCode.NONE:
                wanted.error = partition.check_fetch_offset(ask.fetch_offset)
        self._found -= wanted.size
        wanted.records, wanted.size = (), 0
        if wanted.error is not ErrorCode.NONE:
            self._failed = True
            return
        wanted.high_watermark = partition.high_watermark
        wanted.whole = self._found == 0
        wanted.limit = max(0, min(self._max_bytes - self._found, ask.max_bytes))
        if not wanted.limit and not wanted.whole:
            return
        records = partition.read_hot(ask.fetch_offset, wanted.limit, whole=wanted.whole)
        if records is None:
            self._cold.append(wanted)
            wanted.size = max(1, wanted.limit)
        else:
            wanted.records = records
            wanted.size = sum(map(len, records))
        self._found += wanted.size

    async def _read_all_cold(self) -> None:
        """Read the cold partitions, some at a time."""
        if len(self._cold) == 1:
            await self._read_cold(self._cold[0])
        else:
            left = iter(self._cold)

            async def read_some() -> None:
                for wanted in left:
                    await self._read_cold(wanted)

            async with trio.open_nursery() as nursery:
                for _ in self._cold[:MAX_COLD_READS_AT_ONCE]:
                    nursery.start_soon(read_some)
        first = self._cold[0]
        if first.whole and (size := sum(map(len, first.records))) > first.limit:
            self._cut(first, self._max_bytes - size)

    def _cut(self, first: Wanted, left: int) -> None:
        """`first` gave a batch above its limit: the others share what it left."""
        for wanted in self._wanted.values():
            if wanted.records and wanted is not first:
                wanted.records = _within(wanted.records, left)
                left -= sum(map(len, wanted.records))

    async def _read_cold(self, wanted: Wanted) -> None:
        partition = wanted.partition
        assert partition is not None
        try:
            records = await partition.read_cold(wanted.ask.fetch_offset, max(1, wanted.limit))
        except KafkaError as error:
            wanted.error = error.code
            return
        # A store gives one batch at least, however large.
        wanted.records = records if wanted.whole else _within(records, wanted.limit)


def _within(records: Sequence[Any], limit: int) -> Sequence[Any]:
    """The first of `records`, `limit` bytes of them at most."""
    for count, size in enumerate(accumulate(map(len, records))):
        if size > limit:
            return records[:count]
    return records


@api(key=1, name="Fetch", min_version=4, max_version=18, decoder=decode_fetch)
async def fetch(request: Request, broker: Any) -> Response:
    """Answer one Fetch."""
    body: FetchRequest = request.body
    version, correlation_id = request.header.api_version, request.header.correlation_id
    if body.session_epoch not in FULL_FETCH_EPOCHS:
        # Sessions are declined, so nobody has one of ours: the client starts anew.
        return encode_fetch_response(
            version, correlation_id, [], error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        )
    job = FetchJob(request, broker)
    results = await job.run()
    return await encoded(job.partitions, partial(encode_fetch_response, version, correlation_id, results))
