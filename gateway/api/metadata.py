"""Metadata (key 3), versions 0 to 13: the broker, and topics by name, by id, or all of them.

Behaviour
  This gateway is always listed, at the address of the listener the request came in on. Where it is alone it
  leads every partition and is the controller; otherwise the others that are alive are listed at the addresses
  of their listeners of the same name, each partition has the leader that the table of all gateways names
  (none, and LEADER_NOT_AVAILABLE, while that one's life is over), and the controller is the lowest of them:
  each takes what is sent to a controller. Topics that are named more than once are answered once, in
  the order of the request; all topics are in alphabetical order. A missing topic is
  UNKNOWN_TOPIC_OR_PARTITION. When both the request and the setting allow it, it is created meanwhile, with
  the default number of partitions (`gateway.administration.automatic_creation`), and is there when the
  client asks again. What cannot be created stays unknown, the reason is logged. Kafka's internal topics are
  never created this way.
  A partition that is not recovered yet has LEADER_NOT_AVAILABLE, with its leader and epoch all the same: what
  was closed before can be fetched already. While a start recovers many, those of topics that are asked for by
  name or id come first.
  Replicas are the stores that keep the newest segment, or would keep the first one, by their ids from 1000
  on; in sync are those that are there, offline the others. They are no brokers: clients know them by number
  alone. With the one store of a standalone gateway the only replica is the broker.

Version notes
  v0: an empty list is all topics; from v1 on null is all, and an empty list none. v4 says whether topics
  may be created; earlier versions always allow it. v8-10 may ask for the operations allowed on the cluster,
  v8 and up on topics. v10 and v11 have topic ids in the request but do not allow them (42 for everything).
  From v12 on, if any topic has an id, the topics that have only a name are passed over, as in Kafka, and a
  topic with neither is an error for the whole request. v13 has an error code of its own for that.

Differs from Kafka
  The order of topics is not that of a hash map.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from operator import attrgetter
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from uuid import UUID

from gateway.answers.answer_cache import AnswerCache
from gateway.answers.element_limit import MAX_TOPICS, check_elements
from gateway.answers.encoding import answer_of
from gateway.answers.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from gateway.answers.question_cache import QuestionCache, question_of
from gateway.cluster.gateways import NOBODY
from gateway.common.costs import ELEMENT
from gateway.common.handlers import MAX_AT_ONCE_BYTES, Request, Response, api
from gateway.common.topic_names import invalid_topic_name, is_internal
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Sequence

    from gateway.broker import Broker
    from gateway.cluster.stores import Replicas
    from gateway.log.partition import Partition
    from gateway.log.topic import Topic
    from gateway.security.access import Access
    from wireproto.kafka.headers import RequestHeader

IDS_SINCE_VERSION: Final = 12

_EPOCH: Final = attrgetter("leader_epoch")
_AVAILABLE: Final = attrgetter("available")
_SIZE_CORRELATION: Final = Struct(">ii")
_cache = AnswerCache()

_Answer: Any = RESPONSE_CLASSES[ApiKey.METADATA]
_Topic: Any = _Answer.MetadataResponseTopic
_Partition: Any = _Topic.MetadataResponsePartition


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a request asks for: topics by id, by name, or (None) all."""

    asked: tuple[str, ...] | tuple[UUID, ...] | None
    by_id: bool
    may_create: bool
    cluster_operations: bool
    topic_operations: bool

    def topics(self, broker: Broker) -> Sequence[Topic | None]:
        if self.asked is None:
            return broker.topics.all()
        if self.by_id:
            return [broker.topics.by_id(cast("UUID", topic_id).bytes) for topic_id in self.asked]
        return [broker.topics.get(cast("str", name)) for name in self.asked]

    def creates(self, broker: Broker) -> bool:
        """Whether topics that are missing are to be made."""
        return self.may_create and not self.by_id and bool(broker.settings.auto_create_topics)


_remembered: Final[QuestionCache[_Wanted]] = QuestionCache()


def metadata_at_once(
    header: RequestHeader, frame: memoryview, local_address: tuple[str, int], access: Access, broker: Broker
) -> Response:
    """The answer to a question that was answered before, if nothing has changed since."""
    wanted = _remembered.get(question_of(header, frame))
    if wanted is None or not access.is_unrestricted:
        return None
    topics = wanted.topics(broker)
    if None in topics and wanted.creates(broker):
        return None
    version = header.api_version
    rest = _cache.get(
        _question(wanted, version, local_address, broker), states(broker, topics, local_address)
    )
    return None if rest is None else _framed(header, rest)


