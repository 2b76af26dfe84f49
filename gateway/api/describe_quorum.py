"""DescribeQuorum (key 55), versions 0 to 2: who keeps the metadata (KIP-595).

Behaviour
  The only partition is `__cluster_metadata`-0; anything else is UNKNOWN_TOPIC_OR_PARTITION. The controller
  that Metadata names is its leader and only voter; where several gateways share the catalog the others are
  observers. The high watermark is the revision of the catalog, which goes up by one with each change; so is
  everybody's end of the log. It takes DESCRIBE on the cluster: without it the answer has the error
  alone.

Version notes
  v1 says when each replica was last heard of: now. v2 has messages, directory ids (none here) and the voters'
  addresses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.answers.denied import cluster_denied
from gateway.answers.element_limit import check_elements
from gateway.answers.encoding import answer, answer_of
from gateway.common.costs import ELEMENT
from gateway.common.handlers import Request, Response, api
from gateway.common.topic_names import CLUSTER_METADATA_TOPIC
from gateway.security.acls import Operation
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

METADATA_EPOCH: Final = 1
"""Epoch of the metadata's leader: there is one, and never another one."""

NOT_TOLD: Final = -1

_Answer: Any = RESPONSE_CLASSES[ApiKey.DESCRIBE_QUORUM]
_Topic: Any = _Answer.TopicData
_Partition: Any = _Topic.PartitionData


@api(key=ApiKey.DESCRIBE_QUORUM, name="DescribeQuorum", min_version=0, max_version=2)
async def describe_quorum(request: Request, broker: Broker) -> Response:
    """Describe the one partition of the metadata."""
    check_elements(sum(1 + len(topic.partitions) for topic in request.body.topics), "partitions")
    if denied := cluster_denied(request.access, Operation.DESCRIBE):
        refused = _Answer(error_code=denied.code, error_message=denied.message, topics=[], nodes=[])
        return answer(request, refused)
    asked = await request.work.each(_asked, request.body.topics)
    known = asked == [(CLUSTER_METADATA_TOPIC, [0])]
    topics = []
    for name, indexes in asked:
        await request.work.before(ELEMENT)
        partitions = [_known(request, broker)] if known else await request.work.each(_unknown, indexes)
        topics.append(_Topic(topic_name=name, partitions=partitions))
    nodes = _nodes(request, broker) if known else []
    whole = _Answer(error_code=ErrorCode.NONE, error_message="", topics=topics, nodes=nodes)
    return await answer_of(sum(1 + len(indexes) for _, indexes in asked), request, whole)


def _asked(topic: Any) -> tuple[str, list[int]]:
    return topic.topic_name, [one.partition_index for one in topic.partitions]


def _known(request: Request, broker: Broker) -> Any:
    now_ms = broker.context.now_ms()
    revision = broker.context.catalog.revision
    controller = broker.gateways.controller(request.local_address)
    replicas = {
        number: _Partition.ReplicaState(
            replica_id=number,
            replica_directory_id=None,
            log_end_offset=revision,
            last_fetch_timestamp=now_ms,
            last_caught_up_timestamp=now_ms,
        )
        for number in sorted(broker.gateways.reached(request.local_address))
    }
    return _Partition(
        partition_index=0,
        error_code=ErrorCode.NONE,
        error_message="",
        leader_id=controller,
        leader_epoch=METADATA_EPOCH,
        high_watermark=revision,
        current_voters=[replicas.pop(controller)],
        observers=list(replicas.values()),
    )


def _unknown(index: int) -> Any:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return _Partition(
        partition_index=index,
        error_code=error,
        error_message=error.message,
        leader_id=0,
        leader_epoch=0,
        high_watermark=0,
        current_voters=[],
        observers=[],
    )


def _nodes(request: Request, broker: Broker) -> list[Any]:
    return [
        _Answer.Node(
            node_id=one.id, listeners=[_Answer.Node.Listener(name="PLAINTEXT", host=one.host, port=one.port)]
        )
        for one in broker.gateways.brokers(request.local_address)
    ]
