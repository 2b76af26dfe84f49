"""Static members (KIP-345): who comes back under its instance id keeps its place, and fences the old one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.groups.events import JoinReply
from gateway.groups.group import GroupMachine
from gateway.groups.group_state import GroupState
from gateway.security.principal import USER, Principal
from tests.unit.gateway.groups.members import REBALANCE_MS, SESSION_MS, Machine, static_pair
from wireproto.kafka.errors import ErrorCode, KafkaError

NONE = ErrorCode.NONE
EMPTY, PREPARING = GroupState.EMPTY, GroupState.PREPARING_REBALANCE
COMPLETING, STABLE, DEAD = GroupState.COMPLETING_REBALANCE, GroupState.STABLE, GroupState.DEAD
SESSION, REBALANCE = SESSION_MS / 1000, REBALANCE_MS / 1000


def test_a_static_member_that_returns_keeps_its_assignment_without_a_rebalance() -> None:
    group = Machine()
    leader, member = static_pair(group)
    back = group.join(instance="two")
    assert group.error(back) is None
    record = group.written()
    new = group.joined(back).member_id
    assert group.joined(back) == JoinReply(NONE, new, 1, "consumer", "range", leader)
    assert new != member
    assert [(one.member_id, one.assignment) for one in record.members] == [
        (leader, leader.encode()), (new, member.encode()),
    ]  # fmt: skip
    assert group.state is STABLE
    assert group.synced(group.sync(new, instance="two")).assignment == member.encode()
    assert group.heartbeat(member, instance="two") is ErrorCode.FENCED_INSTANCE_ID
    assert group.heartbeat(member) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.heartbeat(new, instance="two") is NONE


@pytest.mark.parametrize(("version", "skips"), [(5, False), (9, True)])
def test_a_static_leader_that_returns_does_not_assign_anew(version: int, skips: bool) -> None:
    group = Machine()
    leader, _ = static_pair(group)
    back = group.join(instance="one", version=version)
    group.written()
    reply = group.joined(back)
    assert reply.skip_assignment is skips
    assert [one.group_instance_id for one in reply.members] == (["two", "one"] if skips else [])
    assert (reply.leader == reply.member_id) is skips
    assert skips or reply.leader == leader


def test_a_static_member_whose_return_was_not_written_is_who_it_was() -> None:
    group = Machine()
    leader, member = static_pair(group)
    back = group.join(instance="one", protocols=[("range", b"new")])
    group.written(ErrorCode.NOT_COORDINATOR)
    assert group.joined(back) == JoinReply(ErrorCode.NOT_COORDINATOR, "")
    assert group.heartbeat(leader, instance="one") is NONE
    assert group.leader == leader
    assert group.machine.roster.by_id[leader].metadata_of("range") == b"m"
    assert group.heartbeat(member, instance="two") is NONE


def test_a_static_member_that_returns_during_a_rebalance_takes_part_in_it() -> None:
    group = Machine()
    leader, member = static_pair(group)
    leads = group.join(leader, instance="one")
    fenced = group.join(member, instance="two", protocols=[("range", b"x")])
    assert group.joined(leads).generation == group.joined(fenced).generation == 2
    back = group.join(instance="two")
    assert group.state is PREPARING
    leads = group.join(leader, instance="one")
    assert group.joined(back).generation == 3
    assert {one.member_id for one in group.joined(leads).members} == {leader, group.joined(back).member_id}


def test_the_old_instance_is_fenced_while_it_waits() -> None:
    group = Machine()
    old = group.join(instance="one")
    new = group.join(instance="one")
    assert group.joined(old) == JoinReply(ErrorCode.FENCED_INSTANCE_ID, "m1")
    group.later(0)
    assert group.joined(new).error is NONE
    waits = group.join(instance="two")
    group.join("m2", instance="one")
    sync = group.sync("m3", instance="two")
    group.join(instance="two")
    assert group.error(waits) is NONE
    assert group.synced(sync).error is ErrorCode.FENCED_INSTANCE_ID


def test_a_returning_static_member_that_is_gone_before_its_record_is_written() -> None:
    group = Machine()
    leader, member = static_pair(group)
    back = group.join(instance="two")
    group.leave(("", "two"))
    assert group.joined(back).error is ErrorCode.UNKNOWN_MEMBER_ID
    group.written(ErrorCode.NOT_COORDINATOR)
    assert list(group.machine.roster.by_id) == [leader]
    assert member not in group.machine.roster.by_id


def test_a_returning_static_member_waits_for_a_rebalance_that_began_meanwhile() -> None:
    group = Machine()
    leader, _ = static_pair(group)
    back = group.join(instance="two")
    newcomer = group.join()
    group.written()
    assert group.error(back) is None
    group.join(leader, instance="one")
    assert group.joined(back).generation == group.joined(newcomer).generation == 2


def test_static_members_outlive_a_rebalance_that_they_miss() -> None:
    group = Machine()
    leader, member = static_pair(group, session_ms=300_000)
    group.join(leader, instance="one", session_ms=300_000)
    group.later(REBALANCE)
    assert group.state is COMPLETING
    assert set(group.machine.roster.by_id) == {leader, member}


def test_a_rebalance_that_only_silent_static_members_are_in_waits_for_the_end_of_their_sessions() -> None:
    group = Machine()
    leader, member = static_pair(group, session_ms=100_000)
    dynamic = group.join()
    group.leave((group.machine.roster.members().__iter__().__next__().member_id, None))
    group.leave(("m3", None))
    assert group.error(dynamic) is ErrorCode.UNKNOWN_MEMBER_ID
    group.later(REBALANCE)
    assert group.state is PREPARING
    group.later(REBALANCE)
    assert group.state is EMPTY
    assert {leader, member}.isdisjoint(group.machine.roster.by_id)


def test_a_rebalance_that_nobody_joined_in_time_is_given_the_same_time_again() -> None:
    group = Machine()
    leader, member = static_pair(group, session_ms=1_000_000)
    group.join()
    group.leave(("m3", None))
    group.later(REBALANCE + 10)
    assert group.state is PREPARING
    back = group.join(member, instance="two", session_ms=1_000_000)
    group.later(REBALANCE - 11)
    assert group.error(back) is None
    group.later(1)
    assert group.joined(back).leader == member
    assert [one.member_id for one in group.joined(back).members] == [leader, member]


def test_a_returning_static_member_does_not_leave_a_sync_behind_that_nobody_will_send() -> None:
    group = Machine()
    first, second = (group.join(instance=name, session_ms=1_000_000) for name in ("one", "two"))
    group.later(0)
    leader, never_syncs = group.joined(first).member_id, group.joined(second).member_id
    group.sync(leader, instance="one", assignments={leader: b"1", never_syncs: b"2"})
    group.written()
    back = group.join(instance="two", session_ms=1_000_000)
    group.written()
    assert group.synced(group.sync(group.joined(back).member_id, instance="two")).assignment == b"2"
    group.later(REBALANCE * 2)
    assert group.state is STABLE


# whose they are ---------------------------------------------------------------------------------------------

ALICE, BOB = Principal(USER, "alice"), Principal(USER, "bob")
FENCED = ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize(
    "act",
    [
        lambda group, _: group.error(group.join(instance="two", principal=BOB)),
        lambda group, member: group.error(group.join(member, instance="two", principal=BOB)),
        lambda group, member: group.error(group.join(member, principal=BOB)),
        lambda group, member: group.error(group.sync(member, instance="two", principal=BOB)),
        lambda group, member: group.error(group.sync(member, principal=BOB)),
        lambda group, member: group.heartbeat(member, instance="two", principal=BOB),
        lambda group, member: group.heartbeat(member, principal=BOB),
        lambda group, _: group.leave(("", "two"), principal=BOB)[0],
        lambda group, member: group.leave((member, "two"), principal=BOB)[0],
        lambda group, member: group.leave((member, None), principal=BOB)[0],
        lambda group, member: commit_error(group, member, "two", BOB),
        lambda group, member: commit_error(group, member, None, BOB),
    ],
    ids=[
        "joins in its place", "joins as it", "joins by its id", "syncs as it", "syncs by its id",
        "beats as it", "beats by its id", "removes it", "leaves as it", "leaves by its id",
        "commits as it", "commits by its id",
    ],
)  # fmt: skip
def test_nobody_else_is_somebodys_static_member(act: Callable[[Machine, str], ErrorCode]) -> None:
    group = Machine()
    _, member = static_pair(group, principal=ALICE)
    assert act(group, member) is FENCED
    assert group.state is STABLE
    assert group.writes == []
    assert group.heartbeat(member, instance="two", principal=ALICE) is NONE
    assert commit_error(group, member, "two", ALICE) is NONE


def commit_error(group: Machine, member: str, instance: str | None, principal: Principal | None) -> ErrorCode:
    try:
        group.machine.validate_commit(
            member, instance, group.machine.generation, group.now.seconds, principal
        )  # fmt: skip
    except KafkaError as error:
        return error.code
    return NONE


@pytest.mark.parametrize("principal", [ALICE, None])
def test_a_static_member_comes_back_as_its_own_principal_or_where_nobody_is_asked(
    principal: Principal | None,
) -> None:
    group = Machine()
    static_pair(group, principal=ALICE)
    back = group.join(instance="two", principal=principal)
    group.written()
    new = group.joined(back).member_id
    assert group.joined(back).error is NONE
    # It is hers as before.
    assert group.heartbeat(new, instance="two", principal=BOB) is FENCED
    assert group.heartbeat(new, instance="two", principal=ALICE) is NONE


def test_whose_member_it_was_is_forgotten_with_it() -> None:
    group = Machine()
    static_pair(group, principal=ALICE)
    assert group.leave(("", "two"), principal=ALICE) == [NONE]
    later = group.join(instance="two", principal=BOB)
    assert group.error(later) is None
    assert group.error(group.join(instance="two", principal=ALICE)) is FENCED
    group.later(REBALANCE)
    assert group.error(later) is NONE


def test_who_removes_members_for_all_may_be_anybody() -> None:
    group = Machine()
    static_pair(group, principal=ALICE)
    assert group.leave(("", "two"), principal=None) == [NONE]


def test_members_that_are_not_static_belong_to_nobody() -> None:
    group = Machine()
    (member,) = group.stable(1, principal=ALICE)
    assert group.heartbeat(member, principal=BOB) is NONE
    assert group.error(group.join(member, principal=BOB)) is NONE


def test_after_a_load_it_belongs_to_the_first_that_is_heard_of() -> None:
    """The record, which is Kafka's, does not say it."""
    group = Machine()
    leader, member = static_pair(group, principal=ALICE)
    record = group.machine.record()
    group.machine = GroupMachine("group", group.limits, group.now)
    group.take(group.machine.loaded(record, group.now))
    assert group.heartbeat(member, instance="two", principal=ALICE) is NONE
    assert group.error(group.join(instance="two", principal=BOB)) is FENCED
    took = group.join(instance="one", principal=BOB)
    group.written()
    assert group.error(took) is NONE
    assert group.heartbeat(leader, instance="one", principal=ALICE) is FENCED
    new = group.joined(took).member_id
    assert group.heartbeat(new, instance="one", principal=ALICE) is FENCED
    assert group.heartbeat(new, instance="one", principal=BOB) is NONE


def test_whose_return_was_not_written_leaves_it_to_whom_it_was() -> None:
    group = Machine()
    _, member = static_pair(group, principal=ALICE)
    back = group.join(instance="two", principal=ALICE)
    group.written(ErrorCode.NOT_COORDINATOR)
    assert group.error(back) is ErrorCode.NOT_COORDINATOR
    assert group.heartbeat(member, instance="two", principal=BOB) is FENCED
    assert group.heartbeat(member, instance="two", principal=ALICE) is NONE
