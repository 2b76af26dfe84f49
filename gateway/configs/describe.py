"""Configs as DescribeConfigs and CreateTopics show them: value, where it comes from, and its synonyms.

Source: `kafka.server.ConfigHelper`. A topic's config falls back on the broker's config that is its default;
each place that has a value is a synonym, the one in force first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from itertools import dropwhile
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

from gateway.configs.broker_configs import BrokerConfig, broker_configs, settable_broker_configs
from gateway.configs.topic_configs import TOPIC_CONFIGS, TopicConfig
from gateway.configs.validation import parse_topic_config
from gateway.configs.values import ConfigType, InvalidValue, format_value, parse_value

_Layer: TypeAlias = frozenset[tuple[str, str]]

MAX_DEFAULTS: Final = 16
"""Sets of the broker's own values that are remembered: one per listener."""


class ConfigSource(IntEnum):
    """Where a value comes from, by its number in DescribeConfigs (`DescribeConfigsResponse.ConfigSource`)."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class Dynamic(NamedTuple):
    """Broker configs that were set while the gateway ran: of this node, and of all of the cluster."""

    node: Mapping[str, str]
    cluster: Mapping[str, str]


NO_DYNAMIC: Final = Dynamic({}, {})


@dataclass(frozen=True, slots=True)
class Synonym:
    """One place that has a value for a config."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class DescribedConfig:
    """One config with its value in force."""

    name: str
    value: str | None
    type: ConfigType
    source: ConfigSource
    synonyms: tuple[Synonym, ...]
    documentation: str | None
    read_only: bool = False
    sensitive: bool = False


_SET_FOR_BROKERS: Final = frozenset((ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER))

_FAMILIES: Final = {
    name: family
    for family in (
        ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        ("log.roll.ms", "log.roll.hours"),
        ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    )
    for name in family
} | {"log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")}
"""Broker configs that say the same, the finest unit first (`DynamicBrokerConfig.brokerConfigSynonyms`)."""


def describe_topic_configs(
    overrides: Mapping[str, str],
    static: Mapping[str, str],
    dynamic: Dynamic = NO_DYNAMIC,
    *,
    as_given: bool = False,
) -> list[DescribedConfig]:
    """Every config of a topic, by name.

    `overrides` are the topic's own, `static` the broker's own, `dynamic` those set since. Kafka shows an
    override as it understood it (" 5 " becomes "5") in DescribeConfigs, and as it was given in CreateTopics:
    `as_given`.
    """
    layers = (static, *dynamic)
    defaults = _topic_defaults(*(frozenset(layer.items()) for layer in layers))
    if not overrides:
        return list(defaults.values())
    described = dict(defaults)
    for name, override in overrides.items():
        config = TOPIC_CONFIGS.get(name)
        if config is not None:
            value = override if as_given else _as_understood(config, override)
            described[name] = _describe_topic_config(config, value, static, dynamic)
    return sorted(described.values(), key=attrgetter("name"))


@lru_cache(maxsize=MAX_DEFAULTS)
def _topic_defaults(static: _Layer, node: _Layer, cluster: _Layer) -> dict[str, DescribedConfig]:
    """The configs of a topic that has none of its own, by name, in alphabetical order."""
    dynamic = Dynamic(dict(node), dict(cluster))
    values = dict(static)
    return {
        name: _describe_topic_config(TOPIC_CONFIGS[name], None, values, dynamic)
        for name in sorted(TOPIC_CONFIGS)
        if not TOPIC_CONFIGS[name].hidden
    }


def _describe_topic_config(
    config: TopicConfig, override: str | None, static: Mapping[str, str], dynamic: Dynamic
) -> DescribedConfig:
    synonyms: tuple[Synonym, ...] = ()
    if config.broker_config is not None:
        synonyms = _broker_synonyms(broker_configs()[config.broker_config], static, dynamic)
    if override is not None:
        synonyms = (Synonym(config.name, override, ConfigSource.TOPIC), *synonyms)
    return DescribedConfig(
        config.name,
        _in_force(config, synonyms),
        config.type,
        synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        synonyms,
        config.documentation,
    )


def _in_force(config: TopicConfig | BrokerConfig, synonyms: tuple[Synonym, ...]) -> str | None:
    """The value of a config with these synonyms: one that was set for brokers is shown as it is understood
    (but the hidden ones of brokers), and as it was given among the synonyms.
    """
    if not synonyms:
        return config.default
    text = synonyms[0].value
    as_given = config.hidden and isinstance(config, BrokerConfig)
    if text is None or as_given or synonyms[0].source not in _SET_FOR_BROKERS:
        return text
    try:
        return format_value(parse_value(config.name, config.type, text))
    except InvalidValue:  # as in `_as_understood`
        return text


def _as_understood(config: TopicConfig, override: str) -> str:
    try:
        return format_value(parse_topic_config(config, override))
    except InvalidValue:  # kept by a version that was less strict: shown as it is
        return override


def describe_broker_configs(
    static: Mapping[str, str], dynamic: Dynamic = NO_DYNAMIC
) -> list[DescribedConfig]:
    """Every config of the broker, by name. `static` are its own values, `dynamic` those set since; secrets
    among them are not shown.
    """
    described = (
        (config, _broker_synonyms(config, static, dynamic)) for config in settable_broker_configs().values()
    )
    return [
        _describe_broker_config(config, synonyms)
        for config, synonyms in described
        if synonyms or not config.hidden
    ]


def describe_cluster_configs(dynamic: Dynamic) -> list[DescribedConfig]:
    """What is set for all nodes of the cluster, by name."""
    known = settable_broker_configs()
    return [
        _describe_broker_config(
            known[name], (Synonym(name, dynamic.cluster[name], ConfigSource.DYNAMIC_DEFAULT_BROKER),)
        )
        for name in sorted(dynamic.cluster)
        if name in known
    ]


def _describe_broker_config(config: BrokerConfig, synonyms: tuple[Synonym, ...]) -> DescribedConfig:
    return DescribedConfig(
        config.name,
        _in_force(config, synonyms),
        config.type,
        synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        synonyms,
        config.documentation,
        config.read_only,
        config.sensitive,
    )


def _broker_synonyms(
    config: BrokerConfig, static: Mapping[str, str], dynamic: Dynamic
) -> tuple[Synonym, ...]:
    """Every place that has a value, the one in force first; Kafka's default is none if it is null.

    Of configs that say the same in other units all are told, from the first one on that is this one
    (`ConfigHelper.configSynonyms`).
    """
    family = _FAMILIES.get(config.name, (config.name,))
    synonyms: list[Synonym] = []
    for values, source in (
        (dynamic.node, ConfigSource.DYNAMIC_BROKER),
        (dynamic.cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (static, ConfigSource.STATIC_BROKER),
    ):
        synonyms += [
            Synonym(name, None if config.sensitive else values[name], source)
            for name in family
            if name in values
        ]
    defaults = ((name, settable_broker_configs()[name].default) for name in family)
    synonyms += [Synonym(name, text, ConfigSource.DEFAULT) for name, text in defaults if text is not None]
    return tuple(dropwhile(lambda synonym: synonym.name != config.name, synonyms))
