"""What consumer groups have committed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from dafka_pipeline.kafka.cluster import ANSWER_SECONDS, Cluster

Committed = dict[str, dict[str, dict[str, dict[str, Any]]]]
"""Group -> topic -> partition (as text, for JSON) -> {"offset": N, "metadata": TEXT}."""


def committed_offsets(cluster: Cluster, topics: Collection[str]) -> Committed:
    """Committed offsets of all groups in these topics; groups without one are left out. Raises KafkaAway."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    with cluster.asking("for its consumer groups"):
        listed = cluster.admin.list_consumer_groups(request_timeout=ANSWER_SECONDS).result().valid
        found: Committed = {}
        for group in sorted(one.group_id for one in listed):
            wanted = [ConsumerGroupTopicPartitions(group)]
            futures = cluster.admin.list_consumer_group_offsets(wanted, request_timeout=ANSWER_SECONDS)
            for place in futures[group].result().topic_partitions:
                if place.topic in topics and place.offset >= 0 and place.error is None:
                    partitions = found.setdefault(group, {}).setdefault(place.topic, {})
                    partitions[str(place.partition)] = {
                        "offset": place.offset,
                        "metadata": place.metadata or "",
                    }
    return found
