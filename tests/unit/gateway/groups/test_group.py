"""The machine of one group, rule by rule: joining, assigning, leaving, time."""

from __future__ import annotations

import pytest

from gateway.groups.events import JoinedMember, JoinReply, SyncReply
from gateway.groups.group import NEW_MEMBER_JOIN_TIMEOUT_SECONDS
from gateway.groups.group_state import GroupState
from gateway.groups.metadata import GroupMetadata, MemberMetadata
from tests.unit.gateway.groups.members import REBALANCE_MS, SESSION_MS, START, Machine
from wireproto.kafka.errors import ErrorCode

NONE = ErrorCode.NONE
EMPTY, PREPARING = GroupState.EMPTY, GroupState.PREPARING_REBALANCE
COMPLETING, STABLE, DEAD = GroupState.COMPLETING_REBALANCE, GroupState.STABLE, GroupState.DEAD
SESSION, REBALANCE = SESSION_MS / 1000, REBALANCE_MS / 1000


# the usual way ---------------------------------------------------------------------------------------------


def test_the_first_member_leads_and_is_told_everybody() -> None:
    group = Machine()
    first, second = group.join(protocols=[("range", b"A")]), group.join(protocols=[("range", b"B")])
    assert group.state is PREPARING
    group.later(0)
    assert group.state is COMPLETING
    assert group.joined(first) == JoinReply(
        NONE, "m1", 1, "consumer", "range", "m1",
        members=(JoinedMember("m1", None, b"A"), JoinedMember("m2", None, b"B")),
    )  # fmt: skip
    assert group.joined(second) == JoinReply(NONE, "m2", 1, "consumer", "range", "m1")


def test_assignments_are_handed_out_when_the_record_is_durable() -> None:
    group = Machine()
    first, second = group.join(), group.join()
    group.later(0)
    waits = group.sync("m2")
    leads = group.sync("m1", assignments={"m1": b"one", "m2": b"two", "stranger": b"x"})
    assert group.error(waits) is None
    assert group.error(leads) is None
    assert group.state is COMPLETING
    record = group.written()
    assert group.state is STABLE
    assert group.synced(leads) == SyncReply(NONE, "consumer", "range", b"one")
    assert group.synced(waits) == SyncReply(NONE, "consumer", "range", b"two")
    assert record == GroupMetadata(
        "consumer", 1, "range", "m1", START.unix_ms,
        (
            MemberMetadata("m1", None, "client", "/127.0.0.1", REBALANCE_MS, SESSION_MS, b"m", b"one"),
            MemberMetadata("m2", None, "client", "/127.0.0.1", REBALANCE_MS, SESSION_MS, b"m", b"two"),
        ),
    )  # fmt: skip
    assert (group.error(first), group.error(second)) == (NONE, NONE)


def test_a_member_that_the_leader_forgot_gets_nothing() -> None:
    group = Machine()
    group.join(), group.join()
    group.later(0)
    group.sync("m1", assignments={"m1": b"all"})
    group.written()
    assert group.synced(group.sync("m2")).assignment == b""


def test_who_asks_again_in_a_stable_group_is_told_again() -> None:
    group = Machine()
    leader, member = group.stable(2)
    assert group.synced(group.sync(member)).assignment == member.encode()
    again = group.join(member)
    assert group.joined(again) == JoinReply(NONE, member, 1, "consumer", "range", leader)
    assert group.state is STABLE


