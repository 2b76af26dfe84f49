"""DeleteGroups (key 42), versions 0 to 2: groups without members are deleted, with all their offsets.

Behaviour
  Each group has its own result: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, or no error once that is durable. A
  group that is named twice is answered once. Those that the client may not DELETE come last
  (GROUP_AUTHORIZATION_FAILED).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.answers.element_limit import check_elements
from gateway.answers.encoding import answer_of
from gateway.common.costs import ELEMENT
from gateway.common.handlers import Request, Response, api
from gateway.security.acls import Operation, ResourceType
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.groups.served import Group

CONCURRENT_DELETIONS: Final = 64
"""Groups of one request that are deleted at the same time: enough for their records to share batches."""

PATIENCE_SECONDS: Final = 20.0
"""How long deletions are begun for one request; clients wait for 30 s. The groups that are left, when the
stores are away, are COORDINATOR_NOT_AVAILABLE: the request holds memory meanwhile."""

_Answer: Any = RESPONSE_CLASSES[ApiKey.DELETE_GROUPS]


@api(key=ApiKey.DELETE_GROUPS, name="DeleteGroups", min_version=0, max_version=2)
async def delete_groups(request: Request, broker: Broker) -> Response:
    """Delete each group on its own."""
    results: dict[str, ErrorCode] = {}
    refused: list[tuple[str, ErrorCode]] = []
    groups: list[Group] = []
    check_elements(len(request.body.groups_names), "groups")
    for group_id in dict.fromkeys(request.body.groups_names):
        await request.work.before(ELEMENT)
        if not request.access.may(Operation.DELETE, ResourceType.GROUP, group_id):
            refused.append((group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED))
            continue
        results[group_id] = ErrorCode.NONE
        try:
            groups.append(broker.groups.for_delete(group_id))
        except KafkaError as error:
            results[group_id] = error.code
    until = trio.current_time() + PATIENCE_SECONDS
    async with trio.open_nursery() as nursery:
        for _ in range(min(CONCURRENT_DELETIONS, len(groups))):
            nursery.start_soon(_delete_some, broker, groups, results, until)
    answered = await request.work.each(_result, [*results.items(), *refused])
    return await answer_of(len(answered), request, _Answer(throttle_time_ms=0, results=answered))


def _result(outcome: tuple[str, ErrorCode]) -> Any:
    group_id, error = outcome
    return _Answer.DeletableGroupResult(group_id=group_id, error_code=error)


async def _delete_some(
    broker: Broker, groups: list[Group], results: dict[str, ErrorCode], until: float
) -> None:
    """Delete one after the other, as long as there are some and the time is not over."""
    while groups:
        group = groups.pop()
        try:
            if trio.current_time() >= until:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            # It may have got a member since it was looked at.
            await broker.groups.delete(broker.groups.for_delete(group.group_id))
        except KafkaError as error:
            results[group.group_id] = error.code
