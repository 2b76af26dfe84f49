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
  Of topics that the client may not describe it is told TOPIC_AUTHORIZATION_FAILED, whether they exist or not,
  or nothing if it asks for all; the same of what would have to be created if it may not do that.
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
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

from gateway.answers.answer_cache import AnswerCache
from gateway.answers.element_limit import MAX_TOPICS, check_elements
from gateway.answers.encoding import answer_of
from gateway.answers.question_cache import QuestionCache, question_of
from gateway.cluster.topic_states import HIDDEN, Hidden, TopicState, states
from gateway.common.costs import ELEMENT, LOOKED
from gateway.common.handlers import MAX_AT_ONCE_BYTES, Request, Response, api
from gateway.common.topic_names import invalid_topic_name, is_internal
from gateway.security.acls import CLUSTER_NAME, Operation, ResourceType
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from gateway.broker import Broker
    from gateway.log.topic import Topic
    from gateway.security.access import Access
    from wireproto.kafka.headers import RequestHeader

IDS_SINCE_VERSION: Final = 12

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

    @property
    def tells_operations(self) -> bool:
        return self.cluster_operations or self.topic_operations

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
    if wanted is None:
        return None
    topics = wanted.topics(broker)
    if None in topics and wanted.creates(broker):
        return None
    if not access.is_unrestricted and not _sees_all(access, wanted, topics):
        return None
    version = header.api_version
    rest = _cache.get(
        _question(wanted, version, local_address, access, broker), states(broker, topics, local_address)
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
    await request.work.before(len(body.topics or ()) * LOOKED)
    wanted = _wanted(body, request.header.api_version)
    if len(request.frame) <= MAX_AT_ONCE_BYTES:
        _remembered.put(question_of(request.header, request.frame), wanted)
    await request.work.before(len(wanted.asked or ()) * LOOKED)
    found = wanted.topics(broker)
    topics: Sequence[Topic | Hidden | None] = found
    if not request.access.is_unrestricted:
        topics = await _admitted(request, broker, wanted, found)
    if wanted.asked is not None:
        if wanted.creates(broker):
            missing = [key for key, topic in zip(wanted.asked, topics, strict=True) if topic is None]
            broker.automatic_creation.ask(
                request.client, cast("Sequence[str]", missing), request.charges, request.access.maker
            )
        if broker.recovery.is_behind:
            shown = [topic for topic in topics if topic is not None and not isinstance(topic, Hidden)]
            broker.recovery.recover_soon(one for topic in shown for one in topic.partitions)
    return await _answer(request, broker, wanted, states(broker, topics, request.local_address))


async def _admitted(
    request: Request, broker: Broker, wanted: _Wanted, topics: Sequence[Topic | None]
) -> list[Topic | Hidden | None]:
    """What the client is told of each topic that it has named, or of all that it may see."""
    access = request.access
    admitted: list[Topic | Hidden | None] = []
    if wanted.asked is None:
        for topic in topics:
            await request.work.before(ELEMENT)
            if topic is not None and access.sees(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
                admitted.append(topic)
        return admitted
    may_create_all = not wanted.creates(broker) or access.sees(
        Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME
    )
    keys: Sequence[str | UUID] = wanted.asked
    for key, topic in zip(keys, topics, strict=True):
        await request.work.before(ELEMENT)
        name = key if topic is None else topic.name
        if isinstance(name, UUID):
            admitted.append(None)  # an id that is not known is no secret
        elif not access.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
            admitted.append(HIDDEN)
        elif (
            topic is None
            and not may_create_all
            and not access.may(Operation.CREATE, ResourceType.TOPIC, name)
        ):
            admitted.append(Hidden(is_internal=is_internal(name)))
        else:
            admitted.append(topic)
    return admitted


def _sees_all(access: Access, wanted: _Wanted, topics: Sequence[Topic | None]) -> bool:
    """Whether the client may see all that it asks for, and it is few; the handler tells the rest."""
    return (
        wanted.asked is not None
        and not wanted.tells_operations
        and all(
            topic is not None and access.sees(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
            for topic in topics
        )
    )


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


def _question(
    wanted: _Wanted, version: int, local_address: tuple[str, int], access: Access, broker: Broker
) -> Hashable:
    """All that an answer depends on beside the state of topics."""
    return (
        version,
        wanted.asked,
        wanted.cluster_operations,
        wanted.topic_operations,
        None if access.is_unrestricted else access.principal,
        local_address,
        broker.gateways.version,
        broker.cluster_id,
    )


async def _answer(
    request: Request, broker: Broker, wanted: _Wanted, topics: list[TopicState | Hidden | None]
) -> bytes:
    access = request.access
    question = _question(wanted, request.header.api_version, request.local_address, access, broker)
    is_kept = access.is_unrestricted or not wanted.tells_operations
    rest = _cache.get(question, topics) if is_kept else None
    if rest is None:
        elements = sum(map(_elements, topics))
        framed = await answer_of(elements, request, await _response(request, broker, wanted, topics))
        rest = framed[_SIZE_CORRELATION.size :]
        if is_kept:
            _cache.put(question, topics, rest)
    return _framed(request.header, rest)


def _framed(header: RequestHeader, rest: bytes) -> bytes:
    return _SIZE_CORRELATION.pack(4 + len(rest), header.correlation_id) + rest


def _elements(topic: TopicState | Hidden | None) -> int:
    """How many elements an answer has for it."""
    return 1 + len(topic.partitions) if isinstance(topic, TopicState) else 1


async def _response(
    request: Request, broker: Broker, wanted: _Wanted, topics: list[TopicState | Hidden | None]
) -> Any:
    results = []
    access = request.access if wanted.topic_operations else None
    for done, topic in enumerate(topics):
        await request.work.before(ELEMENT * _elements(topic))
        if isinstance(topic, TopicState):
            results.append(_known(topic, access))
            continue
        assert wanted.asked is not None
        key = wanted.asked[done]
        results.append(_unknown(key, access) if topic is None else _hidden(key, topic))
    return _Answer(
        throttle_time_ms=0,
        brokers=[
            _Answer.MetadataResponseBroker(node_id=one.id, host=one.host, port=one.port, rack=one.rack)
            for one in broker.gateways.brokers(request.local_address)
        ],
        cluster_id=broker.cluster_id,
        controller_id=broker.gateways.controller(request.local_address),
        topics=results,
        authorized_operations=cluster_operations(request.access) if wanted.cluster_operations else None,
        error_code=ErrorCode.NONE,
    )


def cluster_operations(access: Access) -> frozenset[Operation]:
    """What a client is told that it may do with the cluster: nothing, where it may not describe it."""
    if not access.may(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return frozenset()
    return access.operations(ResourceType.CLUSTER, CLUSTER_NAME)


def _operations(access: Access | None, topic: str) -> frozenset[Operation] | None:
    return None if access is None else access.operations(ResourceType.TOPIC, topic)


def _known(topic: TopicState, access: Access | None) -> Any:
    """`access`: of who wants to know what it may do."""
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
        authorized_operations=_operations(access, topic.name),
    )


def _unknown(key: str | UUID, access: Access | None) -> Any:
    """A topic that does not exist."""
    if isinstance(key, UUID):
        return _absent(ErrorCode.UNKNOWN_TOPIC_ID, key)
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if invalid_topic_name(key) is not None:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    return _absent(error, key, internal=is_internal(key), operations=_operations(access, key))


def _hidden(key: str | UUID, hidden: Hidden) -> Any:
    """A topic of which the client is told nothing. (A topic's id is no secret.)"""
    return _absent(ErrorCode.TOPIC_AUTHORIZATION_FAILED, key, internal=hidden.is_internal)


def _absent(
    error: ErrorCode,
    key: str | UUID,
    *,
    internal: bool = False,
    operations: frozenset[Operation] | None = None,
) -> Any:
    """An id is answered without a name, a name without an id."""
    return _Topic(
        error_code=error,
        name=key if isinstance(key, str) else None,
        topic_id=key if isinstance(key, UUID) else None,
        is_internal=internal,
        partitions=[],
        authorized_operations=operations,
    )