@api(key=ApiKey.METADATA, name="Metadata", min_version=0, max_version=13, at_once=metadata_at_once)
async def metadata(request: Request, broker: Broker) -> Response:
    """Answer what is asked for as it is now, and have what is missing created."""
    body = request.body
    check_elements(len(body.topics or ()), "topics", MAX_TOPICS)
    refusal = _refusal(body.topics or (), request.header.api_version)
    if refusal is not ErrorCode.NONE:
        return await answer_of(len(body.topics), request, _refused(body.topics, refusal))
    wanted = _wanted(body, request.header.api_version)
    if len(request.frame) <= MAX_AT_ONCE_BYTES:
        _remembered.put(question_of(request.header, request.frame), wanted)
    if wanted.creates(broker):
        broker.automatic_creation.ask(
            request.client, cast("Sequence[str]", wanted.asked or ()), request.charges
        )
    topics = wanted.topics(broker)
    if wanted.asked is not None and broker.recovery.is_behind:
        broker.recovery.recover_soon(one for topic in topics if topic is not None for one in topic.partitions)
    return await _answer(request, broker, wanted, states(broker, topics, request.local_address))


def _wanted(body: Any, version: int) -> _Wanted:
    asked: tuple[str, ...] | tuple[UUID, ...] | None
    ids = [topic.topic_id for topic in body.topics or () if topic.topic_id is not None]
    if body.topics is None or (version == 0 and not body.topics):
        asked = None
    elif ids:
        asked = tuple(dict.fromkeys(ids))
    else:
        asked = tuple(dict.fromkeys(topic.name for topic in body.topics))
    return _Wanted(
        asked,
        bool(ids),
        body.allow_auto_topic_creation,
        body.include_cluster_authorized_operations,
        body.include_topic_authorized_operations,
    )


def _refusal(topics: Sequence[Any], version: int) -> ErrorCode:
    """Why none of the topics is looked at (`KafkaApis.handleTopicMetadataRequest`)."""
    if version < IDS_SINCE_VERSION:
        if any(topic.name is None or topic.topic_id is not None for topic in topics):
            return ErrorCode.INVALID_REQUEST
    elif any(topic.name is None and topic.topic_id is None for topic in topics) and not any(
        topic.topic_id is not None for topic in topics
    ):
        # Kafka trips over the null name; with an id in the request it never looks at names.
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return ErrorCode.NONE


def _refused(topics: Sequence[Any], error: ErrorCode) -> Any:
    """Kafka's answer to a request it cannot serve: each topic with the error, and no broker."""
    results = [
        _Topic(
            error_code=error,
            name=topic.name or "",
            topic_id=topic.topic_id,
            is_internal=False,
            partitions=[],
            authorized_operations=None,
        )
        for topic in topics
    ]
    return _Answer(
        throttle_time_ms=0,
        brokers=[],
        cluster_id=None,
        controller_id=-1,
        topics=results,
        authorized_operations=None,
        error_code=error,
    )


class TopicState(NamedTuple):
    """All that an answer tells of a topic, at one moment: answers are built from this and nothing else."""

    name: str
    id: bytes
    internal: bool
    partitions: tuple[tuple[int, bool, Replicas | None, int], ...]
    """Leader epoch, whether the leader takes produces, the stores that keep it, and the leader's id."""


def states(
    broker: Broker, topics: Iterable[Topic | None], local_address: tuple[str, int]
) -> list[TopicState | None]:
    """What is to be told of these topics to who has come in on this address; None stays None."""
    stores = broker.stores
    if stores.presence is None:
        return [_alone(topic, broker.node_id) for topic in topics]
    known: dict[tuple[str, ...], Replicas] = {}

    def replicas(partition: Partition) -> Replicas:
        members = partition.members
        found = known.get(members)
        if found is None:
            found = known[members] = stores.replicas(members)
        return found

    reached = broker.gateways.reached(local_address)
    return [_state(topic, replicas, broker, reached) for topic in topics]


