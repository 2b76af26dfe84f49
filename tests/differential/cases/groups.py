"""Consumer groups, classic protocol: what members are answered in each state, by version."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

from tests.differential.case import case
from tests.differential.groups import (
    RANGE,
    describe,
    heartbeat,
    join,
    leave,
    member,
    stable,
    sync,
    wait_for_state,
)
from tests.differential.side import Side

STATIC_JOIN = range(5, 10)
SUBSCRIPTION = b"\0\1\0\0\0\1\0\6orders\xff\xff\xff\xff\0\0\0\0"
OTHER = b"\0\1\0\0\0\1\0\6clicks\xff\xff\xff\xff\0\0\0\0"


# ----------------------------------------------------------------------------------------------- JoinGroup


@case(JoinGroupRequest)
def a_life(side: Side, version: int) -> None:
    """One member from its first request to the deletion of its group."""
    group = side.own_name("life")
    protocols = (("range", SUBSCRIPTION), ("roundrobin", b"\0\0"))
    joined = member(side, group, "first", version=version, protocols=protocols)
    me = joined.member_id
    side.ask(describe(group), "completing")
    side.ask(sync(group, me, 1, {me: b"\0\1assigned"}), "syncs")
    side.ask(describe(group), "stable")
    side.ask(heartbeat(group, me, 1), "lives")
    side.ask(DeleteGroupsRequest(version=2, groups_names=[group]), "not empty")
    side.ask(leave(group, (me, None)), "leaves")
    side.ask(heartbeat(group, me, 2), "left")
    side.ask(describe(group), "empty")
    side.ask(join(group, me, version=version), "an id that left")
    side.ask(DeleteGroupsRequest(version=2, groups_names=[group]), "deleted")
    side.ask(describe(group), "gone")


@case(JoinGroupRequest)
def refused_joins(side: Side, version: int) -> None:
    group = side.own_name("refused")
    side.ask(join("", version=version), "empty group id")
    side.ask(join(group, version=version, session_ms=5999), "short session")
    side.ask(join(group, version=version, session_ms=1_800_001), "long session")
    side.ask(join(group, version=version, session_ms=-1), "negative session")
    side.ask(join(group, "stranger", version=version), "unknown member, no group")
    side.ask(join(group, version=version, protocols=[]), "no protocols")
    side.ask(join(group, version=version, protocol_type=""), "no type")
    stable(side, group)
    side.ask(join(group, "stranger", version=version), "unknown member")
    side.ask(join(group, version=version, protocol_type="connect"), "another type")
    side.ask(join(group, version=version, protocols=[("sticky", OTHER)]), "another protocol")
    side.ask(join(group, version=version, protocols=[]), "no protocols for a group")
    if version in STATIC_JOIN:
        side.ask(join(group, "stranger", version=version, instance="i"), "unknown instance")


@case(JoinGroupRequest)
def joins_again(side: Side, version: int) -> None:
    """In each state, with the same and with other metadata; a leader in a stable group rebalances."""
    group = side.own_name("again")
    me = member(side, group, "first", version=version).member_id
    side.ask(join(group, me, version=version), "completing, the same")
    side.ask(join(group, me, version=version, protocols=[("range", OTHER)]), "completing, changed")
    side.ask(sync(group, me, 1, {me: b"x"}), "an old generation")
    side.ask(sync(group, me, 2, {me: b"all"}), "syncs")
    side.ask(join(group, me, version=version, protocols=[("range", OTHER)]), "stable, the leader")
    side.ask(describe(group), "completing once more")


@case(JoinGroupRequest)
def two_members(side: Side, version: int) -> None:
    """The second one makes the first join again; they vote; one leaves and the other has all."""
    group = side.own_name("two")
    first = side.chosen(
        member(side, group, "first", protocols=[("a", SUBSCRIPTION), ("b", SUBSCRIPTION)]).member_id
    )
    side.ask(sync(group, first, 1, {first: b"all"}, protocol="a"), "first syncs")
    second = ""
    if version >= 4:
        given = side.ask(join(group, version=version, protocols=[("b", OTHER), ("a", OTHER)]), "second's id")
        second = side.chosen(given.member_id)
    newcomer = side.start(
        join(group, second, version=version, protocols=[("b", OTHER), ("a", OTHER)]), "second joins"
    )
    wait_for_state(side, group, "PreparingRebalance", 2)
    side.ask(heartbeat(group, first, 1), "first is asked to join")
    side.ask(sync(group, first, 1), "too late to sync")
    side.ask(DeleteGroupsRequest(version=2, groups_names=[group]), "not empty")
    side.ask(leave(group, ("stranger", None), version=3), "a stranger leaves")
    again = side.start(
        join(group, first, version=9, protocols=[("b", SUBSCRIPTION), ("c", SUBSCRIPTION)]), "first again"
    )
    second = side.chosen(newcomer.answer().member_id)
    again.answer()
    wait_for_state(side, group, "CompletingRebalance", 2)
    side.ask(describe(group), "two are there")
    waits = side.start(sync(group, second, 2, protocol="b"), "second syncs")
    side.ask(heartbeat(group, second, 2), "second lives")
    side.ask(sync(group, first, 2, {first: b"1", second: b"2"}, protocol="b"), "first assigns")
    waits.answer()
    side.ask(describe(group), "stable with two")
    side.ask(
        join(group, second, version=version, protocols=[("b", OTHER), ("a", OTHER)]), "a follower, the same"
    )
    side.ask(sync(group, second, 2, protocol="b"), "asks again")
    side.ask(leave(group, (first, None)), "the leader leaves")
    side.ask(heartbeat(group, second, 2), "second is asked to join")
    side.ask(join(group, second, version=version, protocols=[("b", OTHER)]), "second leads")
    side.ask(sync(group, second, 3, {second: b"all"}, protocol="b"), "second has all")


@case(JoinGroupRequest, range(4, 10))
def an_id_that_nobody_took(side: Side, version: int) -> None:
    """It holds a rebalance up, though everybody has joined, until it is given back (or its session is over).

    Clients that change their subscription while they are given an id forget it and ask for another.
    """
    group = side.own_name("lost")
    first = stable(side, group)
    lost = side.chosen(side.ask(join(group, version=version), "an id that is forgotten").member_id)
    second = side.chosen(side.ask(join(group, version=version), "second's id").member_id)
    newcomer = side.start(join(group, second, version=version), "second joins")
    wait_for_state(side, group, "PreparingRebalance", 2)
    again = side.start(join(group, first, version=version), "first joins again")
    side.ask(heartbeat(group, first, 1), "first waits")
    side.ask(describe(group), "both have joined")
    side.ask(leave(group, (lost, None)), "the id is given back")
    newcomer.answer()
    again.answer()
    side.ask(describe(group), "the next generation")


@case(JoinGroupRequest, STATIC_JOIN)
def static_members(side: Side, version: int) -> None:
    """Who returns under the same instance keeps its place, and the old one is fenced (KIP-345, KIP-814)."""
    group = side.own_name("static")
    old = side.chosen(member(side, group, "first", version=version, instance="i").member_id)
    side.ask(sync(group, old, 1, {old: b"all"}, instance="i"), "syncs")
    side.ask(describe(group), "with its instance")
    new = side.chosen(side.ask(join(group, version=version, instance="i"), "returns").member_id)
    side.ask(sync(group, new, 1, instance="i"), "has what it had")
    for label, member_id, instance in [
        ("old", old, "i"), ("old without instance", old, None), ("new", new, "i"), ("new alone", new, None),
        ("another instance", new, "j"),
    ]:  # fmt: skip
        side.ask(heartbeat(group, member_id, 1, instance=instance), f"heartbeat {label}")
        side.ask(sync(group, member_id, 1, instance=instance), f"sync {label}")
    side.ask(join(group, old, version=version, instance="i"), "old joins")
    side.ask(
        join(group, new, version=version, instance="i", protocols=[("range", OTHER)]), "new joins, changed"
    )
    side.ask(leave(group, (old, "i")), "old leaves")
    side.ask(leave(group, ("", "i"), ("", "j")), "an administrator removes it")
    side.ask(describe(group), "empty")


@case(JoinGroupRequest, STATIC_JOIN)
def a_static_member_that_changes_the_protocol(side: Side, version: int) -> None:
    group = side.own_name("changes")
    old = member(
        side, group, "first", version=version, instance="i", protocols=[("a", SUBSCRIPTION), ("b", OTHER)]
    ).member_id
    side.ask(sync(group, side.chosen(old), 1, {old: b"all"}, instance="i", protocol="a"), "syncs")
    new = side.ask(join(group, version=version, instance="i", protocols=[("b", OTHER)]), "returns").member_id
    side.chosen(new)
    side.ask(sync(group, new, 2, {new: b"all"}, instance="i", protocol="b"), "syncs again")


@case(JoinGroupRequest)
def other_protocol_types(side: Side, version: int) -> None:
    """Bytes of Kafka Connect and Schema Registry are nobody's business."""
    for kind, protocol in [("connect", "sessioned"), ("sr", "v0"), ("any thing", "\u00fc")]:
        group = side.own_name(kind.replace(" ", ""))
        joined = side.ask(
            join(group, version=version, protocol_type=kind, protocols=[(protocol, b"\xff\0opaque")]), kind
        )
        me = side.chosen(joined.member_id)
        if joined.error_code:
            side.ask(
                join(group, me, version=version, protocol_type=kind, protocols=[(protocol, b"\xff\0opaque")]),
                f"{kind} again",
            )
        side.ask(sync(group, me, 1, {me: b"\0\xff"}, protocol_type=kind, protocol=protocol), f"{kind} syncs")
        side.ask(describe(group), f"{kind} described")


