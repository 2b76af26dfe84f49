"""ListPartitionReassignments (key 46), version 0: partitions on their way to another leader (KIP-455).

Behaviour
  One that AlterPartitionReassignments has moved, and that another gateway still leads: its `replicas` are
  both, the one that comes is `adding_replicas`, the one that goes `removing_replicas`. Those that wait for a
  gateway that is away are not on their way. It takes DESCRIBE on the cluster: CLUSTER_AUTHORIZATION_FAILED,
  and the partitions that are named come back without replicas, as in Kafka.

Differs from Kafka
  A segment that gets another member (`dafka store replace`) is no reassignment: Metadata shows the new store
  when it has all of it, and nothing can be cancelled.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from gateway.answers.denied import cluster_denied
from gateway.answers.element_limit import check_elements
from gateway.answers.encoding import answer_of
from gateway.cluster.gateways import NOBODY
from gateway.common.costs import COUNTED, ELEMENT
from gateway.common.handlers import Request, Response, api
from gateway.security.acls import Operation
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.cluster.preferred_leaders import Moving
    from gateway.log.topic import Topic

_Answer: Any = RESPONSE_CLASSES[ApiKey.LIST_PARTITION_REASSIGNMENTS]
_Topic: Any = _Answer.OngoingTopicReassignment
_Partition: Any = _Topic.OngoingPartitionReassignment


@api(
    key=ApiKey.LIST_PARTITION_REASSIGNMENTS,
    name="ListPartitionReassignments",
    min_version=0,
    max_version=0,
)
async def list_partition_reassignments(request: Request, broker: Broker) -> Response:
    """Those of the topics and partitions that are named, or all (null)."""
    asked = request.body.topics
    check_elements(sum(1 + len(topic.partition_indexes) for topic in asked or ()), "partitions")
    if denied := cluster_denied(request.access, Operation.DESCRIBE):
        return await _refused(request, denied)
    moved: dict[str, list[Any]] = {}
    async for topic, index in _asked_for(request, broker):
        moving = None if broker.preferred is None else broker.preferred.moving(topic, index)
        if moving is not None:
            moved.setdefault(topic.name, []).append(_ongoing(index, moving))
    topics = [_Topic(name=name, partitions=partitions) for name, partitions in moved.items()]
    answer = _Answer(throttle_time_ms=0, error_code=ErrorCode.NONE, error_message=None, topics=topics)
    return await answer_of(sum(1 + len(topic.partitions) for topic in topics), request, answer)


async def _refused(request: Request, denied: KafkaError) -> Response:
    topics = []
    for topic in request.body.topics or ():
        await request.work.before(ELEMENT)
        topics.append(
            _Topic(name=topic.name, partitions=await request.work.each(_untold, topic.partition_indexes))
        )
    answer = _Answer(throttle_time_ms=0, error_code=denied.code, error_message=denied.message, topics=topics)
    return await answer_of(sum(1 + len(topic.partitions) for topic in topics), request, answer)


def _untold(index: int) -> Any:
    return _Partition(partition_index=index, replicas=[], adding_replicas=[], removing_replicas=[])


async def _asked_for(request: Request, broker: Broker) -> AsyncIterator[tuple[Topic, int]]:
    """The partitions that are there of those."""
    if request.body.topics is None:
        for topic, index, _ in () if broker.preferred is None else broker.preferred.all():
            await request.work.before(ELEMENT)
            yield topic, index
        return
    for wanted in request.body.topics:
        await request.work.before(COUNTED)
        found = broker.topics.get(wanted.name)
        for index in dict.fromkeys(wanted.partition_indexes):
            await request.work.before(ELEMENT)
            if found is not None and 0 <= index < len(found.partitions):
                yield found, index


def _ongoing(index: int, moving: Moving) -> Any:
    leaders = [moving.source] if moving.source != NOBODY else []
    return _Partition(
        partition_index=index,
        replicas=[moving.target, *leaders],
        adding_replicas=[moving.target],
        removing_replicas=leaders,
    )
