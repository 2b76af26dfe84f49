"""FindCoordinator (key 10), versions 0 to 6: who looks after a group or transactional id.

Behaviour
  Groups (type 0) are answered with the gateway that leads their partition of `__consumer_offsets`,
  transactional ids (1) with that of `__transaction_state`, at the address of the listener of the same name as
  the one the request came in on, whether or not the group or id exists, the empty one included;
  COORDINATOR_NOT_AVAILABLE while nobody leads it. An unknown type is INVALID_REQUEST. The first request of a
  type makes the topic that its keys live in; while that is impossible the answer is
  COORDINATOR_NOT_AVAILABLE; TRANSACTIONAL_ID_AUTHORIZATION_FAILED for transactional ids while gateways of a
  release without transactions are there.

Version notes
  v0 is for groups only. v1 brings the key type, throttle time and a message (Kafka's is "NONE" where all is
  well). v4 takes many keys and answers each on its own, in their order, doubles included. v6 may ask for
  share groups.

Differs from Kafka
  Kafka answers COORDINATOR_NOT_AVAILABLE until the topic is made; here the request waits for it.
  Share-group partitions (type 2) are INVALID_REQUEST in v6 as well: there are no share groups here. Kafka
  makes the topic for their state and answers COORDINATOR_NOT_AVAILABLE meanwhile.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from gateway.answers.encoding import answer, answer_of
from gateway.common.costs import ELEMENT
from gateway.common.handlers import Request, Response, api
from gateway.common.log_limit import warn_once
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

_NOBODY: Final = {"node_id": -1, "host": "", "port": -1}
_Answer: Any = RESPONSE_CLASSES[ApiKey.FIND_COORDINATOR]


@api(key=ApiKey.FIND_COORDINATOR, name="FindCoordinator", min_version=0, max_version=6)
async def find_coordinator(request: Request, broker: Broker) -> Response:
    """Answer a node for each key."""
    body = request.body
    batched = request.header.api_version >= BATCHED_SINCE_VERSION
    keys = body.coordinator_keys if batched else [body.key]
    nodes = {
        one.id: {"node_id": one.id, "host": one.host, "port": one.port}
        for one in broker.gateways.brokers(request.local_address)
    }
    served: PartitionedCoordinator[Any] | None = None
    if body.key_type in {GROUP, TRANSACTION}:
        served = broker.groups if body.key_type == GROUP else broker.transactions
        error, message = ErrorCode.NONE, ""
        if keys:
            error = await _find(served, keys[0])
            message = "" if batched or error is ErrorCode.NONE else error.message
    else:
        error = ErrorCode.INVALID_REQUEST
        message = f"coordinator type {body.key_type} is not known here"
        if body.key_type == SHARE and batched:
            message = ""  # as Kafka, which knows the type and only refuses the key
    coordinators = []
    for key in keys:
        await request.work.before(ELEMENT)
        code, why, node = error, message, _NOBODY
        if served is not None and error is ErrorCode.NONE:
            node = nodes.get(served.node_of(key), _NOBODY)
            if node is _NOBODY:
                code, why = ErrorCode.COORDINATOR_NOT_AVAILABLE, "its last coordinator is gone"
        if not batched:
            shown = _Answer(throttle_time_ms=0, error_code=code, error_message=why or "NONE", **node)
            return answer(request, shown)
        coordinators.append(_Answer.Coordinator(key=key, error_code=code, error_message=why, **node))
    response = _Answer(throttle_time_ms=0, coordinators=coordinators)
    return await answer_of(len(coordinators), request, response)


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