# ----------------------------------------------------------------------------------------------- SyncGroup


@case(SyncGroupRequest)
def syncs(side: Side, version: int) -> None:
    group = side.own_name("sync")
    side.ask(sync(group, "stranger", 1, version=version), "no group")
    side.ask(sync("", "stranger", 1, version=version), "empty group id")
    me = member(side, group, "first").member_id
    side.ask(sync(group, "stranger", 1, version=version), "stranger")
    side.ask(sync(group, me, 0, version=version), "old generation")
    side.ask(sync(group, me, 2, version=version), "future generation")
    if version >= 3:
        side.ask(sync(group, me, 1, version=version, instance="i"), "not its instance")
    if version >= 5:
        side.ask(sync(group, me, 1, version=version, protocol="sticky"), "another protocol")
        side.ask(sync(group, me, 1, version=version, protocol_type="connect"), "another type")
        side.ask(sync(group, me, 1, version=version, protocol=None), "no protocol")
        side.ask(sync(group, me, 1, version=version, protocol_type=None), "no type")
    side.ask(sync(group, me, 1, {me: b"all", "stranger": b"none"}, version=version), "assigns")
    side.ask(sync(group, me, 1, {me: b"other"}, version=version), "assigns again")
    side.ask(leave(group, (me, None)), "leaves")
    side.ask(sync(group, me, 2, version=version), "empty")


