"""DescribeGroups (key 15), versions 0 to 6: state and members of groups.

Behaviour
  Groups that the client may not DESCRIBE come first (GROUP_AUTHORIZATION_FAILED). What members sent, and the
  protocol, are shown while a group is Stable only. A group that does not exist is
  "Dead" without an error, and from v6 on GROUP_ID_NOT_FOUND (KIP-1043).

Version notes
  v3 may be asked what the client may do to a group that has no error. v4 names static members' instances, v6
  errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.answers.encoding import answer_of
from gateway.common.costs import ELEMENT
from gateway.common.handlers import Request, Response, api
from gateway.groups.group_state import GroupState
from gateway.security.acls import Operation, ResourceType
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.groups.group import GroupMachine
    from gateway.groups.member import Member

NOT_FOUND_SINCE_VERSION: Final = 6

MAX_DESCRIBED_BYTES: Final = 32 * 1024 * 1024
"""Bytes of the groups that one answer describes: two of the largest. A request of a few bytes could ask for
one of them 100,000 times; the groups beyond are POLICY_VIOLATION."""

_Answer: Any = RESPONSE_CLASSES[ApiKey.DESCRIBE_GROUPS]


@api(key=ApiKey.DESCRIBE_GROUPS, name="DescribeGroups", min_version=0, max_version=6)
async def describe_groups(request: Request, broker: Broker) -> Response:
    """Describe each group on its own."""
    refused, described, members, size = [], [], 0, 0
    for group_id in request.body.groups:
        await request.work.before(ELEMENT)
        if not request.access.may(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            refused.append(_described(request, group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED))
        elif size > MAX_DESCRIBED_BYTES:
            message = "ask for fewer groups at a time"
            described.append(_described(request, group_id, ErrorCode.POLICY_VIOLATION, message))
        else:
            answer, machine = _describe(request, broker, group_id)
            described.append(answer)
            if machine is not None:
                members += len(answer.members)
                size += machine.size
    await request.reserve_if_large(size)
    response = _Answer(throttle_time_ms=0, groups=refused + described)
    return await answer_of(len(response.groups) + members, request, response)


def _describe(request: Request, broker: Broker, group_id: str) -> tuple[Any, GroupMachine | None]:
    try:
        group = broker.groups.for_fetch(group_id)
    except KafkaError as error:
        return _described(request, group_id, error.code), None
    if group is None:
        if request.header.api_version >= NOT_FOUND_SINCE_VERSION:
            message = f"Group {group_id} not found."
            return _described(request, group_id, ErrorCode.GROUP_ID_NOT_FOUND, message), None
        return _described(request, group_id, ErrorCode.NONE), None
    machine = group.machine
    stable = machine.state is GroupState.STABLE
    described = _Answer.DescribedGroup(
        error_code=ErrorCode.NONE,
        error_message=None,
        group_id=group_id,
        group_state=machine.state.value,
        protocol_type=machine.protocol_type or "",
        protocol_data=(machine.protocol or "") if stable else "",
        members=[
            _member(member, machine.protocol if stable else None) for member in machine.roster.members()
        ],
        authorized_operations=_operations(request, group_id, ErrorCode.NONE),
    )
    return described, machine


def _member(member: Member, protocol: str | None) -> Any:
    return _Answer.DescribedGroup.DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol is None else member.metadata_of(protocol),
        member_assignment=member.assignment,
    )


def _operations(request: Request, group_id: str, error: ErrorCode) -> frozenset[Operation] | None:
    if not request.body.include_authorized_operations or error is not ErrorCode.NONE:
        return None
    return request.access.operations(ResourceType.GROUP, group_id)


def _described(request: Request, group_id: str, error: ErrorCode, message: str | None = None) -> Any:
    """A group that there is nothing to say about."""
    found = error in {ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND}
    return _Answer.DescribedGroup(
        error_code=error,
        error_message=message,
        group_id=group_id,
        group_state=GroupState.DEAD.value if found else "",
        protocol_type="",
        protocol_data="",
        members=[],
        authorized_operations=_operations(request, group_id, error),
    )
