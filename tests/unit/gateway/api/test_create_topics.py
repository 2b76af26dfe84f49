"""Every expected code was measured on Apache Kafka 4.3.1, where it says nothing else."""

from __future__ import annotations

import logging
from typing import Any, cast
from uuid import UUID

import pytest
import trio

from gateway.administration.topic_creation import check_new_topic
from gateway.common import log_limit
from gateway.security.access import UNRESTRICTED
from gateway.security.acls import CLUSTER_NAME, Operation, ResourceType
from tests.unit.gateway.api.asking import ALICE, FakeBroker, allowed, ask, request_class
from wireproto.kafka.errors import ErrorCode, KafkaError

Create = request_class(19)
VERSIONS = range(2, 8)
REFUSED: dict[str, Any] = {"topic_id": None, "num_partitions": -1, "replication_factor": -1, "configs": []}


def topic(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    assignments: list[tuple[int, list[int]]] | None = None,
    **configs: str | None,
) -> Any:
    one = Create.CreatableTopic
    return one(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            one.CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
            for index, ids in assignments or []
        ],
        configs=[
            one.CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


def create(
    broker: FakeBroker, *topics: Any, version: int = 7, only: bool = False, timeout_ms: int = 5000
) -> list[dict[str, Any]]:
    answer = ask(
        broker,
        Create(version=version, topics=list(topics), timeout_ms=timeout_ms, validate_only=only),
    )
    assert answer.pop("throttle_time_ms") == 0
    results: list[dict[str, Any]] = answer.pop("topics")
    assert not answer
    return results


def errors(broker: FakeBroker, *topics: Any, **fields: Any) -> list[tuple[str, int]]:
    """(name, error) of each result; a result has a message when it has an error, unless it timed out."""
    results = create(broker, *topics, **fields)
    for result in results:
        assert bool(result["error_message"]) == (result["error_code"] not in {0, 7})
    return [(result["name"], result["error_code"]) for result in results]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_is_created_with_what_was_asked_for(version: int) -> None:
    broker = FakeBroker(stores=3)
    (result,) = create(broker, topic("t", 3, 2, retention_ms=" 5 "), version=version)
    made = broker.topics.get("t")
    assert (len(made.partitions), made.replication_factor, made.configs) == (3, 2, {"retention.ms": " 5 "})
    expected: dict[str, Any] = {"name": "t", "error_code": 0, "error_message": None}
    if version >= 5:
        configs = result.pop("configs")
        expected |= {"topic_config_error_code": 0, "num_partitions": 3, "replication_factor": 2}
        assert len(configs) == 33
        shown = {config["name"]: config for config in configs}
        assert list(shown) == sorted(shown)
        assert shown["retention.ms"] == {
            "name": "retention.ms",
            "value": " 5 ",
            "read_only": False,
            "config_source": 1,
            "is_sensitive": False,
        }
        assert (shown["segment.bytes"]["value"], shown["segment.bytes"]["config_source"]) == ("1073741824", 5)
    if version >= 7:
        expected["topic_id"] = UUID(bytes=made.id)
    assert result == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_minus_one_takes_the_defaults(version: int) -> None:
    broker = FakeBroker(partitions=4)
    assert errors(broker, topic("t", -1, -1), version=version) == [("t", 0)]
    made = broker.topics.get("t")
    assert (len(made.partitions), made.replication_factor) == (4, 1)


def test_validating_creates_nothing_and_answers_the_same() -> None:
    broker = FakeBroker()
    (validated,) = create(broker, topic("t", 2, retention_ms="5"), only=True)
    assert (broker.topics.all(), broker.waits_for_stores) == ([], 0)
    (created,) = create(broker, topic("t", 2, retention_ms="5"))
    assert broker.waits_for_stores == 1
    assert validated.pop("topic_id") not in {None, created.pop("topic_id")}
    assert validated == created
    assert errors(broker, topic("t"), only=True) == [("t", 36)]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "a\0b", "é", "x" * 250])
