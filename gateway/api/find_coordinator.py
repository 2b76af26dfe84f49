"""FindCoordinator (key 10), versions 0 to 6: who looks after a group or transactional id.

Behaviour
  Groups (type 0) are answered with the gateway that leads their partition of `__consumer_offsets`,
  transactional ids (1) with that of `__transaction_state`, at the address of the listener of the same name as
  the one the request came in on, whether or not the group or id exists, the empty one included;
  GROUP_AUTHORIZATION_FAILED or TRANSACTIONAL_ID_AUTHORIZATION_FAILED if the client may not DESCRIBE it,
  COORDINATOR_NOT_AVAILABLE while nobody leads it. An unknown type is INVALID_REQUEST. The first request of a
  type that is allowed makes the topic that its keys live in; while that is impossible the answer is
  COORDINATOR_NOT_AVAILABLE; TRANSACTIONAL_ID_AUTHORIZATION_FAILED for transactional ids while gateways of a
  release without transactions are there.

Version notes
  v0 is for groups only. v1 brings the key type, throttle time and a message (Kafka's is "NONE" where all is
  well). v4 takes many keys and answers each on its own, in their order, doubles included. v6 may ask for
  share groups, which takes CLUSTER_ACTION.

Differs from Kafka
  Kafka answers COORDINATOR_NOT_AVAILABLE until the topic is made; here the request waits for it.
  Share-group partitions (type 2) are INVALID_REQUEST in v6 as well: there are no share groups here. Kafka
  makes the topic for their state and answers COORDINATOR_NOT_AVAILABLE meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from gateway.answers.encoding import answer, answer_of
from gateway.common.costs import ELEMENT
from gateway.common.handlers import Request, Response, api
from gateway.common.log_limit import warn_once
from gateway.security.acls import CLUSTER_NAME, Operation, ResourceType
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.journal.coordinator import PartitionedCoordinator

logger = logging.getLogger(__name__)

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2

BATCHED_SINCE_VERSION: Final = 4
SHARE_SINCE_VERSION: Final = 6

_PROTECTED: Final = {
    GROUP: (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    TRANSACTION: (ResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
}
"""What a key of a type is, and what is said to those who may not DESCRIBE it."""

_Found: TypeAlias = tuple[ErrorCode, str, Mapping[str, object]]
"""Error, message and node of a key."""

_NOBODY: Final[Mapping[str, object]] = {"node_id": -1, "host": "", "port": -1}
_Answer: Any = RESPONSE_CLASSES[ApiKey.FIND_COORDINATOR]


@api(key=ApiKey.FIND_COORDINATOR, name="FindCoordinator", min_version=0, max_version=6)
async def find_coordinator(request: Request, broker: Broker) -> Response:
    """Answer a node for each key."""
    body = request.body
    batched = request.header.api_version >= BATCHED_SINCE_VERSION
    finder = _Finder(request, broker)
    coordinators = []
    for key in body.coordinator_keys if batched else [body.key]:
        await request.work.before(ELEMENT)
        code, why, node = await finder.find(key)
        if not batched:
            message = why or (code.message if code is not ErrorCode.NONE else "NONE")
            return answer(
                request, _Answer(throttle_time_ms=0, error_code=code, error_message=message, **node)
            )
        coordinators.append(_Answer.Coordinator(key=key, error_code=code, error_message=why, **node))
    response = _Answer(throttle_time_ms=0, coordinators=coordinators)
    return await answer_of(len(coordinators), request, response)


class _Finder:
    """One request."""

    def __init__(self, request: Request, broker: Broker) -> None:
        self._request = request
        self._key_type = request.body.key_type
        self._nodes = {
            one.id: {"node_id": one.id, "host": one.host, "port": one.port}
            for one in broker.gateways.brokers(request.local_address)
        }
        self._served: PartitionedCoordinator[Any] | None = None
        if self._key_type in _PROTECTED:
            self._served = broker.groups if self._key_type == GROUP else broker.transactions
        self._failure: _Found | None = None
        """Why no key has a coordinator."""
        self._is_served = False

    async def find(self, key: str) -> _Found:
        """The node of a key. One that the client may not know of costs nothing."""
        if self._served is None:
            if self._failure is None:
                self._failure = *self._unknown_type(), _NOBODY
            return self._failure
        resource_type, refused = _PROTECTED[self._key_type]
        if not self._request.access.may(Operation.DESCRIBE, resource_type, key):
            return refused, "", _NOBODY
        if self._failure is None and not self._is_served:
            error = await _find(self._served, key)
            self._is_served = error is ErrorCode.NONE
            self._failure = None if self._is_served else (error, "", _NOBODY)
        if self._failure is not None:
            return self._failure
        node = self._nodes.get(self._served.node_of(key))
        if node is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, "its last coordinator is gone", _NOBODY
        return ErrorCode.NONE, "", node

    def _unknown_type(self) -> tuple[ErrorCode, str]:
        """The error for a type of keys that nothing here looks after, and its message."""
        access, version = self._request.access, self._request.header.api_version
        if self._key_type != SHARE or version < BATCHED_SINCE_VERSION:
            return ErrorCode.INVALID_REQUEST, f"coordinator type {self._key_type} is not known here"
        if version >= SHARE_SINCE_VERSION and not access.may(
            Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
        ):
            error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            return error, error.message
        return ErrorCode.INVALID_REQUEST, ""  # as Kafka, which knows the type and only refuses the key


async def _find(served: PartitionedCoordinator[Any], key: str) -> ErrorCode:
    """Have groups, or transactional ids, served; no error, or why that is impossible."""
    try:
        await served.find(key)
    except KafkaError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            return error.code
        # Gateways of a release without transactions are there. Clients ask this before InitProducerId, and
        # would go on asking for most errors; on this one they give up, as there.
        warn_once(logger, "a producer with transactional.id %r was refused: %s", key[:100], error.message)
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return ErrorCode.NONE
