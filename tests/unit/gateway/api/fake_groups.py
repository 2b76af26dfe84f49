"""Groups with real tables and machines, and a journal that keeps everything at once, or says what a test
wants."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import trio

from gateway.groups.events import Now
from gateway.groups.group import GroupMachine
from gateway.groups.group_state import GroupLimits
from gateway.groups.metadata import GroupMetadata, MemberMetadata
from gateway.groups.offsets import OffsetTable
from gateway.log.appends import Completion, Completions
from tests.unit.gateway.api.asking import FakeBroker
from wireproto.kafka.errors import ErrorCode, KafkaError

NOW_MS = 1_700_000_000_000
PARTITION = 17


class FakePending:
    """A write that is durable."""

    def completion(self, completions: Completions) -> Completion:
        return Completion(completions, 0.0)

    def outcome(self) -> ErrorCode:
        return ErrorCode.NONE


class FakeGroups:
    """As `gateway.groups.coordinator.Coordinator`, as far as APIs of offsets use it."""

    def __init__(self) -> None:
        self.groups: dict[str, Any] = {}
        self.journal: Any = self
        self.failure: KafkaError | None = None
        """What the next writes are refused with."""
        self.loading = False
        self.settled: list[str] = []
        self.writes = 0
        self.senders: set[str] = set()

    def add(self, group_id: str, *, protocol_type: str = "", member: MemberMetadata | None = None) -> Any:
        machine = GroupMachine(group_id, GroupLimits(0, 100), Now(0, NOW_MS))
        members = () if member is None else (member,)
        protocol, leader = (None, None) if member is None else ("range", member.member_id)
        if protocol_type:
            machine.loaded(GroupMetadata(protocol_type, 7, protocol, leader, NOW_MS, members), Now(0, NOW_MS))
        self.groups[group_id] = SimpleNamespace(
            group_id=group_id, machine=machine, offsets=OffsetTable(), partition=PARTITION
        )
        return self.groups[group_id]

    # what the coordinator does

    def _check(self) -> None:
        if self.loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def for_commit(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *others: Any,
    ) -> Any:
        *_, principal = others
        self._check()
        if group_id not in self.groups:
            if generation >= 0:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
            return self.add(group_id)
        self.groups[group_id].machine.validate_commit(member_id, instance_id, generation, 0.0, principal)
        return self.groups[group_id]

    def for_fetch(self, group_id: str) -> Any:
        self._check()
        return self.groups.get(group_id)

    def for_offset_delete(self, group_id: str) -> Any:
        self._check()
        if group_id not in self.groups:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        self.groups[group_id].machine.validate_offset_delete()
        return self.groups[group_id]

    def drop_soon_if_unused(self, group: Any) -> None:
        if group.offsets.is_empty() and group.machine.protocol_type is None:
            del self.groups[group.group_id]

    # what the journal does

    async def _write(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.failure is not None:
            raise self.failure
        self.writes += 1

    def begin_commit(
        self, _group_id: str, table: OffsetTable, offsets: Any, partition: int, *, sender: str
    ) -> Any:
        self.senders.add(sender)
        assert offsets
        assert partition == PARTITION
        if self.failure is not None:
            raise self.failure
        self.writes += 1
        table.start(offsets)
        table.commit(offsets)
        return FakePending()

    async def delete_offsets(self, _group_id: str, table: OffsetTable, keys: Any) -> None:
        if keys:
            await self._write()
            table.start(keys)
            table.commit(dict.fromkeys(keys))

    async def settle(self, group_id: str) -> None:
        await trio.lowlevel.checkpoint()
        if self.failure is not None:
            raise self.failure
        self.settled.append(group_id)


def member_of(*topics: str, instance_id: str | None = None) -> MemberMetadata:
    """A consumer "m" that has subscribed to these topics."""
    names = b"".join(len(name).to_bytes(2) + name.encode() for name in topics)
    subscription = b"\0\0" + len(topics).to_bytes(4) + names + (0).to_bytes(4)
    return MemberMetadata("m", instance_id, "client", "/host", 60_000, 30_000, subscription, b"")


def broker_with_groups() -> tuple[FakeBroker, FakeGroups]:
    """A broker with the topics "orders" (3 partitions) and "payments" (1)."""
    broker, groups = FakeBroker(), FakeGroups()
    broker.groups = cast(Any, groups)
    broker.context.now_ms = lambda: NOW_MS
    broker.add("orders", 3)
    broker.add("payments")
    return broker, groups
