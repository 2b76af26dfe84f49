"""Configs as DescribeConfigs and CreateTopics show them: value, where it comes from, and its synonyms.

Source: `kafka.server.ConfigHelper`. A topic's config falls back on the broker's config that is its default;
each place that has a value is a synonym, the one in force first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from gateway.configs.broker_configs import BrokerConfig, broker_configs
from gateway.configs.topic_configs import TOPIC_CONFIGS, TopicConfig
from gateway.configs.validation import parse_topic_config
from gateway.configs.values import ConfigType, InvalidValue, format_value


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
    described = []
    for name in sorted(TOPIC_CONFIGS):
        config = TOPIC_CONFIGS[name]
        override = overrides.get(name)
        if config.hidden and override is None:
            continue
        if override is not None and not as_given:
            override = _as_understood(config, override)
        described.append(_describe_topic_config(config, override, static))
    return described


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
