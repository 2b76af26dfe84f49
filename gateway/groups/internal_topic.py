"""The topic that groups live in, `__consumer_offsets`."""

from __future__ import annotations

from typing import Final

from gateway.journal.internal_topic import InternalTopic

OFFSETS_TOPIC: Final = "__consumer_offsets"

OFFSETS_TOPIC_PARTITIONS: Final = 50
"""Partitions of the topic: Kafka's `offsets.topic.num.partitions`. The number never changes, since it decides
where a group is; an idle partition costs nothing but some kilobytes."""

OFFSETS_TOPIC_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.bytes": str(100 * 1024 * 1024),
}
"""As `GroupCoordinatorService.groupMetadataTopicConfigs`: only the newest value of a key is of interest."""

OFFSETS: Final = InternalTopic(OFFSETS_TOPIC, OFFSETS_TOPIC_PARTITIONS, OFFSETS_TOPIC_CONFIGS)
