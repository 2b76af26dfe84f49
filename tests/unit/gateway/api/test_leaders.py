"""ElectLeaders and the reassignments: nothing is ever to be done, and what is asked wrongly is told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.gateway.api.asking import NODE_ID, FakeBroker, ask, request_class

Elect = request_class(43)
Reassign = request_class(45)
Ongoing = request_class(46)


def two() -> FakeBroker:
    broker = FakeBroker()
    broker.add("a", 2)
    broker.add("b")
    return broker


def elect(topics: dict[str, list[int]] | None, version: int = 2, kind: int = 0) -> Any:
    wanted = None
    if topics is not None:
        wanted = [Elect.TopicPartitions(topic=name, partitions=indexes) for name, indexes in topics.items()]
    fields: dict[str, Any] = {"election_type": kind} if version else {}
    return ask(two(), Elect(version=version, topic_partitions=wanted, timeout_ms=1000, **fields))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_no_election_is_needed(version: int) -> None:
    answer = elect({"a": [1, 2, -1], "nowhere": [0]}, version)
    assert answer.get("error_code", 0) == 0
    assert [
        (topic["topic"], one["partition_id"], one["error_code"])
        for topic in answer["replica_election_results"]
        for one in topic["partition_result"]
    ] == [("a", 1, 84), ("a", 2, 3), ("a", -1, 3), ("nowhere", 0, 3)]


def test_all_partitions_are_answered_without_any() -> None:
    found = elect(None)["replica_election_results"]
    assert [(topic["topic"], topic["partition_result"]) for topic in found] == [("a", []), ("b", [])]


@pytest.mark.parametrize(("kind", "error"), [(0, 0), (1, 0), (2, 42), (-1, 42)])
def test_kinds_of_elections(kind: int, error: int) -> None:
    answer = elect({"a": [0]}, kind=kind)
    ((found,),) = [topic["partition_result"] for topic in answer["replica_election_results"]]
    assert (answer["error_code"], found["error_code"]) == (error, error or 84)
    assert elect(None, kind=kind)["error_code"] == error


def reassign(topics: dict[str, dict[int, list[int] | None]], timeout_ms: int = 1000, version: int = 1) -> Any:
    one = Reassign.ReassignableTopic
    wanted = [
        one(
            name=name,
            partitions=[
                one.ReassignablePartition(partition_index=index, replicas=ids) for index, ids in parts.items()
            ],
        )
        for name, parts in topics.items()
    ]
    return ask(two(), Reassign(version=version, timeout_ms=timeout_ms, topics=wanted))


@pytest.mark.parametrize("version", [0, 1])
def test_reassignments_are_judged(version: int) -> None:
    asked: dict[str, dict[int, list[int] | None]] = {
        "a": {0: [NODE_ID], 1: [99], 2: [NODE_ID]}, "b": {0: None}, "nowhere": {0: []}
    }  # fmt: skip
    answer = reassign(asked, version=version)
    assert answer["error_code"] == 0
    assert [
        (topic["name"], one["partition_index"], one["error_code"])
        for topic in answer["responses"]
        for one in topic["partitions"]
    ] == [("a", 0, 0), ("a", 1, 39), ("a", 2, 3), ("b", 0, 85), ("nowhere", 0, 3)]


def test_without_time_nothing_is_judged() -> None:
    answer = reassign({"a": {0: [99]}}, timeout_ms=0)
    assert answer["error_code"] == 7
    assert [[one["error_code"] for one in topic["partitions"]] for topic in answer["responses"]] == [[7]]


def test_none_is_ever_ongoing() -> None:
    one = Ongoing.ListPartitionReassignmentsTopics(name="a", partition_indexes=[0])
    for topics in (None, [], [one]):
        answer = ask(two(), Ongoing(version=0, timeout_ms=1000, topics=topics))
        assert (answer["error_code"], answer["topics"]) == (0, [])