def _alone(topic: Topic | None, node_id: int) -> TopicState | None:
    """As `_state`, where the broker is the only replica there is."""
    if topic is None:
        return None
    partitions = topic.partitions
    told = tuple(zip(map(_EPOCH, partitions), map(_AVAILABLE, partitions), repeat(None), repeat(node_id)))
    return TopicState(topic.name, topic.id, topic.internal, told)


def _state(
    topic: Topic | None,
    replicas: Callable[[Partition], Replicas | None],
    broker: Broker,
    reached: Collection[int],
) -> TopicState | None:
    if topic is None:
        return None
    own = broker.node_id
    partitions = []
    for one, leader in zip(topic.partitions, broker.gateways.leaders(topic), strict=True):
        if leader == own:
            told = one.leader_epoch, one.available, replicas(one), own
        elif leader in reached:
            told = one.leader_epoch, True, replicas(one), leader
        else:
            told = one.leader_epoch, False, replicas(one), NOBODY
        partitions.append(told)
    return TopicState(topic.name, topic.id, topic.internal, tuple(partitions))


def _question(wanted: _Wanted, version: int, local_address: tuple[str, int], broker: Broker) -> Hashable:
    """All that an answer depends on beside the state of topics."""
    return (
        version,
        wanted.asked,
        wanted.cluster_operations,
        wanted.topic_operations,
        local_address,
        broker.gateways.version,
        broker.cluster_id,
    )


async def _answer(
    request: Request, broker: Broker, wanted: _Wanted, topics: list[TopicState | None]
) -> bytes:
    question = _question(wanted, request.header.api_version, request.local_address, broker)
    rest = _cache.get(question, topics)
    if rest is None:
        elements = sum(1 if topic is None else 1 + len(topic.partitions) for topic in topics)
        framed = await answer_of(elements, request, await _response(request, broker, wanted, topics))
        rest = framed[_SIZE_CORRELATION.size :]
        _cache.put(question, topics, rest)
    return _framed(request.header, rest)


def _framed(header: RequestHeader, rest: bytes) -> bytes:
    return _SIZE_CORRELATION.pack(4 + len(rest), header.correlation_id) + rest


async def _response(
    request: Request, broker: Broker, wanted: _Wanted, topics: list[TopicState | None]
) -> Any:
    results = []
    for done, topic in enumerate(topics):
        await request.work.before(ELEMENT if topic is None else ELEMENT * (1 + len(topic.partitions)))
        if topic is not None:
            results.append(_known(topic, wanted.topic_operations))
        else:
            assert wanted.asked is not None
            results.append(_unknown(wanted.asked[done], wanted.topic_operations))
    return _Answer(
        throttle_time_ms=0,
        brokers=[
            _Answer.MetadataResponseBroker(node_id=one.id, host=one.host, port=one.port, rack=one.rack)
            for one in broker.gateways.brokers(request.local_address)
        ],
        cluster_id=broker.cluster_id,
        controller_id=broker.gateways.controller(request.local_address),
        topics=results,
        authorized_operations=CLUSTER_OPERATIONS if wanted.cluster_operations else None,
        error_code=ErrorCode.NONE,
    )


def _known(topic: TopicState, operations: bool) -> Any:
    return _Topic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=UUID(bytes=topic.id),
        is_internal=topic.internal,
        partitions=[
            _Partition(
                error_code=ErrorCode.NONE if available else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=index,
                leader_id=leader,
                leader_epoch=leader_epoch,
                replica_nodes=[leader] if replicas is None else list(replicas.ids),
                isr_nodes=[leader] if replicas is None else list(replicas.in_sync),
                offline_replicas=[] if replicas is None else list(replicas.offline),
            )
            for index, (leader_epoch, available, replicas, leader) in enumerate(topic.partitions)
        ],
        authorized_operations=TOPIC_OPERATIONS if operations else None,
    )


def _unknown(key: str | UUID, operations: bool) -> Any:
    """A topic that does not exist. An id is answered without a name, a name without an id."""
    if isinstance(key, UUID):
        error, name, topic_id, operations = ErrorCode.UNKNOWN_TOPIC_ID, None, key, False
    else:
        error, name, topic_id = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, key, None
        if invalid_topic_name(key) is not None:
            error = ErrorCode.INVALID_TOPIC_EXCEPTION
    return _Topic(
        error_code=error,
        name=name,
        topic_id=topic_id,
        is_internal=name is not None and is_internal(name),
        partitions=[],
        authorized_operations=TOPIC_OPERATIONS if operations else None,
    )
