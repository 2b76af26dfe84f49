from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import pytest
import trio
from trio.testing import MockClock

from gateway.api import offset_fetch
from gateway.groups.records import CommittedOffset
from tests.unit.gateway.api.asking import FakeBroker, ask, ask_async, request_class
from tests.unit.gateway.api.fake_groups import NOW_MS, FakeGroups, broker_with_groups
from wireproto.kafka.errors import ErrorCode, KafkaError

Fetch = request_class(9)
ONE_GROUP, SEVERAL_BY_NAME = range(1, 8), range(8, 10)
STRANGER = UUID(int=1)
NOTHING = (-1, -1, "", 0)

Wanted = Mapping[str | UUID, Sequence[int]] | None
Found = dict[Any, dict[int, tuple[int, int, str, int]]]


def _topics(wanted: Wanted, of: Any) -> Any:
    if wanted is None:
        return None
    return [
        of(topic_id=key, partition_indexes=list(indexes))
        if isinstance(key, UUID)
        else of(name=key, partition_indexes=list(indexes))
        for key, indexes in wanted.items()
    ]


def fetch_all(
    broker: FakeBroker, version: int, asked: Mapping[str, Wanted], **fields: Any
) -> dict[str, tuple[Found, int]]:
    """Of each group: by topic and partition (offset, epoch, metadata, error), and the group's error."""
    if version in ONE_GROUP:
        ((group, wanted),) = asked.items()
        topics = _topics(wanted, Fetch.OffsetFetchRequestTopic)
        answer = ask(broker, Fetch(version=version, group_id=group, topics=topics, **fields))
        groups = [{"group_id": group, "error_code": answer.get("error_code", 0), "topics": answer["topics"]}]
    else:
        of = Fetch.OffsetFetchRequestGroup
        groups = ask(
            broker,
            Fetch(
                version=version,
                groups=[
                    of(group_id=group, topics=_topics(wanted, of.OffsetFetchRequestTopics))
                    for group, wanted in asked.items()
                ],
                **fields,
            ),
        )["groups"]
    named = "topic_id" if version >= 10 else "name"
    return {
        group["group_id"]: (
            {
                topic[named]: {
                    one["partition_index"]: (
                        one["committed_offset"],
                        one.get("committed_leader_epoch", -1),
                        one["metadata"],
                        one["error_code"],
                    )
                    for one in topic["partitions"]
                }
                for topic in group["topics"]
            },
            group["error_code"],
        )
        for group in groups
    }


def fetch(broker: FakeBroker, version: int, wanted: Wanted, group: str = "g", **fields: Any) -> Any:
    return fetch_all(broker, version, {group: wanted}, **fields)[group]


def with_offsets() -> tuple[FakeBroker, FakeGroups]:
    """The group "g" has two offsets of "orders", and one of a topic that is gone."""
    broker, groups = broker_with_groups()
    table, orders = groups.add("g").offsets, broker.topics.get("orders").id
    table.put("orders", 0, CommittedOffset(5, 17, "note", NOW_MS, topic_id=orders))
    table.put("orders", 2, CommittedOffset(6, -1, "", NOW_MS, topic_id=orders))
    table.put("gone", 0, CommittedOffset(7, -1, "", NOW_MS, topic_id=b"g" * 16))
    return broker, groups


@pytest.mark.parametrize("version", range(1, 10))
def test_named_partitions(version: int) -> None:
    broker, _ = with_offsets()
    epoch = 17 if version >= 5 else -1
    wanted: Wanted = {"orders": [2, 0, 1, 99], "gone": [0], "nowhere": [0], "payments": []}
    assert fetch(broker, version, wanted) == (
        {
            "orders": {2: (6, -1, "", 0), 0: (5, epoch, "note", 0), 1: NOTHING, 99: NOTHING},
            "gone": {0: (7, -1, "", 0)},
            "nowhere": {0: NOTHING},
            "payments": {},
        },
        0,
    )


@pytest.mark.parametrize("version", range(2, 10))
def test_all_that_was_committed(version: int) -> None:
    broker, _ = with_offsets()
    epoch = 17 if version >= 5 else -1
    assert fetch(broker, version, None) == (
        {"orders": {0: (5, epoch, "note", 0), 2: (6, -1, "", 0)}, "gone": {0: (7, -1, "", 0)}},
        0,
    )
    assert fetch(broker, version, {}) == ({}, 0)


@pytest.mark.parametrize("version", range(1, 10))
def test_a_group_that_does_not_exist_has_no_offsets_and_no_error(version: int) -> None:
    broker, groups = with_offsets()
    assert fetch(broker, version, {"orders": [0]}, "unknown") == ({"orders": {0: NOTHING}}, 0)
    if version >= 2:
        assert fetch(broker, version, None, "unknown") == ({}, 0)
    assert list(groups.groups) == ["g"]


