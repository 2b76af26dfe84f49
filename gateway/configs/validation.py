"""Whether a topic may be given some configs (`LogConfig.validate`, `ControllerConfigurationValidator`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.configs.checks import HASH
from gateway.configs.topic_configs import TOPIC_CONFIGS, TopicConfig
from gateway.configs.values import InvalidValue, Value, parse_value, quoted
from wireproto.kafka.errors import ErrorCode, KafkaError

NATIVE_SUBJECT: Final = "dafka.native.subject"
NATIVE_PARTITION: Final = "dafka.native.partition"

MAX_VALUE_LENGTH: Final = 32_767
"""Characters of a value. Kafka's limit where a request is not flexible; later versions would take any length,
and the catalog keeps every value."""

_NO_TIERED_STORAGE: Final = (
    "Tiered Storage functionality is disabled in the broker. "
    "Topic cannot be configured with remote log storage."
)


def parse_topic_config(config: TopicConfig, text: str) -> Value:
    """The checked value of one topic config. Raises :class:`InvalidValue`."""
    value = parse_value(config.name, config.type, text)
    return value if config.check is None else config.check(config.name, value)


_ORDER: Final = {name: place for place, name in enumerate(TOPIC_CONFIGS)}
_DEFAULTS: Final = {
    config.name: parse_topic_config(config, config.default)
    for config in TOPIC_CONFIGS.values()
    if config.default is not None
}


def validate_topic_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    """The configs, once all of them are known, not null, well formed, in range and not in conflict.

    Kafka keeps the text as it was given, blanks and all; so do we.

    Raises :class:`KafkaError` with INVALID_CONFIG: the first thing that is wrong, in Kafka's order and words.
    """
    nulls = sorted(name for name, value in configs.items() if value is None)
    if nulls:
        raise _invalid(f"Null value not supported for topic configs: {quoted(','.join(nulls))}")
    given = {name: value for name, value in configs.items() if value is not None}
    unknown = sorted(given.keys() - TOPIC_CONFIGS.keys())
    if unknown:
        raise _invalid(f"Unknown topic config name: {quoted(unknown[0])}")
    for name, text in given.items():
        if len(text) > MAX_VALUE_LENGTH:
            raise _invalid(f"The value of {name} is longer than {MAX_VALUE_LENGTH} characters")
    values: dict[str, Value] = {}
    for name in sorted(given, key=_ORDER.__getitem__):
        try:
            values[name] = parse_topic_config(TOPIC_CONFIGS[name], given[name])
        except InvalidValue as error:
            raise _invalid(str(error)) from None
    _check_together(_DEFAULTS | values)
    return given


def _check_together(values: dict[str, Value]) -> None:
    lowest, highest = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    assert isinstance(lowest, int)
    assert isinstance(highest, int)
    if lowest > highest:
        raise _invalid(
            f"conflict topic config setting min.compaction.lag.ms ({lowest}) > "
            f"max.compaction.lag.ms ({highest})"
        )
    policies, subject = values["cleanup.policy"], values[NATIVE_SUBJECT]
    assert isinstance(policies, list)
    if subject and "compact" in policies:
        raise _invalid(
            "dafka.native.subject: a compacted topic keeps the newest record of each key, and native records "
            "do not replace each other. Use cleanup.policy=delete, or another topic"
        )
    if values["remote.storage.enable"]:
        raise _invalid(_NO_TIERED_STORAGE)


def check_native_partition(configs: Mapping[str, str], partitions: int) -> None:
    """Whether the partition that native records are to come into is there; the configs are valid otherwise.

    Raises :class:`KafkaError` with INVALID_CONFIG.
    """
    named = str(parse_topic_config(TOPIC_CONFIGS[NATIVE_PARTITION], configs.get(NATIVE_PARTITION, HASH)))
    if named != HASH and int(named) >= partitions:
        raise _invalid(
            f"{NATIVE_PARTITION}: there is no partition {named}, of {partitions} that are numbered from 0 on"
        )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)
