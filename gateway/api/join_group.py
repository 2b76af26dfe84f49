"""JoinGroup (key 11), versions 0 to 9: a member comes into a group, or back into it for the next generation.

Behaviour
  Who may not READ the group is GROUP_AUTHORIZATION_FAILED.
  The answer may take minutes: it comes when all members have joined, or the time for that is over. The
  leader's has all members with what they sent for the chosen protocol; assigning is the clients' business.
  The rules are those of `gateway.groups.group`. A client that goes away while it waits is not answered; its
  member stays until its time is over, as in Kafka.

Version notes
  v1 brings the rebalance timeout; in v0 the session timeout stands for it. From v4 on a member without an id
  is given one with MEMBER_ID_REQUIRED and comes again (KIP-394). v5 brings static members (KIP-345), v7 the
  protocol type in the answer (before it, no protocol is an empty string), v8 the client's reason, v9 that a
  returning static leader may keep the assignments (KIP-814).

Differs from Kafka
  With an authorizer a static member belongs to the principal that it joined as: to any other it is
  FENCED_INSTANCE_ID, here and in all other requests of members, as long as it is in the group. What a group's
  record has is Kafka's, so after a load it belongs to the first that is heard of as this member.
  What members sent is bounded (`gateway.groups.room`): a group that is full answers
  GROUP_MAX_SIZE_REACHED, a gateway that is full POLICY_VIOLATION. A rebalance timeout is a day at most. Where
  Kafka leaves a request hanging whose member joins again on another connection, it is answered with
  REBALANCE_IN_PROGRESS.
"""

from __future__ import annotations

import logging
import struct
import uuid
from functools import lru_cache, partial
from ipaddress import IPv4Address, ip_address
from typing import TYPE_CHECKING, Final

from gateway.answers.encoding import encoded
from gateway.common.handlers import Request, Response, api
from gateway.common.log_limit import warn_once
from gateway.groups.events import NO_MEMBER_ID, Join, JoinReply, Protocol
from gateway.groups.served import Abandoned, Ticket
from gateway.security.acls import Operation, ResourceType
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.group_answers import encode_join_group_response
from wireproto.kafka.primitives import MAX_STRING_BYTES

if TYPE_CHECKING:
    from gateway.broker import Broker

REBALANCE_TIMEOUT_SINCE_VERSION: Final = 1
MEMBER_ID_REQUIRED_SINCE_VERSION: Final = 4
NULL_PROTOCOL_SINCE_VERSION: Final = 7
SKIP_ASSIGNMENT_SINCE_VERSION: Final = 9

MAX_PROTOCOLS: Final = 64
"""Protocols that one member may name; consumers have one to five. More is POLICY_VIOLATION."""

MAX_REBALANCE_TIMEOUT_MS: Final = 24 * 3600 * 1000
"""Longest that a group waits for a member to join again, whatever it asks for (Java's `max.poll.interval.ms`,
five minutes by default; some set it to 2^31-1, which is 24 days). Kafka has no such limit: there one member
that is heard of and does not join holds up all others for so long."""

CLIENT_HOSTS: Final = 1024
"""Addresses of clients whose Java form is remembered: members join again and again."""

logger = logging.getLogger(__name__)


@api(key=ApiKey.JOIN_GROUP, name="JoinGroup", min_version=0, max_version=9)
async def join_group(request: Request, broker: Broker) -> Response:
    """Hand the member to its group and wait for the next generation."""
    ticket = Ticket()
    group_id, member_id = request.body.group_id, request.body.member_id
    if not request.access.may(Operation.READ, ResourceType.GROUP, group_id):
        return _answer(request, JoinReply(ErrorCode.GROUP_AUTHORIZATION_FAILED, NO_MEMBER_ID))
    try:
        if len(request.body.protocols) > MAX_PROTOCOLS:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"it names more than {MAX_PROTOCOLS} protocols")
        broker.groups.join(group_id, _join(request, ticket), request.client)
    except KafkaError as error:
        if error.code in {ErrorCode.POLICY_VIOLATION, ErrorCode.GROUP_MAX_SIZE_REACHED}:
            warn_once(logger, "group %r: a member was refused: %s", group_id[:100], error.message)
        return _answer(request, JoinReply(error.code, member_id))
    if not ticket.answered:
        request.forget_frame()
        request.body = None  # what the group needs of it, it has
    request.park(ticket.abandon)
    try:
        reply = await ticket.joined()
    except Abandoned:
        return None  # the client has gone
    finally:
        request.unpark()
    # Hostile members could have the leader's answer made many times.
    await request.reserve_if_large(sum(len(member.metadata) for member in reply.members))
    return await encoded(len(reply.members), partial(_answer, request, reply))


def _join(request: Request, ticket: Ticket) -> Join:
    """What the group is asked. Raises KafkaError: nobody could be told the member id."""
    body, version = request.body, request.header.api_version
    client_id = request.header.client_id or ""
    timeout = (
        body.rebalance_timeout_ms if version >= REBALANCE_TIMEOUT_SINCE_VERSION else body.session_timeout_ms
    )
    new_member_id = ""
    if body.member_id == NO_MEMBER_ID:
        prefix = client_id if body.group_instance_id is None else body.group_instance_id
        new_member_id = f"{prefix}-{uuid.uuid4()}"
        if len(new_member_id.encode()) > MAX_STRING_BYTES:
            # The leader, too, would be told of it, and its answer could not be made, or not be read.
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"its member id would have more than {MAX_STRING_BYTES} bytes: choose a shorter client id",
            )
    return Join(
        ticket=ticket,
        member_id=body.member_id,
        new_member_id=new_member_id,
        group_instance_id=body.group_instance_id,
        client_id=client_id,
        client_host=client_host(request),
        session_timeout_ms=body.session_timeout_ms,
        rebalance_timeout_ms=min(max(0, timeout), MAX_REBALANCE_TIMEOUT_MS),
        protocol_type=body.protocol_type,
        protocols=tuple(Protocol(each.name, each.metadata) for each in body.protocols),
        needs_known_member_id=version >= MEMBER_ID_REQUIRED_SINCE_VERSION,
        can_skip_assignment=version >= SKIP_ASSIGNMENT_SINCE_VERSION,
        reason=(body.reason or "not provided")[:255],
        principal=request.access.owner,
    )


def client_host(request: Request) -> str:
    """Where the client is, as Java writes an `InetAddress`: `/127.0.0.1`, `/0:0:0:0:0:0:0:1`."""
    return _java_address(request.client_address.rpartition(":")[0].strip("[]"))


@lru_cache(maxsize=CLIENT_HOSTS)
def _java_address(host: str) -> str:
    try:
        address = ip_address(host)
    except ValueError:
        return f"/{host}"
    if isinstance(address, IPv4Address):
        return f"/{address}"
    if address.ipv4_mapped is not None:
        return f"/{address.ipv4_mapped}"
    words = struct.unpack(">8H", address.packed)
    scope = "" if address.scope_id is None else f"%{address.scope_id}"
    return "/" + ":".join(f"{word:x}" for word in words) + scope


def _answer(request: Request, reply: JoinReply) -> bytes:
    header, protocol = request.header, reply.protocol
    if protocol is None and header.api_version < NULL_PROTOCOL_SINCE_VERSION:
        protocol = ""
    return encode_join_group_response(
        header.api_version,
        header.correlation_id,
        error_code=reply.error,
        generation=reply.generation,
        protocol_type=reply.protocol_type,
        protocol=protocol,
        leader=reply.leader,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=[(one.member_id, one.group_instance_id, one.metadata) for one in reply.members],
    )
