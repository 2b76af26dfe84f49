"""AlterConfigs and IncrementalAlterConfigs; the codes are Apache Kafka 4.3.1's (tests/differential)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.security.acls import CLUSTER_NAME, Operation, ResourceType
from tests.unit.gateway.api.asking import NODE_ID, FakeBroker, allowed, ask, request_class
from wireproto.kafka.errors import ErrorCode

Alter = request_class(33)
Incremental = request_class(44)
Describe = request_class(32)
TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
OWN = str(NODE_ID)

Configs = list[tuple[str, int, str | None]]
Resource = tuple[int, str, Configs]


def incremental(broker: FakeBroker, *resources: Resource, only: bool = False, version: int = 1) -> Any:
    one = Incremental.AlterConfigsResource
    made = [
        one(
            resource_type=kind,
            resource_name=name,
            configs=[one.AlterableConfig(name=n, config_operation=o, value=v) for n, o, v in configs],
        )
        for kind, name, configs in resources
    ]
    return outcome(broker, Incremental(version=version, resources=made, validate_only=only), resources)


def legacy(broker: FakeBroker, *resources: Resource, only: bool = False, version: int = 2) -> Any:
    one = Alter.AlterConfigsResource
    made = [
        one(
            resource_type=kind,
            resource_name=name,
            configs=[one.AlterableConfig(name=n, value=v) for n, _, v in configs],
        )
        for kind, name, configs in resources
    ]
    return outcome(broker, Alter(version=version, resources=made, validate_only=only), resources)


def outcome(
    broker: FakeBroker, request: Any, resources: tuple[Resource, ...]
) -> list[tuple[int, str | None]]:
    answer = ask(broker, request)
    assert answer.pop("throttle_time_ms") == 0
    results = answer.pop("responses")
    assert not answer
    assert [(one["resource_type"], one["resource_name"]) for one in results] == [
        (kind, name) for kind, name, _ in resources
    ]
    return [(one["error_code"], one["error_message"]) for one in results]


def configs_of(broker: FakeBroker, kind: int, name: str) -> dict[str, tuple[str | None, int, list[int]]]:
    """(value, source, sources of the synonyms) by name."""
    resource = Describe.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    answer = ask(broker, Describe(version=4, resources=[resource], include_synonyms=True))
    return {
        one["name"]: (one["value"], one["config_source"], [s["source"] for s in one["synonyms"]])
        for one in answer["results"][0]["configs"]
    }


@pytest.mark.parametrize("version", [0, 1])
def test_single_configs_are_changed(version: int) -> None:
    broker = FakeBroker()
    made = broker.add("t", retention_ms="5", segment_ms="6")
    changes = [("retention.ms", DELETE, None), ("max.message.bytes", SET, "2000"),
               ("cleanup.policy", APPEND, "compact")]  # fmt: skip
    assert incremental(broker, (TOPIC, "t", changes), version=version) == [(0, None)]
    assert made.configs == {
        "segment.ms": "6", "max.message.bytes": "2000", "cleanup.policy": "delete,compact"
    }  # fmt: skip
    assert configs_of(broker, TOPIC, "t")["max.message.bytes"] == ("2000", 1, [1, 5])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_all_configs_are_replaced(version: int) -> None:
    broker = FakeBroker()
    made = broker.add("t", retention_ms="5", segment_ms="6")
    assert legacy(broker, (TOPIC, "t", [("segment.ms", SET, "7")]), version=version) == [(0, None)]
    assert made.configs == {"segment.ms": "7"}
    assert legacy(broker, (TOPIC, "t", []), version=version) == [(0, None)]
    assert made.configs == {}


@pytest.mark.parametrize("change", [incremental, legacy])
def test_only_validated_nothing_changes(change: Any) -> None:
    broker = FakeBroker()
    made = broker.add("t", retention_ms="5")
    good, bad = [("segment.ms", SET, "7")], [("segment.ms", SET, "0")]
    assert change(broker, (TOPIC, "t", good), only=True) == [(0, None)]
    ((code, message),) = change(broker, (TOPIC, "t", bad), only=True)
    assert (code, message) == (
        ErrorCode.INVALID_CONFIG,
        "Invalid value 0 for configuration segment.ms: Value must be at least 1",
    )
    assert made.configs == {"retention.ms": "5"}
    assert broker.waits_for_stores == 0
    assert change(broker, (TOPIC, "t", good)) == [(0, None)]
    assert broker.waits_for_stores == 1


@pytest.mark.parametrize("change", [incremental, legacy])
def test_a_resource_changes_as_a_whole_or_not_at_all_and_on_its_own(change: Any) -> None:
    broker = FakeBroker()
    one, other = broker.add("one"), broker.add("other")
    results = change(
        broker,
        (TOPIC, "one", [("retention.bytes", SET, "1"), ("retention.ms", SET, "x")]),
        (TOPIC, "other", [("retention.ms", SET, "1")]),
        (TOPIC, "nowhere", [("retention.ms", SET, "1")]),
    )
    assert [code for code, _ in results] == [ErrorCode.INVALID_CONFIG, 0, 3]
    assert (one.configs, other.configs) == ({}, {"retention.ms": "1"})


@pytest.mark.parametrize("change", [incremental, legacy])
@pytest.mark.parametrize(
    ("kind", "name", "configs", "code", "message"),
    [
        (TOPIC, "nowhere", [("retention.ms", SET, "1")], 3, "The topic 'nowhere' does not exist."),
        (TOPIC, "nowhere", [("no.such", SET, "1")], 40, "Unknown topic config name: no.such"),
        (TOPIC, "", [], 42, "Default topic resources are not allowed."),
        (TOPIC, "a/b", [], 17, None),
        (TOPIC, "t", [("retention.ms", SET, None)], 42, "Null value not supported for : retention.ms"),
        (TOPIC, "t", [("a", SET, "1"), ("a", SET, "2")], 42, "Error due to duplicate config keys"),
        (0, "t", [], 42, "Unknown resource type 0"),
        (3, "t", [], 42, "Unknown resource type 3"),
        (8, OWN, [], 42, None),
        (16, "s", [], 42, None),
        (32, "g", [], 42, None),
        (BROKER, "99", [], 42, "Unexpected broker id, expected 1, but received 99"),
        (BROKER, "x", [], 42, "Node id must be an integer, but it is: x"),
        (BROKER, OWN, [("node.id", SET, "5")], 42, "Cannot update these configs dynamically: [node.id]"),
    ],
)
def test_what_is_refused(
    change: Any, kind: int, name: str, configs: Any, code: int, message: str | None
) -> None:
    broker = FakeBroker()
    made = broker.add("t", retention_ms="5")
    ((found, words),) = change(broker, (kind, name, configs))
    assert found == code
    assert words
    assert message in {None, words}
    assert (made.configs, broker.dynamic.node, broker.dynamic.cluster) == ({"retention.ms": "5"}, {}, {})


def test_a_resource_that_is_there_twice_is_not_changed() -> None:
    broker = FakeBroker()
    made = broker.add("t")
    change: Resource = (TOPIC, "t", [("retention.ms", SET, "1")])
    assert (
        incremental(broker, change, change)
        == [(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")] * 2
    )
    assert made.configs == {}


def test_broker_configs_are_shown_where_they_were_set() -> None:
    broker = FakeBroker()
    broker.add("t")
    cluster: Resource = (BROKER, "", [("log.retention.bytes", SET, "1"), ("message.max.bytes", SET, "9")])
    node: Resource = (BROKER, OWN, [("log.retention.bytes", SET, "2")])
    assert incremental(broker, cluster, node) == [(0, None)] * 2
    assert configs_of(broker, BROKER, OWN)["log.retention.bytes"] == ("2", 2, [2, 3, 5])
    assert configs_of(broker, BROKER, "") == {
        "log.retention.bytes": ("1", 3, [3]), "message.max.bytes": ("9", 3, [3])
    }  # fmt: skip
    shown = configs_of(broker, TOPIC, "t")
    assert shown["retention.bytes"] == ("2", 2, [2, 3, 5])
    assert shown["max.message.bytes"] == ("9", 3, [3, 5])
    assert incremental(broker, (BROKER, OWN, [("log.retention.bytes", DELETE, None)])) == [(0, None)]
    assert configs_of(broker, TOPIC, "t")["retention.bytes"] == ("1", 3, [3, 5])
    assert legacy(broker, (BROKER, "", [])) == [(0, None)]
    assert configs_of(broker, TOPIC, "t")["retention.bytes"] == ("-1", 5, [5])


def test_what_was_set_for_brokers_is_shown_as_it_is_understood_with_its_other_units() -> None:
    broker = FakeBroker()
    broker.add("t")
    changes: list[tuple[str, int, str | None]] = [
        ("log.roll.ms", SET, " 5000 "),
        ("log.cleanup.policy", SET, "compact, delete"),
    ]
    assert incremental(broker, (BROKER, OWN, changes)) == [(0, None)]
    shown = configs_of(broker, BROKER, OWN)
    assert shown["log.roll.ms"] == ("5000", 2, [2, 5])  # the second one is log.roll.hours
    assert shown["log.cleanup.policy"] == ("compact,delete", 2, [2, 5])
    assert shown["log.roll.hours"] == ("168", 5, [5])
    assert configs_of(broker, TOPIC, "t")["segment.ms"] == ("5000", 2, [2, 5])


LOGGER, CLIENT_METRICS, GROUP = 8, 16, 32
NO_TOPIC, DENIED_TOPIC, DENIED_GROUP, DENIED_CLUSTER, INVALID_CONFIG, INVALID = 3, 29, 30, 31, 40, 42
ALTER_T = (Operation.ALTER_CONFIGS, ResourceType.TOPIC, "t")
ALTER_NONE = (Operation.ALTER_CONFIGS, ResourceType.TOPIC, "nope")
ALTER_G = (Operation.ALTER_CONFIGS, ResourceType.GROUP, "g")
ALTER_CLUSTER = (Operation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME)
OTHERS = (
    (Operation.ALTER, ResourceType.TOPIC, "t"),
    (Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "nope"),
    (Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME),
    (Operation.READ, ResourceType.GROUP, "g"),
)
VALID: Configs = [("retention.ms", SET, "5")]
OF_BROKER: Configs = [("log.retention.ms", SET, "7000")]
NULL: Configs = [("retention.ms", SET, None)]
TWICE: Configs = [("retention.ms", SET, "5"), ("retention.ms", SET, "6")]

JUDGED: list[tuple[Resource, object, int, int]] = [
    ((TOPIC, "t", VALID), ALTER_T, 0, DENIED_TOPIC),
    ((TOPIC, "t", [("retention.ms", SET, "often")]), ALTER_T, INVALID_CONFIG, DENIED_TOPIC),
    ((TOPIC, "nope", VALID), ALTER_NONE, NO_TOPIC, DENIED_TOPIC),
    ((TOPIC, "a/b", VALID), ALTER_T, DENIED_TOPIC, DENIED_TOPIC),
    ((TOPIC, "t", NULL), ALTER_T, INVALID, INVALID),
    ((TOPIC, "t", TWICE), ALTER_T, INVALID, INVALID),
    ((BROKER, OWN, OF_BROKER), ALTER_CLUSTER, 0, DENIED_CLUSTER),
    ((BROKER, "", OF_BROKER), ALTER_CLUSTER, 0, DENIED_CLUSTER),
    ((BROKER, OWN, [("log.retention.ms", SET, "often")]), ALTER_CLUSTER, INVALID, INVALID),
    ((BROKER, "999", OF_BROKER), ALTER_CLUSTER, INVALID, INVALID),
    ((BROKER, "one", OF_BROKER), ALTER_CLUSTER, INVALID, INVALID),
    ((CLIENT_METRICS, "m", []), ALTER_CLUSTER, INVALID, DENIED_CLUSTER),
    ((GROUP, "g", []), ALTER_G, INVALID, DENIED_GROUP),
    ((77, "what", []), ALTER_CLUSTER, INVALID, INVALID),
]
"""What is asked -> the right that it takes, the error of whoever has it, and of whoever has not."""

MESSAGES = {
    DENIED_TOPIC: "Topic authorization failed.",
    DENIED_GROUP: "Group authorization failed.",
    DENIED_CLUSTER: "Cluster authorization failed.",
}
CHANGES = [(incremental, 0), (incremental, 1), (legacy, 0), (legacy, 1), (legacy, 2)]


def changed(broker: FakeBroker) -> bool:
    kept = (broker.topics.get("t").configs, broker.dynamic.node, broker.dynamic.cluster)
    return kept != ({}, {}, {})


@pytest.mark.parametrize("only", [False, True])
@pytest.mark.parametrize(("alter", "version"), CHANGES)
@pytest.mark.parametrize(("resource", "right", "error", "refused"), JUDGED)
def test_who_may_change_configs(
    alter: Any, version: int, only: bool, resource: Resource, right: Any, error: int, refused: int
) -> None:
    """Nonsense is that for everybody, and is heard before any right is asked for."""
    for rights, expected in (((), refused), (OTHERS, refused), ((right,), error)):
        broker = FakeBroker()
        broker.add("t")
        broker.access = allowed(*rights)
        ((code, message),) = alter(broker, resource, version=version, only=only)
        assert code == expected
        if code in MESSAGES:
            assert message == MESSAGES[code]
        assert changed(broker) is (code == 0 and not only)


@pytest.mark.parametrize(("alter", "version"), CHANGES)
def test_each_resource_on_its_own(alter: Any, version: int) -> None:
    broker = FakeBroker()
    broker.add("t")
    broker.access = allowed(ALTER_T)
    asked = ((BROKER, "", OF_BROKER), (TOPIC, "t", VALID), (TOPIC, "u", VALID), (TOPIC, "t", NULL))
    found = alter(broker, *asked[:3], version=version)
    assert [code for code, _ in found] == [DENIED_CLUSTER, 0, DENIED_TOPIC]
    found = alter(broker, *asked, version=version)
    assert [code for code, _ in found] == [DENIED_CLUSTER, INVALID, DENIED_TOPIC, INVALID]


@pytest.mark.parametrize("rights", [(), (ALTER_CLUSTER,)])
def test_loggers(rights: Any) -> None:
    """The old request does not know them, so it asks for no right."""
    broker = FakeBroker()
    broker.access = allowed(*rights)
    asked: Resource = (LOGGER, OWN, [("root", SET, "INFO")])
    assert [code for code, _ in legacy(broker, asked)] == [INVALID]
    assert [code for code, _ in incremental(broker, asked)] == [INVALID if rights else DENIED_CLUSTER]
