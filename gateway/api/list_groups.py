"""ListGroups (key 16), versions 0 to 5: every group, or those of some states and types.

Behaviour
  Who may DESCRIBE the cluster sees all groups, anybody else those that he may DESCRIBE. Groups that only have
  offsets are among them, with an empty protocol type. While a part of the groups is
  being loaded the answer is COORDINATOR_LOAD_IN_PROGRESS.

Version notes
  v4 brings states (KIP-518), v5 types (KIP-848). Filters do not look at upper and lower case; a name that is
  none finds nothing. All groups here are of type "classic".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.answers.element_limit import check_elements
from gateway.answers.encoding import answer, answer_of
from gateway.common.costs import ELEMENT
from gateway.common.handlers import Request, Response, api
from gateway.security.acls import CLUSTER_NAME, Operation, ResourceType
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

CLASSIC: Final = "classic"

_Answer: Any = RESPONSE_CLASSES[ApiKey.LIST_GROUPS]


@api(key=ApiKey.LIST_GROUPS, name="ListGroups", min_version=0, max_version=5)
async def list_groups(request: Request, broker: Broker) -> Response:
    """List the groups that pass the filters."""
    body, access = request.body, request.access
    sees_all = access.sees(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    try:
        broker.groups.check_all_served()
    except KafkaError as error:
        return answer(request, _Answer(throttle_time_ms=0, error_code=error.code, groups=[]))
    check_elements(len(body.states_filter or ()) + len(body.types_filter or ()), "states and types")
    states = {state.strip().lower() for state in body.states_filter or ()}
    types = {kind.lower() for kind in body.types_filter or ()}
    groups = []
    if not types or CLASSIC in types:
        for group in broker.groups.loaded():
            await request.work.before(ELEMENT)
            machine = group.machine
            if states and machine.state.value.lower() not in states:
                continue
            if sees_all or access.sees(Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
                groups.append(
                    _Answer.ListedGroup(
                        group_id=group.group_id,
                        protocol_type=machine.protocol_type or "",
                        group_state=machine.state.value,
                        group_type=CLASSIC,
                    )
                )
    response = _Answer(throttle_time_ms=0, error_code=ErrorCode.NONE, groups=groups)
    return await answer_of(len(groups), request, response)
