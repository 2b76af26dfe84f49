from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gateway.groups.records import CommittedOffset
from tests.unit.gateway.api.asking import FakeBroker, ask, request_class
from tests.unit.gateway.api.fake_groups import NOW_MS, FakeGroups, broker_with_groups, member_of
from wireproto.kafka.errors import ErrorCode, KafkaError

Delete = request_class(47)
_Topic = Delete.OffsetDeleteRequestTopic


def delete(
    broker: FakeBroker, wanted: Mapping[str, Sequence[int]], group: str = "g"
) -> tuple[int, dict[str, dict[int, int]]]:
    topics = [
        _Topic(
            name=name,
            partitions=[_Topic.OffsetDeleteRequestPartition(partition_index=index) for index in indexes],
        )
        for name, indexes in wanted.items()
    ]
    answer = ask(broker, Delete(version=0, group_id=group, topics=topics))
    found = {
        topic["name"]: {one["partition_index"]: one["error_code"] for one in topic["partitions"]}
        for topic in answer["topics"]
    }
    return answer["error_code"], found


def with_offsets(protocol_type: str = "", subscribed: str = "") -> tuple[FakeBroker, FakeGroups]:
    broker, groups = broker_with_groups()
    group = groups.add("g", protocol_type=protocol_type, member=member_of(subscribed) if subscribed else None)
    for topic, index in [("orders", 0), ("orders", 1), ("payments", 0)]:
        group.offsets.put(topic, index, CommittedOffset(5, -1, "", NOW_MS))
    return broker, groups


def left(groups: FakeGroups) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = groups.groups["g"].offsets.keys()
    return found


def test_what_is_there_is_deleted_and_what_is_not_is_no_error() -> None:
    broker, groups = with_offsets()
    assert delete(broker, {"orders": [0, 2], "payments": [0]}) == (
        0,
        {"orders": {0: 0, 2: 0}, "payments": {0: 0}},
    )
    assert left(groups) == [("orders", 1)]
    assert groups.writes == 1
    assert delete(broker, {"orders": [0]}) == (0, {"orders": {0: 0}})
    assert groups.writes == 1
    assert delete(broker, {}) == (0, {})


def test_partitions_that_do_not_exist() -> None:
    broker, groups = with_offsets()
    assert delete(broker, {"nowhere": [0], "orders": [-1, 0, 3]}) == (
        0,
        {"nowhere": {0: 3}, "orders": {-1: 3, 3: 3, 0: 0}},
    )
    assert left(groups) == [("orders", 1), ("payments", 0)]


def test_a_topic_that_the_group_reads_keeps_its_offsets() -> None:
    broker, groups = with_offsets("consumer", "orders")
    assert delete(broker, {"orders": [0, 2], "payments": [0]}) == (
        0,
        {"orders": {0: 86, 2: 86}, "payments": {0: 0}},
    )
    assert left(groups) == [("orders", 0), ("orders", 1)]


def test_a_topic_that_the_group_begins_to_read_between_two_writes_keeps_its_offsets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a member that has come meanwhile commits was answered: no tombstone may follow it."""
    broker, groups = broker_with_groups()
    long_id = "g" * 30_000  # each tombstone is a batch of its own
    group = groups.add(long_id)
    for index in range(3):
        group.offsets.put("orders", index, CommittedOffset(5, -1, "", NOW_MS))
    write = groups.delete_offsets

    async def write_and_join(*arguments: Any) -> None:
        await write(*arguments)
        monkeypatch.setattr(type(group.machine), "is_subscribed", lambda _, topic: topic == "orders")

    monkeypatch.setattr(groups, "delete_offsets", write_and_join)
    assert delete(broker, {"orders": [0, 1, 2]}, long_id) == (0, {"orders": {0: 0, 1: 86, 2: 86}})
    assert group.offsets.keys() == [("orders", 1), ("orders", 2)]


@pytest.mark.parametrize(
    ("group", "code"), [("unknown", ErrorCode.GROUP_ID_NOT_FOUND), ("g", ErrorCode.NON_EMPTY_GROUP)]
)
def test_an_error_of_the_group_is_said_once(group: str, code: ErrorCode) -> None:
    broker, groups = with_offsets("connect", "orders")
    assert delete(broker, {"orders": [0], "nowhere": [0]}, group) == (code, {})
    assert len(left(groups)) == 3


def test_what_cannot_be_written_is_an_error_of_the_group() -> None:
    broker, groups = with_offsets()
    groups.failure = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert delete(broker, {"orders": [0]}) == (15, {})
    assert len(left(groups)) == 3
    groups.failure, groups.loading = None, True
    assert delete(broker, {"orders": [0]}) == (14, {})


def test_a_group_without_offsets_stays() -> None:
    broker, groups = with_offsets()
    delete(broker, {"orders": [0, 1], "payments": [0]})
    assert left(groups) == []
    assert delete(broker, {"orders": [0]}) == (0, {"orders": {0: 0}})
