"""LeaveGroup (key 13), versions 0 to 5: members leave a group, by themselves or removed by an administrator.

Behaviour
  Who may not READ the group is GROUP_AUTHORIZATION_FAILED.
  Each member has its own result. A static member may be named by its instance alone (KIP-345): that is how
  administrators remove one.

Differs from Kafka
  With an authorizer a static member of another principal is FENCED_INSTANCE_ID for who may not DELETE the
  group: else its place could be taken by removing it first.

Version notes
  Up to v2 one member leaves, and its result is the answer's. v3 brings several and static ones, v5 reasons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.answers.encoding import answer, answer_of
from gateway.common.handlers import Request, Response, api
from gateway.common.work import BREATH
from gateway.groups.events import Leaving
from gateway.security.acls import Operation, ResourceType
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

SEVERAL_SINCE_VERSION: Final = 3

_Answer: Any = RESPONSE_CLASSES[ApiKey.LEAVE_GROUP]


@api(key=ApiKey.LEAVE_GROUP, name="LeaveGroup", min_version=0, max_version=5)
async def leave_group(request: Request, broker: Broker) -> Response:
    """Take the members out of their group."""
    body, several = request.body, request.header.api_version >= SEVERAL_SINCE_VERSION
    if not request.access.may(Operation.READ, ResourceType.GROUP, body.group_id):
        return _about_all(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if several:
        leaving = await request.work.each(_leaving, body.members)
    else:
        leaving = [Leaving(body.member_id, None, "not provided")]
    try:
        results = await _leave(request, broker, leaving)
    except KafkaError as error:
        if error.code is not ErrorCode.UNKNOWN_MEMBER_ID:
            return _about_all(request, error.code)
        results = [error.code] * len(leaving)  # there is no such group
    if not several:
        return _about_all(request, results[0])
    members = await request.work.each(_left, zip(leaving, results, strict=True))
    response = _Answer(throttle_time_ms=0, error_code=ErrorCode.NONE, members=members)
    return await answer_of(len(members), request, response)


def _about_all(request: Request, error: ErrorCode) -> bytes:
    """An answer that names no member."""
    return answer(request, _Answer(throttle_time_ms=0, error_code=error, members=[]))


def _leaving(member: Any) -> Leaving:
    return Leaving(member.member_id, member.group_instance_id, (member.reason or "not provided")[:255])


def _left(member: tuple[Leaving, ErrorCode]) -> Any:
    leaving, result = member
    return _Answer.MemberResponse(
        member_id=leaving.member_id, group_instance_id=leaving.group_instance_id, error_code=result
    )


async def _leave(request: Request, broker: Broker, leaving: list[Leaving]) -> list[ErrorCode]:
    """Have them leave, some at a time: there may be 100,000. Raises KafkaError as `Coordinator.leave`."""
    group_id, access = request.body.group_id, request.access
    is_administrator = access.sees(Operation.DELETE, ResourceType.GROUP, group_id)
    principal = None if is_administrator else access.owner
    results = broker.groups.leave(group_id, leaving[:BREATH], principal)
    for start in range(BREATH, len(leaving), BREATH):
        await request.work.breath()
        results += broker.groups.leave(group_id, leaving[start : start + BREATH], principal)
    return results
