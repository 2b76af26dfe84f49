from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from gateway.security.acls import CLUSTER_NAME, Operation, ResourceType
from tests.unit.gateway.api.asking import FakeBroker, allowed, ask, request_class
from wireproto.kafka.errors import ErrorCode, KafkaError

Delete = request_class(20)
BY_NAME = range(1, 6)
STRANGER = UUID(int=1)


def delete(broker: FakeBroker, version: int, *names: str, timeout_ms: int = 5000) -> list[tuple[str, int]]:
    answer = ask(broker, Delete(version=version, topic_names=list(names), timeout_ms=timeout_ms))
    assert answer["throttle_time_ms"] == 0
    for result in answer["responses"]:
        if version >= 5:
            assert bool(result["error_message"]) == (result["error_code"] not in {0, 7})
    return [(result["name"], result["error_code"]) for result in answer["responses"]]


def delete_v6(
    broker: FakeBroker, *wanted: tuple[str | None, UUID | None], timeout_ms: int = 5000
) -> list[tuple[str | None, UUID | None, int]]:
    state = Delete.DeleteTopicState
    topics = [state(name=name, topic_id=topic_id) for name, topic_id in wanted]
    answer = ask(broker, Delete(version=6, topics=topics, timeout_ms=timeout_ms))
    for result in answer["responses"]:
        assert bool(result["error_message"]) == (result["error_code"] not in {0, 7})
    return [(result["name"], result["topic_id"], result["error_code"]) for result in answer["responses"]]


def three() -> tuple[FakeBroker, list[UUID]]:
    broker = FakeBroker()
    return broker, [UUID(bytes=broker.add(name).id) for name in "abc"]


def left(broker: FakeBroker) -> list[str]:
    return sorted(broker.topics.topics)


@pytest.mark.parametrize("version", BY_NAME)
def test_by_name(version: int) -> None:
    broker, _ = three()
    assert delete(broker, version, "b", "a") == [("b", 0), ("a", 0)]
    assert left(broker) == ["c"]
    assert delete(broker, version, "b") == [("b", 3)]
    assert delete(broker, version) == []


@pytest.mark.parametrize("version", BY_NAME)
def test_bad_names_and_doubles(version: int) -> None:
    broker, _ = three()
    answer = delete(broker, version, "a", "nope", "a", "", "..", "b", "__cluster_metadata")
    assert answer == [("a", 42), ("nope", 3), ("", 3), ("..", 3), ("b", 0), ("__cluster_metadata", 3)]
    assert left(broker) == ["a", "c"]


@pytest.mark.parametrize("version", BY_NAME)
@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_without_time_nothing_is_deleted(version: int, timeout_ms: int) -> None:
    broker, _ = three()
    answer = delete(broker, version, "a", "nope", "a", timeout_ms=timeout_ms)
    assert answer == [("a", 7), ("nope", 7), ("a", 7)]
    assert left(broker) == ["a", "b", "c"]


def test_v6_by_name_or_by_id() -> None:
    broker, (a, b, _) = three()
    assert delete_v6(broker, ("a", None), (None, b)) == [("a", a, 0), ("b", b, 0)]
    assert left(broker) == ["c"]
    assert delete_v6(broker, ("a", None), (None, b), (None, STRANGER)) == [
        ("a", None, 3),
        (None, b, 100),
        (None, STRANGER, 100),
    ]


def test_v6_without_time_nothing_is_deleted() -> None:
    broker, (_, b, _) = three()
    answer = delete_v6(broker, ("a", None), (None, None), ("a", b), (None, b), timeout_ms=0)
    assert answer == [("a", None, 7), (None, None, 7), ("a", b, 7), (None, b, 7)]
    assert left(broker) == ["a", "b", "c"]


def test_v6_name_and_id_together_or_neither() -> None:
    broker, (a, b, c) = three()
    assert delete_v6(broker, ("c", None), ("a", a), ("a", b), (None, None)) == [
        ("a", a, 42),
        ("a", b, 42),
        (None, None, 42),
        ("c", c, 0),
    ]
    assert left(broker) == ["a", "b"]


def test_v6_doubles_are_answered_once_and_not_deleted() -> None:
    broker, (a, b, c) = three()
    assert delete_v6(broker, ("a", None), (None, b), ("a", None), (None, b), (None, b), (None, c)) == [
        ("a", None, 42),
        (None, b, 42),
        ("c", c, 0),
    ]
    assert left(broker) == ["a", "b"]
    # A name and the id it stands for.
    assert delete_v6(broker, ("a", None), (None, a)) == [("a", a, 42)]
    assert delete_v6(broker, (None, b), (None, b), ("b", None)) == [(None, b, 42), ("b", b, 42)]
    assert left(broker) == ["a", "b"]
    # A name that is there twice is out of the game: its id alone is left.
    assert delete_v6(broker, ("a", None), ("a", None), (None, a)) == [("a", None, 42), ("a", a, 0)]
    assert left(broker) == ["b"]


