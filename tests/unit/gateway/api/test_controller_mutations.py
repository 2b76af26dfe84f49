"""Topics and partitions that are made and deleted are charged; who has changed too much is told so."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.quotas.client_quotas import Charges
from gateway.quotas.entities import USER
from tests.unit.gateway.api.asking import FakeBroker, ask, request_class

NewTopics = request_class(19)
GoneTopics = request_class(20)
NewPartitions = request_class(37)
Metadata = request_class(3)

EXCEEDED = (89, "The throttling quota has been exceeded.")
DONE = (0, None)


def broker_with(rate: float, *topics: tuple[str, int]) -> FakeBroker:
    """A burst is eleven seconds of the rate."""
    broker = FakeBroker()
    for name, partitions in topics:
        broker.add(name, partitions)
    broker.quotas.clients.put(frozenset({(USER, "alice")}), {"controller_mutation_rate": rate})
    broker.charges = broker.quotas.clients.charges("alice", "")
    return broker


def throttle_ms(broker: FakeBroker) -> int:
    assert isinstance(broker.charges, Charges)
    return broker.charges.throttle_ms


def create(broker: FakeBroker, version: int, *topics: tuple[str, int], validate_only: bool = False) -> Any:
    made = [
        NewTopics.CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
        )
        for name, partitions in topics
    ]
    request = NewTopics(version=version, topics=made, timeout_ms=1_000, validate_only=validate_only)
    return [(one["error_code"], one["error_message"]) for one in ask(broker, request)["topics"]]


def grow(broker: FakeBroker, version: int, *topics: tuple[str, int]) -> Any:
    made = [
        NewPartitions.CreatePartitionsTopic(name=name, count=count, assignments=None)
        for name, count in topics
    ]
    request = NewPartitions(version=version, topics=made, timeout_ms=1_000, validate_only=False)
    return [(one["error_code"], one["error_message"]) for one in ask(broker, request)["results"]]


def delete(broker: FakeBroker, version: int, *names: str) -> Any:
    states = [GoneTopics.DeleteTopicState(name=name, topic_id=None) for name in names]
    asked = {"topics": states} if version >= 6 else {"topic_names": list(names)}
    answer = ask(broker, GoneTopics(version=version, timeout_ms=1_000, **asked))
    return [(one["error_code"], one.get("error_message")) for one in answer["responses"]]


@pytest.mark.parametrize("version", [6, 7])
def test_a_topic_that_is_too_much_is_refused_and_others_were_made(version: int) -> None:
    broker = broker_with(1)
    # Eleven tokens: the second takes more than there are, the third finds a debt of nine.
    assert create(broker, version, ("a", 1), ("b", 19), ("c", 1)) == [DONE, DONE, EXCEEDED]
    assert list(broker.topics.topics) == ["a", "b"]
    assert throttle_ms(broker) == 9_000


def test_what_is_wrong_is_not_charged_and_what_is_only_asked_is() -> None:
    broker = broker_with(1, ("there", 1))
    ((code, _), *_) = create(broker, 7, ("there", 1_000))
    assert code == 36
    assert throttle_ms(broker) == 0
    assert create(broker, 7, ("a", 20), validate_only=True) == [DONE]
    assert create(broker, 7, ("b", 1)) == [EXCEEDED]


@pytest.mark.parametrize("version", [2, 5])
def test_old_versions_are_not_refused_but_wait(version: int) -> None:
    broker = broker_with(1)
    assert create(broker, version, ("a", 1), ("b", 19), ("c", 1)) == [DONE] * 3
    assert throttle_ms(broker) == 10_000


@pytest.mark.parametrize(("version", "second"), [(3, EXCEEDED), (2, DONE)])
def test_partitions_that_are_added(version: int, second: tuple[int, str | None]) -> None:
    broker = broker_with(1, ("a", 1), ("b", 1))
    # Ten, and then eleven where a token is left; another partition finds a debt.
    assert grow(broker, version, ("a", 14), ("b", 2)) == [DONE, second]
    assert throttle_ms(broker) == (2_000 if version == 3 else 3_000)


@pytest.mark.parametrize(("version", "second"), [(6, EXCEEDED), (5, EXCEEDED), (4, DONE)])
def test_topics_that_are_deleted(version: int, second: tuple[int, str | None]) -> None:
    broker = broker_with(1, ("a", 13), ("b", 1))
    assert delete(broker, version, "a", "b") == [DONE, second]
    assert list(broker.topics.topics) == (["b"] if second == EXCEEDED else [])
    assert throttle_ms(broker) == (2_000 if second == EXCEEDED else 3_000)


def test_topics_that_are_made_because_somebody_asks_about_them() -> None:
    broker = broker_with(0.1)
    asked = [Metadata.MetadataRequestTopic(name=f"t{number}", topic_id=None) for number in range(5)]
    request = Metadata(
        version=9,
        topics=asked,
        allow_auto_topic_creation=True,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    ask(broker, request)
    broker.create_automatically()
    # 1.1 tokens: the third finds a debt, is left out, and nobody waits for it.
    assert list(broker.topics.topics) == ["t0", "t1"]
    assert throttle_ms(broker) == 0
