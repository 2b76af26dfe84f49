"""DescribeTopicPartitions: pages of partitions, and cursors."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.api import describe_topic_partitions
from tests.unit.gateway.api.asking import FakeBroker, ask, request_class
from wireproto.kafka.errors import ErrorCode

Describe = request_class(75)
Cursor = tuple[str, int] | None


def describe(broker: FakeBroker, names: list[str], limit: int = 2000, cursor: Cursor = None) -> Any:
    after = None if cursor is None else Describe.Cursor(topic_name=cursor[0], partition_index=cursor[1])
    topics = [Describe.TopicRequest(name=name) for name in names]
    return ask(broker, Describe(version=0, topics=topics, response_partition_limit=limit, cursor=after))


def shown(answer: Any) -> tuple[list[tuple[str, list[int]]], Cursor]:
    """(topic, partitions) in order, and the cursor."""
    cursor = answer["next_cursor"]
    return (
        [(topic["name"], [p["partition_index"] for p in topic["partitions"]]) for topic in answer["topics"]],
        None if cursor is None else (cursor["topic_name"], cursor["partition_index"]),
    )


def three() -> FakeBroker:
    broker = FakeBroker()
    for name, partitions in {"b": 1, "c": 2, "a": 3}.items():
        broker.add(name, partitions)
    return broker


def test_a_topic_with_all_that_is_told_of_it() -> None:
    broker = FakeBroker()
    made = broker.add("t", 2)
    made.partitions[1].available = False
    (topic,) = describe(broker, ["t"])["topics"]
    assert (topic["name"], topic["topic_id"].bytes, topic["error_code"]) == ("t", made.id, 0)
    assert topic["topic_authorized_operations"] == 0b1101_1111_1000
    assert [p.pop("error_code") for p in topic["partitions"]] == [0, ErrorCode.LEADER_NOT_AVAILABLE]
    assert topic["partitions"][1] == {
        "partition_index": 1,
        "leader_id": 1,
        "leader_epoch": 0,
        "replica_nodes": [1],
        "isr_nodes": [1],
        "eligible_leader_replicas": [],
        "last_known_elr": [],
        "offline_replicas": [],
    }


@pytest.mark.parametrize("names", [[], ["c", "a", "b", "c"]])
def test_topics_come_in_order_and_once(names: list[str]) -> None:
    assert shown(describe(three(), names)) == ([("a", [0, 1, 2]), ("b", [0]), ("c", [0, 1])], None)


@pytest.mark.parametrize("limit", range(1, 8))
def test_pages_give_every_partition_once(limit: int) -> None:
    broker, cursor = three(), None
    found: list[tuple[str, int]] = []
    for _ in range(20):
        page, cursor = shown(describe(broker, [], limit, cursor))
        partitions = [(name, index) for name, indexes in page for index in indexes]
        assert 1 <= len(partitions) <= limit
        found += partitions
        if cursor is None:
            break
    assert found == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0), ("c", 1)]


def test_a_page_that_ends_with_a_topic_goes_on_with_the_next_one() -> None:
    assert shown(describe(three(), [], 3)) == ([("a", [0, 1, 2])], ("b", 0))
    assert shown(describe(three(), [], 4)) == ([("a", [0, 1, 2]), ("b", [0])], ("c", 0))


def test_an_answer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_topic_partitions, "MAX_PARTITIONS_PER_ANSWER", 2)
    assert shown(describe(three(), [], 2**31 - 1)) == ([("a", [0, 1])], ("a", 2))
    assert shown(describe(three(), [], -1)) == ([("a", [0])], ("a", 1))


def test_topics_that_are_not_there() -> None:
    topics = describe(three(), ["nowhere", "a/b", "b"])["topics"]
    assert [(topic["name"], topic["error_code"], topic["topic_id"]) for topic in topics[:1]] == [
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION, None)
    ]
    assert [(topic["name"], topic["error_code"]) for topic in topics] == [
        ("a/b", 17),
        ("b", 0),
        ("nowhere", 3),
    ]


@pytest.mark.parametrize("cursor", [("a", -1), ("bb", 0)])
def test_cursors_that_lead_nowhere(cursor: Cursor) -> None:
    topics = describe(three(), ["a", "c"], cursor=cursor)["topics"]
    assert [(topic["name"], topic["error_code"]) for topic in topics] == [("a", 42), ("c", 42)]


def test_a_topic_that_was_deleted_between_two_pages_is_passed_over() -> None:
    assert shown(describe(three(), [], cursor=("ab", 1))) == ([("b", [0]), ("c", [0, 1])], None)