@case(SyncGroupRequest)
def forgets_itself(side: Side, version: int) -> None:
    """A leader that assigns nothing to anybody."""
    group = side.own_name("forgets")
    me = member(side, group, "first").member_id
    side.ask(sync(group, me, 1, version=version), "assigns nothing")


# ----------------------------------------------------------------------------------------------- Heartbeat


@case(HeartbeatRequest)
def heartbeats(side: Side, version: int) -> None:
    group = side.own_name("beats")
    side.ask(heartbeat(group, "stranger", 1, version=version), "no group")
    side.ask(heartbeat("", "stranger", 1, version=version), "empty group id")
    me = member(side, group, "first").member_id
    side.ask(heartbeat(group, me, 1, version=version), "completing")
    side.ask(sync(group, me, 1, {me: b"all"}), "syncs")
    for label, member_id, generation in [
        ("good", me, 1), ("stranger", "stranger", 1), ("nobody", "", 1), ("old", me, 0), ("future", me, 2),
        ("none", me, -1),
    ]:  # fmt: skip
        side.ask(heartbeat(group, member_id, generation, version=version), label)
    if version >= 3:
        side.ask(heartbeat(group, me, 1, version=version, instance="i"), "not its instance")
    side.ask(leave(group, (me, None)), "leaves")
    side.ask(heartbeat(group, me, 2, version=version), "empty")


