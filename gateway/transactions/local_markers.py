"""Markers of partitions that this gateway leads: appended at once, without a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from gateway.common.marker import Marker
from gateway.groups.internal_topic import OFFSETS_TOPIC
from gateway.groups.transactional import as_marker_error
from gateway.journal.group_commit import WRITE_TIMEOUT_SECONDS
from gateway.log.appends import Append, Completion
from gateway.log.partition import NO_EPOCH
from gateway.transactions.metadata import TopicPartition
from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from gateway.cluster.cluster import Cluster
    from gateway.groups.coordinator import Coordinator


class LocalMarkers:
    """See `gateway.transactions.markers.MarkerTarget`. A partition that another gateway leads is
    NOT_LEADER_OR_FOLLOWER.
    """

    def __init__(self, cluster: Cluster, groups: Coordinator) -> None:
        self._cluster = cluster
        self._groups = groups

    def exists(self, partition: TopicPartition) -> bool:
        """Whether the partition is there, as far as this gateway sees."""
        name, index = partition
        topic = self._cluster.topics.get(name)
        return topic is not None and 0 <= index < len(topic.partitions)

    async def write(
        self, partition: TopicPartition, marker: Marker, leader_epoch: int = NO_EPOCH
    ) -> ErrorCode:
        """Append it; no error once it is durable as with acks=all, NOT_ENOUGH_REPLICAS if it takes too long.
        `leader_epoch` is the one under which its sender knows this leader, if that is another gateway.
        """
        name, index = partition
        topic = self._cluster.topics.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if name == OFFSETS_TOPIC:
            found = topic.partitions[index].check_leader_epoch(leader_epoch)
            if found is not ErrorCode.NONE:
                return ErrorCode.NOT_LEADER_OR_FOLLOWER  # it was sent to an earlier leader
            return await self._end_of_offsets(index, marker)
        try:
            append = topic.partitions[index].append_marker(
                marker, self._cluster.context.now_ms(), leader_epoch
            )
        except KafkaError as error:
            return error.code
        self._cluster.deliver()
        return await self._wait(append)

    async def _end_of_offsets(self, index: int, marker: Marker) -> ErrorCode:
        """The groups of the partition are told, and readers see what was committed before this is over."""
        try:
            pending = self._groups.transactional.begin_end(index, marker)
            await self._groups.journal.group_commit.durable(pending)
        except KafkaError as error:
            return as_marker_error(error).code
        return ErrorCode.NONE

    async def _wait(self, append: Append) -> ErrorCode:
        """How it went, when it is durable, or never will be, or takes too long: then it is to be sent again,
        and is found in the log.
        """
        completion = Completion(self._cluster.completions, trio.current_time() + WRITE_TIMEOUT_SECONDS)
        append.wait_with(completion)
        if completion.over:
            return append.error
        over = trio.Event()
        completion.when_over(over.set)
        try:
            await over.wait()
        finally:
            completion.forget()
        return append.error if append.done else ErrorCode.NOT_ENOUGH_REPLICAS
