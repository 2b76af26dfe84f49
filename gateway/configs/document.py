"""Writes `docs/topic-configs.md` from the table of topic configs.

python -m gateway.configs.document > docs/topic-configs.md
"""

from __future__ import annotations

import sys
from typing import Final

from gateway.configs.topic_configs import LONG_MAX, TOPIC_CONFIGS, TopicConfig
from gateway.configs.values import ConfigType

NO_EFFECT: Final = "accepted, no effect"

_INTRODUCTION: Final = f"""\
# Topic configs

Every topic config of Apache Kafka 4.3, and seven of our own: `dafka.native.subject`,
`dafka.native.partition`, `dafka.native.key`, `dafka.native.retention.ms`, `dafka.publish`,
`dafka.publish.subject` and `retention.disk.percent`. A topic may be created with any of them, and be given
others later (`dafka topics alter`, `dafka configs alter`, or any Kafka tool): names and values are checked as
Kafka checks them, kept, and given back by DescribeConfigs. What a config does *here* is in the column "Here",
for the next request after it was changed; all others are {NO_EFFECT}.

A value that Kafka would refuse is refused with INVALID_CONFIG (40) and a message that names the config and
what is allowed. Defaults are Kafka's; for all topics without a value of their own they can be changed while
the gateway runs, by the broker config in the column "Default from" (`dafka configs alter cluster --set ...`).

This page is made from the table in the code: `python -m gateway.configs.document > docs/topic-configs.md`.

| Config | Type | Default | Default from | Allowed | Here |
|---|---|---|---|---|---|
"""


def topic_configs_page() -> str:
    """The page, in Markdown."""
    shown = sorted((c for c in TOPIC_CONFIGS.values() if not c.hidden or c.own), key=lambda c: c.name)
    rows = "".join(_row(config) for config in shown)
    details = "".join(f"\n**{config.name}**: {config.documentation}\n" for config in shown)
    return f"{_INTRODUCTION}{rows}\n## What they mean\n{details}"


def _row(config: TopicConfig) -> str:
    default = (
        "(longest)" if config.default == str(LONG_MAX) else f"`{config.default}`" if config.default else ""
    )
    here = config.effect or NO_EFFECT
    source = f"`{config.broker_config}`" if config.broker_config else ""
    cells = (f"`{config.name}`", config.type.name.lower(), default, source, _allowed(config), here)
    return f"| {' | '.join(cells)} |\n"


def _allowed(config: TopicConfig) -> str:
    if config.check is not None:
        return config.check.allowed
    return "true, false" if config.type is ConfigType.BOOLEAN else "any"


if __name__ == "__main__":
    sys.stdout.write(topic_configs_page())
