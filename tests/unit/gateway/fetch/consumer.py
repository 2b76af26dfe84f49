"""A client that fetches with a session, over the handler and its real bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from gateway.api.fetch import fetch
from gateway.common.handlers import Request
from tests.differential.wire import decode
from tests.unit.gateway.log.fake_log import FakeLog, batch, make_request
from wireproto.kafka.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

CONTENT = b"x" * 1000
SIZE = len(batch(CONTENT))
BY_NAME, BY_ID = 12, 13
NEVER_MS = 60_000

Key = str | bytes
Told = tuple[int, int, int, int]
"""Of a partition: index, error, high watermark, batches."""


@dataclass
class Answer:
    """`told` has the partitions that the answer tells of, in its order; `topics` of which topic they are."""

    error: int
    session_id: int
    told: list[Told]
    topics: list[Any]
    starts: list[int]

    @property
    def batches(self) -> dict[int, int]:
        """How many batches came, of each partition that gave any."""
        return {index: batches for index, _, _, batches in self.told if batches}


class Consumer:
    """Keeps a session's id and epoch as clients do. `goes_on` for the next Fetch that it builds."""

    def __init__(self, log: FakeLog, version: int = BY_NAME) -> None:
        self.log = log
        self.version = version
        self.session_id = 0
        self.epoch = 0

    def request(
        self,
        asks: Sequence[tuple[int, int]] | Mapping[Key, Sequence[tuple[int, int]]] = (),
        *,
        forget: Sequence[int] | Mapping[Key, Sequence[int]] = (),
        epoch: int | None = None,
        session_id: int | None = None,
        max_bytes: int = 1 << 20,
        partition_bytes: int = 1 << 20,
        min_bytes: int = 1,
        max_wait_ms: int = 0,
        leader_epoch: int = -1,
        replica_id: int = -1,
    ) -> Request:
        """Of the log's topic, or of the topics that are given."""
        named = asks if isinstance(asks, Mapping) else {self.key: asks}
        gone = forget if isinstance(forget, Mapping) else {self.key: forget}
        topics = [
            FetchTopic(
                *self._which(key),
                [FetchPartition(index, leader_epoch, at, -1, -1, partition_bytes) for index, at in entries],
            )
            for key, entries in named.items()
            if entries
        ]
        body = FetchRequest(
            replica_id,
            max_wait_ms,
            min_bytes,
            max_bytes,
            0,
            self.session_id if session_id is None else session_id,
            self.epoch if epoch is None else epoch,
            topics,
            "",
            [ForgottenTopic(*self._which(key), tuple(entries)) for key, entries in gone.items() if entries],
        )
        return make_request(1, self.version, body, memoryview(b""))

    @property
    def key(self) -> Key:
        return self.log.topic.name if self.version < BY_ID else self.log.topic.id

    @staticmethod
    def _which(key: Key) -> tuple[str | None, bytes | None]:
        return (key, None) if isinstance(key, str) else (None, key)

    async def send(self, request: Request) -> Answer:
        """The decoded answer; the next Fetch goes on from it, as a client does."""
        response = await fetch(request, self.log.broker)
        assert response is not None
        found = decode(1, self.version, b"".join(response)[4:], 1)
        told: list[Told] = []
        topics, starts = [], []
        for topic in found.responses:
            for one in topic.partitions:
                size = len(one.records or b"")
                assert size % SIZE == 0
                told.append((one.partition_index, one.error_code, one.high_watermark, size // SIZE))
                topics.append(topic.topic if self.version < BY_ID else (topic.topic_id or UUID(int=0)).bytes)
                starts.append(one.log_start_offset)
        if found.error_code:
            self.session_id, self.epoch = 0, 0
        elif found.session_id and request.body.session_epoch >= 0:
            self.session_id, self.epoch = found.session_id, request.body.session_epoch + 1
        return Answer(found.error_code, found.session_id, told, topics, starts)

    async def ask(self, asks: Any = (), **options: Any) -> Answer:
        return await self.send(self.request(asks, **options))

    async def begin(self, *, offset: int = 0, **options: Any) -> Answer:
        """A first Fetch of all partitions of the log's topic."""
        asks = [(partition.index, offset) for partition in self.log.topic.partitions]
        answer = await self.ask(asks, session_id=0, epoch=0, **options)
        assert answer.session_id
        return answer


async def put(log: FakeLog, *indexes: int) -> None:
    """A batch for each of these partitions, visible."""
    for index in indexes:
        await log.write(batch(CONTENT), partition=log.topic.partitions[index])


def watchers(log: FakeLog) -> int:
    """How many calls the log's partitions owe."""
    return sum(partition.listeners.watching for partition in log.topic.partitions)
