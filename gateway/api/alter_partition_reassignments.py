"""AlterPartitionReassignments (key 45), versions 0 and 1 (KIP-455).

Behaviour
  Which stores keep a partition is its leader's choice, segment by segment, and a store is replaced by
  `dafka store replace`. Which gateway leads it is the choice of all of them together. So there is nothing to
  reassign: an assignment that names its leader and nobody else is what the partition has already, no error,
  and nothing changes. Any other one is INVALID_REPLICA_ASSIGNMENT, with Kafka's words, or with what to do
  instead. To cancel (null) is NO_REASSIGNMENT_IN_PROGRESS. A partition that is not there is
  UNKNOWN_TOPIC_OR_PARTITION. A timeout of 0 or less: REQUEST_TIMED_OUT for all of them.

Version notes
  v1 may forbid to change the replication factor (KIP-860), which happens never.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.administration.topic_creation import bad_assignment, check_replicas
from gateway.answers.element_limit import check_elements
from gateway.answers.encoding import answer_of
from gateway.common.costs import ELEMENT
from gateway.common.handlers import Request, Response, api
from gateway.configs.values import quoted
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

BY_THEMSELVES = (
    "Gateways share the partitions among themselves, evenly, and none can be moved alone. To have a gateway "
    "lead nothing: 'dafka gateways drain ID'. Copies are kept by stores: 'dafka store replace OLD NEW'"
)

_Answer: Any = RESPONSE_CLASSES[ApiKey.ALTER_PARTITION_REASSIGNMENTS]
_Topic: Any = _Answer.ReassignableTopicResponse
_Partition: Any = _Topic.ReassignablePartitionResponse


@api(
    key=ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    name="AlterPartitionReassignments",
    min_version=0,
    max_version=1,
)
async def alter_partition_reassignments(request: Request, broker: Broker) -> Response:
    """Judge each assignment; none of them changes anything."""
    body = request.body
    check_elements(sum(1 + len(topic.partitions) for topic in body.topics), "partitions")
    done = 0
    topics: list[Any] = []
    timed_out = body.timeout_ms <= 0
    for topic in body.topics:
        await request.work.before(ELEMENT)
        partitions = []
        for wanted in topic.partitions:
            await request.work.before(ELEMENT)
            done += 1
            error, message = ErrorCode.REQUEST_TIMED_OUT if timed_out else ErrorCode.NONE, None
            try:
                if not timed_out:
                    _check(broker, topic.name, wanted)
            except KafkaError as refused:
                error, message = refused.code, refused.message
            partitions.append(
                _Partition(partition_index=wanted.partition_index, error_code=error, error_message=message)
            )
        topics.append(_Topic(name=topic.name, partitions=partitions))
    answer = _Answer(
        throttle_time_ms=0,
        allow_replication_factor_change=body.allow_replication_factor_change,
        error_code=ErrorCode.REQUEST_TIMED_OUT if timed_out else ErrorCode.NONE,
        error_message=None if topics else "",  # as Kafka says it
        responses=topics,
    )
    return await answer_of(done + len(topics), request, answer)


def _check(broker: Broker, name: str, wanted: Any) -> None:
    """As `ReplicationControlManager.alterPartitionReassignment`. Raises KafkaError."""
    topic = broker.topics.get(name)
    if topic is None:
        message = f"Unable to find a topic named {quoted(name)}."
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    if not 0 <= wanted.partition_index < len(topic.partitions):
        message = f"Unable to find partition {name}:{wanted.partition_index}."
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    if wanted.replicas is None:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    check_replicas(broker, wanted.replicas)
    if list(wanted.replicas) != [broker.gateways.leader(topic.id, wanted.partition_index)]:
        raise bad_assignment(BY_THEMSELVES)
