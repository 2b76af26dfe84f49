"""Fetch (key 1), versions 4 to 18.

Behaviour: whole batches from the one that holds the fetch offset, raw, up to max_bytes and each partition's
max_bytes; the first batch of the first partition that has one is given even if it is larger. With less than
min_bytes and no error the answer waits for max_wait_ms at most, woken when a high watermark advances. An
offset outside of the log is OFFSET_OUT_OF_RANGE, never a silent reset; between high watermark and end the
answer is empty. Version notes: from 13 topics come by id (unknown: UNKNOWN_TOPIC_ID); sessions (7+) are
declined by session id 0, as KIP-227 allows; read_committed (isolation 1) sees the same as read_uncommitted:
there are no transactions, the last stable offset is the high watermark. Skipped on purpose: follower fetches
(a replica id is ignored), preferred read replica (-1), diverging epochs.
"""

from collections.abc import Sequence
from typing import Any

import trio

from gateway.api.registry import Request, Response, api
from gateway.log.partition import Partition
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.fetch import (
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchTopic,
    decode_fetch,
    encode_fetch_response,
)

MAX_WAIT_MS = 300_000
"""Longest that a Fetch is parked, whatever it asks for; Java's default is 500 ms."""

MAX_RESPONSE_BYTES = 64 * 1024 * 1024
"""Records in one answer, whatever is asked for; above Java's default fetch.max.bytes (50 MiB)."""

JOIN_ABOVE_BUFFERS = 64
"""More batches than so many for one partition are small ones: one copy is cheaper than as many write vectors.
"""


class Wanted:
    """One partition of the request, and what was found for it."""

    __slots__ = ("ask", "error", "partition", "records", "size")

    def __init__(self, ask: FetchPartition, partition: Partition | None, error: ErrorCode) -> None:
        self.ask = ask
        self.partition = partition
        self.error = error
        self.records: Sequence[Any] = ()
        self.size = 0

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
    """One Fetch on its way to its answer."""

    def __init__(self, request: Request, broker: Any) -> None:
        body: FetchRequest = request.body
        self._request = request
        self._parked: set[FetchJob] = broker.parked
        self._min_bytes = body.min_bytes
        self._max_bytes = max(0, min(body.max_bytes, MAX_RESPONSE_BYTES))
        self._topics = [
            (topic, [_resolve(broker, topic, ask) for ask in topic.partitions]) for topic in body.topics
        ]
        self._wanted = [wanted for _, group in self._topics for wanted in group]
        self._woken = trio.Event()

    def advanced(self) -> None:
        """A partition that this Fetch waits for has something new (`gateway.log.partition.FetchWaiter`)."""
        self._woken.set()

    async def run(self) -> list[tuple[str | None, bytes | None, list[FetchPartitionResult]]]:
        """Read, waiting if there is too little, and give the results."""
        body: FetchRequest = self._request.body
        cold = self._read_hot()
        if not self._enough(cold) and body.max_wait_ms > 0:
            cold = await self._wait(min(body.max_wait_ms, MAX_WAIT_MS) / 1000)
        size = sum(wanted.size for wanted in self._wanted) + sum(self._room(wanted) for wanted in cold)
        if size:
            await self._request.reserve(min(size, self._max_bytes))
        for wanted in cold:
            await self._read_cold(wanted)
        return [
            (topic.name, topic.topic_id, [wanted.result() for wanted in group])
            for topic, group in self._topics
        ]

    def _enough(self, cold: list[Wanted]) -> bool:
        if cold or not self._wanted:
            return True
        found = 0
        for wanted in self._wanted:
            if wanted.error is not ErrorCode.NONE:
                return True
            found += wanted.size
        return found >= self._min_bytes

    async def _wait(self, seconds: float) -> list[Wanted]:
        partitions = [wanted.partition for wanted in self._wanted if wanted.partition is not None]
        for partition in partitions:
            partition.add_waiter(self)
        self._parked.add(self)
        cold: list[Wanted] = []
        try:
            with trio.move_on_after(seconds):
                while not self._enough(cold) and not self._request.shutting_down.is_set():
                    await self._woken.wait()
                    self._woken = trio.Event()
                    cold = self._read_hot()
        finally:
            self._parked.discard(self)
            for partition in partitions:
                partition.remove_waiter(self)
        return cold

    def _read_hot(self) -> list[Wanted]:
        """Read everything that is in memory; what has to come from a store."""
        cold: list[Wanted] = []
        room = self._max_bytes
        first = True
        for wanted in self._wanted:
            partition, ask = wanted.partition, wanted.ask
            if partition is None:
                continue
            wanted.error = partition.check_leader_epoch(ask.current_leader_epoch)
            if wanted.error is ErrorCode.NONE:
                wanted.error = partition.check_fetch_offset(ask.fetch_offset)
            if wanted.error is not ErrorCode.NONE:
                continue
            if room <= 0 and not first:
                wanted.records, wanted.size = (), 0
                continue
            records = partition.read_hot(ask.fetch_offset, min(room, ask.max_bytes), whole=first)
            if records is None:
                cold.append(wanted)
                room -= self._room(wanted)
                first = False
            else:
                wanted.records = records
                wanted.size = sum(map(len, records))
                room -= wanted.size
                first = first and not records
        return cold

    def _room(self, wanted: Wanted) -> int:
        return max(1, min(wanted.ask.max_bytes, self._max_bytes))

    async def _read_cold(self, wanted: Wanted) -> None:
        partition = wanted.partition
        assert partition is not None
        try:
            wanted.records = await partition.read_cold(wanted.ask.fetch_offset, self._room(wanted))
            wanted.size = sum(map(len, wanted.records))
        except KafkaError as error:
            wanted.error = error.code


def _resolve(broker: Any, topic: FetchTopic, ask: FetchPartition) -> Wanted:
    if topic.name is not None:
        found = broker.topics.get(topic.name)
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    else:
        found = broker.topics.by_id(topic.topic_id)
        missing = ErrorCode.UNKNOWN_TOPIC_ID
    if found is None:
        return Wanted(ask, None, missing)
    if not 0 <= ask.index < len(found.partitions):
        return Wanted(ask, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return Wanted(ask, found.partitions[ask.index], ErrorCode.NONE)


@api(key=1, name="Fetch", min_version=4, max_version=18, decoder=decode_fetch)
async def fetch(request: Request, broker: Any) -> Response:
    """Answer one Fetch."""
    body: FetchRequest = request.body
    version, correlation_id = request.header.api_version, request.header.correlation_id
    if body.session_id != 0 and body.session_epoch > 0:
        # Sessions are declined, so nobody has one of ours: the client starts anew.
        return encode_fetch_response(
            version, correlation_id, [], error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        )
    return encode_fetch_response(version, correlation_id, await FetchJob(request, broker).run())
