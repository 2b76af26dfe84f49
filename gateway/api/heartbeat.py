"""Heartbeat (key 12), versions 0 to 4: a member says that it lives, and hears whether to join again.

Behaviour
  Who may not READ the group is GROUP_AUTHORIZATION_FAILED.
  REBALANCE_IN_PROGRESS asks it to. While the group is being loaded the answer is "no error", as Kafka's: the
  member has its session timeout from then on. v3 brings static members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.common.handlers import Request, Response, api
from gateway.security.access import Access
from gateway.security.acls import Operation, ResourceType
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.headers import RequestHeader
from wireproto.kafka.heartbeat import HeartbeatRequest, decode_heartbeat, encode_heartbeat_response

if TYPE_CHECKING:
    from gateway.broker import Broker


def heartbeat_at_once(
    header: RequestHeader, frame: memoryview, _address: tuple[str, int], access: Access, broker: Broker
) -> Response:
    """Tell the group: consumers without work send nothing else."""
    return _answer(header, decode_heartbeat(header.api_version, frame, header.body_offset), access, broker)


@api(
    key=ApiKey.HEARTBEAT,
    name="Heartbeat",
    min_version=0,
    max_version=4,
    decoder=decode_heartbeat,
    at_once=heartbeat_at_once,
)
async def heartbeat(request: Request, broker: Broker) -> Response:
    """Tell the group; never waits."""
    return _answer(request.header, request.body, request.access, broker)


def _answer(header: RequestHeader, body: HeartbeatRequest, access: Access, broker: Broker) -> Response:
    if not access.may(Operation.READ, ResourceType.GROUP, body.group_id):
        error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    else:
        error = broker.groups.heartbeat(
            body.group_id, body.member_id, body.group_instance_id, body.generation, access.owner
        )
    return encode_heartbeat_response(header.api_version, header.correlation_id, error)
