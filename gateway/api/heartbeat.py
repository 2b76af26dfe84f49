"""Heartbeat (key 12), versions 0 to 4: a member says that it lives, and hears whether to join again.

Behaviour
  REBALANCE_IN_PROGRESS asks it to. While the group is being loaded the answer is "no error", as Kafka's: the
  member has its session timeout from then on. v3 brings static members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.api.answers import answer
from gateway.api.registry import Request, Response, api
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

_Answer: Any = RESPONSE_CLASSES[ApiKey.HEARTBEAT]


@api(key=ApiKey.HEARTBEAT, name="Heartbeat", min_version=0, max_version=4)
async def heartbeat(request: Request, broker: Broker) -> Response:
    """Tell the group; never waits."""
    body = request.body
    error = broker.groups.heartbeat(body.group_id, body.member_id, body.group_instance_id, body.generation_id)
    return answer(request, _Answer(throttle_time_ms=0, error_code=error))