def test_a_record_that_was_not_written_begins_the_rebalance_anew() -> None:
    group = Machine()
    first = group.join()
    group.later(0)
    assert group.error(first) is NONE
    sync = group.sync("m1", assignments={"m1": b"all"})
    group.written(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert group.synced(sync) == SyncReply(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert group.state is PREPARING
    assert group.heartbeat("m1") is ErrorCode.REBALANCE_IN_PROGRESS
    again = group.join("m1")
    assert group.joined(again).generation == 2
    assert group.synced(group.sync("m1", 1)).error is ErrorCode.ILLEGAL_GENERATION


def test_an_assignment_whose_write_ends_after_a_new_rebalance_counts_for_nothing() -> None:
    group = Machine()
    group.join()
    group.later(0)
    sync = group.sync("m1", assignments={"m1": b"all"})
    newcomer = group.join()
    assert group.synced(sync).error is ErrorCode.REBALANCE_IN_PROGRESS
    group.written()
    assert group.state is PREPARING
    again = group.join("m1")
    assert group.joined(again).generation == group.joined(newcomer).generation == 2
    group.settle(["m1", "m2"])


def test_who_waited_long_for_its_assignment_has_its_session_from_then_on() -> None:
    group = Machine()
    group.join(), group.join()
    group.later(0)
    waits = group.sync("m2")
    group.later(SESSION - 1)
    group.heartbeat("m1")
    group.later(SESSION - 1)
    group.sync("m1", assignments={})
    group.written()
    assert group.error(waits) is NONE
    group.later(SESSION - 1)
    group.heartbeat("m1")
    assert group.state is STABLE
    group.later(1)
    assert list(group.machine.roster.by_id) == ["m1"]


def test_a_new_rebalance_takes_back_what_was_assigned() -> None:
    group = Machine()
    leader, member = group.stable(2)
    group.join(leader), group.join(member)
    assert group.state is COMPLETING
    assert group.machine.roster.by_id[member].assignment == member.encode()
    group.join()
    assert {one.assignment for one in group.machine.roster.members()} == {b""}


# joining ---------------------------------------------------------------------------------------------------


def test_a_member_without_an_id_is_sent_back_for_it() -> None:
    group = Machine()
    ask = group.join(version=4)
    assert group.joined(ask) == JoinReply(ErrorCode.MEMBER_ID_REQUIRED, "m1")
    assert group.state is EMPTY
    known = group.join("m1", version=4)
    group.later(0)
    assert group.joined(known).error is NONE
    assert group.joined(known).member_id == "m1"


def test_an_id_that_was_given_out_expires_and_holds_back_a_rebalance_until_then() -> None:
    group = Machine()
    (leader,) = group.stable(1)
    group.join(version=4, session_ms=20_000)
    again = group.join(leader)
    for _ in range(3):
        group.heartbeat(leader)
        group.later(5)
    assert group.error(again) is None
    group.later(6)
    assert group.joined(again).generation == 2
    assert group.joined(group.join("m2")).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_id_that_nobody_gave_is_unknown() -> None:
    group = Machine()
    assert group.joined(group.join("invented")).error is ErrorCode.UNKNOWN_MEMBER_ID
    group.stable(1)
    assert group.joined(group.join("invented")) == JoinReply(ErrorCode.UNKNOWN_MEMBER_ID, "invented")


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("consumer", []), ("", [("range", b"")])],
)
def test_the_first_member_must_name_a_type_and_a_protocol(
    protocol_type: str, protocols: list[tuple[str, bytes]]
) -> None:
    group = Machine()
    ask = group.join(protocol_type=protocol_type, protocols=protocols)
    assert group.joined(ask).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.state is EMPTY


@pytest.mark.parametrize(
    ("protocol_type", "protocol"), [("connect", "range"), ("consumer", "sticky"), ("consumer", "roundrobin")]
)
def test_a_member_that_shares_no_protocol_with_all_others_is_refused(
    protocol_type: str, protocol: str
) -> None:
    group = Machine()
    group.join(protocols=[("range", b""), ("roundrobin", b"")])
    group.join(protocols=[("range", b"")])
    group.later(0)
    ask = group.join(protocol_type=protocol_type, protocols=[(protocol, b"")])
    assert group.joined(ask).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_each_member_votes_for_the_first_of_its_protocols_that_all_support() -> None:
    group = Machine()
    mine = [("only-mine", b""), ("range", b"r1"), ("sticky", b"s1")]
    asks = [
        group.join(protocols=mine),
        group.join(protocols=[("sticky", b"s2"), ("range", b"r2")]),
        group.join(protocols=[("sticky", b"s3"), ("range", b"r3")]),
    ]
    group.later(0)
    assert group.joined(asks[0]).protocol == "sticky"
    assert [member.metadata for member in group.joined(asks[0]).members] == [b"s1", b"s2", b"s3"]


def test_nobody_is_given_a_protocol_that_it_does_not_support() -> None:
    group = Machine()
    first = group.join(protocols=[("mine", b""), ("both", b"1")])
    group.join(protocols=[("other", b""), ("both", b"2")])
    group.later(0)
    assert group.joined(first).protocol == "both"


