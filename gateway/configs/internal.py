"""What the topics that the gateway itself keeps things in must be like, whoever alters them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.configs.topic_configs import TOPIC_CONFIGS
from gateway.configs.validation import parse_topic_config
from wireproto.kafka.errors import ErrorCode, KafkaError

COMPACTED_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})
"""Of these the last record of each key is needed for ever: retention would take groups and transactions
away."""

MIN_INTERNAL_MESSAGE_BYTES: Final = 1_048_588
"""Bytes: Kafka's default of `max.message.bytes`. A group with many members is one record, and with less it
could not be written any more."""

_POLICY: Final = "cleanup.policy"
_LARGEST: Final = "max.message.bytes"


def new_internal_configs(name: str, configs: Mapping[str, str]) -> dict[str, str]:
    """The checked configs of a topic that is to be created, with those that it must have. Raises KafkaError:
    INVALID_CONFIG.
    """
    if name not in COMPACTED_TOPICS:
        return dict(configs)
    made = {_POLICY: "compact", **configs}
    check_internal_configs(name, made)
    return made


def check_internal_configs(name: str, configs: Mapping[str, str]) -> None:
    """Whether a topic may have these configs, which were checked for themselves. Raises KafkaError:
    INVALID_CONFIG; the gateway could not keep in it what it has to.
    """
    if name not in COMPACTED_TOPICS:
        return
    policy = configs.get(_POLICY)
    if policy is None or parse_topic_config(TOPIC_CONFIGS[_POLICY], policy) != ["compact"]:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"The internal topic {name} needs cleanup.policy=compact: with any other one, or none of its "
            "own, what it keeps would be deleted after a time",
        )
    largest = configs.get(_LARGEST)
    if largest is not None and int(largest) < MIN_INTERNAL_MESSAGE_BYTES:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"The internal topic {name} needs max.message.bytes of {MIN_INTERNAL_MESSAGE_BYTES} at least: "
            "large groups could not be written with less",
        )
