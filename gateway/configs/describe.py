"""Configs as DescribeConfigs and CreateTopics show them: value, where it comes from, and its synonyms.

Source: `kafka.server.ConfigHelper`. A topic's config falls back on the broker's config that is its default;
each place that has a value is a synonym, the one in force first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from operator import attrgetter
from typing import Final

from gateway.configs.broker_configs import BrokerConfig, broker_configs
from gateway.configs.topic_configs import TOPIC_CONFIGS, TopicConfig
from gateway.configs.validation import parse_topic_config
from gateway.configs.values import ConfigType, InvalidValue, format_value

MAX_DEFAULTS: Final = 16
"""Sets of the broker's own values that are remembered: one per listener."""


class ConfigSource(IntEnum):
    """Where a value comes from, by its number in DescribeConfigs (`DescribeConfigsResponse.ConfigSource`)."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


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


def describe_topic_configs(
    overrides: Mapping[str, str], static: Mapping[str, str], *, as_given: bool = False
) -> list[DescribedConfig]:
    """Every config of a topic, by name.

    `overrides` are the topic's own, `static` the broker's own. Kafka shows an override as it understood it
    (" 5 " becomes "5") in DescribeConfigs, and as it was given in CreateTopics: `as_given`.
    """
    defaults = _topic_defaults(frozenset(static.items()))
    if not overrides:
        return list(defaults.values())
    described = dict(defaults)
    for name, override in overrides.items():
        config = TOPIC_CONFIGS.get(name)
        if config is not None:
            value = override if as_given else _as_understood(config, override)
            described[name] = _describe_topic_config(config, value, static)
    return sorted(described.values(), key=attrgetter("name"))


@lru_cache(maxsize=MAX_DEFAULTS)
def _topic_defaults(static: frozenset[tuple[str, str]]) -> dict[str, DescribedConfig]:
    """The configs of a topic that has none of its own, by name, in alphabetical order."""
    values = dict(static)
    return {
        name: _describe_topic_config(TOPIC_CONFIGS[name], None, values)
        for name in sorted(TOPIC_CONFIGS)
        if not TOPIC_CONFIGS[name].hidden
    }


def _describe_topic_config(
    config: TopicConfig, override: str | None, static: Mapping[str, str]
) -> DescribedConfig:
    synonyms: tuple[Synonym, ...] = ()
    if config.broker_config is not None:
        synonyms = _broker_synonyms(broker_configs()[config.broker_config], static)
    if override is not None:
        synonyms = (Synonym(config.name, override, ConfigSource.TOPIC), *synonyms)
    return DescribedConfig(
        config.name,
        synonyms[0].value if synonyms else config.default,
        config.type,
        synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        synonyms,
        config.documentation,
    )


def _as_understood(config: TopicConfig, override: str) -> str:
    try:
        return format_value(parse_topic_config(config, override))
    except InvalidValue:  # kept by a version that was less strict: shown as it is
        return override


def describe_broker_configs(static: Mapping[str, str]) -> list[DescribedConfig]:
    """Every config of the broker, by name. `static` are its own values; secrets among them are not shown."""
    described = []
    for config in broker_configs().values():
        synonyms = _broker_synonyms(config, static)
        described.append(
            DescribedConfig(
                config.name,
                synonyms[0].value if synonyms else config.default,
                config.type,
                synonyms[0].source if synonyms else ConfigSource.DEFAULT,
                synonyms,
                config.documentation,
                config.read_only,
                config.sensitive,
            )
        )
    return described


def _broker_synonyms(config: BrokerConfig, static: Mapping[str, str]) -> tuple[Synonym, ...]:
    """The broker's own value, if it has one, and Kafka's default, unless that is null."""
    synonyms = []
    if config.name in static:
        value = None if config.sensitive else static[config.name]
        synonyms.append(Synonym(config.name, value, ConfigSource.STATIC_BROKER))
    if config.default is not None:
        synonyms.append(Synonym(config.name, config.default, ConfigSource.DEFAULT))
    return tuple(synonyms)
