"""Kafka's broker configs: what clients read with DescribeConfigs, and where topic defaults come from.

Names, types, defaults and which ones are read-only are Kafka 4.3's own answers, kept in
`broker_defaults.tsv`. Most of them mean nothing here and are given with Kafka's default, as clients and tools
expect to find them; a gateway's own values (`static`) replace some. None can be changed while it runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from gateway.configs.broker_documentation import DOCUMENTATION
from gateway.configs.values import ConfigType

_NULL: Final = "(null)"
_REQUIRED: Final = "(required)"

THROTTLES: Final = (
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
"""Bytes per second that a reassignment may take: `kafka-reassign-partitions --throttle` sets them
(`QuotaConfig.brokerQuotaConfigs`)."""


NATIVE_TOPICS: Final = "dafka.native.topics"
"""Which topics take up the subject of their own name, when they are created: a config of Dafka's own."""


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """One broker config. `default` is None for null; `has_default` is False where Kafka demands a value.

    `documentation` is None where we wrote none: for what has no meaning in this gateway. `hidden` ones are
    shown only where they are set, and as they were given.
    """

    name: str
    type: ConfigType
    read_only: bool
    default: str | None
    has_default: bool
    documentation: str | None
    hidden: bool = False

    @property
    def sensitive(self) -> bool:
        """Whether its value is never shown."""
        return self.type is ConfigType.PASSWORD


@cache
def broker_configs() -> dict[str, BrokerConfig]:
    """Every broker config of Kafka 4.3 that is not internal, by name, in alphabetical order."""
    text = files("gateway.configs").joinpath("broker_defaults.tsv").read_text(encoding="utf-8")
    configs = [_read(line) for line in text.splitlines() if not line.startswith("#")]
    return {config.name: config for config in configs}


@cache
def settable_broker_configs() -> dict[str, BrokerConfig]:
    """These and the hidden ones, by name, in alphabetical order."""
    hidden = {
        name: BrokerConfig(name, ConfigType.LONG, False, None, True, DOCUMENTATION[name], hidden=True)
        for name in THROTTLES
    }
    hidden[NATIVE_TOPICS] = BrokerConfig(
        NATIVE_TOPICS, ConfigType.STRING, False, None, True, DOCUMENTATION[NATIVE_TOPICS], hidden=True
    )
    return dict(sorted((broker_configs() | hidden).items()))


def _read(line: str) -> BrokerConfig:
    name, config_type, change, *rest = line.split("\t")
    default = rest[0] if rest else ""
    return BrokerConfig(
        name,
        ConfigType[config_type],
        read_only=change == "fixed",
        default=None if default in {_NULL, _REQUIRED} else default,
        has_default=default != _REQUIRED,
        documentation=DOCUMENTATION.get(name),
    )
