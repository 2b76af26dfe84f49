"""SyncGroup (key 14), versions 0 to 5: a member asks for its assignment; the leader brings all of them.

Behaviour
  Who may not READ the group is GROUP_AUTHORIZATION_FAILED.
  The answer comes when the leader has assigned and the generation's record is durable in
  `__consumer_offsets`. Members that the leader left out get an empty assignment.

Version notes
  v3 brings static members. v5 must name protocol type and protocol, which have to be the group's
  (INCONSISTENT_GROUP_PROTOCOL), and is told them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.common.costs import ELEMENT
from gateway.common.handlers import Request, Response, api
from gateway.groups.events import Sync, SyncReply
from gateway.groups.served import Abandoned, Ticket
from gateway.security.acls import Operation, ResourceType
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.group_answers import encode_sync_group_response

if TYPE_CHECKING:
    from gateway.broker import Broker

PROTOCOL_SINCE_VERSION: Final = 5


@api(key=ApiKey.SYNC_GROUP, name="SyncGroup", min_version=0, max_version=5)
async def sync_group(request: Request, broker: Broker) -> Response:
    """Hand the request to its group and wait for the assignment."""
    body = request.body
    if request.header.api_version >= PROTOCOL_SINCE_VERSION and None in {
        body.protocol_type,
        body.protocol_name,
    }:
        return _answer(request, SyncReply(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    if not request.access.may(Operation.READ, ResourceType.GROUP, body.group_id):
        return _answer(request, SyncReply(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    assignments: dict[str, bytes] = {}
    for each in body.assignments:
        await request.work.before(ELEMENT)
        assignments[each.member_id] = each.assignment
    ticket = Ticket()
    sync = Sync(
        ticket=ticket,
        member_id=body.member_id,
        group_instance_id=body.group_instance_id,
        generation=body.generation_id,
        protocol_type=body.protocol_type,
        protocol=body.protocol_name,
        assignments=assignments,
        principal=request.access.owner,
    )
    try:
        broker.groups.sync(body.group_id, sync)
    except KafkaError as error:
        return _answer(request, SyncReply(error.code))
    if not ticket.answered and not broker.groups.leads(body.group_id, body.member_id):
        # A leader's memory is kept: its assignments wait for the log, which is not long. Those of anybody
        # else, who waits as long as the leader likes, are of no interest.
        assignments.clear()
        request.forget_frame()
        request.body = body = None
    request.park(ticket.abandon)
    try:
        return _answer(request, await ticket.synced())
    except Abandoned:
        return None  # the client has gone
    finally:
        request.unpark()


def _answer(request: Request, reply: SyncReply) -> Response:
    return encode_sync_group_response(
        request.header.api_version,
        request.header.correlation_id,
        error_code=reply.error,
        protocol_type=reply.protocol_type,
        protocol=reply.protocol,
        assignment=reply.assignment,
    )
