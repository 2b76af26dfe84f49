from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from gateway.answers.answer_cache import AnswerCache
from gateway.api import metadata
from tests.unit.gateway.api.asking import ADDRESS, CLUSTER_ID, NODE_ID, FakeBroker, ask, request_class

Metadata = request_class(3)
VERSIONS = range(14)
STRANGER = UUID(int=1)
TOPIC_OPERATIONS = {3, 4, 5, 6, 7, 8, 10, 11}
CLUSTER_OPERATIONS = {5, 7, 8, 9, 10, 11, 12}


def named(*names: str) -> list[Any]:
    return [Metadata.MetadataRequestTopic(name=name, topic_id=None) for name in names]


def by_id(*ids: UUID) -> list[Any]:
    return [Metadata.MetadataRequestTopic(name=None, topic_id=topic_id) for topic_id in ids]


def get(
    broker: FakeBroker,
    version: int,
    topics: list[Any] | None,
    *,
    create: bool = False,
    address: tuple[str, int] = ADDRESS,
    **fields: Any,
) -> dict[str, Any]:
    if version >= 4:
        fields["allow_auto_topic_creation"] = create
    return ask(broker, Metadata(version=version, topics=topics, **fields), address)


def errors(answer: dict[str, Any]) -> list[tuple[str | None, int]]:
    return [(topic["name"], topic["error_code"]) for topic in answer["topics"]]


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "_cache", AnswerCache())


def expected_partition(version: int, index: int, *, epoch: int = 0, error: int = 0) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "error_code": error,
        "partition_index": index,
        "leader_id": NODE_ID,
        "replica_nodes": [NODE_ID],
        "isr_nodes": [NODE_ID],
    }
    if version >= 5:
        fields["offline_replicas"] = []
    if version >= 7:
        fields["leader_epoch"] = epoch
    return fields


@pytest.mark.parametrize("version", VERSIONS)
def test_one_topic_field_by_field(version: int) -> None:
    broker = FakeBroker()
    topic = broker.add("t", 2)
    topic.partitions[1].leader_epoch = 7
    node: dict[str, Any] = {"node_id": NODE_ID, "host": "::1", "port": 19092}
    described: dict[str, Any] = {
        "error_code": 0,
        "name": "t",
        "partitions": [expected_partition(version, 0), expected_partition(version, 1, epoch=7)],
    }
    expected: dict[str, Any] = {"brokers": [node], "topics": [described]}
    if version >= 1:
        node["rack"] = None
        described["is_internal"] = False
        expected["controller_id"] = NODE_ID
    if version >= 2:
        expected["cluster_id"] = CLUSTER_ID
    if version >= 3:
        expected["throttle_time_ms"] = 0
    if version >= 8:
        described["authorized_operations"] = None
    if 8 <= version <= 10:
        expected["authorized_operations"] = None
    if version >= 10:
        described["topic_id"] = UUID(bytes=topic.id)
    if version >= 13:
        expected["error_code"] = 0
    assert get(broker, version, named("t"), address=("::1", 19092)) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_all_topics_or_none(version: int) -> None:
    broker = FakeBroker()
    broker.add("b")
    broker.add("a")
    broker.add("__consumer_offsets")
    everything = get(broker, version, None if version else [])
    assert errors(everything) == [("__consumer_offsets", 0), ("a", 0), ("b", 0)]
    if version:
        assert [topic["is_internal"] for topic in everything["topics"]] == [True, False, False]
        nothing = get(broker, version, [])
        assert nothing["topics"] == []
        assert len(nothing["brokers"]) == 1


