"""DeleteTopics (key 20), versions 1 to 6: topics by name, or by id.

Behaviour
  The topic is gone for all clients when the answer goes out; the space is freed in the background. A name
  that does not exist, valid or not, is UNKNOWN_TOPIC_OR_PARTITION, an id UNKNOWN_TOPIC_ID. A topic that is
  named twice, by whatever means, is INVALID_REQUEST, once, and is not deleted. A timeout of 0 or less:
  REQUEST_TIMED_OUT for everything and nothing is deleted, as a Kafka 4 controller does.

  It takes DELETE on the cluster, or else DESCRIBE and DELETE on the topic: TOPIC_AUTHORIZATION_FAILED. A name
  without DESCRIBE is that whether there is such a topic or not. An id is no secret: an unknown one is
  UNKNOWN_TOPIC_ID for everybody, and the answer to a known one has its name only with DESCRIBE.

Version notes
  v4 is flexible. v5 adds messages, and can be told THROTTLING_QUOTA_EXCEEDED. v6 takes names or ids, one or
  the other for each topic.

Differs from Kafka
  Kafka shuffles the results, so that nobody can tell apart what does not exist and what he may not see. Ours:
  requests that name a topic badly first, then the others in the request's order.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import UUID

from gateway.administration.mutations import charge_partitions
from gateway.answers.denied import denied
from gateway.answers.element_limit import MAX_CHANGED, check_elements
from gateway.answers.encoding import answer_of
from gateway.common.costs import ELEMENT
from gateway.common.handlers import Request, Response, api
from gateway.security.acls import CLUSTER_NAME, Operation, ResourceType
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.log.topic import Topic
    from gateway.security.access import Access

STRICT_FROM_VERSION: Final = 5
"""From this version on what would be too many changes is refused."""

STATES_SINCE_VERSION: Final = 6
"""From this version on a topic comes as a pair of name and id, of which one is given."""

_DENIED: Final = denied(ResourceType.TOPIC)

_Answer: Any = RESPONSE_CLASSES[ApiKey.DELETE_TOPICS]

_Outcome: TypeAlias = tuple[str | None, UUID | None, ErrorCode, str | None]
"""Name and id as they were asked for, and what is answered."""


@api(key=ApiKey.DELETE_TOPICS, name="DeleteTopics", min_version=1, max_version=6)
async def delete_topics(request: Request, broker: Broker) -> Response:
    """Delete what exists; one result per topic."""
    body = request.body
    check_elements(len(body.topics or ()) + len(body.topic_names or ()), "topics", MAX_CHANGED)
    wanted: list[tuple[str | None, UUID | None]]
    if request.header.api_version >= STATES_SINCE_VERSION:
        wanted = [(state.name, state.topic_id) for state in body.topics]
    else:
        wanted = [(name, None) for name in body.topic_names]
    if body.timeout_ms <= 0:
        timed_out = [(name, topic_id, ErrorCode.REQUEST_TIMED_OUT, None) for name, topic_id in wanted]
        results = await request.work.each(_result, timed_out)
    else:
        rights = _Rights(request.access)
        refused, accepted = await _sort_out(request, broker, rights, wanted)
        results = await request.work.each(_result, refused)
        for name, topic_id in accepted:
            await request.work.before(ELEMENT)
            topic = broker.topics.get(name) if name is not None else _by_id(broker, topic_id)
            if (outcome := rights.denied(name, topic_id, topic)) is not None:
                results.append(_result(outcome))
            else:
                results.append(await _delete(request, broker, name, topic_id, topic))
        await broker.remembered()
    return await answer_of(len(results), request, _Answer(throttle_time_ms=0, responses=results))


class _Rights:
    """What the client may do with the topics that it names."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._all = access.sees(Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME)

    def sees(self, operation: Operation, name: str) -> bool:
        """Whether it may do this; nothing is denied by it."""
        return self._all or self._access.sees(operation, ResourceType.TOPIC, name)

    def denied(self, name: str | None, topic_id: UUID | None, topic: Topic | None) -> _Outcome | None:
        """What it is answered that may not delete this topic, or know of it; None if it may."""
        if name is not None:
            hidden = not self._may(Operation.DESCRIBE, name)
            if hidden or (topic is not None and not self._may(Operation.DELETE, name)):
                return name, None, _DENIED.code, _DENIED.message
        elif topic is not None and not self._may(Operation.DELETE, topic.name):
            shown = topic.name if self.sees(Operation.DESCRIBE, topic.name) else None
            return shown, topic_id, _DENIED.code, _DENIED.message
        return None

    def _may(self, operation: Operation, name: str) -> bool:
        return self._all or self._access.may(operation, ResourceType.TOPIC, name)


