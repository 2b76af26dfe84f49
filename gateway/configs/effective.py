"""The topic configs that take effect in this gateway, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.configs.topic_configs import TOPIC_CONFIGS
from gateway.configs.validation import parse_topic_config
from gateway.configs.values import InvalidValue, Value


@dataclass(frozen=True, slots=True)
class EffectiveTopicConfigs:
    """What a partition's log goes by. Sizes in bytes, times in milliseconds."""

    max_message_bytes: int
    log_append_time: bool
    min_insync_replicas: int
    segment_bytes: int
    segment_ms: int
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int


def effective_topic_configs(
    overrides: Mapping[str, str], static: Mapping[str, str] | None = None
) -> EffectiveTopicConfigs:
    """The values in force: the topic's own (`overrides`), else the broker's (`static`), else Kafka's default.

    A kept value that this version cannot read counts as not given: a topic must stay usable.
    """
    static = static or {}

    def value(name: str) -> Value:
        config = TOPIC_CONFIGS[name]
        candidates = (overrides.get(name), static.get(config.broker_config or ""), config.default)
        for text in candidates:
            if text is not None:
                try:
                    return parse_topic_config(config, text)
                except InvalidValue:
                    continue
        raise AssertionError(f"{name} has no default")

    return EffectiveTopicConfigs(
        max_message_bytes=_integer(value("max.message.bytes")),
        log_append_time=value("message.timestamp.type") == "LogAppendTime",
        min_insync_replicas=_integer(value("min.insync.replicas")),
        segment_bytes=_integer(value("segment.bytes")),
        segment_ms=_integer(value("segment.ms")),
        timestamp_before_max_ms=_integer(value("message.timestamp.before.max.ms")),
        timestamp_after_max_ms=_integer(value("message.timestamp.after.max.ms")),
    )


def _integer(value: Value) -> int:
    assert isinstance(value, int)
    return value
