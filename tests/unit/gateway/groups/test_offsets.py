"""A group's offsets: what is shown, what is forgotten and when; and that the table is what its log says."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.groups.offsets import (
    OFFSET_METADATA_MAX_BYTES,
    OffsetTable,
    TopicPartition,
    is_metadata_too_large,
)
from gateway.groups.records import CommittedOffset, offset_key, offset_value
from gateway.groups.replay import Replay
from gateway.journal.lane import KeyValue, Lane, Write
from tests.unit.gateway.groups.offsets_log import feed, finished
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.builder import build_batch

ID, OTHER_ID = b"i" * 16, b"o" * 16
DAY = 24 * 3600 * 1000


def at(offset: int, *, committed: int = 0, expires: int = -1, topic_id: bytes = ID) -> CommittedOffset:
    return CommittedOffset(offset, -1, "", committed, expires, topic_id)


def table_of(offsets: Mapping[TopicPartition, CommittedOffset]) -> OffsetTable:
    table = OffsetTable()
    for (topic, partition), offset in offsets.items():
        table.put(topic, partition, offset)
    return table


def contents(table: OffsetTable) -> dict[TopicPartition, CommittedOffset]:
    return {(topic, index): offset for topic, found in table.topics() for index, offset in found.items()}


def test_a_commit_shows_once_it_is_durable() -> None:
    table = OffsetTable()
    table.start([("t", 0)])
    assert table.fetch("t", 0) is None
    assert not table.is_empty()
    assert table.keys() == [("t", 0)]
    table.commit({("t", 0): at(5)})
    assert table.fetch("t", 0) == at(5)
    assert (table.count, table.keys()) == (1, [("t", 0)])


def test_what_never_became_durable_leaves_nothing() -> None:
    table = table_of({("t", 0): at(1)})
    table.start([("t", 0), ("u", 1)])
    table.give_up([("t", 0), ("u", 1)])
    assert contents(table) == {("t", 0): at(1)}
    assert table.keys() == [("t", 0)]


def test_a_tombstone_forgets() -> None:
    table = table_of({("t", 0): at(1), ("t", 1): at(2)})
    for partition in (0, 1, 7):
        table.start([("t", partition)])
        table.commit({("t", partition): None})
    assert (table.is_empty(), table.count) == (True, 0)


@pytest.mark.parametrize(
    ("stored", "asked", "found"),
    [(ID, ID, True), (ID, OTHER_ID, False), (ID, bytes(16), True), (bytes(16), ID, True)],
)
def test_another_topic_of_the_same_name_has_no_offset(stored: bytes, asked: bytes, found: bool) -> None:
    table = table_of({("t", 0): at(1, topic_id=stored)})
    assert (table.fetch("t", 0, asked) is not None) == found


def test_known_are_those_that_the_log_may_have() -> None:
    table = table_of({("t", 0): at(1)})
    table.start([("u", 0)])
    assert table.known([("t", 0), ("t", 1), ("u", 0), ("t", 0)]) == [("t", 0), ("u", 0)]


def expired(table: OffsetTable, now: int, expires_from: Any, subscribed: str = "") -> list[TopicPartition]:
    return table.expired(now, DAY, expires_from, lambda topic: topic == subscribed)


def test_offsets_expire_a_retention_after_their_commit() -> None:
    table = table_of({("t", 0): at(1, committed=10), ("t", 1): at(2, committed=20), ("u", 0): at(3)})
    since_commit = lambda commit: commit  # noqa: E731
    assert expired(table, DAY + 9, since_commit, subscribed="u") == []
    assert expired(table, DAY + 10, since_commit, subscribed="u") == [("t", 0)]
    assert expired(table, DAY + 20, since_commit) == [("t", 0), ("t", 1), ("u", 0)]


def test_offsets_of_an_empty_group_expire_a_retention_after_it_became_empty() -> None:
    table = table_of({("t", 0): at(1, committed=10)})
    assert expired(table, DAY + 499, lambda _commit: 500) == []
    assert expired(table, DAY + 500, lambda _commit: 500) == [("t", 0)]


def test_offsets_of_a_group_at_work_do_not_expire() -> None:
    table = table_of({("t", 0): at(1), ("t", 1): at(1, expires=1)})
    assert expired(table, 100 * DAY, lambda _commit: None) == []


def test_an_expire_time_of_its_own_counts_instead() -> None:
    table = table_of({("t", 0): at(1, committed=0, expires=500), ("t", 1): at(2, expires=5 * DAY)})
    assert expired(table, 499, lambda commit: commit) == []
    assert expired(table, 500, lambda commit: commit) == [("t", 0)]
    assert expired(table, 5 * DAY, lambda commit: commit) == [("t", 0), ("t", 1)]


def test_what_is_being_committed_does_not_expire() -> None:
    """Its tombstone would come behind the commit in the log, and take it away."""
    table = table_of({("t", 0): at(1)})
    table.start([("t", 0)])
    assert expired(table, 100 * DAY, lambda commit: commit) == []
    assert table.of_lost_topics(lambda _topic, _id: False) == []


def test_offsets_of_topics_that_are_gone() -> None:
    table = table_of({("t", 0): at(1), ("t", 1): at(2, topic_id=OTHER_ID), ("u", 3): at(3)})
    assert table.of_lost_topics(lambda topic, topic_id: (topic, topic_id) == ("t", ID)) == [
        ("t", 1),
        ("u", 3),
    ]


@pytest.mark.parametrize(
    ("metadata", "too_large"),
    [
        (None, False),
        ("", False),
        ("x" * OFFSET_METADATA_MAX_BYTES, False),
        ("x" * (OFFSET_METADATA_MAX_BYTES + 1), True),
        ("é" * OFFSET_METADATA_MAX_BYTES, False),
        ("😀" * (OFFSET_METADATA_MAX_BYTES // 2), False),
        ("😀" * (OFFSET_METADATA_MAX_BYTES // 2 + 1), True),
    ],
)
def test_metadata_is_measured_in_utf_16_units(metadata: str | None, too_large: bool) -> None:
    assert is_metadata_too_large(metadata) == too_large


# the table and its log ----------------------------------------------------------------------------------

REFUSED = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
KEYS = st.tuples(st.sampled_from(["t", "u"]), st.integers(0, 2))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.lists(KEYS, min_size=1, max_size=3, unique=True)),
        st.tuples(st.just("delete"), st.lists(KEYS, min_size=1, max_size=3, unique=True)),
        st.tuples(st.sampled_from(["send", "durable", "refused", "lost", "withdraw"]), st.none()),
    ),
    max_size=60,
)


class World:
    """A lane, a table, and the log that the lane's batches would make."""

    def __init__(self) -> None:
        self.table, self.lane = OffsetTable(), Lane()
        self.durable: list[KeyValue] = []
        self.on_way: list[KeyValue] = []
        self.writes: list[Write] = []
        self.answers = 0

    def write(self, offsets: dict[TopicPartition, CommittedOffset | None]) -> None:
        records = [
            (offset_key("g", *key), None if offset is None else offset_value(offset))
            for key, offset in offsets.items()
        ]
        self.table.start(offsets)
        self.writes.append(Write(records, partial(self.settled, offsets)))
        self.lane.add(self.writes[-1])

    def settled(
        self, offsets: dict[TopicPartition, CommittedOffset | None], error: KafkaError | None
    ) -> None:
        self.answers += 1
        if error is None:
            self.table.commit(offsets)
        else:
            self.table.give_up(offsets)

    def step(self, what: str, keys: list[TopicPartition] | None, number: int) -> None:
        if what == "commit":
            self.write({key: at(number) for key in keys or ()})
        elif what == "delete":
            self.write(dict.fromkeys(keys or ()))
        elif what == "send":
            self.on_way += [record for write in self.lane.take() for record in write.records]
        elif what == "durable":
            self.durable += self.on_way
            self.on_way = []
            self.lane.settle()
        elif what == "refused":
            self.on_way = []
            self.lane.settle(REFUSED)
        elif what == "lost":
            self.on_way = []
            self.lane.drop(REFUSED)
        elif self.writes:
            self.lane.withdraw(self.writes[-1], REFUSED)

    def check(self) -> None:
        """The table shows exactly what is durable; a restart now would show the same."""
        replay = Replay(0)
        records: list[Any] = [(key, value, (), 0) for key, value in self.durable]
        if records:
            feed(replay, build_batch(records))
        loaded = finished(replay).get("g")
        assert contents(self.table) == ({} if loaded is None else contents(loaded.offsets))
        assert self.table.count == len(contents(self.table))


@given(STEPS)
def test_the_table_is_what_its_log_says(steps: list[tuple[str, Any]]) -> None:
    world = World()
    for number, (what, keys) in enumerate(steps):
        world.step(what, keys, number)
        world.check()
    for what in ("durable", "send", "durable") * len(world.writes):
        world.step(what, None, 0)
    world.check()
    assert world.lane.is_idle
    assert world.lane.waiting_bytes == 0
    assert world.answers == len(world.writes)
    assert set(world.table.keys()) == set(contents(world.table))