async def _sort_out(
    request: Request, broker: Broker, rights: _Rights, wanted: list[tuple[str | None, UUID | None]]
) -> tuple[list[_Outcome], list[tuple[str | None, UUID | None]]]:
    """Results for topics that are named badly or twice, and what is left (`ControllerApis.deleteTopics`)."""
    refused = []
    for name, topic_id in wanted:
        if name is not None and topic_id is not None:
            refused.append(_refused(name, topic_id, "You may not specify both topic name and topic id."))
        elif name is None and topic_id is None:
            refused.append(_refused(None, None, "Neither topic name nor id were specified."))
    names = Counter(name for name, topic_id in wanted if name is not None and topic_id is None)
    ids = Counter(topic_id for name, topic_id in wanted if name is None and topic_id is not None)
    refused += [_refused(name, None, "Duplicate topic name.") for name, times in names.items() if times > 1]
    refused += [
        _refused(None, topic_id, "Duplicate topic id.") for topic_id, times in ids.items() if times > 1
    ]
    accepted_names = {name for name, times in names.items() if times == 1}
    accepted_ids = {topic_id for topic_id, times in ids.items() if times == 1}
    for name in sorted(accepted_names) if ids else ():
        await request.work.before(ELEMENT)
        topic = broker.topics.get(name)
        if topic is not None and UUID(bytes=topic.id) in ids and _is_told(rights, name):
            topic_id = UUID(bytes=topic.id)
            message = "The provided topic name maps to an ID that was already supplied."
            refused.append(_refused(name, topic_id, message))
            accepted_names.discard(name)
            accepted_ids.discard(topic_id)
    accepted = [
        (name, topic_id)
        for name, topic_id in wanted
        if (name in accepted_names and topic_id is None) or (topic_id in accepted_ids and name is None)
    ]
    return refused, accepted


def _is_told(rights: _Rights, name: str) -> bool:
    """Whether the client may hear that a name and an id are of the same topic."""
    return rights.sees(Operation.DESCRIBE, name) and rights.sees(Operation.DELETE, name)


def _by_id(broker: Broker, topic_id: UUID | None) -> Topic | None:
    return None if topic_id is None else broker.topics.by_id(topic_id.bytes)


async def _delete(
    request: Request, broker: Broker, name: str | None, topic_id: UUID | None, topic: Topic | None
) -> Any:
    if topic is None:
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic_id is None else ErrorCode.UNKNOWN_TOPIC_ID
        return _result((name, topic_id, missing, missing.message))
    try:
        charge_partitions(request, len(topic.partitions), strict_from=STRICT_FROM_VERSION)
        await broker.delete_topic(topic)
    except KafkaError as error:
        return _result((name, topic_id, error.code, error.message))
    return _result((topic.name, UUID(bytes=topic.id), ErrorCode.NONE, None))


def _refused(name: str | None, topic_id: UUID | None, message: str) -> _Outcome:
    return name, topic_id, ErrorCode.INVALID_REQUEST, message


def _result(outcome: _Outcome) -> Any:
    name, topic_id, error, message = outcome
    return _Answer.DeletableTopicResult(name=name, topic_id=topic_id, error_code=error, error_message=message)