def test_another_type_may_follow_once_a_group_is_empty() -> None:
    group = Machine()
    (member,) = group.stable(1)
    group.leave((member, None))
    assert group.state is EMPTY
    connect = group.join(protocol_type="connect", protocols=[("sessioned", b"opaque \xff")])
    group.later(0)
    assert group.joined(connect).protocol_type == "connect"
    assert group.joined(connect).members[0].metadata == b"opaque \xff"


def test_a_full_group_takes_nobody_new() -> None:
    group = Machine(max_size=2)
    group.stable(2)
    refused = group.join()
    assert group.joined(refused) == JoinReply(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert group.state is STABLE
    again = group.join("m1")
    group.join("m2")
    assert group.joined(again).generation == 2


def test_a_group_that_is_larger_than_allowed_when_loaded_loses_the_last_to_come_back() -> None:
    group = Machine(max_size=1)
    members = tuple(MemberMetadata(m, None, "c", "/h", 60_000, 10_000, b"m", b"a") for m in ("a", "b"))
    loaded = GroupMetadata("consumer", 7, "range", "b", START.unix_ms, members)
    group.take(group.machine.loaded(loaded, group.now))
    assert group.state is PREPARING
    stays, goes = group.join("a"), group.join("b")
    assert group.joined(goes).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    group.later(REBALANCE)
    assert group.joined(stays).generation == 8
    assert group.leader == "a"


def test_a_changed_subscription_rebalances_and_the_same_one_does_not() -> None:
    group = Machine()
    _, member = group.stable(2)
    assert group.joined(group.join(member)).error is NONE
    assert group.state is STABLE
    changed = group.join(member, protocols=[("range", b"more topics")])
    assert group.error(changed) is None
    assert group.state is PREPARING


def test_a_leader_that_joins_again_always_rebalances() -> None:
    group = Machine()
    leader, member = group.stable(2)
    leads = group.join(leader)
    assert group.state is PREPARING
    assert group.heartbeat(member) is ErrorCode.REBALANCE_IN_PROGRESS
    follows = group.join(member)
    assert group.joined(leads).generation == group.joined(follows).generation == 2


def test_a_join_that_is_repeated_on_another_connection_is_answered_on_the_new_one() -> None:
    group = Machine()
    leader, member = group.stable(2)
    lost = group.join(leader)
    repeated = group.join(leader)
    assert group.joined(lost).error is ErrorCode.REBALANCE_IN_PROGRESS
    group.join(member)
    assert group.joined(repeated).error is NONE


def test_a_sync_that_is_repeated_on_another_connection_is_answered_on_the_new_one() -> None:
    group = Machine()
    group.join(), group.join()
    group.later(0)
    lost, repeated = group.sync("m2"), group.sync("m2")
    assert group.synced(lost).error is ErrorCode.REBALANCE_IN_PROGRESS
    group.sync("m1", assignments={"m2": b"two"})
    first_leader_sync, again = group.asked[-1], group.sync("m1", assignments={"m2": b"other"})
    assert group.synced(first_leader_sync).error is ErrorCode.REBALANCE_IN_PROGRESS
    group.written()
    assert group.synced(repeated).assignment == b"two"
    assert group.error(again) is NONE
    assert not group.writes


# initial delay ---------------------------------------------------------------------------------------------


def test_the_first_rebalance_waits_for_more_members_and_longer_when_some_come() -> None:
    group = Machine(delay_ms=3000)
    first = group.join()
    group.later(2)
    second = group.join()
    group.later(3.9)
    assert group.error(first) is None  # 5.9 s: the second one prolonged it
    group.later(0.1)
    assert group.joined(first).generation == group.joined(second).generation == 1


def test_the_delay_is_never_prolonged_beyond_the_rebalance_timeout() -> None:
    group = Machine(delay_ms=3000)
    first = group.join(rebalance_ms=7000)
    for _ in range(6):
        group.later(1)
        group.join(rebalance_ms=7000)
    group.later(0.9)
    assert group.error(first) is None
    group.later(0.1)
    assert len(group.joined(first).members) == 7


def test_later_rebalances_end_as_soon_as_everybody_has_joined() -> None:
    group = Machine(delay_ms=3000)
    (leader,) = group.stable(1)
    newcomer = group.join()
    again = group.join(leader)
    assert group.joined(again).generation == group.joined(newcomer).generation == 2


# end of members --------------------------------------------------------------------------------------------


def test_a_silent_member_is_given_up_and_the_others_rebalance() -> None:
    group = Machine()
    leader, member = group.stable(2)
    group.later(SESSION - 1)
    assert group.heartbeat(member) is NONE
    group.later(1)
    assert group.state is PREPARING
    assert group.heartbeat(leader) is ErrorCode.UNKNOWN_MEMBER_ID
    again = group.join(member)
    assert group.joined(again).leader == member
    assert [one.member_id for one in group.joined(again).members] == [member]


def test_a_commit_is_a_sign_of_life() -> None:
    group = Machine()
    (member,) = group.stable(1)
    group.later(SESSION - 1)
    group.machine.validate_commit(member, None, 1, group.now.seconds)
    group.later(SESSION - 1)
    assert group.state is STABLE
    group.later(1)
    assert group.state is EMPTY


def test_members_that_do_not_join_again_in_time_are_removed() -> None:
    group = Machine()
    leader, member = group.stable(2, session_ms=300_000)
    group.join(member, protocols=[("range", b"changed")])
    group.later(REBALANCE - 1)
    assert group.state is PREPARING
    group.later(1)
    assert group.state is COMPLETING
    assert group.leader == member
    assert group.heartbeat(leader) is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_that_send_no_sync_in_time_are_removed() -> None:
    group = Machine()
    group.join(session_ms=300_000), group.join(session_ms=300_000)
    group.later(0)
    leads = group.sync("m1", assignments={"m1": b"all"})
    group.written()
    assert group.error(leads) is NONE
    group.later(REBALANCE)
    assert group.state is PREPARING
    assert group.heartbeat("m2") is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.joined(group.join("m1")).generation == 2


def test_a_leader_that_never_assigns_loses_its_place() -> None:
    group = Machine()
    group.join(session_ms=300_000), group.join(session_ms=300_000)
    group.later(0)
    waits = group.sync("m2")
    group.later(REBALANCE)
    assert group.synced(waits).error is ErrorCode.REBALANCE_IN_PROGRESS
    again = group.join("m2")
    assert group.joined(again).leader == "m2"


def test_who_waits_for_an_answer_need_not_send_heartbeats() -> None:
    group = Machine()
    leader, member = group.stable(2)
    again = group.join(leader)
    for _ in range(5):
        group.later(SESSION - 1)
        group.heartbeat(member)
    assert group.error(again) is None
    group.join(member)
    assert group.joined(again).error is NONE
    group.later(SESSION - 1)
    assert group.heartbeat(leader) is NONE


def test_a_new_member_waits_five_minutes_and_no_longer() -> None:
    group = Machine()
    (leader,) = group.stable(1, rebalance_ms=1_000_000)
    ask = group.join(rebalance_ms=1_000_000)
    for _ in range(int(NEW_MEMBER_JOIN_TIMEOUT_SECONDS // 5) - 1):
        group.heartbeat(leader)
        group.later(5)
    assert group.error(ask) is None
    group.heartbeat(leader)
    group.later(5)
    assert group.joined(ask) == JoinReply(ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert len(group.machine.roster) == 1


def test_the_last_one_to_leave_empties_the_group_and_that_is_written() -> None:
    group = Machine()
    leader, member = group.stable(2)
    assert group.leave((leader, None)) == [NONE]
    assert group.state is PREPARING
    group.later(1)
    assert group.leave((member, None)) == [NONE]
    assert group.state is EMPTY
    assert group.written() == GroupMetadata("consumer", 2, None, None, START.unix_ms + 1000, ())


def test_leaving_answers_what_the_member_waited_for() -> None:
    group = Machine()
    group.join(), group.join()
    group.later(0)
    sync = group.sync("m2")
    group.leave(("m2", None))
    assert group.synced(sync).error is ErrorCode.UNKNOWN_MEMBER_ID
    again = group.join("m1")
    group.settle(["m1"])
    newcomer = group.join()
    group.leave(("m3", None))
    assert group.joined(newcomer) == JoinReply(ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert group.error(again) is NONE


def test_each_of_several_that_leave_has_its_own_result() -> None:
    group = Machine()
    group.join(instance="i1"), group.join(), group.join(version=4)
    assert group.leave(
        ("", "i1"), ("", "unknown"), ("", None), ("m2", "i1"), ("m2", None), ("m2", None), ("m3", None)
    ) == [
        NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID, NONE,
        ErrorCode.UNKNOWN_MEMBER_ID, NONE,
    ]  # fmt: skip
    assert not group.machine.roster
    assert not group.machine.pending
