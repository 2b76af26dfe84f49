"""DeleteRecords (key 21), versions 0 to 2: the log start moves up to an offset (KIP-107).

Behaviour
  What lies below the offset is gone for every client when the answer goes out, and from the catalog; the
  stores free its space in the background, whole segments at a time. -1 is the high watermark: everything.
  The answer is the log start then; an offset below it changes nothing. An offset above the high watermark, or
  below -1, is OFFSET_OUT_OF_RANGE; a topic whose cleanup.policy has no `delete` POLICY_VIOLATION; an internal
  topic INVALID_TOPIC_EXCEPTION; a partition that is not there UNKNOWN_TOPIC_OR_PARTITION. A partition that is
  there twice gets the last one of its offsets. All partitions of a request move together, in as few
  transactions as may be. It is answered when a majority of the stores remembers it; if they do not for two
  seconds, REQUEST_TIMED_OUT: it may be asked again. It takes DELETE on the topic: TOPIC_AUTHORIZATION_FAILED
  for each partition, whether it is there or not.

Version notes
  v1 is v0 for a server that throttles. v2 is flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.answers.denied import permitted
from gateway.answers.element_limit import check_elements
from gateway.answers.encoding import answer_of
from gateway.common.costs import ELEMENT
from gateway.common.handlers import Request, Response, api
from gateway.security.acls import Operation, ResourceType
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.log.partition import Partition

NO_LOW_WATERMARK: Final = -1

_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

_Answer: Any = RESPONSE_CLASSES[ApiKey.DELETE_RECORDS]
_Topic: Any = _Answer.DeleteRecordsTopicResult
_Partition: Any = _Topic.DeleteRecordsPartitionResult


@api(key=ApiKey.DELETE_RECORDS, name="DeleteRecords", min_version=0, max_version=2)
async def delete_records(request: Request, broker: Broker) -> Response:
    """Move the log starts; one result per partition."""
    check_elements(sum(1 + len(topic.partitions) for topic in request.body.topics), "partitions")
    names = [topic.name for topic in request.body.topics]
    deletable = await permitted(request, Operation.DELETE, ResourceType.TOPIC, names)
    found: dict[str, dict[int, Partition | None]] = {}
    wanted: dict[Partition, int] = {}
    done = 0
    for asked in request.body.topics:
        await request.work.before(ELEMENT)
        topic = broker.topics.get(asked.name) if asked.name in deletable else None
        partitions = found.setdefault(asked.name, {})
        for one in asked.partitions:
            await request.work.before(ELEMENT)
            done += 1
            partition = None
            if topic is not None and 0 <= one.partition_index < len(topic.partitions):
                partition = topic.partitions[one.partition_index]
                wanted[partition] = one.offset
            partitions[one.partition_index] = partition
    outcomes = await broker.log_starts.delete_records(wanted)
    topics = []
    for name, partitions in found.items():
        await request.work.before(ELEMENT)
        results = []
        missing = KafkaError(_UNKNOWN if name in deletable else ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        for index, partition in partitions.items():
            await request.work.before(ELEMENT)
            results.append(_result(index, missing if partition is None else outcomes[partition]))
        if results:
            topics.append(_Topic(name=name, partitions=results))
    return await answer_of(done + len(topics), request, _Answer(throttle_time_ms=0, topics=topics))


def _result(index: int, outcome: int | KafkaError) -> Any:
    if isinstance(outcome, KafkaError):
        return _Partition(partition_index=index, low_watermark=NO_LOW_WATERMARK, error_code=outcome.code)
    return _Partition(partition_index=index, low_watermark=outcome, error_code=ErrorCode.NONE)