def test_bad_names(version: int, name: str) -> None:
    broker = FakeBroker()
    assert errors(broker, topic(name), version=version) == [(name, 17)]
    assert broker.topics.all() == []


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (topic("t", 0), 37),
        (topic("t", -2), 37),
        (topic("t", 1, 0), 38),
        (topic("t", 1, -2), 38),
        (topic("t", 1, 2), 38),
        (topic("t", 1, 32_767), 38),
        (topic("t", 0, 0), 38),
        (topic("t", 0, 2), 37),
        (topic("t", -5, 0, nonsense="1"), 40),
        (topic("t", retention_ms=None), 40),
        (topic("t", retention_ms="x"), 40),
        (topic("t", message_max_bytes="1"), 40),
        (topic("old", 0, 0, nonsense="1"), 36),
        (topic("o.ld.x", 0, 0, nonsense="1"), 17),
        (topic("a/b", 0, 0, nonsense="1"), 17),
        (topic("__cluster_metadata"), 42),
        (topic("__consumer_offsets"), 0),
        (topic("__mine"), 0),
    ],
)
def test_the_first_thing_that_is_wrong_is_told(asked: Any, error: int) -> None:
    broker = FakeBroker()
    broker.add("old")
    broker.add("o_ld.x")
    assert errors(broker, asked) == [(asked.name, error)]
    assert (asked.name in broker.topics.topics) == (error in {0, 36})


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (topic("t", -1, -1, [(1, [1]), (0, [1])]), 0),
        (topic("t", 2, -1, [(0, [1])]), 42),
        (topic("t", -1, 1, [(0, [1])]), 42),
        (topic("t", 2, 1, [(0, [4711])]), 42),
        (topic("t", -1, -1, [(0, [2])]), 39),
        (topic("t", -1, -1, [(0, [-1])]), 39),
        (topic("t", -1, -1, [(1, [1])]), 39),
        (topic("t", -1, -1, [(-1, [1])]), 39),
        (topic("t", -1, -1, [(0, [1, 1])]), 39),
        (topic("t", -1, -1, [(0, [])]), 39),
        (topic("t", -1, -1, [(0, [1]), (0, [1])]), 39),
        (topic("t", -1, -1, [(0, [2])], nonsense="1"), 40),
    ],
)
def test_assignments_by_hand(asked: Any, error: int) -> None:
    broker = FakeBroker()
    assert errors(broker, asked) == [("t", error)]
    if not error:
        made = broker.topics.get("t")
        assert (len(made.partitions), made.replication_factor) == (2, 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_good_topics_are_created_beside_bad_ones(version: int) -> None:
    broker = FakeBroker()
    broker.add("old")
    asked = [
        topic("ok1"),
        topic("a/b"),
        topic("ok2"),
        topic("twice"),
        topic("old"),
        topic("twice", 2),
        topic("none", 0),
        topic("__cluster_metadata"),
        topic("ok3"),
    ]
    assert errors(broker, *asked, version=version) == [
        ("ok1", 0),
        ("a/b", 17),
        ("ok2", 0),
        ("old", 36),
        ("none", 37),
        ("ok3", 0),
        ("twice", 42),
        ("__cluster_metadata", 42),
    ]
    assert sorted(broker.topics.topics) == ["ok1", "ok2", "ok3", "old"]


def test_a_refused_topic_has_no_numbers() -> None:
    (result,) = create(FakeBroker(), topic("t", 0))
    assert result.pop("error_message")
    assert result == {"name": "t", "error_code": 37, "topic_config_error_code": 0, **REFUSED}


def test_names_that_would_collide_in_kafkas_metrics() -> None:
    broker = FakeBroker()
    broker.add("a.b")
    assert errors(broker, topic("a_b"), topic("a-b"), topic("c.d"), topic("c_d")) == [
        ("a_b", 17),
        ("a-b", 0),
        ("c.d", 0),
        ("c_d", 17),  # Kafka lets two that are created by one request collide
    ]


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_without_time_nothing_is_created(timeout_ms: int) -> None:
    broker = FakeBroker()
    asked = [topic("a"), topic("a"), topic("b/b")]
    assert errors(broker, *asked, timeout_ms=timeout_ms) == [("a", 7), ("a", 7), ("b/b", 7)]
    assert errors(broker, topic("a"), timeout_ms=timeout_ms, only=True) == [("a", 7)]
    assert errors(broker, topic("__cluster_metadata"), timeout_ms=timeout_ms) == [("__cluster_metadata", 42)]
    assert errors(broker, timeout_ms=timeout_ms) == []
    assert broker.topics.all() == []


@pytest.mark.parametrize(
    "asked",
    [
        [topic("a", 10_000)],
        [topic("a", 1_000_000)],
        [topic("a", 2**31 - 1), topic("b", 2**31 - 1)],
        [topic("a", 5000), topic("b", 5000)],
        [topic("a", 9998), topic("b", -1)],
        [topic("a", 9999), topic("b/b")],
        [topic("a", -1, -1, [(index, [1]) for index in range(10_000)])],
    ],
)
def test_too_many_partitions_in_one_request(asked: list[Any]) -> None:
    broker = FakeBroker()
    assert errors(broker, *asked) == [(one.name, 44) for one in asked]
    assert broker.topics.all() == []


def test_the_most_partitions_in_one_request() -> None:
    assert errors(FakeBroker(), topic("a", 9999)) == [("a", 0)]
    # Those that are refused beforehand do not count.
    assert errors(FakeBroker(), topic("z", 10_001), topic("z"), topic("a")) == [("a", 0), ("z", 42)]


def test_the_partitions_of_all_topics_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = FakeBroker()
    broker.topics.most = 10
    broker.add("old", 7)
    assert errors(broker, topic("a", 4), topic("b", 3), topic("c")) == [("a", 44), ("b", 0), ("c", 44)]


def test_a_replication_factor_above_the_stores_is_kept_when_that_is_asked_for(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_limit, "_said", set())
    broker = FakeBroker(relax_replication_factor=True)
    with caplog.at_level(logging.WARNING):
        results = create(broker, topic("a", 1, 3), topic("b", 1, 2), topic("c", 1, 1))
    assert [(r["error_code"], r["replication_factor"]) for r in results] == [(0, 3), (0, 2), (0, 1)]
    assert [broker.topics.get(name).replication_factor for name in "abc"] == [3, 2, 1]
    (record,) = caplog.records
    assert "replication factor 3" in record.getMessage()


def test_a_config_that_is_there_twice_counts_with_its_last_value() -> None:
    broker = FakeBroker()
    asked = topic("t", retention_ms="1")
    asked.configs.append(Create.CreatableTopic.CreatableTopicConfig(name="retention.ms", value="2"))
    assert errors(broker, asked) == [("t", 0)]
    assert broker.topics.get("t").configs == {"retention.ms": "2"}


def test_what_the_broker_says_is_the_topics_answer() -> None:
    broker = FakeBroker()
    broker.failure = KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, "another client was faster")
    (result,) = create(broker, topic("t"))
    assert (result["error_code"], result["error_message"]) == (36, "another client was faster")