@pytest.mark.parametrize("version", BY_NAME)
def test_what_the_broker_says_is_the_topics_answer(version: int) -> None:
    broker, _ = three()
    broker.failure = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert delete(broker, version, "a") == [("a", 3)]


DELETE_ALL = (Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME)
DESCRIBE_A = (Operation.DESCRIBE, ResourceType.TOPIC, "a")
DELETE_A = (Operation.DELETE, ResourceType.TOPIC, "a")  # implies Describe
DESCRIBE_NONE = (Operation.DESCRIBE, ResourceType.TOPIC, "nope")
UNKNOWN, DENIED, UNKNOWN_ID = 3, 29, 100
RIGHTS = {
    "nothing": (),
    "other rights": ((Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME), (*DELETE_A[:2], "other")),
    "the cluster": (DELETE_ALL,),
    "seen": (DESCRIBE_A, DESCRIBE_NONE),
    "one topic": (DELETE_A,),
}


@pytest.mark.parametrize("version", [*BY_NAME, 6])
@pytest.mark.parametrize(
    ("rights", "a", "b", "nope"),
    [
        ("nothing", DENIED, DENIED, DENIED),
        ("other rights", DENIED, DENIED, DENIED),
        ("the cluster", 0, 0, UNKNOWN),
        ("seen", DENIED, DENIED, UNKNOWN),
        ("one topic", 0, DENIED, DENIED),
    ],
)
def test_who_may_delete_topics_by_name(version: int, rights: str, a: int, b: int, nope: int) -> None:
    """What one may not see is refused whether it is there or not; the zero id tells nothing."""
    broker, _ = three()
    broker.access = allowed(*RIGHTS[rights])
    if version == 6:
        found: Any = delete_v6(broker, ("a", None), ("b", None), ("nope", None))
        assert all(topic_id is None for _, topic_id, code in found if code)
        found = [(name, code) for name, _, code in found]
    else:
        found = delete(broker, version, "a", "b", "nope")
    assert found == [("a", a), ("b", b), ("nope", nope)]
    assert left(broker) == [name for name, code in (("a", a), ("b", b), ("c", 1)) if code]


@pytest.mark.parametrize(
    ("rights", "a", "b"),
    [
        ("nothing", (None, DENIED), (None, DENIED)),
        ("other rights", (None, DENIED), (None, DENIED)),
        ("the cluster", ("a", 0), ("b", 0)),
        ("seen", ("a", DENIED), (None, DENIED)),
        ("one topic", ("a", 0), (None, DENIED)),
    ],
)
def test_who_may_delete_topics_by_id(
    rights: str, a: tuple[str | None, int], b: tuple[str | None, int]
) -> None:
    """An id is no secret, the name that belongs to it is one."""
    broker, (id_a, id_b, _) = three()
    broker.access = allowed(*RIGHTS[rights])
    found = delete_v6(broker, (None, id_a), (None, id_b), (None, STRANGER))
    assert found == [(a[0], id_a, a[1]), (b[0], id_b, b[1]), (None, STRANGER, UNKNOWN_ID)]
    assert left(broker) == [name for name, code in (("a", a[1]), ("b", b[1]), ("c", 1)) if code]


def test_that_a_name_and_an_id_are_one_topic_is_told_to_whoever_may_delete_it() -> None:
    broker, (id_a, id_b, _) = three()
    broker.access = allowed(DELETE_A, (Operation.DESCRIBE, ResourceType.TOPIC, "b"))
    found = delete_v6(broker, ("a", None), (None, id_a), ("b", None), (None, id_b))
    assert found == [("a", id_a, 42), ("b", None, DENIED), ("b", id_b, DENIED)]
    assert left(broker) == ["a", "b", "c"]


def test_badly_named_topics_are_that_for_everybody() -> None:
    broker, (id_a, _, _) = three()
    broker.access = allowed()
    found = delete_v6(broker, ("a", id_a), (None, None), ("b", None), ("b", None), (None, id_a), (None, id_a))
    assert [code for _, _, code in found] == [42, 42, 42, 42]
    assert delete(broker, 5, "a", timeout_ms=0) == [("a", 7)]
