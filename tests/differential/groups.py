"""Members of groups, for the cases of the group APIs: they join, sync and leave as clients do."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

from tests.differential.side import SETTLE_SECONDS, Side, Started
from tests.differential.wire import Connection

SESSION_MS = 30_000
MEMBER_ID_REQUIRED = 79
NO_ERROR = 0
RANGE = (("range", b"\0\1" + b"\0" * 8),)


def join(
    group: str,
    member_id: str = "",
    *,
    version: int = 9,
    instance: str | None = None,
    protocols: Sequence[tuple[str, bytes]] = RANGE,
    protocol_type: str = "consumer",
    session_ms: int = SESSION_MS,
    rebalance_ms: int = SESSION_MS,
) -> Any:
    """A JoinGroup request."""
    fields: dict[str, Any] = {}
    if version >= 1:
        fields["rebalance_timeout_ms"] = rebalance_ms
    if version >= 5:
        fields["group_instance_id"] = instance
    if version >= 8:
        fields["reason"] = "a test"
    protocol = JoinGroupRequest.JoinGroupRequestProtocol
    return JoinGroupRequest(
        version=version,
        group_id=group,
        session_timeout_ms=session_ms,
        member_id=member_id,
        protocol_type=protocol_type,
        protocols=[protocol(name=name, metadata=metadata) for name, metadata in protocols],
        **fields,
    )


def sync(
    group: str,
    member_id: str,
    generation: int,
    assignments: Mapping[str, bytes] | None = None,
    *,
    version: int = 5,
    instance: str | None = None,
    protocol_type: str | None = "consumer",
    protocol: str | None = "range",
) -> Any:
    """A SyncGroup request."""
    fields: dict[str, Any] = {}
    if version >= 3:
        fields["group_instance_id"] = instance
    if version >= 5:
        fields |= {"protocol_type": protocol_type, "protocol_name": protocol}
    one = SyncGroupRequest.SyncGroupRequestAssignment
    return SyncGroupRequest(
        version=version,
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        assignments=[one(member_id=m, assignment=a) for m, a in (assignments or {}).items()],
        **fields,
    )


def heartbeat(
    group: str, member_id: str, generation: int, *, version: int = 4, instance: str | None = None
) -> Any:
    """A Heartbeat request."""
    fields = {"group_instance_id": instance} if version >= 3 else {}
    return HeartbeatRequest(
        version=version, group_id=group, generation_id=generation, member_id=member_id, **fields
    )


def leave(group: str, *members: tuple[str, str | None], version: int = 5) -> Any:
    """A LeaveGroup request of (member id, instance id); of one member before version 3."""
    if version < 3:
        return LeaveGroupRequest(version=version, group_id=group, member_id=members[0][0])
    one = LeaveGroupRequest.MemberIdentity
    return LeaveGroupRequest(
        version=version,
        group_id=group,
        members=[
            one(
                member_id=member_id,
                group_instance_id=instance,
                **({"reason": "test"} if version >= 5 else {}),
            )
            for member_id, instance in members
        ],
    )


def describe(*groups: str, version: int = 6, operations: bool = False) -> Any:
    """A DescribeGroups request."""
    fields = {"include_authorized_operations": operations} if version >= 3 else {}
    return DescribeGroupsRequest(version=version, groups=list(groups), **fields)


def member(side: Side, group: str, label: str, *, version: int = 3, **fields: Any) -> Any:
    """Joins an empty group alone, recorded; the answer."""
    answer = side.ask(join(group, version=version, **fields), f"{label} joins")
    side.chosen(answer.member_id)
    if answer.error_code == MEMBER_ID_REQUIRED:
        answer = side.ask(join(group, answer.member_id, version=version, **fields), f"{label} joins again")
    return answer


def stable(side: Side, group: str, *, instance: str | None = None, **fields: Any) -> str:
    """A stable group of one member; its id. Recorded."""
    joined = member(side, group, "the member", version=5, instance=instance, **fields)
    if instance is None:
        assert joined.error_code == NO_ERROR, joined
    answer = side.ask(
        sync(
            group,
            joined.member_id,
            1,
            {joined.member_id: b"all"},
            version=4,
            instance=instance,
        ),
        "the member syncs",
    )
    assert answer.error_code == NO_ERROR, answer
    found: str = joined.member_id
    return found


def wait_for_state(side: Side, group: str, state: str, members: int | None = None) -> None:
    """Unrecorded: until the group is in this state (a request on another connection was taken up)."""
    deadline = time.monotonic() + SETTLE_SECONDS
    with Connection(side.server.bootstrap) as connection:
        while True:
            found = connection.ask(describe(group)).groups[0]
            if found.group_state == state and members in {None, len(found.members)}:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{side.server.name}: {group} does not get to {state}: {found}")
            time.sleep(0.01)


def rejoin_all(side: Side, started: Started, *requests: tuple[Any, str]) -> list[Any]:
    """Completes a rebalance: these join as well, then all answers are taken."""
    others = [side.start(request, label) for request, label in requests]
    return [started.answer(), *(other.answer() for other in others)]