def test_topics_by_id() -> None:
    broker, groups = with_offsets()
    orders, payments = (UUID(bytes=broker.topics.get(name).id) for name in ("orders", "payments"))
    groups.groups["g"].offsets.put("payments", 0, CommittedOffset(8, -1, "", NOW_MS, topic_id=b"o" * 16))
    wanted: Wanted = {STRANGER: [0, 1], orders: [0, 1], payments: [0]}
    found, error = fetch(broker, 10, wanted)
    unknown = (-1, -1, "", ErrorCode.UNKNOWN_TOPIC_ID)
    assert list(found.items()) == [
        (orders, {0: (5, 17, "note", 0), 1: NOTHING}),
        (payments, {0: NOTHING}),  # committed for another topic of that name
        (STRANGER, {0: unknown, 1: unknown}),
    ]
    assert error == 0
    # Without an id a topic cannot be told of; all others are, as Kafka does whatever topic it was.
    assert list(fetch(broker, 10, None)[0]) == [orders, payments]


@pytest.mark.parametrize("version", range(8, 11))
def test_several_groups(version: int) -> None:
    broker, groups = with_offsets()
    groups.add("other").offsets.put("orders", 1, CommittedOffset(1, 0, "", NOW_MS))
    orders = UUID(bytes=broker.topics.get("orders").id) if version == 10 else "orders"
    assert fetch_all(broker, version, {"other": None, "unknown": {orders: [0]}, "g": {orders: [2]}}) == {
        "other": ({orders: {1: (1, 0, "", 0)}}, 0),
        "unknown": ({orders: {0: NOTHING}}, 0),
        "g": ({orders: {2: (6, -1, "", 0)}}, 0),
    }
    assert fetch_all(broker, version, {}) == {}


@pytest.mark.parametrize("version", range(1, 11))
def test_while_groups_are_loading(version: int) -> None:
    broker, groups = with_offsets()
    groups.loading = True
    orders = UUID(bytes=broker.topics.get("orders").id) if version == 10 else "orders"
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if version == 1:
        assert fetch(broker, version, {orders: [0]}) == ({orders: {0: (-1, -1, "", loading)}}, 0)
    else:
        assert fetch(broker, version, {orders: [0]}) == ({}, loading)
        assert fetch(broker, version, None) == ({}, loading)


@pytest.mark.parametrize("version", range(7, 11))
def test_stable_offsets_are_waited_for(version: int) -> None:
    broker, groups = with_offsets()
    fetch(broker, version, None, require_stable=False)
    assert groups.settled == []
    assert fetch(broker, version, None, require_stable=True)[1] == 0
    assert groups.settled == ["g"]
    fetch(broker, version, None, "unknown", require_stable=True)
    assert groups.settled == ["g"]
    for failure, code in [(15, 16), (16, 16)]:
        groups.failure = KafkaError(ErrorCode(failure))
        assert fetch(broker, version, None, require_stable=True) == ({}, code)


def test_many_groups_do_not_wait_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request holds memory meanwhile, and may name thousands."""
    broker, groups = with_offsets()
    names = [f"group {number}" for number in range(100)]
    for name in names:
        groups.add(name)

    async def late(_group_id: str) -> None:
        await trio.sleep(5)
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    monkeypatch.setattr(groups, "settle", late)
    of = Fetch.OffsetFetchRequestGroup
    request = Fetch(version=9, require_stable=True, groups=[of(group_id=name, topics=None) for name in names])

    async def main() -> None:
        before = trio.current_time()
        answer = await ask_async(broker, request)
        assert trio.current_time() - before <= 10
        assert [(group.group_id, group.error_code) for group in answer.groups] == [
            (name, ErrorCode.NOT_COORDINATOR) for name in names
        ]

    trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize("version", [1, 2, 9])
def test_an_answer_is_bounded(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_fetch, "MAX_ANSWER_BYTES", 1500)
    broker, groups = with_offsets()
    groups.groups["g"].offsets.put("orders", 1, CommittedOffset(1, 0, "é" * 400, NOW_MS))
    refused = ErrorCode.POLICY_VIOLATION
    if version == 1:
        assert fetch(broker, 1, {"orders": [1]}) == ({"orders": {1: (-1, -1, "", refused)}}, 0)
    else:
        assert fetch(broker, version, {"orders": [1]}) == ({}, refused)
        assert fetch(broker, version, None) == ({}, refused)
    assert fetch(broker, version, {"orders": [2]})[0] == {"orders": {2: (6, -1, "", 0)}}
