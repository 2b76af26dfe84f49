"""A coordinator on a broker of a few lists, with a log that does what a test says."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.common.clients import NOBODY
from gateway.groups.coordinator import Coordinator
from gateway.groups.events import Join, JoinReply, Leaving, Protocol, Sync, SyncReply
from gateway.groups.internal_topic import OFFSETS_TOPIC
from gateway.groups.metadata import GroupMetadata
from gateway.groups.offsets import OffsetTable
from gateway.groups.replay import LoadedGroup
from gateway.groups.served import Group, Ticket
from gateway.journal.internal_topic import partition_for
from wireproto.kafka.errors import ErrorCode, KafkaError

SESSION_MS = 10_000


class FakeJournal:
    """Keeps what is written. `fails` is raised instead; nothing returns while `stuck`."""

    def __init__(self) -> None:
        self.log: dict[str, GroupMetadata] = {}
        self.written: list[tuple[str, GroupMetadata | None]] = []
        self.deleted: list[tuple[str, list[tuple[str, int]]]] = []
        self.fails: ErrorCode | None = None
        self.go = trio.Event()
        self.go.set()
        self.order = trio.Lock()
        self.loads: list[int] = []
        self.load_fails: set[int] = set()
        self.may_load = trio.Event()
        self.may_load.set()

    async def run(self) -> None:
        await trio.sleep_forever()

    async def write_group(self, group_id: str, metadata: GroupMetadata) -> None:
        self.written.append((group_id, metadata))
        async with self.order:
            await self.go.wait()
            self._fail()
            self.log[group_id] = metadata

    async def delete_group(self, group_id: str, table: OffsetTable) -> None:
        self.deleted.append((group_id, table.keys()))
        async with self.order:
            await self.go.wait()
            self._fail()
            self.log.pop(group_id, None)

    async def load(self, partition: int) -> dict[str, LoadedGroup]:
        self.loads.append(partition)
        await self.may_load.wait()
        if partition in self.load_fails:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "its stores are away")
        return {
            group_id: LoadedGroup(metadata, OffsetTable())
            for group_id, metadata in self.log.items()
            if partition_for(group_id, 50) == partition
        }

    def _fail(self) -> None:
        if self.fails is not None:
            raise KafkaError(self.fails)


class FakeTopics(dict[str, Any]):
    """As `gateway.cluster.topics.Topics`, for one topic."""


class Home:
    """The coordinator, and what a test does to it."""

    def __init__(self, *, topic: bool = True, **settings: int) -> None:
        self.topics = FakeTopics()
        self.created = 0
        self.elsewhere: set[int] = set()
        """Partitions that another gateway leads."""
        if topic:
            self.make_topic()
        self.settings = {
            "group_initial_rebalance_delay_ms": 0,
            "group_min_session_timeout_ms": 6000,
            "group_max_session_timeout_ms": 1_800_000,
            "group_max_size": 100,
            "offsets_retention_minutes": 10_080,
        } | settings
        self.broker = SimpleNamespace(
            topics=self.topics,
            stores=SimpleNamespace(default_replication_factor=1),
            create_topic=self._create_topic,
            node_id=1,
            gateways=SimpleNamespace(
                leads=lambda partition: partition.index not in self.elsewhere,
                leader=lambda _topic_id, index: 2 if index in self.elsewhere else 1,
            ),
        )
        self.journal = FakeJournal()
        self.coordinator = Coordinator(
            cast("Any", self.broker), cast("Any", SimpleNamespace(**self.settings))
        )
        self.coordinator.journal = cast("Any", self.journal)
        self.nursery: trio.Nursery

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as self.nursery:
            self.nursery.start_soon(self.coordinator.run)
            await wait_all_tasks_blocked()
            yield
            self.nursery.cancel_scope.cancel()

    def make_topic(self) -> None:
        topic = SimpleNamespace(name=OFFSETS_TOPIC, id=uuid.uuid4().bytes)
        topic.partitions = [SimpleNamespace(topic=topic, index=index) for index in range(50)]
        self.topics[OFFSETS_TOPIC] = topic

    def move(self, group_id: str, *, here: bool) -> None:
        """The gateways' table gives a group's partition to this gateway, or to gateway 2."""
        partition = self.topics[OFFSETS_TOPIC].partitions[partition_for(group_id, 50)]
        self.elsewhere.discard(partition.index) if here else self.elsewhere.add(partition.index)
        self.coordinator.moved([partition] if here else [], [] if here else [partition])

    async def _create_topic(
        self,
        name: str,
        partitions: int,
        configs: dict[str, str],
        copies: int,
        *,
        feature: str,  # noqa: ARG002
    ) -> Any:
        assert (name, partitions, copies) == (OFFSETS_TOPIC, 50, 1)
        assert configs["cleanup.policy"] == "compact"
        await trio.lowlevel.checkpoint()
        if self.created < 0:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "no room")
        self.created += 1
        self.make_topic()
        return self.topics[name]

    def group(self, group_id: str = "g") -> Group:
        return self.coordinator.groups[group_id]

    def join(
        self,
        group_id: str = "g",
        member_id: str = "",
        *,
        new_member_id: str = "m1",
        metadata: bytes = b"m",
        session_ms: int = SESSION_MS,
        client_id: str = "client",
        needs_known_member_id: bool = False,
        client: str = NOBODY,
    ) -> Ticket:
        ticket = Ticket()
        join = Join(
            ticket, member_id, "" if member_id else new_member_id, None, client_id, "/127.0.0.1", session_ms,
            60_000, "consumer", (Protocol("range", metadata),), needs_known_member_id, False, "test",
        )  # fmt: skip
        self.coordinator.join(group_id, join, client)
        return ticket

    def sync(self, member_id: str, generation: int, group_id: str = "g", **assignments: bytes) -> Ticket:
        ticket = Ticket()
        sync = Sync(ticket, member_id, None, generation, None, None, assignments)
        self.coordinator.sync(group_id, sync)
        return ticket

    def leave(self, member_id: str, group_id: str = "g") -> list[ErrorCode]:
        return self.coordinator.leave(group_id, [Leaving(member_id, None, "test")])

    def heartbeat(self, member_id: str = "m1", generation: int = 1, group_id: str = "g") -> ErrorCode:
        return self.coordinator.heartbeat(group_id, member_id, None, generation)

    async def stable(self, group_id: str = "g") -> None:
        """A stable group of the member m1."""
        joined = await self.join(group_id).joined()
        assert joined.error is ErrorCode.NONE
        synced = await self.sync("m1", joined.generation, group_id, m1=b"all").synced()
        assert synced.assignment == b"all"


async def reply(ticket: Ticket) -> JoinReply | SyncReply:
    """The reply, which must be there already."""
    await wait_all_tasks_blocked()
    assert ticket.answered
    return await ticket.joined()


def run(main: Any, *arguments: Any) -> None:
    """With a clock that jumps: what waits for a time costs none."""

    async def bounded() -> None:
        with trio.fail_after(100_000):
            await cast("Coroutine[Any, Any, None]", main(*arguments))

    trio.run(bounded, clock=MockClock(autojump_threshold=0))