# ---------------------------------------------------------------------------------------------- LeaveGroup


@case(LeaveGroupRequest)
def leaves(side: Side, version: int) -> None:
    group = side.own_name("leaves")
    side.ask(leave(group, ("stranger", None), version=version), "no group")
    side.ask(leave("", ("stranger", None), version=version), "empty group id")
    me = stable(side, group)
    side.ask(leave(group, ("stranger", None), version=version), "stranger")
    side.ask(leave(group, ("", None), version=version), "nobody")
    if version >= 3:
        side.ask(leave(group, (me, "i"), ("", "i"), ("stranger", None), version=version), "several")
        side.ask(leave(group, version=version), "none at all")
    pending = side.chosen(side.ask(join(group, version=4), "an id is given").member_id)
    side.ask(leave(group, (pending, None), version=version), "the id is given back")
    side.ask(leave(group, (me, None), version=version), "leaves")
    side.ask(leave(group, (me, None), version=version), "leaves twice")
    side.ask(describe(group), "empty")


# -------------------------------------------------------------------------------------------- about groups


@case(DescribeGroupsRequest)
def described(side: Side, version: int) -> None:
    group, other = side.own_name("described"), side.own_name("none")
    me = stable(side, group, protocols=[("range", SUBSCRIPTION)])
    side.ask(describe(group, version=version), "stable")
    side.ask(describe(other, version=version), "unknown")
    side.ask(describe("", version=version), "empty id")
    side.ask(describe(version=version), "no groups")
    side.ask(describe(group, other, group, version=version), "several and doubles")
    if version >= 3:
        side.ask(describe(group, version=version, operations=True), "operations")
        side.ask(describe(other, version=version, operations=True), "operations, unknown")
    side.ask(leave(group, (me, None)), "leaves")
    side.ask(describe(group, version=version), "empty")


@case(ListGroupsRequest)
def listed(side: Side, version: int) -> None:
    full, empty = side.own_name("full"), side.own_name("empty")
    stable(side, full)
    gone = side.ask(join(empty, version=3), "joins").member_id
    side.ask(leave(empty, (side.chosen(gone), None)), "leaves")
    ours = {full, empty}
    _list(side, ours, version, "all")
    if version >= 4:
        for states in (
            ["Stable"],
            ["empty"],
            ["STABLE ", "Empty"],
            ["Dead"],
            ["nonsense"],
            ["PreparingRebalance"],
        ):
            _list(side, ours, version, f"states {states}", states_filter=states)
    if version >= 5:
        for types in (["classic"], ["Classic"], ["consumer"], ["nonsense"], ["share", "classic"]):
            _list(side, ours, version, f"types {types}", types_filter=types)
        _list(side, ours, version, "both", states_filter=["Stable"], types_filter=["classic"])


def _list(side: Side, groups: set[str], version: int, label: str, **filters: Any) -> None:
    """Lists; other cases' groups are left out of what is compared."""
    fields: dict[str, Any] = {}
    if version >= 4:
        fields["states_filter"] = []
    if version >= 5:
        fields["types_filter"] = []
    answer = side.ask(ListGroupsRequest(version=version, **(fields | filters)), label)
    answer.groups = [group for group in answer.groups if group.group_id in groups]


@case(DeleteGroupsRequest)
def deleted(side: Side, version: int) -> None:
    full, empty, unknown = side.own_name("full"), side.own_name("empty"), side.own_name("unknown")
    stable(side, full)
    gone = side.ask(join(empty, version=3, protocols=RANGE), "joins").member_id
    side.ask(leave(empty, (side.chosen(gone), None)), "leaves")
    for label, names in [
        ("several", [full, empty, unknown]), ("again", [empty]), ("doubles", [full, full]),
        ("empty id", [""]), ("none", []),
    ]:  # fmt: skip
        side.ask(DeleteGroupsRequest(version=version, groups_names=names), label)
    side.ask(describe(full, empty), "what is left")
