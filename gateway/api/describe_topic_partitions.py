"""DescribeTopicPartitions (key 75), version 0: topics in pages of partitions (KIP-966).

Behaviour
  Topics come in the order of their names, each once: those that are named, or all. An answer holds as many
  partitions as the request asks for, at least one and 2,000 at most; where that is not all, the cursor says
  with which topic and partition the next request goes on. A cursor's topic must be among those that are
  named. What is told of a partition is what Metadata tells. Topics that the client may not describe come
  last, with TOPIC_AUTHORIZATION_FAILED, if it has named them; else they are left out.

Version notes
  There is one version. Java's `describeTopics` tries it first.

Differs from Kafka
  Nothing is known of eligible leader replicas: both lists are empty, as in a Kafka where all is well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from gateway.answers.element_limit import check_elements
from gateway.answers.encoding import answer_of
from gateway.cluster.stores import Replicas
from gateway.cluster.topic_states import TopicState, states
from gateway.common.costs import ELEMENT, LOOKED
from gateway.common.handlers import Request, Response, api
from gateway.common.topic_names import invalid_topic_name, is_internal
from gateway.security.acls import Operation, ResourceType
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.security.access import Access

MAX_PARTITIONS_PER_ANSWER: Final = 2_000
"""Partitions in one answer, whatever the request asks for: Kafka's `max.request.partition.size.limit`."""

NOT_ASKED: Final = -(1 << 31)
"""In place of operations beside an error."""

_Answer: Any = RESPONSE_CLASSES[ApiKey.DESCRIBE_TOPIC_PARTITIONS]
_Topic: Any = _Answer.DescribeTopicPartitionsResponseTopic
_Partition: Any = _Topic.DescribeTopicPartitionsResponsePartition


@api(key=ApiKey.DESCRIBE_TOPIC_PARTITIONS, name="DescribeTopicPartitions", min_version=0, max_version=0)
async def describe_topic_partitions(request: Request, broker: Broker) -> Response:
    """Describe a page of partitions."""
    body, cursor = request.body, request.body.cursor
    check_elements(len(body.topics), "topics")
    await request.work.before(LOOKED * len(body.topics))
    first = "" if cursor is None else cursor.topic_name
    everything = not body.topics
    if everything:
        names = [topic.name for topic in broker.topics.all() if topic.name >= first]
    else:
        names = sorted({topic.name for topic in body.topics if topic.name >= first})
    if cursor is not None and (cursor.partition_index < 0 or (not everything and first not in names)):
        return await answer_of(len(body.topics), request, _refused(body.topics))
    await request.work.before(LOOKED * len(names))
    left = max(1, min(MAX_PARTITIONS_PER_ANSWER, body.response_partition_limit))
    topics: list[Any] = []
    denied: list[Any] = []
    following: tuple[str, int] | None = None
    for name in names:
        await request.work.before(ELEMENT)
        if not request.access.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
            if not everything:
                denied.append(_denied(name))
            continue
        if following is not None:
            continue  # what is hidden counts for no page
        if left == 0:
            following = name, 0
            continue
        (state,) = states(broker, [broker.topics.get(name)], request.local_address)
        if not isinstance(state, TopicState):
            if not everything:
                topics.append(_unknown(name, _operations(request.access, name)))
            continue
        start = cursor.partition_index if cursor is not None and name == first else 0
        shown = range(start, min(start + left, len(state.partitions)))
        topics.append(_known(state, shown, _operations(request.access, name)))
        left -= len(shown)
        if start + len(shown) < len(state.partitions):
            following = name, start + len(shown)
    next_cursor = None
    if following is not None:
        next_cursor = _Answer.Cursor(topic_name=following[0], partition_index=following[1])
    topics += denied
    answer = _Answer(throttle_time_ms=0, topics=topics, next_cursor=next_cursor)
    elements = sum(1 + len(topic.partitions) for topic in topics)
    return await answer_of(elements, request, answer)


def _operations(access: Access, topic: str) -> int:
    """What the client may do to a topic, one bit for each."""
    return sum(1 << operation for operation in access.operations(ResourceType.TOPIC, topic))


def _known(state: TopicState, shown: range, operations: int) -> Any:
    partitions = []
    for index in shown:
        leader_epoch, available, replicas, leader = state.partitions[index]
        kept = replicas or Replicas((leader,), (leader,), ())
        partitions.append(
            _Partition(
                error_code=ErrorCode.NONE if available else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=index,
                leader_id=leader,
                leader_epoch=leader_epoch,
                replica_nodes=list(kept.ids),
                isr_nodes=list(kept.in_sync),
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=list(kept.offline),
            )
        )
    return _topic(ErrorCode.NONE, state.name, UUID(bytes=state.id), partitions, operations)


def _denied(name: str) -> Any:
    """A topic of which the client is not told whether it exists."""
    return _Topic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        name=name,
        topic_id=None,
        is_internal=False,
        partitions=[],
        topic_authorized_operations=NOT_ASKED,
    )


def _unknown(name: str, operations: int) -> Any:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if invalid_topic_name(name) is not None:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    return _topic(error, name, None, [], operations)


def _topic(error: ErrorCode, name: str, topic_id: UUID | None, partitions: list[Any], operations: int) -> Any:
    return _Topic(
        error_code=error,
        name=name,
        topic_id=topic_id,
        is_internal=is_internal(name),
        partitions=partitions,
        topic_authorized_operations=operations,
    )


def _refused(topics: list[Any]) -> Any:
    """A cursor that cannot be gone on from: every topic that is named has the error."""
    results = [_topic(ErrorCode.INVALID_REQUEST, topic.name, None, [], NOT_ASKED) for topic in topics]
    return _Answer(throttle_time_ms=0, topics=results, next_cursor=None)
