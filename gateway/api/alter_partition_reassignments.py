"""AlterPartitionReassignments (key 45), versions 0 and 1 (KIP-455): which gateway is to lead a partition.

Behaviour
  An assignment names one gateway: it leads the partition from a moment later on, after the one that leads it
  now has handed it over, and again whenever it has been away. ListPartitionReassignments lists those that are
  still on their way; to cancel one (null) has it stay where it is, and is NO_REASSIGNMENT_IN_PROGRESS for
  any other. A partition that is not there is UNKNOWN_TOPIC_OR_PARTITION. A timeout of 0 or less:
  REQUEST_TIMED_OUT for all of them. It takes ALTER on the cluster: CLUSTER_AUTHORIZATION_FAILED for the whole
  and for each partition.

Differs from Kafka
  Which stores keep a partition is its leader's choice, segment by segment, and a store is replaced by
  `dafka store replace`: an assignment of several is INVALID_REPLICA_ASSIGNMENT. So is one of a partition that
  is led together with another one which was moved elsewhere (`gateway.cluster.preferred_leaders`).

Version notes
  v1 may forbid to change the replication factor (KIP-860), which happens never.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gateway.administration.topic_creation import check_replicas
from gateway.answers.denied import cluster_denied
from gateway.answers.element_limit import check_elements
from gateway.answers.encoding import answer_of
from gateway.cluster.preferred_leaders import Wish
from gateway.common.costs import ELEMENT
from gateway.common.handlers import Request, Response, api
from gateway.configs.values import quoted
from gateway.security.acls import Operation
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

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
    """Judge each assignment, and have those be wanted that can be."""
    body = request.body
    check_elements(sum(1 + len(topic.partitions) for topic in body.topics), "partitions")
    whole = cluster_denied(request.access, Operation.ALTER)
    if whole is None and body.timeout_ms <= 0:
        whole = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
    topics: list[Any] = []
    wishes: list[tuple[Any, Wish]] = []
    for topic in body.topics:
        await request.work.before(ELEMENT)
        partitions = []
        for wanted in topic.partitions:
            await request.work.before(ELEMENT)
            result = _result(wanted.partition_index, whole)
            partitions.append(result)
            if whole is not None:
                continue
            try:
                wishes.append((result, _wish(broker, topic.name, wanted)))
            except KafkaError as refused:
                result.error_code, result.error_message = refused.code, refused.message
        topics.append(_Topic(name=topic.name, partitions=partitions))
    try:
        await _carry_out(broker, wishes)
    except KafkaError as error:
        whole = error
    answer = _Answer(
        throttle_time_ms=0,
        allow_replication_factor_change=body.allow_replication_factor_change,
        error_code=ErrorCode.NONE if whole is None else whole.code,
        error_message=_said(whole, topics),
        responses=topics,
    )
    return await answer_of(sum(1 + len(topic.partitions) for topic in topics), request, answer)


def _result(index: int, error: KafkaError | None) -> Any:
    if error is None:
        return _Partition(partition_index=index, error_code=ErrorCode.NONE, error_message=None)
    return _Partition(partition_index=index, error_code=error.code, error_message=error.message)


def _said(whole: KafkaError | None, topics: Sequence[Any]) -> str | None:
    """As Kafka says it where the time is over, or nothing is wrong."""
    if whole is not None and whole.code != ErrorCode.REQUEST_TIMED_OUT:
        return whole.message
    return None if topics else ""


async def _carry_out(broker: Broker, wishes: Sequence[tuple[Any, Wish]]) -> None:
    """Have these be wanted, and note at each result what is against it. Raises KafkaError: nothing can be
    changed at present.
    """
    if not wishes or broker.preferred is None:
        return
    against = await broker.prefer_leaders([wish for _, wish in wishes])
    for (result, _), refused in zip(wishes, against, strict=True):
        if refused is not None:
            result.error_code, result.error_message = refused.code, refused.message


def _wish(broker: Broker, name: str, wanted: Any) -> Wish:
    """As `ReplicationControlManager.alterPartitionReassignment`. Raises KafkaError."""
    topic = broker.topics.get(name)
    if topic is None:
        message = f"Unable to find a topic named {quoted(name)}."
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    if not 0 <= wanted.partition_index < len(topic.partitions):
        message = f"Unable to find partition {name}:{wanted.partition_index}."
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    if wanted.replicas is None:
        if broker.preferred is None or broker.preferred.moving(topic, wanted.partition_index) is None:
            raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        return Wish(topic, wanted.partition_index, None)
    check_replicas(broker, wanted.replicas)
    return Wish(topic, wanted.partition_index, wanted.replicas[0])
