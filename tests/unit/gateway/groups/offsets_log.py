"""The topic `__consumer_offsets` on a log whose stores are what a test says that they acknowledge."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.groups.internal_topic import OFFSETS_TOPIC
from gateway.groups.journal import Journal
from gateway.groups.offsets import OffsetTable, TopicPartition
from gateway.groups.records import CommittedOffset, decode_record
from gateway.groups.replay import LoadedGroup, Replay
from tests.unit.gateway.log.fake_log import FakeLog
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.header import HEADER_BYTES, read_header
from wireproto.records.iteration import iter_records


def offset(number: int, metadata: str = "") -> CommittedOffset:
    return CommittedOffset(number, 3, metadata, 1_700_000_000_000)


def feed(replay: Replay, batch: bytes) -> None:
    """Have it take a whole batch that is not compressed."""
    for _ in replay.feed(read_header(batch), batch[HEADER_BYTES:], 0):
        pass


def finished(replay: Replay) -> dict[str, LoadedGroup]:
    """What it found."""
    for _ in replay.finish():
        pass
    return replay.groups


class OffsetsLog(FakeLog):
    """A gateway's log with that topic of one partition, and a journal on it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.topic.name = OFFSETS_TOPIC
        self.broker.topics.get = {OFFSETS_TOPIC: self.topic}.get
        self.lost: list[int] = []
        self.journal = Journal(cast(Any, self.broker), self.lost.append)
        self.told: list[tuple[str, ErrorCode]] = []
        """What callers of `begin` were told, in order."""
        self._nursery: trio.Nursery

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with super().running(), trio.open_nursery() as self._nursery:
            self._nursery.start_soon(self.journal.run)
            await wait_all_tasks_blocked()
            yield
            self._nursery.cancel_scope.cancel()

    async def begin(self, name: str, write: Callable[[], Coroutine[Any, Any, None]]) -> trio.CancelScope:
        """Call `write` in a task of its own; the scope cancels it."""
        scope = trio.CancelScope()
        self._nursery.start_soon(self._call, name, write, scope)
        await wait_all_tasks_blocked()
        return scope

    async def _call(
        self, name: str, write: Callable[[], Coroutine[Any, Any, None]], scope: trio.CancelScope
    ) -> None:
        code = ErrorCode.NONE
        with scope:
            try:
                await write()
            except KafkaError as error:
                code = error.code
            self.told.append((name, code))

    async def begin_commit(
        self, name: str, table: OffsetTable, offsets: dict[TopicPartition, CommittedOffset], group: str = "g"
    ) -> trio.CancelScope:
        return await self.begin(name, partial(self.journal.commit, group, table, offsets))

    async def durable(self) -> None:
        """The stores have all that was sent so far, and whoever waited for it knows."""
        self.acknowledge()
        self.broker.completions.settle()
        await wait_all_tasks_blocked()

    @property
    def batches(self) -> list[list[Any]]:
        """The records of each batch that was sent, decoded."""
        return [
            [decode_record(record.key, record.value) for record in iter_records(batch)]
            for batches in self.producer.kept.values()
            for batch in batches
        ]


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """With a clock that jumps: what waits for a time costs none."""
    trio.run(main, clock=MockClock(autojump_threshold=0))
