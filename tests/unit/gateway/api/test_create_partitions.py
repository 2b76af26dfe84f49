"""CreatePartitions; the codes are Apache Kafka 4.3.1's (tests/differential)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.api import create_partitions
from gateway.security.access import UNRESTRICTED
from gateway.security.acls import CLUSTER_NAME, Operation, ResourceType
from tests.unit.gateway.api.asking import ALICE, NODE_ID, FakeBroker, allowed, ask, request_class
from wireproto.kafka.errors import ErrorCode, KafkaError

Create = request_class(37)
VERSIONS = range(4)


def topic(name: str, count: int, assignments: list[list[int]] | None = None) -> Any:
    one = Create.CreatePartitionsTopic
    made = None
    if assignments is not None:
        made = [one.CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
    return one(name=name, count=count, assignments=made)


def create(
    broker: FakeBroker, *topics: Any, version: int = 3, only: bool = False, timeout_ms: int = 5000
) -> list[tuple[str, int, str | None]]:
    request = Create(version=version, topics=list(topics), timeout_ms=timeout_ms, validate_only=only)
    answer = ask(broker, request)
    assert answer.pop("throttle_time_ms") == 0
    results = answer.pop("results")
    assert not answer
    return [(one["name"], one["error_code"], one["error_message"]) for one in results]


def count(broker: FakeBroker, name: str) -> int:
    return len(broker.topics.get(name).partitions)


@pytest.mark.parametrize("version", VERSIONS)
def test_partitions_are_added(version: int) -> None:
    broker = FakeBroker()
    broker.add("a", 2)
    broker.add("b")
    assert create(broker, topic("a", 5), topic("b", 2), version=version) == [("a", 0, None), ("b", 0, None)]
    assert (count(broker, "a"), count(broker, "b")) == (5, 2)


def test_only_validated_nothing_changes() -> None:
    broker = FakeBroker()
    broker.add("a", 2)
    assert create(broker, topic("a", 5), only=True) == [("a", 0, None)]
    assert (count(broker, "a"), broker.waits_for_stores) == (2, 0)
    create(broker, topic("a", 5))
    assert broker.waits_for_stores == 1


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (3, "Topic already has 3 partition(s)."),
        (2, "The topic a currently has 3 partition(s); 2 would not be an increase."),
        (-5, "The topic a currently has 3 partition(s); -5 would not be an increase."),
    ],
)
def test_a_number_that_is_not_higher_is_refused(wanted: int, message: str) -> None:
    broker = FakeBroker()
    broker.add("a", 3)
    assert create(broker, topic("a", wanted)) == [("a", ErrorCode.INVALID_PARTITIONS, message)]
    assert count(broker, "a") == 3


def test_one_failure_leaves_the_others_alone() -> None:
    broker = FakeBroker()
    broker.add("a")
    results = create(broker, topic("nowhere", 2), topic("a", 2))
    assert [(name, code) for name, code, _ in results] == [("nowhere", 3), ("a", 0)]
    assert count(broker, "a") == 2


def test_a_topic_that_is_there_twice_is_not_changed() -> None:
    broker = FakeBroker()
    broker.add("a")
    broker.add("b")
    assert create(broker, topic("a", 2), topic("b", 2), topic("a", 3)) == [
        ("a", ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
        ("b", 0, None),
    ]
    assert (count(broker, "a"), count(broker, "b")) == (1, 2)


def test_without_time_nothing_is_done() -> None:
    broker = FakeBroker()
    broker.add("a")
    assert create(broker, topic("a", 2), timeout_ms=0) == [("a", ErrorCode.REQUEST_TIMED_OUT, None)]
    assert count(broker, "a") == 1
    assert create(broker, timeout_ms=0) == []


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        ([[NODE_ID]], "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."),
        ([[NODE_ID], []], "The manual partition assignment includes an empty replica list."),
        (
            [[NODE_ID], [99]],
            "The manual partition assignment includes broker 99, but no such broker is registered.",
        ),
        (
            [[NODE_ID, NODE_ID], [NODE_ID]],
            "The manual partition assignment includes the broker 1 more than once.",
        ),
    ],
)
def test_assignments_are_judged(assignments: list[list[int]], message: str) -> None:
    broker = FakeBroker()
    broker.add("a")
    assert create(broker, topic("a", 3, assignments)) == [
        ("a", ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    ]
    assert count(broker, "a") == 1


def test_an_assignment_to_this_node_is_what_is_done_anyway() -> None:
    broker = FakeBroker(stores=3)
    broker.add("a")
    assert create(broker, topic("a", 3, [[NODE_ID], [NODE_ID]])) == [("a", 0, None)]
    broker.topics.get("a").replication_factor = 3
    ((_, code, message),) = create(broker, topic("a", 4, [[NODE_ID]]))
    assert code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert message is not None
    assert message.endswith("which have 3 replica(s).")


def test_the_numbers_of_partitions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(create_partitions, "MAX_PARTITIONS_PER_REQUEST", 6)
    broker = FakeBroker()
    broker.topics.most = 10
    broker.add("a")
    broker.add("b")
    ((_, code, message),) = create(broker, topic("a", 8))
    assert (code, message) == (
        ErrorCode.POLICY_VIOLATION,
        "One request may make 6 partitions: ask for fewer at a time.",
    )
    results = create(broker, topic("a", 5), topic("b", 4))
    assert [code for _, code, _ in results] == [0, ErrorCode.POLICY_VIOLATION]
    assert create(broker, topic("b", 5)) == [("b", 0, None)]
    assert create(broker, topic("a", 6)) == [
        (
            "a",
            ErrorCode.POLICY_VIOLATION,
            "There are 10 partitions already and 1 more would exceed the limit of 10.",
        )
    ]


def test_somebody_else_was_faster() -> None:
    broker = FakeBroker()
    broker.add("a")
    broker.failure = KafkaError(ErrorCode.INVALID_PARTITIONS, "Topic already has 4 partition(s).")
    assert create(broker, topic("a", 3)) == [("a", 37, "Topic already has 4 partition(s).")]


def test_an_internal_topic_keeps_its_number() -> None:
    """Where a group is kept follows from it."""
    broker = FakeBroker()
    broker.add("__consumer_offsets", 4)
    ((_, code, message),) = create(broker, topic("__consumer_offsets", 8))
    assert code == ErrorCode.INVALID_PARTITIONS
    assert message is not None
    assert message.startswith("The number of partitions of the internal topic __consumer_offsets cannot")
    assert count(broker, "__consumer_offsets") == 4


UNKNOWN, TIMED_OUT, DENIED, INVALID = 3, 7, 29, 42
ALTER_A = (Operation.ALTER, ResourceType.TOPIC, "a")
ALTER_NONE = (Operation.ALTER, ResourceType.TOPIC, "nope")
ALTER_ALL = (Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
CREATE_A = (Operation.CREATE, ResourceType.TOPIC, "a")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("rights", "a", "nope"),
    [
        ((), DENIED, DENIED),
        ((ALTER_ALL, CREATE_A), DENIED, DENIED),
        ((ALTER_A,), 0, DENIED),
        ((ALTER_NONE,), DENIED, UNKNOWN),
        ((ALTER_A, ALTER_NONE), 0, UNKNOWN),
    ],
    ids=["nothing", "other rights", "one topic", "one that is not there", "both"],
)
def test_who_may_add_partitions(version: int, rights: Any, a: int, nope: int) -> None:
    """Rights on the cluster are none here; the answers to what is refused come first."""
    broker = FakeBroker()
    broker.add("a")
    broker.access = allowed(*rights)
    found = create(broker, topic("a", 2), topic("nope", 2), version=version)
    expected = sorted([("a", a), ("nope", nope)], key=lambda one: one[1] != DENIED)
    assert [(name, code) for name, code, _ in found] == expected
    assert [message for _, code, message in found if code == DENIED] == [None] * [a, nope].count(DENIED)
    assert count(broker, "a") == (1 if a else 2)


def test_a_double_is_that_for_everybody_and_time_runs_out_only_for_what_may_be_changed() -> None:
    broker = FakeBroker()
    broker.add("a")
    broker.access = allowed(ALTER_A)
    found = create(broker, topic("b", 2), topic("c", 2), topic("b", 2), timeout_ms=0)
    assert [(name, code) for name, code, _ in found] == [("b", INVALID), ("c", DENIED)]
    found = create(broker, topic("c", 2), topic("a", 2), timeout_ms=0)
    assert [(name, code) for name, code, _ in found] == [("c", TIMED_OUT), ("a", TIMED_OUT)]
    assert count(broker, "a") == 1


@pytest.mark.parametrize("maker", ["", "User:maker"])
def test_more_partitions_are_on_the_account_of_who_asks_for_them(maker: str) -> None:
    broker = FakeBroker()
    broker.add("a").maker = maker
    broker.topics.refused = KafkaError(ErrorCode.POLICY_VIOLATION, "too many of hers")
    broker.access = allowed(ALTER_A)
    for only in (True, False):
        assert create(broker, topic("a", 3), only=only) == [("a", 44, "too many of hers")]
    assert broker.topics.checked == [(str(ALICE), 2)] * 2
    broker.access = UNRESTRICTED
    assert create(broker, topic("a", 3)) == [("a", 0, None)]
    assert broker.topics.get("a").maker == maker
    broker.topics.refused = None
    broker.access = allowed(ALTER_A)
    assert create(broker, topic("a", 4)) == [("a", 0, None)]
    assert broker.topics.get("a").maker == str(ALICE)
