"""Described configs against Apache Kafka 4.3.1's answer (DescribeConfigs v4 of a topic without configs)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gateway.configs.broker_configs import broker_configs
from gateway.configs.describe import (
    ConfigSource,
    DescribedConfig,
    Dynamic,
    Synonym,
    describe_broker_configs,
    describe_cluster_configs,
    describe_topic_configs,
)
from gateway.configs.topic_configs import TOPIC_CONFIGS
from gateway.configs.values import ConfigType, parse_value

KAFKA_TOPIC: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "kafka_4_3_1_topic_configs.json").read_text("utf-8")
)


def as_kafka(config: DescribedConfig) -> dict[str, Any]:
    return {
        "name": config.name,
        "value": config.value,
        "read_only": config.read_only,
        "config_source": config.source,
        "is_sensitive": config.sensitive,
        "synonyms": [{"name": s.name, "value": s.value, "source": s.source} for s in config.synonyms],
        "config_type": config.type,
    }


def by_name(configs: list[DescribedConfig]) -> dict[str, DescribedConfig]:
    return {config.name: config for config in configs}


def test_a_topic_without_configs_is_described_as_kafka_does() -> None:
    expected = {config["name"]: config for config in KAFKA_TOPIC}
    # Kafka 4.3 keeps this one as a dynamic default of the cluster, for its eligible leader replicas.
    default = {"name": "min.insync.replicas", "value": "1", "source": 5}
    expected["min.insync.replicas"] |= {"config_source": 5, "synonyms": [default]}
    described = describe_topic_configs({}, {})
    assert {config.name: as_kafka(config) for config in described} == expected
    assert [config.name for config in described] == sorted(expected)


def test_an_override_is_in_force_and_its_default_is_a_synonym() -> None:
    described = by_name(describe_topic_configs({"max.message.bytes": " 2000 ", "retention.ms": "5"}, {}))
    assert as_kafka(described["max.message.bytes"]) == {
        "name": "max.message.bytes",
        "value": "2000",
        "read_only": False,
        "config_source": 1,
        "is_sensitive": False,
        "synonyms": [
            {"name": "max.message.bytes", "value": "2000", "source": 1},
            {"name": "message.max.bytes", "value": "1048588", "source": 5},
        ],
        "config_type": 3,
    }
    assert described["retention.ms"].synonyms == (Synonym("retention.ms", "5", ConfigSource.TOPIC),)


def test_overrides_are_shown_as_understood_or_as_given() -> None:
    given = {
        "retention.ms": " 5 ",
        "cleanup.policy": " compact , delete,compact ",
        "min.cleanable.dirty.ratio": "1e-4",
        "preallocate": "TRUE",
        "compression.type": " gzip",
        "internal.segment.bytes": "5000",
    }
    understood = by_name(describe_topic_configs(given, {}))
    assert {name: understood[name].value for name in given} == {
        "retention.ms": "5",
        "cleanup.policy": "compact,delete",
        "min.cleanable.dirty.ratio": "1.0E-4",
        "preallocate": "true",
        "compression.type": "gzip",
        "internal.segment.bytes": "5000",
    }
    kept = by_name(describe_topic_configs(given, {}, as_given=True))
    assert {name: kept[name].value for name in given} == given


def test_a_kept_override_that_is_not_valid_any_more_is_still_shown() -> None:
    assert by_name(describe_topic_configs({"segment.bytes": "5"}, {}))["segment.bytes"].value == "5"


def test_the_brokers_own_value_is_the_topics_default() -> None:
    described = by_name(describe_topic_configs({}, {"message.max.bytes": "5000"}))
    config = described["max.message.bytes"]
    assert (config.value, config.source) == ("5000", ConfigSource.STATIC_BROKER)
    assert config.synonyms == (
        Synonym("message.max.bytes", "5000", ConfigSource.STATIC_BROKER),
        Synonym("message.max.bytes", "1048588", ConfigSource.DEFAULT),
    )


def test_the_broker_is_described_with_its_own_values_and_kafkas_defaults() -> None:
    described = by_name(describe_broker_configs({"num.partitions": "4", "ssl.key.password": "secret"}))
    assert list(described) == sorted(described)
    assert len(described) == 340  # as many as Kafka 4.3.1 shows
    partitions = described["num.partitions"]
    assert (partitions.value, partitions.source, partitions.read_only) == (
        "4",
        ConfigSource.STATIC_BROKER,
        True,
    )
    assert partitions.synonyms == (
        Synonym("num.partitions", "4", ConfigSource.STATIC_BROKER),
        Synonym("num.partitions", "1", ConfigSource.DEFAULT),
    )
    assert described["default.replication.factor"].value == "1"
    assert described["message.max.bytes"].read_only is False
    assert described["log.retention.ms"].value is None
    assert described["log.retention.ms"].synonyms == ()
    assert described["ssl.client.auth"].value == "none"  # a word, not the absence of one
    password = described["ssl.key.password"]
    assert password.sensitive
    assert password.value is None
    assert [s.value for s in password.synonyms] == [None]


def test_throttles_are_shown_where_they_are_set_and_as_they_were_given() -> None:
    name = "leader.replication.throttled.rate"
    assert name not in by_name(describe_broker_configs({}))
    dynamic = Dynamic({name: " 5 "}, {name: "7"})
    for_node = by_name(describe_broker_configs({}, dynamic))
    assert list(for_node) == sorted(for_node)
    assert (for_node[name].value, for_node[name].source) == (" 5 ", ConfigSource.DYNAMIC_BROKER)
    assert for_node[name].synonyms == (
        Synonym(name, " 5 ", ConfigSource.DYNAMIC_BROKER),
        Synonym(name, "7", ConfigSource.DYNAMIC_DEFAULT_BROKER),
    )
    (for_all,) = describe_cluster_configs(dynamic)
    assert (for_all.name, for_all.value) == (name, "7")


def test_defaults_of_the_broker_are_values_of_their_type() -> None:
    for config in broker_configs().values():
        if config.default is not None:
            parse_value(config.name, config.type, config.default)


def test_every_default_of_a_topic_comes_from_a_broker_config_with_the_same_value() -> None:
    for config in TOPIC_CONFIGS.values():
        if config.broker_config is not None:
            broker = broker_configs()[config.broker_config]
            assert broker.type is config.type
            assert broker.default in {config.default, None}, config.name


def test_topic_configs_are_documented() -> None:
    assert [c.name for c in TOPIC_CONFIGS.values() if len(c.documentation) < 20] == []


def test_no_topic_config_is_a_secret() -> None:
    # CreateTopics and DescribeConfigs show the values of all of them.
    assert ConfigType.PASSWORD not in {config.type for config in TOPIC_CONFIGS.values()}
