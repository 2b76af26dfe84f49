from __future__ import annotations

from typing import Any

import pytest

from gateway.api import describe_configs
from gateway.security.acls import CLUSTER_NAME, Operation, ResourceType
from tests.unit.gateway.api.asking import ADDRESS, FakeBroker, allowed, ask, request_class

Describe = request_class(32)
VERSIONS = [1, 2, 3, 4]
TOPIC, BROKER = 2, 4
ALL = None


def describe(
    broker: FakeBroker,
    *resources: tuple[int, str, list[str] | None],
    version: int = 4,
    address: tuple[str, int] = ADDRESS,
    **fields: Any,
) -> list[dict[str, Any]]:
    wanted = [
        Describe.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        for kind, name, keys in resources
    ]
    answer = ask(broker, Describe(version=version, resources=wanted, **fields), address)
    assert answer.pop("throttle_time_ms") == 0
    results: list[dict[str, Any]] = answer.pop("results")
    assert not answer
    return results


def values(result: dict[str, Any]) -> dict[str, tuple[str | None, int]]:
    """Value and source by name."""
    return {config["name"]: (config["value"], config["config_source"]) for config in result["configs"]}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topics_configs(version: int) -> None:
    broker = FakeBroker()
    broker.add("t", retention_ms=" 5 ")
    keys = ["retention.ms", "segment.bytes", "nope", "retention.ms", "Segment.ms"]
    fields: dict[str, Any] = {"include_synonyms": True} | (
        {"include_documentation": True} if version >= 3 else {}
    )
    (result,) = describe(broker, (TOPIC, "t", keys), version=version, **fields)
    retention, segment = result.pop("configs")
    assert result == {"error_code": 0, "error_message": "", "resource_type": TOPIC, "resource_name": "t"}
    if version >= 3:
        assert "Milliseconds" in retention.pop("documentation")
        assert "Size in bytes" in segment.pop("documentation")
        assert (retention.pop("config_type"), segment.pop("config_type")) == (5, 3)
    assert retention == {
        "name": "retention.ms",
        "value": "5",
        "read_only": False,
        "config_source": 1,
        "is_sensitive": False,
        "synonyms": [{"name": "retention.ms", "value": "5", "source": 1}],
    }
    assert segment == {
        "name": "segment.bytes",
        "value": "1073741824",
        "read_only": False,
        "config_source": 5,
        "is_sensitive": False,
        "synonyms": [{"name": "log.segment.bytes", "value": "1073741824", "source": 5}],
    }


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("keys", [ALL, []])
def test_without_keys_all_configs_are_told(version: int, keys: list[str] | None) -> None:
    broker = FakeBroker()
    broker.add("t")
    (topic,) = describe(broker, (TOPIC, "t", keys), version=version)
    assert len(topic["configs"]) == 33
    assert values(topic)["max.message.bytes"] == ("1048588", 5)
    assert values(topic)["min.insync.replicas"] == ("1", 5)
    (node,) = describe(broker, (BROKER, "1", keys), version=version)
    assert len(node["configs"]) == 340
    for result in (topic, node):
        assert all(config["synonyms"] == [] for config in result["configs"])
        assert all(config.get("documentation") is None for config in result["configs"])


def test_the_brokers_own_values_are_static() -> None:
    broker = FakeBroker(partitions=4, auto_create_topics=False)
    (result,) = describe(broker, (BROKER, "1", ALL), include_synonyms=True, include_documentation=True)
    own = {name: value for name, (value, source) in values(result).items() if source == 4}
    assert own == {
        "advertised.listeners": "PLAINTEXT://gateway.example:9092",
        "auto.create.topics.enable": "false",
        "broker.id": "1",
        "controller.listener.names": "",
        "listeners": "PLAINTEXT://gateway.example:9092",
        "node.id": "1",
        "num.partitions": "4",
        "offsets.topic.replication.factor": "1",
        "process.roles": "broker,controller",
    }
    shown = {config["name"]: config for config in result["configs"]}
    assert shown["num.partitions"]["synonyms"] == [
        {"name": "num.partitions", "value": "4", "source": 4},
        {"name": "num.partitions", "value": "1", "source": 5},
    ]
    assert "without a number" in shown["num.partitions"]["documentation"]
    assert shown["ssl.key.password"]["is_sensitive"]
    assert shown["ssl.key.password"]["config_type"] == 9
    assert shown["default.replication.factor"]["value"] == "1"


def test_what_is_as_in_kafka_is_a_default() -> None:
    (result,) = describe(FakeBroker(), (BROKER, "1", ["num.partitions", "auto.create.topics.enable"]))
    assert values(result) == {"num.partitions": ("1", 5), "auto.create.topics.enable": ("true", 5)}


def test_an_ipv6_address_is_in_brackets() -> None:
    (result,) = describe(FakeBroker(), (BROKER, "1", ["advertised.listeners"]), address=("::1", 9092))
    assert values(result) == {"advertised.listeners": ("PLAINTEXT://[::1]:9092", 4)}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "nope", 3),
        (TOPIC, "a/b", 17),
        (TOPIC, "", 17),
        (TOPIC, "x" * 30_000, 17),
        (BROKER, "2", 42),
        (BROKER, "-1", 42),
        (BROKER, "x", 42),
        (BROKER, "٣", 42),
        (BROKER, "9" * 30_000, 42),
        (0, "t", 42),
        (1, "t", 42),
        (3, "t", 42),
        (8, "1", 42),
        (16, "", 42),
        (32, "", 42),
        (64, "t", 42),
        (-1, "t", 42),
    ],
)
def test_what_cannot_be_described(version: int, kind: int, name: str, error: int) -> None:
    broker = FakeBroker()
    broker.add("t")
    good, bad = describe(broker, (TOPIC, "t", ["segment.ms"]), (kind, name, ALL), version=version)
    assert values(good) == {"segment.ms": ("604800000", 5)}
    assert len(bad.pop("error_message")) in (range(1) if error == 3 else range(1, 400))
    assert bad == {"error_code": error, "resource_type": kind, "resource_name": name, "configs": []}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", [16, 32])
