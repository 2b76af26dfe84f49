"""Which groups somebody may see and be in, and whose offsets: one group of each right (`rights`)."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata import FindCoordinatorRequest

from tests.differential import groups, offsets
from tests.differential.case import as_each
from tests.differential.cases import find_coordinator
from tests.differential.principals import CLUSTER_RIGHTS, EVERYBODY, WITH_RIGHTS
from tests.differential.rights import RIGHTS, both, missing, names, own_names, there
from tests.differential.side import NO_ERROR, Side

MEMBER = "nobody"
SHARED = "group"
INSTANCES_SINCE, PROTOCOL_SINCE = 3, 5
KINDS_SINCE = 1
OPERATIONS_SINCE = 3
WITH_DESCRIBE = (*WITH_RIGHTS, *(user for user in CLUSTER_RIGHTS if user.endswith(("-all", "-describe"))))


def groups_there(side: Side) -> list[str]:
    """A group of each right, shared by all cases: without members, with an offset in each topic."""
    return _with_offsets(side, names(side, SHARED))


def own_groups(side: Side) -> list[str]:
    """As `groups_there`, of this case and version alone."""
    return _with_offsets(side, own_names(side))


def _with_offsets(side: Side, wanted: list[str]) -> list[str]:
    for group in wanted:
        if (group, 0) in side.server.filled:
            continue
        request = offsets.commit(group, {name: [offsets.offset(0, 1)] for name in there(side)})
        answer = side.for_set_up.ask(request)
        if any(part.error_code != NO_ERROR for topic in answer.topics for part in topic.partitions):
            raise RuntimeError(f"{side.server.name} refuses offsets of the set-up: {answer}")
        side.server.filled.add((group, 0))
    return wanted


def ids(side: Side) -> dict[str, Any]:
    return {name: side.id_of(name) for name in both(side)}


def each(side: Side) -> list[tuple[str, str]]:
    """A label, and a group that there is or is not."""
    found = [*groups_there(side), *missing(side)]
    return [(f"{n} {RIGHTS[n % len(RIGHTS)]}", group) for n, group in enumerate(found)]


@as_each(FindCoordinatorRequest, principals=EVERYBODY)
def coordinators(side: Side, version: int) -> None:
    kinds = {"groups": find_coordinator.GROUP, "transactions": find_coordinator.TRANSACTION}
    for what, kind in kinds.items() if version >= KINDS_SINCE else [("groups", find_coordinator.GROUP)]:
        if version in find_coordinator.MANY_KEYS:
            find_coordinator.ask(side, version, [*names(side, SHARED), ""], kind, what)
        else:
            for right, name in zip(RIGHTS, names(side, SHARED), strict=True):
                find_coordinator.ask(side, version, [name], kind, f"{what}, {right}")


@as_each(JoinGroupRequest)
def joined(side: Side, version: int) -> None:
    for right, group in zip(RIGHTS, own_names(side), strict=True):
        side.chosen(getattr(side.ask(groups.join(group, version=version), right), "member_id", ""))


@as_each(SyncGroupRequest)
def synced(side: Side, version: int) -> None:
    for label, group in each(side):
        side.ask(groups.sync(group, MEMBER, 1, version=version), label)
        if version >= PROTOCOL_SINCE:
            without = groups.sync(group, MEMBER, 1, version=version, protocol_type=None, protocol=None)
            side.ask(without, f"{label}, no protocol")


@as_each(HeartbeatRequest)
def beaten(side: Side, version: int) -> None:
    for label, group in each(side):
        side.ask(groups.heartbeat(group, MEMBER, 1, version=version), label)


@as_each(LeaveGroupRequest)
def left(side: Side, version: int) -> None:
    for label, group in each(side):
        side.ask(groups.leave(group, (MEMBER, None), version=version), label)


@as_each(OffsetCommitRequest)
def committed(side: Side, version: int) -> None:
    """In each group, of all topics."""
    for right, group in zip(RIGHTS, own_names(side), strict=True):
        wanted = {name: [offsets.offset(0, 1), offsets.offset(9, 1)] for name in both(side)}
        side.ask(offsets.commit(group, wanted, version=version, ids=ids(side)), right)


@as_each(OffsetFetchRequest)
def fetched(side: Side, version: int) -> None:
    wanted = {name: [0, 9] for name in both(side)}
    known = ids(side)
    if version < offsets.SEVERAL_GROUPS:
        for label, group in each(side):
            side.ask(offsets.fetch(group, wanted, version=version), label)
            if version > 1:
                side.ask(offsets.fetch(group, None, version=version), f"{label}, all topics")
        return
    found = [group for _, group in each(side)]
    asked: list[tuple[str, offsets.Wanted | None]] = [(group, wanted) for group in found]
    side.ask(offsets.fetch(asked, version=version, ids=known), "named topics")
    side.ask(offsets.fetch([(group, None) for group in found], version=version, ids=known), "all topics")


@as_each(OffsetDeleteRequest)
def offsets_deleted(side: Side, version: int) -> None:
    for label, group in zip((*RIGHTS, "missing"), (*own_groups(side), missing(side)[0]), strict=True):
        side.ask(offsets.delete(group, {name: [0, 9] for name in both(side)}), label)


@as_each(DescribeGroupsRequest)
def described(side: Side, version: int) -> None:
    found = [*groups_there(side), *missing(side)]
    side.ask(groups.describe(*found, version=version), "all")
    if version >= OPERATIONS_SINCE:
        side.ask(groups.describe(*found, version=version, operations=True), "operations")


@as_each(ListGroupsRequest, principals=WITH_DESCRIBE)
def listed(side: Side, version: int) -> None:
    """Other cases' groups are there too: what is compared is which of ours are among them."""
    mine = set(groups_there(side))
    answer = side.ask(ListGroupsRequest(version=version))
    answer.groups = [group for group in answer.groups if group.group_id in mine]


@as_each(DeleteGroupsRequest)
def deleted(side: Side, version: int) -> None:
    side.ask(DeleteGroupsRequest(version=version, groups_names=[*own_groups(side), *missing(side)]))
