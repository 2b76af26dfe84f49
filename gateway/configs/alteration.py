"""What a resource's configs become when they are altered (KIP-339). Pure.

Source: `ConfigurationControlManager.incrementalAlterConfigResource`, `ConfigAdminManager`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from gateway.configs.topic_configs import TOPIC_CONFIGS
from gateway.configs.values import ConfigType, quoted
from wireproto.kafka.errors import ErrorCode, KafkaError


class Operation(IntEnum):
    """What is done to one config, by its number in IncrementalAlterConfigs (`AlterConfigOp.OpType`)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(NamedTuple):
    """One config of a request. `operation` is as the client sent it."""

    name: str
    operation: int
    value: str | None


def check_alterations(alterations: Sequence[Alteration]) -> None:
    """What is wrong whatever the resource is.

    Raises KafkaError: INVALID_REQUEST; a config is there twice, or has no value, or an unknown operation.
    """
    if any(count > 1 for count in Counter(one.name for one in alterations).values()):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [one.name for one in alterations if one.value is None and one.operation != Operation.DELETE]
    if nulls:
        names = quoted(", ".join(nulls))
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {names}")
    for one in alterations:
        if one.operation not in list(Operation):
            message = f"Unknown operations type {one.operation}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def topic_not_a_list(name: str, operation: Operation) -> str:
    """For `altered`: Kafka's words where a topic config is no list."""
    return f"Can't {operation.name} to key {quoted(name)} because its type is not LIST."


def altered(
    current: Mapping[str, str],
    alterations: Sequence[Alteration],
    list_default: Callable[[str], str | None],
    not_a_list: Callable[[str, Operation], str] = topic_not_a_list,
) -> dict[str, str]:
    """The configs after the alterations, which are done in their order; the values are not checked.

    `list_default` is the default of a config that is a list, None for any other one: what is appended to, or
    subtracted from, where nothing is set. Raises KafkaError: INVALID_CONFIG, with the words of `not_a_list`.
    """
    configs = dict(current)
    for name, operation, value in alterations:
        if operation == Operation.DELETE:
            configs.pop(name, None)
        elif operation == Operation.SET:
            configs[name] = value or ""
        else:
            default = list_default(name)
            if default is None:
                raise KafkaError(ErrorCode.INVALID_CONFIG, not_a_list(name, Operation(operation)))
            words = _words(configs.get(name, default))
            configs[name] = ",".join(_changed(words, operation, _words(value or "")))
    return configs


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _changed(words: list[str], operation: int, given: list[str]) -> list[str]:
    if operation == Operation.APPEND:
        return list(dict.fromkeys([*words, *given])) if given else words
    for word in given:
        if word in words:
            words.remove(word)
    return words


def topic_list_default(name: str) -> str | None:
    """For `altered`: Kafka's default of a topic config that is a list."""
    config = TOPIC_CONFIGS.get(name)
    return config.default or "" if config is not None and config.type is ConfigType.LIST else None