def test_one_topic_waits_for_the_word_of_the_stores_and_not_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second for each of some thousand topics would be hours."""
    broker, tried = FakeBroker(), []

    async def refuse(name: str, *_: Any, **__: Any) -> Any:
        tried.append(name)
        await trio.lowlevel.checkpoint()
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "too few stores")

    monkeypatch.setattr(broker, "create_topic", refuse)
    assert errors(broker, topic("a"), topic("b"), topic("!"), topic("c")) == [
        ("a", ErrorCode.NOT_CONTROLLER),
        ("b", ErrorCode.NOT_CONTROLLER),
        ("!", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("c", ErrorCode.NOT_CONTROLLER),
    ]
    assert tried == ["a"]


CREATE_ALL = (Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
CREATE_A = (Operation.CREATE, ResourceType.TOPIC, "a")
CREATE_OLD = (Operation.CREATE, ResourceType.TOPIC, "old")
CONFIGS_OF_A = (Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "a")
EXISTS, DENIED, INVALID = 36, 29, 42


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("rights", "expected"),
    [
        ((), {"a": DENIED, "b": DENIED, "old": DENIED}),
        (
            ((Operation.DESCRIBE, ResourceType.TOPIC, "a"), (Operation.ALTER, *CREATE_ALL[1:])),
            {"a": DENIED, "b": DENIED, "old": DENIED},
        ),
        ((CREATE_ALL,), {"a": 0, "b": 0, "old": EXISTS}),
        ((CREATE_A,), {"a": 0, "b": DENIED, "old": DENIED}),
        ((CREATE_A, CREATE_OLD), {"a": 0, "old": EXISTS, "b": DENIED}),
    ],
    ids=["nothing", "other rights", "the cluster", "one topic", "one that exists"],
)
def test_who_may_create_topics(version: int, rights: Any, expected: dict[str, int]) -> None:
    """What is refused is answered last, and is not told whether it is there."""
    broker = FakeBroker()
    broker.add("old")
    broker.access = allowed(*rights)
    asked = (topic("a"), topic("old"), topic("b"))
    found = errors(broker, *asked, version=version)
    assert found == sorted(expected.items(), key=lambda item: (item[1] == DENIED, "a old b".find(item[0])))
    assert sorted(broker.topics.topics) == sorted({"old"} | {n for n, code in expected.items() if code == 0})
    assert {one["error_message"] for one in create(broker, *asked) if one["error_code"] == DENIED} <= {
        "Authorization failed."
    }


@pytest.mark.parametrize("only", [False, True])
@pytest.mark.parametrize("version", [5, 6, 7])
@pytest.mark.parametrize(
    "rights", [(CREATE_ALL, CONFIGS_OF_A), (CREATE_A, CONFIGS_OF_A), (CREATE_A,), (CREATE_ALL,)]
)
def test_configs_are_told_to_whoever_may_see_them(version: int, only: bool, rights: Any) -> None:
    broker, unrestricted = FakeBroker(), FakeBroker()
    broker.access = allowed(*rights)
    (found,) = create(broker, topic("a", 3), version=version, only=only)
    (full,) = create(unrestricted, topic("a", 3), version=version, only=only)
    for one in (found, full):
        one.pop("topic_id", None)
    if CONFIGS_OF_A in rights:
        assert found == full
    else:
        hidden = {
            "topic_config_error_code": 29,
            "num_partitions": -1,
            "replication_factor": -1,
            "configs": [],
        }
        assert found == full | hidden


def test_badly_named_topics_are_that_for_everybody() -> None:
    broker = FakeBroker()
    broker.access = allowed()
    found = errors(broker, topic("a"), topic("twice"), topic("__cluster_metadata"), topic("twice"))
    assert found == [("twice", INVALID), ("__cluster_metadata", INVALID), ("a", DENIED)]


def test_time_runs_out_only_for_what_may_be_created() -> None:
    broker = FakeBroker()
    broker.access = allowed(CREATE_A)
    assert errors(broker, topic("b"), timeout_ms=0) == [("b", DENIED)]
    assert errors(broker, topic("a"), topic("b"), timeout_ms=0) == [("a", 7), ("b", 7)]
    assert broker.topics.all() == []


def test_topics_are_made_on_the_account_of_who_makes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = FakeBroker()
    broker.access = allowed(CREATE_ALL)
    assert errors(broker, topic("a", 3)) == [("a", 0)]
    assert broker.topics.get("a").maker == str(ALICE)
    broker.topics.refused = KafkaError(ErrorCode.POLICY_VIOLATION, "too many of hers")
    (found,) = create(broker, topic("b", 4))
    assert (found["error_code"], found["error_message"]) == (44, "too many of hers")
    assert broker.topics.checked == [(str(ALICE), 3), (str(ALICE), 4)]
    broker.access = UNRESTRICTED
    assert errors(broker, topic("b")) == [("b", 0)]
    assert broker.topics.get("b").maker == ""


@pytest.mark.parametrize(
    ("name", "configs", "subject"),
    [
        ("heat-1", {}, "heat-1"),
        ("cold", {}, None),
        ("heat-2", {"dafka_native_subject": "other"}, "other"),
        ("heat-3", {"dafka_native_subject": ""}, ""),
        ("heat-4", {"cleanup_policy": "compact"}, None),
        ("heat-5", {"cleanup_policy": "compact,delete"}, None),
    ],
)
def test_where_the_cluster_says_so_a_topic_takes_up_the_subject_of_its_name(
    name: str, configs: dict[str, Any], subject: str | None
) -> None:
    broker = FakeBroker()
    assert errors(broker, topic("heat-0")) == [("heat-0", 0)]
    broker.dynamic.cluster["dafka.native.topics"] = "heat-*, "
    assert errors(broker, topic(name, **configs)) == [(name, 0)]
    for made, expected in (("heat-0", None), (name, subject)):
        known = broker.topics.get(made)
        assert known is not None
        assert known.configs.get("dafka.native.subject") == expected


def test_a_topic_that_is_compacted_by_default_takes_up_none() -> None:
    broker = FakeBroker()
    broker.dynamic.cluster |= {"dafka.native.topics": "*", "log.cleanup.policy": "compact"}
    assert errors(broker, topic("a"), topic("b", cleanup_policy="delete")) == [("a", 0), ("b", 0)]
    configs = [known.configs.get("dafka.native.subject") for known in broker.topics.all()]
    assert configs == [None, "b"]


def test_internal_topics_take_up_none() -> None:
    broker = FakeBroker()
    broker.dynamic.cluster["dafka.native.topics"] = "*"
    made = check_new_topic(cast("Any", broker), "__consumer_offsets", 1, 1, {})
    assert "dafka.native.subject" not in made.configs
