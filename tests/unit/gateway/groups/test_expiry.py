"""Offsets are forgotten when their time is over or their topic is gone, and so are groups with nothing
left."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.groups import expiry
from gateway.groups.events import Now
from gateway.groups.expiry import CHECK_SECONDS, OFFSETS_AT_ONCE, OffsetExpiry
from gateway.groups.group import GroupMachine
from gateway.groups.group_state import GroupLimits
from gateway.groups.metadata import GroupMetadata, MemberMetadata
from gateway.groups.offsets import OffsetTable, TopicPartition
from gateway.groups.records import CommittedOffset, OffsetRecord
from tests.unit.gateway.groups.offsets_log import OffsetsLog
from tests.unit.gateway.groups.offsets_log import run as run_log
from wireproto.kafka.errors import ErrorCode, KafkaError

START_MS = 1_700_000_000_000
MINUTE_MS = 60_000
ORDERS = SimpleNamespace(id=b"o" * 16)


class Groups:
    """Groups with their offsets. What is to be forgotten is gone at once, or refused once for each
    `failures`.
    """

    def __init__(self) -> None:
        self.served: dict[str, Any] = {}
        self.journal: Any = self
        self.failures = 0
        self.writes: list[list[TopicPartition]] = []

    def now(self) -> Now:
        return Now(trio.current_time(), START_MS + int(trio.current_time() * 1000))

    def add(self, group_id: str, metadata: GroupMetadata | None = None) -> OffsetTable:
        machine = GroupMachine(group_id, GroupLimits(0, 100), Now(0, START_MS))
        if metadata is not None:
            machine.loaded(metadata, Now(0, START_MS))
        table = OffsetTable()
        self.served[group_id] = SimpleNamespace(group_id=group_id, machine=machine, offsets=table)
        return table

    def loaded(self) -> list[Any]:
        return list(self.served.values())

    async def delete_offsets(self, _group_id: str, table: OffsetTable, keys: list[TopicPartition]) -> None:
        await trio.lowlevel.checkpoint()
        if self.failures:
            self.failures -= 1
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.writes.append(keys)
        table.start(keys)
        table.commit(dict.fromkeys(keys))

    async def drop_if_unused(self, group: Any) -> None:
        await trio.lowlevel.checkpoint()
        if group.offsets.is_empty():
            del self.served[group.group_id]


def group_of(*members: MemberMetadata, since_minutes: int = 0) -> GroupMetadata:
    since = START_MS + since_minutes * MINUTE_MS
    protocol = "range" if members else None
    return GroupMetadata("consumer", 1, protocol, members[0].member_id if members else None, since, members)


def member_of(*topics: str) -> MemberMetadata:
    """A consumer that has subscribed to these topics."""
    names = b"".join(len(name).to_bytes(2) + name.encode() for name in topics)
    subscription = b"\0\0" + len(topics).to_bytes(4) + names + (0).to_bytes(4)
    return MemberMetadata("m", None, "client", "/host", 60_000, 30_000, subscription, b"")


def committed(minutes: int = 0, topic_id: bytes = ORDERS.id) -> CommittedOffset:
    return CommittedOffset(1, -1, "", START_MS + minutes * MINUTE_MS, topic_id=topic_id)


def run(groups: Groups, then: Callable[[OffsetExpiry], Awaitable[None]], retention_minutes: int = 60) -> None:
    """With the topic "orders" and no other."""

    async def main() -> None:
        topics = cast(Any, SimpleNamespace(get={"orders": ORDERS}.get))
        watched = OffsetExpiry(cast(Any, groups), topics, retention_minutes)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watched.run)
            await then(watched)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_a_simple_group_forgets_each_offset_a_retention_after_its_commit_and_is_then_gone() -> None:
    groups = Groups()
    table = groups.add("simple")
    table.put("orders", 0, committed())
    table.put("orders", 1, committed(30))

    async def main(watched: OffsetExpiry) -> None:
        await trio.sleep(3600 - 1)
        assert table.count == 2
        await trio.sleep(CHECK_SECONDS)
        assert table.keys() == [("orders", 1)]
        await trio.sleep(30 * 60 + CHECK_SECONDS)
        assert (table.count, watched.forgotten, groups.served) == (0, 2, {})

    run(groups, main)


def test_a_group_that_became_empty_keeps_its_offsets_a_retention_longer() -> None:
    groups = Groups()
    table = groups.add("empty", group_of(since_minutes=120))
    table.put("orders", 0, committed())

    async def main(_watched: OffsetExpiry) -> None:
        await trio.sleep(180 * 60 - 1)
        assert table.count == 1
        await trio.sleep(CHECK_SECONDS + 1)
        assert (table.count, groups.served) == (0, {})

    run(groups, main)


def test_a_group_at_work_keeps_what_it_is_subscribed_to() -> None:
    groups = Groups()
    table = groups.add("at work", group_of(member_of("orders")))
    table.put("orders", 0, committed())

    async def main(_watched: OffsetExpiry) -> None:
        await trio.sleep(100 * 60)
        assert table.keys() == [("orders", 0)]

    run(groups, main)


def test_offsets_of_a_deleted_topic_go_soon_and_those_of_its_successor_stay() -> None:
    groups = Groups()
    table, other = groups.add("a", group_of(member_of("orders"))), groups.add("b")
    table.put("orders", 0, committed(topic_id=b"before its deletion".ljust(16)[:16]))
    table.put("orders", 1, committed())
    other.put("gone", 5, committed())

    async def main(watched: OffsetExpiry) -> None:
        watched.topic_deleted()
        await wait_all_tasks_blocked()
        assert table.keys() == [("orders", 1)]
        assert list(groups.served) == ["a"]

    run(groups, main)


def test_what_cannot_be_written_now_is_written_the_next_time(caplog: pytest.LogCaptureFixture) -> None:
    groups = Groups()
    table, other = groups.add("a"), groups.add("b")
    table.put("orders", 0, committed())
    other.put("orders", 0, committed())
    groups.failures = 1

    async def main(_watched: OffsetExpiry) -> None:
        await trio.sleep(3600 + 1)
        assert (table.count, other.count) == (1, 0)
        assert "group a: offsets cannot be forgotten now" in caplog.text
        await trio.sleep(CHECK_SECONDS)
        assert (table.count, groups.served) == (0, {})

    run(groups, main)


def test_many_offsets_are_forgotten_in_several_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "OFFSETS_AT_ONCE", 4)
    groups = Groups()
    table = groups.add("a")
    for index in range(10):
        table.put("orders", index, committed())

    async def main(_watched: OffsetExpiry) -> None:
        await trio.sleep(3600 + 1)
        assert groups.writes == [
            [("orders", index) for index in range(start, min(start + 4, 10))] for start in (0, 4, 8)
        ]

    run(groups, main)


def test_a_group_with_many_offsets_is_looked_at_once_for_each_of_them() -> None:
    count = 4 * OFFSETS_AT_ONCE + 7
    groups = Groups()
    table = groups.add("large")
    for partition in range(count):
        table.put("orders", partition, committed(0 if partition % 2 else 600))
    looks = 0

    class Topics:
        """Counts how often it is asked."""

        def get(self, name: str) -> Any:
            nonlocal looks
            looks += 1
            return ORDERS if name == "orders" else None

    async def main() -> None:
        watched = OffsetExpiry(cast(Any, groups), cast(Any, Topics()), 60)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watched.run)
            await trio.sleep(3600 + CHECK_SECONDS)
            nursery.cancel_scope.cancel()
        assert watched.forgotten == count // 2

    checks = int((3600 + CHECK_SECONDS) // CHECK_SECONDS)
    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert sorted(table.keys()) == [("orders", partition) for partition in range(0, count, 2)]
    assert all(0 < len(keys) <= OFFSETS_AT_ONCE for keys in groups.writes)
    assert looks <= checks * count


def test_an_offset_that_is_committed_anew_while_others_are_forgotten_stays() -> None:
    groups = Groups()
    table = groups.add("large")
    last = 3 * OFFSETS_AT_ONCE
    for partition in range(last + 1):
        table.put("orders", partition, committed())

    async def meanwhile(group_id: str, table: OffsetTable, keys: list[TopicPartition]) -> None:
        table.put("orders", last, committed(61))
        await groups.delete_offsets(group_id, table, keys)

    groups.journal = SimpleNamespace(delete_offsets=meanwhile)

    async def main(_watched: OffsetExpiry) -> None:
        await trio.sleep(3600 + CHECK_SECONDS)
        assert table.keys() == [("orders", last)]

    run(groups, main)


def test_an_offset_that_is_committed_anew_between_two_writes_to_the_log_stays() -> None:
    """The tombstones of a group with a long name take several batches. A commit that comes between two of
    them was answered, and must not be under the second one.
    """

    async def main() -> None:
        log, groups = OffsetsLog(), Groups()
        groups.journal = log.journal
        group_id, last = "group of a long name ".ljust(100, "."), 300
        table = groups.add(group_id)
        for partition in range(last + 1):
            table.put("orders", partition, committed(topic_id=b"before its deletion".ljust(16)[:16]))
        topics = cast(Any, SimpleNamespace(get={"orders": ORDERS}.get))
        watched = OffsetExpiry(cast(Any, groups), topics, 60)
        async with log.running(), trio.open_nursery() as nursery:
            nursery.start_soon(watched.run)
            await wait_all_tasks_blocked()
            watched.topic_deleted()
            await wait_all_tasks_blocked()
            assert len(log.batches) == 1
            assert 0 < len(log.batches[0]) < last
            await log.begin_commit("anew", table, {("orders", last): committed()}, group_id)
            while log.told == [] or watched.forgotten < last:
                await log.durable()
            assert log.told == [("anew", ErrorCode.NONE)]
            await log.durable()
            assert table.keys() == [("orders", last)]
            told = [record for batch in log.batches for record in batch if record.partition == last]
            assert told == [OffsetRecord(group_id, "orders", last, committed())]
            nursery.cancel_scope.cancel()

    run_log(main)
