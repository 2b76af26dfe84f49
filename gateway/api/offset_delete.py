"""OffsetDelete (key 47), version 0: a group forgets how far it has read of some partitions.

Behaviour
  The group has to exist, and be empty or a consumer group; of a topic that it is subscribed to nothing is
  deleted (GROUP_SUBSCRIBED_TO_TOPIC). A partition without a committed offset is no error, one that does not
  exist is UNKNOWN_TOPIC_OR_PARTITION, and those of topics that the client may not READ are
  TOPIC_AUTHORIZATION_FAILED. Answered when it is durable. An error of the group is said once,
  without partitions. A group of which nothing is left stays until its offsets would have expired.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.answers.encoding import answer_of
from gateway.common.costs import ELEMENT
from gateway.common.handlers import Request, Response, api
from gateway.groups.journal import pieces
from gateway.groups.offsets import TopicPartition
from gateway.security.acls import Operation, ResourceType
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

_Answer: Any = RESPONSE_CLASSES[ApiKey.OFFSET_DELETE]
_Topic: Any = _Answer.OffsetDeleteResponseTopic
_Partition: Any = _Topic.OffsetDeleteResponsePartition


@api(key=ApiKey.OFFSET_DELETE, name="OffsetDelete", min_version=0, max_version=0)
async def offset_delete(request: Request, broker: Broker) -> Response:
    """Delete what exists; one result per partition, or one error for all."""
    deletion = _Deletion(request, broker)
    try:
        if not request.access.may(Operation.DELETE, ResourceType.GROUP, request.body.group_id):
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        await deletion.carry_out()
    except KafkaError as error:
        return await answer_of(1, request, _Answer(error_code=error.code, throttle_time_ms=0, topics=[]))
    answer = _Answer(error_code=ErrorCode.NONE, throttle_time_ms=0, topics=await deletion.results())
    return await answer_of(deletion.elements, request, answer)


class _Deletion:
    """One request. Partitions that are refused come first in the answer (`OffsetDeleteResponse.Builder`)."""

    def __init__(self, request: Request, broker: Broker) -> None:
        self._body = request.body
        self._broker = broker
        self._access = request.access
        self._work = request.work
        self._results: dict[str, dict[int, ErrorCode]] = {}
        self._known: dict[TopicPartition, None] = {}
        self.elements = 0

    async def carry_out(self) -> None:
        """Sort out the partitions, and delete those of topics that the group does not read. Raises
        KafkaError.
        """
        await self._sort_out()
        groups, group_id = self._broker.groups, self._body.group_id
        group = groups.for_offset_delete(group_id)
        for name, index in self._known:
            subscribed = group.machine.is_subscribed(name)
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
            self._results.setdefault(name, {})[index] = error
        free = [key for key in self._known if self._results[key[0]][key[1]] is ErrorCode.NONE]
        for piece in pieces(group_id, group.offsets.known(free)):
            # While the one before was written, members may have come that read these and commit.
            group = groups.for_offset_delete(group_id)
            unread = [key for key in piece if not group.machine.is_subscribed(key[0])]
            for name, index in set(piece).difference(unread):
                self._results[name][index] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            await groups.journal.delete_offsets(group_id, group.offsets, unread)

    async def _sort_out(self) -> None:
        for wanted in self._body.topics:
            await self._next()
            if self._access.may(Operation.READ, ResourceType.TOPIC, wanted.name):
                topic, missing = self._broker.topics.get(wanted.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                topic, missing = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
            for partition in wanted.partitions:
                index = partition.partition_index
                if topic is not None and 0 <= index < len(topic.partitions):
                    self._known[wanted.name, index] = None
                else:
                    self._results.setdefault(wanted.name, {})[index] = missing
                await self._next()

    async def results(self) -> list[Any]:
        """One for each topic."""
        topics = []
        for name, found in self._results.items():
            await self._next()
            partitions = []
            for index, code in found.items():
                partitions.append(_Partition(partition_index=index, error_code=code))
                await self._next()
            topics.append(_Topic(name=name, partitions=partitions))
        return topics

    async def _next(self) -> None:
        await self._work.before(ELEMENT)
        self.elements += 1
