"""ElectLeaders (key 43), versions 0 to 2: gateways take what nobody leads by themselves.

Behaviour
  A partition that has a leader is ELECTION_NOT_NEEDED, one that is not there UNKNOWN_TOPIC_OR_PARTITION. One
  whose leader's life is over has PREFERRED_LEADER_NOT_AVAILABLE or, of an unclean election,
  ELIGIBLE_LEADERS_NOT_AVAILABLE: the other gateways take it in a moment. PREFERRED_LEADER_NOT_AVAILABLE as
  well while the gateway that it was moved to (AlterPartitionReassignments) does not lead it: it is away, or
  takes it by itself in a moment. Asked for all partitions (null), every topic is answered without partitions,
  as Kafka does for those that need none. It takes ALTER on the cluster: CLUSTER_AUTHORIZATION_FAILED for the
  whole and for each partition that is named.

Version notes
  v0 elects the preferred replica. v1 names the kind of election (0 preferred, 1 unclean; anything else is
  INVALID_REQUEST) and has an error of its own for the whole. v2 is flexible.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from gateway.answers.denied import cluster_denied
from gateway.answers.element_limit import check_elements
from gateway.answers.encoding import answer_of
from gateway.cluster.gateways import NOBODY
from gateway.common.costs import ELEMENT
from gateway.common.handlers import Request, Response, api
from gateway.configs.values import quoted
from gateway.security.acls import Operation
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.log.topic import Topic

PREFERRED: Final = 0
UNCLEAN: Final = 1
ELECTION_TYPES: Final = (PREFERRED, UNCLEAN)
"""`ElectionType`."""

_Answer: Any = RESPONSE_CLASSES[ApiKey.ELECT_LEADERS]
_Topic: Any = _Answer.ReplicaElectionResult
_Partition: Any = _Topic.PartitionResult


@api(key=ApiKey.ELECT_LEADERS, name="ElectLeaders", min_version=0, max_version=2)
async def elect_leaders(request: Request, broker: Broker) -> Response:
    """Say of each partition that it has the leader that it should have."""
    body = request.body
    check_elements(sum(1 + len(topic.partitions) for topic in body.topic_partitions or ()), "partitions")
    whole = cluster_denied(request.access, Operation.ALTER) or _wrong_type(request)
    if whole is not None and body.topic_partitions is None:
        results = []
    elif body.topic_partitions is None:
        results = [_Topic(topic=topic.name, partition_result=[]) for topic in broker.topics.all()]
    else:
        results = []
        for topic in body.topic_partitions:
            await request.work.before(ELEMENT)
            kind = body.election_type if request.header.api_version >= 1 else PREFERRED
            of = partial(_result, broker, topic.topic, kind) if whole is None else partial(_failed, whole)
            partitions = await request.work.each(of, topic.partitions)
            results.append(_Topic(topic=topic.topic, partition_result=partitions))
    elements = sum(1 + len(result.partition_result) for result in results)
    error = ErrorCode.NONE if whole is None else whole.code
    answer = _Answer(throttle_time_ms=0, error_code=error, replica_election_results=results)
    return await answer_of(elements, request, answer)


def _wrong_type(request: Request) -> KafkaError | None:
    """Why there is no such election, if so."""
    if request.header.api_version == 0 or request.body.election_type in ELECTION_TYPES:
        return None
    return KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.body.election_type}")


def _failed(whole: KafkaError, index: int) -> Any:
    return _Partition(partition_id=index, error_code=whole.code, error_message=whole.message)


def _result(broker: Broker, name: str, kind: int, index: int) -> Any:
    topic = broker.topics.get(name)
    error, message = ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.ELECTION_NOT_NEEDED.message
    if topic is None:
        error, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {quoted(name)}"
    elif not 0 <= index < len(topic.partitions):
        error, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
    elif broker.gateways.leader(topic.id, index) == NOBODY:
        error = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        if kind == UNCLEAN:
            error = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        message = "Its gateway is gone: another one takes it by itself, ask again in a moment"
    elif kind == PREFERRED and (away := _preferred_is_away(broker, topic, index)):
        error, message = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, away
    return _Partition(partition_id=index, error_code=error, error_message=message)


def _preferred_is_away(broker: Broker, topic: Topic, index: int) -> str | None:
    """Why the preferred leader does not lead a partition, if it does not."""
    if broker.preferred is None:
        return None
    preferred = broker.preferred.of(topic, index)
    if preferred in (None, broker.gateways.leader(topic.id, index)):
        return None
    if broker.preferred.moving(topic, index) is not None:
        return f"It is being handed over to gateway {preferred}, ask again in a moment"
    return f"Gateway {preferred} cannot lead it at present; it takes it by itself when it can"
