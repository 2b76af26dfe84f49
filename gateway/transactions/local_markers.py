"""Markers of partitions that this gateway leads: appended at once, without a request."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from gateway.common.marker import Marker
from gateway.log.appends import Append, Completion
from gateway.transactions.metadata import TopicPartition
from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from gateway.cluster.cluster import Cluster


class LocalMarkers:
    """See `gateway.transactions.markers.MarkerTarget`. A partition that another gateway leads is
    NOT_LEADER_OR_FOLLOWER.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def exists(self, partition: TopicPartition) -> bool:
        """Whether the partition is there, as far as this gateway sees."""
        name, index = partition
        topic = self._cluster.topics.get(name)
        return topic is not None and 0 <= index < len(topic.partitions)

    async def write(self, partition: TopicPartition, marker: Marker) -> ErrorCode:
        """Append it; no error once it is durable as with acks=all."""
        name, index = partition
        topic = self._cluster.topics.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        try:
            append = topic.partitions[index].append_marker(marker, self._cluster.context.now_ms())
        except KafkaError as error:
            return error.code
        self._cluster.deliver()
        await self._wait(append)
        return append.error

    async def _wait(self, append: Append) -> None:
        """Return when it is durable, or never will be."""
        completion = Completion(self._cluster.completions, math.inf)
        append.wait_with(completion)
        if completion.over:
            return
        over = trio.Event()
        completion.when_over(over.set)
        try:
            await over.wait()
        finally:
            completion.forget()
