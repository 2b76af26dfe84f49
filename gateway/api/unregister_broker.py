"""UnregisterBroker (key 64), version 0: a gateway that is gone for good is forgotten (KIP-631).

Behaviour
  Nobody lists it any more, and its id may be given again; what it led others lead already. An id that nobody
  has is BROKER_ID_NOT_REGISTERED. In the seconds in which others take what it led it is REQUEST_TIMED_OUT,
  after which Kafka's clients ask again. It takes ALTER on the cluster.

Differs from Kafka
  A gateway that is alive is INVALID_REQUEST: it would come back by itself. Kafka forgets such a broker, which
  is fenced until it is started again. `dafka gateways remove` does the same from a shell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.answers.denied import cluster_denied
from gateway.answers.encoding import answer
from gateway.common.handlers import Request, Response, api
from gateway.security.acls import Operation
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

_Answer: Any = RESPONSE_CLASSES[ApiKey.UNREGISTER_BROKER]


@api(key=ApiKey.UNREGISTER_BROKER, name="UnregisterBroker", min_version=0, max_version=0)
async def unregister_broker(request: Request, broker: Broker) -> Response:
    """Forget a gateway."""
    error, message = ErrorCode.NONE, None
    try:
        if denied := cluster_denied(request.access, Operation.ALTER):
            raise denied
        await broker.forget_gateway(request.body.broker_id)
    except KafkaError as refused:
        error, message = refused.code, refused.message
    else:
        await broker.remembered()
    return answer(request, _Answer(throttle_time_ms=0, error_code=error, error_message=message))
