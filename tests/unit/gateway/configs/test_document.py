"""docs/topic-configs.md is made from the table, and says of every config what it does here."""

from __future__ import annotations

from pathlib import Path

from gateway.configs.document import NO_EFFECT, topic_configs_page
from gateway.configs.topic_configs import TOPIC_CONFIGS

PAGE = Path(__file__).parents[4] / "docs" / "topic-configs.md"
IN_EFFECT = {
    "cleanup.policy",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "delete.retention.ms",
    "max.compaction.lag.ms",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "dafka.native.key",
    "dafka.native.partition",
    "dafka.native.retention.ms",
    "dafka.native.subject",
    "dafka.publish",
    "dafka.publish.subject",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "min.insync.replicas",
    "retention.bytes",
    "retention.disk.percent",
    "retention.ms",
    "segment.bytes",
    "segment.ms",
}


def test_the_page_is_up_to_date() -> None:
    # To renew it: python -m gateway.configs.document > docs/topic-configs.md
    assert PAGE.read_text("utf-8") == topic_configs_page()


def test_the_page_says_what_each_config_does_here() -> None:
    rows = [line.split(" | ") for line in topic_configs_page().splitlines() if line.startswith("| `")]
    said = {row[0].strip("|` "): row[-1].rstrip(" |") for row in rows}
    assert said.keys() == {name for name, config in TOPIC_CONFIGS.items() if not config.hidden or config.own}
    without = {name for name, text in said.items() if text == NO_EFFECT}
    assert said.keys() - without == IN_EFFECT | {"remote.storage.enable"}
