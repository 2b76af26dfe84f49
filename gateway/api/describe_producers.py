"""DescribeProducers (key 61), version 0: the idempotent producers that a partition knows (KIP-664).

Behaviour
  Per producer: id, epoch, the last sequence that was appended (-1: none since a marker raised the epoch), the
  largest timestamp of its last batch or marker, the epoch of the coordinator that ended its last transaction,
  and where its open one begins (-1: none). A partition that is not there is UNKNOWN_TOPIC_OR_PARTITION, an
  invalid topic name INVALID_TOPIC_EXCEPTION, a partition that is not recovered NOT_LEADER_OR_FOLLOWER. It
  takes READ on the topic: TOPIC_AUTHORIZATION_FAILED, whether there is such a topic or not, if its name is
  valid.

Version notes
  There is one version.

Differs from Kafka
  An answer has `MAX_PRODUCERS_PER_ANSWER` producers at most; partitions beyond are POLICY_VIOLATION.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from gateway.answers.denied import denied
from gateway.answers.element_limit import check_elements
from gateway.answers.encoding import answer_of
from gateway.common.costs import COUNTED, ELEMENT
from gateway.common.handlers import Request, Response, api
from gateway.common.topic_names import invalid_topic_name
from gateway.security.acls import Operation, ResourceType
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.broker import Broker
    from gateway.security.access import Access

MAX_PRODUCERS_PER_ANSWER: Final = 100_000
"""Producers in one answer: some 4 MB. A request of a few bytes could name one partition over and over."""

PRODUCER_BYTES: Final = 300
"""Memory of a producer in an answer, about."""

_Answer: Any = RESPONSE_CLASSES[ApiKey.DESCRIBE_PRODUCERS]
_Topic: Any = _Answer.TopicResponse
_Partition: Any = _Topic.PartitionResponse
_Producer: Any = _Partition.ProducerState


@api(key=ApiKey.DESCRIBE_PRODUCERS, name="DescribeProducers", min_version=0, max_version=0)
async def describe_producers(request: Request, broker: Broker) -> Response:
    """Describe the producers of each partition."""
    check_elements(sum(1 + len(topic.partition_indexes) for topic in request.body.topics), "partitions")
    left = MAX_PRODUCERS_PER_ANSWER
    refusals = await _refusals(request)
    # Before it is made, by many connections at once.
    await request.reserve_if_large(PRODUCER_BYTES * await _count(request, broker, refusals))
    done = 0
    topics = []
    for topic, refusal in zip(request.body.topics, refusals, strict=True):
        await request.work.before(ELEMENT)
        done += 1
        partitions = []
        for index in topic.partition_indexes:
            known = 0 if refusal is not None else _known(broker, topic.name, index, left)
            await request.work.before(ELEMENT + COUNTED * known)
            done += 1
            if refusal is not None:
                partitions.append(_refused(index, refusal))
                continue
            try:
                found = _producers(broker, topic.name, index, left)
            except KafkaError as error:
                partitions.append(_refused(index, error))
                continue
            left -= len(found)
            partitions.append(
                _Partition(
                    partition_index=index,
                    error_code=ErrorCode.NONE,
                    error_message=None,
                    active_producers=found,
                )
            )
        topics.append(_Topic(name=topic.name, partitions=partitions))
    elements = done + MAX_PRODUCERS_PER_ANSWER - left
    return await answer_of(elements, request, _Answer(throttle_time_ms=0, topics=topics))


def _refused(index: int, error: KafkaError) -> Any:
    return _Partition(
        partition_index=index, error_code=error.code, error_message=error.message, active_producers=[]
    )


async def _refusals(request: Request) -> Sequence[KafkaError | None]:
    """Why nothing is told of a topic, whether it is there or not; None where it may be."""
    topics, access = request.body.topics, request.access
    if access.is_unrestricted:
        return [None] * len(topics)
    return await request.work.each(partial(_refusal, access), topics)


def _refusal(access: Access, topic: Any) -> KafkaError | None:
    # An invalid name is that for everybody.
    if invalid_topic_name(topic.name) or access.may(Operation.READ, ResourceType.TOPIC, topic.name):
        return None
    return denied(ResourceType.TOPIC)


async def _count(request: Request, broker: Broker, refusals: Sequence[KafkaError | None]) -> int:
    """How many producers the answer has at most."""
    found = 0
    for topic, refusal in zip(request.body.topics, refusals, strict=True):
        for index in topic.partition_indexes if refusal is None else ():
            await request.work.before(COUNTED)
            found += _known(broker, topic.name, index, MAX_PRODUCERS_PER_ANSWER)
    return min(found, MAX_PRODUCERS_PER_ANSWER)


def _known(broker: Broker, name: str, index: int, left: int) -> int:
    """How many producers are looked at for a partition, if that is answered: also those that are expired."""
    topic = broker.topics.get(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        return 0
    count = topic.partitions[index].producers.state.count
    return count if count <= left else 0


def _producers(broker: Broker, name: str, index: int, left: int) -> list[Any]:
    """The producers of one partition. Raises KafkaError."""
    if reason := invalid_topic_name(name):
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    topic = broker.topics.get(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partition = topic.partitions[index]
    if not partition.available:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, partition.reason)
    if partition.producers.state.count > left:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"more than {MAX_PRODUCERS_PER_ANSWER} producers in one answer: ask for fewer partitions",
        )
    return [
        _Producer(
            producer_id=producer_id,
            producer_epoch=producer.epoch,
            last_sequence=producer.last_sequence,
            last_timestamp=producer.timestamp,
            coordinator_epoch=producer.coordinator_epoch,
            current_txn_start_offset=producer.first_offset,
        )
        for producer_id, producer in partition.producers.state.active(broker.context.now_ms())
    ]