def test_groups_and_client_metrics_have_no_configs(version: int, kind: int) -> None:
    """kafka-configs asks for those of each group that there is, and fails where one is an error."""
    (result,) = describe(FakeBroker(), (kind, "any", ALL), version=version)
    assert (result["error_code"], result["error_message"], result["configs"]) == (0, "", [])


@pytest.mark.parametrize("version", VERSIONS)
def test_the_brokers_id_may_be_written_as_java_reads_it_and_none_means_dynamic_defaults(version: int) -> None:
    broker = FakeBroker()
    for name in ("1", "01", "+1"):
        (result,) = describe(broker, (BROKER, name, ["node.id"]), version=version)
        assert values(result) == {"node.id": ("1", 4)}
    (result,) = describe(broker, (BROKER, "", ALL), version=version)
    assert result == {
        "error_code": 0,
        "error_message": "",
        "resource_type": BROKER,
        "resource_name": "",
        "configs": [],
    }


def test_doubles_are_answered_as_often_as_they_are_asked() -> None:
    broker = FakeBroker()
    broker.add("t")
    asked = [(TOPIC, "t", ["segment.ms"]), (TOPIC, "t", ["retention.ms"]), (TOPIC, "t", ["segment.ms"])]
    assert [list(values(result)) for result in describe(broker, *asked)] == [
        ["segment.ms"],
        ["retention.ms"],
        ["segment.ms"],
    ]
    assert describe(broker) == []


def test_an_answer_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_configs, "MAX_CONFIGS", 70)
    broker = FakeBroker()
    broker.add("t")
    asked = [(TOPIC, "t", ALL)] * 3 + [(TOPIC, "t", ["segment.ms"])]
    results = describe(broker, *asked)
    assert [result["error_code"] for result in results] == [0, 0, 44, 0]
    assert [len(result["configs"]) for result in results] == [33, 33, 0, 1]


LOGGER, CLIENT_METRICS, GROUP = 8, 16, 32
NO_TOPIC, DENIED_TOPIC, DENIED_GROUP, DENIED_CLUSTER, INVALID = 3, 29, 30, 31, 42
SEE_T = (Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "t")
SEE_NONE = (Operation.ALTER_CONFIGS, ResourceType.TOPIC, "nope")  # implies DescribeConfigs
SEE_G = (Operation.DESCRIBE_CONFIGS, ResourceType.GROUP, "g")
SEE_CLUSTER = (Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME)
OTHERS = (
    (Operation.DESCRIBE, ResourceType.TOPIC, "t"),
    (Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME),
    (Operation.READ, ResourceType.GROUP, "g"),
)
ASKED: dict[tuple[int, str], tuple[object, int, int]] = {
    (TOPIC, "t"): (SEE_T, 0, DENIED_TOPIC),
    (TOPIC, "nope"): (SEE_NONE, NO_TOPIC, DENIED_TOPIC),
    (BROKER, "1"): (SEE_CLUSTER, 0, DENIED_CLUSTER),
    (BROKER, ""): (SEE_CLUSTER, 0, DENIED_CLUSTER),
    (LOGGER, "1"): (SEE_CLUSTER, INVALID, DENIED_CLUSTER),
    (CLIENT_METRICS, "m"): (SEE_CLUSTER, 0, DENIED_CLUSTER),
    (GROUP, "g"): (SEE_G, 0, DENIED_GROUP),
    (77, "what"): (None, INVALID, INVALID),
}
"""Kind and name -> the right that it takes, the error of whoever has it, and of whoever has not."""

MESSAGES = {
    DENIED_TOPIC: "Topic authorization failed.",
    DENIED_GROUP: "Group authorization failed.",
    DENIED_CLUSTER: "Cluster authorization failed.",
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "rights",
    [(), OTHERS, (SEE_T,), (SEE_NONE,), (SEE_G,), (SEE_CLUSTER,), (SEE_T, SEE_NONE, SEE_G, SEE_CLUSTER)],
    ids=["nothing", "other rights", "topic", "one that is not there", "group", "cluster", "all"],
)
def test_who_may_see_configs(version: int, rights: Any) -> None:
    """What may not be seen is answered last."""
    broker = FakeBroker()
    broker.add("t")
    broker.access = allowed(*rights)
    found = describe(broker, *((kind, name, ALL) for kind, name in ASKED), version=version)
    expected = []
    for (kind, name), (right, error, refused) in ASKED.items():
        has_it = right is None or right in rights
        expected.append((kind, name, error if has_it else refused, not has_it))
    expected.sort(key=lambda one: one[3])
    assert [(one["resource_type"], one["resource_name"], one["error_code"]) for one in found] == [
        one[:3] for one in expected
    ]
    for one in found:
        if (code := one["error_code"]) in MESSAGES:
            assert (one["error_message"], one["configs"]) == (MESSAGES[code], [])
        elif (one["resource_type"], one["resource_name"]) in {(TOPIC, "t"), (BROKER, "1")}:
            assert one["configs"] != []
