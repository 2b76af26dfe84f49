"""The topic that groups live in, `__consumer_offsets`: its shape, and which of its partitions has a group."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Final

from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from gateway.cluster.cluster import Cluster
    from gateway.log.topic import Topic

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

_UTF_16: Final = f"utf-16-{sys.byteorder[0]}e"

logger = logging.getLogger(__name__)


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 code units, a signed number of 32 bits."""
    value = 0
    if text.isascii():
        units: bytes | memoryview = text.encode()
    else:
        units = memoryview(text.encode(_UTF_16, "surrogatepass")).cast("H")
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def partition_for(group_id: str, partitions: int) -> int:
    """Which of so many partitions keeps the group: Kafka's `Utils.abs(groupId.hashCode()) % partitions`.

    Kafka's `abs` of the smallest number is 0.
    """
    value = java_hash(group_id)
    return (0 if value == -(1 << 31) else abs(value)) % partitions


async def ensure_offsets_topic(cluster: Cluster) -> Topic:
    """The topic, made now if it is not there. Raises KafkaError: COORDINATOR_NOT_AVAILABLE."""
    topic = cluster.topics.get(OFFSETS_TOPIC)
    if topic is not None:
        return topic
    copies = cluster.stores.default_replication_factor
    try:
        return await cluster.create_topic(
            OFFSETS_TOPIC, OFFSETS_TOPIC_PARTITIONS, dict(OFFSETS_TOPIC_CONFIGS), copies
        )
    except KafkaError as error:
        # Another client was faster, or the catalog refused.
        topic = cluster.topics.get(OFFSETS_TOPIC)
        if topic is None:
            logger.warning("%s cannot be made: %s", OFFSETS_TOPIC, error)
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from None
        return topic
