"""OffsetForLeaderEpoch (key 23), versions 2 to 4: where a leader epoch ended, so that a client sees lost
records.

Behaviour
  For each partition, in the request's order, doubles included: the largest epoch that is not above the one
  asked for, and the offset at which it ended; for the present epoch that is the high watermark. (-1, -1)
  for an epoch that is not known. `current_leader_epoch` is checked first (74, 75; -1 is not given). A
  partition that is not recovered yet is LEADER_NOT_AVAILABLE: with an end that may still grow, a client
  would believe that records were lost (KIP-320). Who may neither act for the cluster nor describe the topic
  gets TOPIC_AUTHORIZATION_FAILED in each partition.

Version notes
  v2 brings the check of the client's epoch. v3 names the replica that asks. v4 is flexible.

Differs from Kafka
  A follower (replica id 0 and above) gets the high watermark, not the log's end: nothing above it is ever
  shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.answers.encoding import answer_of
from gateway.common.costs import ELEMENT
from gateway.common.handlers import Request, Response, api
from gateway.security.acls import CLUSTER_NAME, Operation, ResourceType
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.log.topic import Topic
    from gateway.security.access import Access

UNKNOWN_EPOCH = -1
UNKNOWN_OFFSET = -1

_Answer: Any = RESPONSE_CLASSES[ApiKey.OFFSET_FOR_LEADER_EPOCH]
_Topic: Any = _Answer.OffsetForLeaderTopicResult
_Partition: Any = _Topic.EpochEndOffset


@api(key=ApiKey.OFFSET_FOR_LEADER_EPOCH, name="OffsetForLeaderEpoch", min_version=2, max_version=4)
async def offset_for_leader_epoch(request: Request, broker: Broker) -> Response:
    """Answer each partition from its list of epochs; nothing is read."""
    topics = []
    done = 0
    for wanted in request.body.topics:
        await request.work.before(ELEMENT)
        is_allowed = _may_describe(request.access, wanted.topic)
        topic = broker.topics.get(wanted.topic)
        partitions = []
        for asked in wanted.partitions:
            await request.work.before(ELEMENT)
            partitions.append(_end_of_epoch(topic, asked) if is_allowed else _denied(asked))
        topics.append(_Topic(topic=wanted.topic, partitions=partitions))
        done += 1 + len(partitions)
    return await answer_of(done, request, _Answer(throttle_time_ms=0, topics=topics))


def _may_describe(access: Access, topic: str) -> bool:
    """Brokers ask as well as consumers (KIP-320)."""
    return access.sees(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME) or access.may(
        Operation.DESCRIBE, ResourceType.TOPIC, topic
    )


def _denied(asked: Any) -> Any:
    return _Partition(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        partition=asked.partition,
        leader_epoch=UNKNOWN_EPOCH,
        end_offset=UNKNOWN_OFFSET,
    )


def _end_of_epoch(topic: Topic | None, asked: Any) -> Any:
    error, epoch, end_offset = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_EPOCH, UNKNOWN_OFFSET
    if topic is not None and 0 <= asked.partition < len(topic.partitions):
        partition = topic.partitions[asked.partition]
        error = partition.check_leader_epoch(asked.current_leader_epoch)
        if error is ErrorCode.NONE:
            if partition.available:
                epoch, end_offset = partition.end_offset_for_epoch(asked.leader_epoch)
            else:
                partition.asked_for()
                error = ErrorCode.LEADER_NOT_AVAILABLE
    return _Partition(error_code=error, partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)