@pytest.mark.parametrize("version", range(4, 14))
def test_unknown_and_bad_names_and_doubles(version: int) -> None:
    broker = FakeBroker()
    broker.add("t")
    long = "x" * 250
    answer = get(
        broker, version, named("nope", "t", "a/b", "..", "nope", "", long, "__transaction_state", "t")
    )
    assert errors(answer) == [
        ("nope", 3),
        ("t", 0),
        ("a/b", 17),
        ("..", 17),
        ("", 17),
        (long, 17),
        ("__transaction_state", 3),
    ]
    assert [topic["is_internal"] for topic in answer["topics"]] == [False] * 6 + [True]
    assert all(topic["partitions"] == [] for topic in answer["topics"] if topic["error_code"])
    if version >= 10:
        assert answer["topics"][0]["topic_id"] is None
    assert list(broker.topics.topics) == ["t"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_missing_topic_is_unknown_and_created_meanwhile(version: int) -> None:
    broker = FakeBroker(partitions=3)
    names = named("new", "a/b", "old", "__consumer_offsets")
    broker.add("old")
    answer = get(broker, version, names, create=True)
    assert errors(answer) == [("new", 3), ("a/b", 17), ("old", 0), ("__consumer_offsets", 3)]
    new = {"error_code": 3, "name": "new", "partitions": []}
    if version >= 1:
        new["is_internal"] = False
    if version >= 8:
        new["authorized_operations"] = None
    if version >= 10:
        new["topic_id"] = None
    assert answer["topics"][0] == new
    broker.create_automatically()
    answer = get(broker, version, names, create=True)
    assert errors(answer) == [("new", 0), ("a/b", 17), ("old", 0), ("__consumer_offsets", 3)]
    assert len(answer["topics"][0]["partitions"]) == 3
    assert sorted(broker.topics.topics) == ["new", "old"]


def test_a_topic_that_was_just_deleted_is_unknown_in_the_next_answer() -> None:
    broker = FakeBroker()
    broker.add("t")
    assert errors(get(broker, 12, named("t"), create=True)) == [("t", 0)]
    del broker.topics.topics["t"]
    assert errors(get(broker, 12, named("t"), create=True)) == [("t", 3)]
    broker.create_automatically()
    assert errors(get(broker, 12, named("t"), create=True)) == [("t", 0)]


def test_nothing_is_created_when_the_setting_forbids_it() -> None:
    broker = FakeBroker(auto_create_topics=False)
    assert errors(get(broker, 12, named("new"), create=True)) == [("new", 3)]
    broker.create_automatically()
    assert broker.topics.all() == []


def test_asking_for_everything_or_by_id_creates_nothing() -> None:
    broker = FakeBroker()
    assert get(broker, 12, None, create=True)["topics"] == []
    assert errors(get(broker, 12, by_id(STRANGER) + named("new"), create=True)) == [(None, 100)]
    broker.create_automatically()
    assert broker.topics.all() == []


@pytest.mark.parametrize("version", [12, 13])
def test_by_id(version: int) -> None:
    broker = FakeBroker()
    a, b = (UUID(bytes=broker.add(name).id) for name in "ab")
    answer = get(broker, version, by_id(b, STRANGER, a, b))
    assert errors(answer) == [("b", 0), (None, 100), ("a", 0)]
    assert [topic["topic_id"] for topic in answer["topics"]] == [b, STRANGER, a]
    # As Kafka: with any id, names alone are passed over, and names beside ids are not looked at.
    assert errors(get(broker, version, named("b") + by_id(a))) == [("a", 0)]
    both = [Metadata.MetadataRequestTopic(name="b", topic_id=a)]
    assert errors(get(broker, version, both)) == [("a", 0)]
    neither = [Metadata.MetadataRequestTopic(name=None, topic_id=None)]
    assert errors(get(broker, version, neither + by_id(a))) == [("a", 0)]


@pytest.mark.parametrize("version", [12, 13])
def test_neither_name_nor_id_is_an_error_for_all(version: int) -> None:
    broker = FakeBroker()
    broker.add("t")
    neither = [Metadata.MetadataRequestTopic(name=None, topic_id=None)]
    answer = get(broker, version, neither + named("t"))
    assert errors(answer) == [("", -1), ("t", -1)]
    assert (answer["brokers"], answer["cluster_id"], answer["controller_id"]) == ([], None, -1)
    assert answer.get("error_code", -1) == -1


@pytest.mark.parametrize("version", [10, 11])
def test_ids_are_not_for_versions_10_and_11(version: int) -> None:
    broker = FakeBroker()
    topic_id = UUID(bytes=broker.add("t").id)
    for topics in (
        by_id(topic_id),
        [Metadata.MetadataRequestTopic(name="t", topic_id=topic_id)],
        by_id(UUID(int=0)),
    ):
        answer = get(broker, version, topics + named("t"))
        assert [error for _, error in errors(answer)] == [42, 42]
        assert answer["topics"][0]["name"] == (topics[0].name or "")
        assert (answer["brokers"], answer["cluster_id"], answer["controller_id"]) == ([], None, -1)


@pytest.mark.parametrize("version", range(8, 14))
def test_operations_are_told_when_asked_for(version: int) -> None:
    broker = FakeBroker()
    topic_id = UUID(bytes=broker.add("t").id)
    fields: dict[str, Any] = {"include_topic_authorized_operations": True}
    if version <= 10:
        fields["include_cluster_authorized_operations"] = True
    answer = get(broker, version, named("t", "nope"), **fields)
    assert [topic["authorized_operations"] for topic in answer["topics"]] == [TOPIC_OPERATIONS] * 2
    if version <= 10:
        assert answer["authorized_operations"] == CLUSTER_OPERATIONS
    if version >= 12:
        answer = get(broker, version, by_id(topic_id, STRANGER), **fields)
        assert [t["authorized_operations"] for t in answer["topics"]] == [TOPIC_OPERATIONS, None]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_partition_that_is_not_recovered_has_its_leader_and_an_error(version: int) -> None:
    broker = FakeBroker()
    broker.add("t", 2).partitions[0].available = False
    (topic,) = get(broker, version, named("t"))["topics"]
    assert topic["error_code"] == 0
    assert topic["partitions"] == [expected_partition(version, 0, error=5), expected_partition(version, 1)]


def test_topics_that_are_named_while_others_are_recovered_come_first() -> None:
    broker = FakeBroker()
    named_one, _ = broker.add("t", 2), broker.add("u", 2)
    get(broker, 12, named("t"))
    assert broker.recovery.soon == []
    broker.recovery.is_behind = True
    get(broker, 12, None)
    assert broker.recovery.soon == []
    get(broker, 12, named("t"))
    assert broker.recovery.soon == named_one.partitions


def test_a_second_answer_is_as_the_first_would_be_now() -> None:
    """Answers are kept: each change that clients can see must show."""
    broker = FakeBroker()
    topic = broker.add("t", 2)

    def partitions() -> list[dict[str, Any]]:
        answers_now = [get(broker, 12, asked)["topics"][0]["partitions"] for asked in (named("t"), None)]
        assert answers_now[0] == answers_now[1]
        found: list[dict[str, Any]] = answers_now[0]
        return found

    good = [expected_partition(12, 0), expected_partition(12, 1)]
    assert partitions() == good
    assert partitions() == good
    topic.partitions[0].available = False
    assert partitions() == [expected_partition(12, 0, error=5), good[1]]
    topic.partitions[0].available = True
    assert partitions() == good
    topic.partitions[1].leader_epoch = 3
    assert partitions() == [good[0], expected_partition(12, 1, epoch=3)]
    del broker.topics.topics["t"]
    assert errors(get(broker, 12, named("t"))) == [("t", 3)]
    assert errors(get(broker, 12, None)) == []
    again = broker.add("t", 2)
    (answered,) = get(broker, 12, named("t"))["topics"]
    assert (answered["topic_id"], answered["partitions"]) == (UUID(bytes=again.id), good)


def test_different_questions_have_different_answers() -> None:
    broker, other = FakeBroker(), FakeBroker()
    other.cluster_id = "another"
    broker.add("t")
    first = get(broker, 9, named("t"))
    assert first["brokers"][0]["host"] == ADDRESS[0]
    assert get(broker, 9, named("t"), address=("x", 1))["brokers"][0]["host"] == "x"
    asked: dict[str, Any] = {"include_topic_authorized_operations": True}
    assert get(broker, 9, named("t"), **asked)["topics"][0]["authorized_operations"] == TOPIC_OPERATIONS
    asked = {"include_cluster_authorized_operations": True}
    assert get(broker, 9, named("t"), **asked)["authorized_operations"] == CLUSTER_OPERATIONS
    other.topics = broker.topics
    assert get(other, 9, named("t"))["cluster_id"] == "another"
    assert get(broker, 9, named("t")) == first


def test_an_equal_question_is_answered_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = FakeBroker()
    broker.add("t")
    first = get(broker, 12, named("t", "nope"))

    def fail(*_: Any) -> None:
        raise AssertionError("built again")

    monkeypatch.setattr(metadata, "_response", fail)
    assert get(broker, 12, named("t", "nope", "t")) == first
