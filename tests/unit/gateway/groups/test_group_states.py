"""What a group answers in each state, what is known of its subscription and size, and how it is loaded."""

from __future__ import annotations

import pytest

from gateway.groups.group_state import GroupState
from gateway.groups.metadata import GroupMetadata, MemberMetadata
from gateway.groups.records import GroupRecord, decode_record, group_key, group_value
from tests.unit.gateway.groups.members import REBALANCE_MS, SESSION_MS, START, Machine, static_pair
from wireproto.kafka.errors import ErrorCode, KafkaError

NONE = ErrorCode.NONE
EMPTY, PREPARING = GroupState.EMPTY, GroupState.PREPARING_REBALANCE
COMPLETING, STABLE, DEAD = GroupState.COMPLETING_REBALANCE, GroupState.STABLE, GroupState.DEAD
SESSION, REBALANCE = SESSION_MS / 1000, REBALANCE_MS / 1000


@pytest.mark.parametrize("state", [EMPTY, PREPARING, COMPLETING, STABLE, DEAD])
def test_what_each_state_answers(state: GroupState) -> None:
    """Heartbeat, SyncGroup and OffsetCommit of a member, of a stranger and of another generation."""
    group = in_state(state)
    generation = group.machine.generation
    unknown = ErrorCode.COORDINATOR_NOT_AVAILABLE if state is DEAD else ErrorCode.UNKNOWN_MEMBER_ID
    assert group.heartbeat("stranger") is unknown
    assert commit(group, "stranger", generation) is unknown
    expected = unknown if state is not EMPTY else ErrorCode.UNKNOWN_MEMBER_ID
    assert group.synced(group.sync("stranger")).error is expected
    if state in {EMPTY, DEAD}:
        return
    assert group.heartbeat("m1", generation + 1) is ErrorCode.ILLEGAL_GENERATION
    assert commit(group, "m1", generation - 1) is ErrorCode.ILLEGAL_GENERATION
    assert group.synced(group.sync("m1", generation + 1)).error is ErrorCode.ILLEGAL_GENERATION
    assert group.heartbeat("m1") is (ErrorCode.REBALANCE_IN_PROGRESS if state is PREPARING else NONE)
    assert commit(group, "m1", generation) is (
        ErrorCode.REBALANCE_IN_PROGRESS if state is COMPLETING else NONE
    )
    if state is PREPARING:
        assert group.synced(group.sync("m1")).error is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("state", [EMPTY, PREPARING, COMPLETING, STABLE, DEAD])
def test_who_may_commit_without_being_a_member(state: GroupState) -> None:
    group = in_state(state)
    expected = {EMPTY: NONE, DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE}.get(
        state, ErrorCode.UNKNOWN_MEMBER_ID
    )
    assert commit(group, "", -1) is expected


@pytest.mark.parametrize(
    ("state", "delete", "offset_delete"),
    [
        (EMPTY, NONE, NONE),
        (PREPARING, ErrorCode.NON_EMPTY_GROUP, NONE),
        (COMPLETING, ErrorCode.NON_EMPTY_GROUP, NONE),
        (STABLE, ErrorCode.NON_EMPTY_GROUP, NONE),
        (DEAD, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_what_may_be_deleted_when(state: GroupState, delete: ErrorCode, offset_delete: ErrorCode) -> None:
    group = in_state(state)
    assert refused(group.machine.validate_delete) is delete
    assert refused(group.machine.validate_offset_delete) is offset_delete


def test_offsets_of_another_type_of_group_stay_while_it_has_members() -> None:
    group = Machine()
    group.stable(1, protocol_type="connect")
    assert refused(group.machine.validate_offset_delete) is ErrorCode.NON_EMPTY_GROUP


@pytest.mark.parametrize(
    ("protocol_type", "protocol", "expected"),
    [
        (None, None, NONE),
        ("consumer", "range", NONE),
        ("connect", None, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (None, "sticky", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_sync_that_names_a_protocol_names_the_groups(
    protocol_type: str | None, protocol: str | None, expected: ErrorCode
) -> None:
    group = Machine()
    (member,) = group.stable(1)
    ask = group.sync(member, protocol_type=protocol_type, protocol=protocol)
    assert group.synced(ask).error is expected


def test_a_group_that_is_unloaded_sends_everybody_away() -> None:
    group = Machine()
    leader, member = group.stable(2)
    joins = group.join(leader)
    group.take(group.machine.unload(ErrorCode.NOT_COORDINATOR, group.now))
    assert group.joined(joins).error is ErrorCode.NOT_COORDINATOR
    assert group.state is DEAD
    assert group.joined(group.join()).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    group.later(3600)
    assert group.heartbeat(member) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def in_state(state: GroupState) -> Machine:
    """A group in this state, with member m1 unless it is empty or dead."""
    group = Machine()
    if state is not EMPTY:
        group.join(), group.join()
        group.later(0)
        if state is not COMPLETING:
            group.settle(["m1", "m2"])
        if state is PREPARING:
            group.join("m2", protocols=[("range", b"changed")])
        if state is DEAD:
            group.take(group.machine.unload(ErrorCode.NOT_COORDINATOR, group.now))
    assert group.state is state
    return group


def commit(group: Machine, member_id: str, generation: int) -> ErrorCode:
    return refused(lambda: group.machine.validate_commit(member_id, None, generation, group.now.seconds))


def refused(check) -> ErrorCode:  # type: ignore[no-untyped-def]  # noqa: ANN001
    try:
        check()
    except KafkaError as error:
        return error.code
    return NONE


def test_a_group_that_was_loaded_goes_on_where_it_was() -> None:
    group = Machine()
    leader, member = static_pair(group)
    record = group.machine.record()
    again = Machine()
    again.take(again.machine.loaded(record, again.now))
    assert again.machine.record() == record
    assert again.state is STABLE
    assert again.heartbeat(member, instance="two") is NONE
    assert again.synced(again.sync(leader, instance="one")).assignment == leader.encode()
    again.later(SESSION)
    assert again.state is EMPTY  # nobody was heard of


def test_old_records_have_no_rebalance_timeout() -> None:
    member = MemberMetadata("a", None, "c", "/h", -1, 12_000, b"m", b"a")
    group = Machine()
    group.take(group.machine.loaded(GroupMetadata("consumer", 3, "range", "a", -1, (member,)), group.now))
    assert group.machine.roster.by_id["a"].rebalance_timeout_ms == 12_000
    assert group.machine.state_changed_ms == -1


def subscription(*topics: str) -> bytes:
    body = b"".join(len(topic.encode()).to_bytes(2) + topic.encode() for topic in topics)
    return b"\x00\x01" + len(topics).to_bytes(4) + body + b"\xff\xff\xff\xff" + b"more"


def test_the_topics_that_members_read_are_known() -> None:
    group = Machine()
    group.join(protocols=[("range", subscription("orders", "größe"))])
    group.join(protocols=[("range", subscription("clicks"))])
    group.later(0)
    assert group.machine.subscribed == frozenset({"orders", "größe", "clicks"})
    assert group.machine.is_subscribed("orders")
    assert not group.machine.is_subscribed("other")


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\x00",
        b"\x00\x00\xff\xff\xff\xff",
        b"\x00\x00\x7f\xff\xff\xff",
        b"\x00\x00\x00\x00\x00\x01\x00\x05ab",
        b"\x00\x00\x00\x00\x00\x01\x00\x01\xff",
    ],
)
def test_bytes_that_are_no_subscription_count_as_reading_everything(metadata: bytes) -> None:
    group = Machine()
    group.join(protocols=[("range", metadata)])
    group.later(0)
    assert group.machine.subscribed is None
    assert group.machine.is_subscribed("whatever")


def test_when_offsets_begin_to_expire() -> None:
    group = Machine()
    assert group.machine.offset_expires_from(5) == 5  # nobody ever joined
    group.join(protocols=[("range", subscription("orders"))])
    group.later(0)
    assert group.machine.offset_expires_from(5) is None
    group.settle(["m1"])
    assert group.machine.offset_expires_from(5) == 5
    group.later(7)
    group.leave(("m1", None))
    assert group.machine.offset_expires_from(5) == START.unix_ms + 7000
    assert not group.machine.is_subscribed("orders")


def test_the_size_is_that_of_what_is_there() -> None:
    group = Machine()
    empty = group.machine.size
    group.join(protocols=[("range", b"x" * 1000)])
    group.later(0)
    with_member = group.machine.size
    assert with_member > empty + 2000
    group.sync("m1", assignments={"m1": b"y" * 500})
    group.written()
    assert group.machine.size == with_member + 500
    group.join("m1", protocols=[("range", b"x" * 10)])
    assert group.machine.size == with_member - 490
    group.leave(("m1", None))
    assert group.machine.size == empty


def test_generations_go_round_as_kafkas_do() -> None:
    """After 2**31 - 1 comes -2**31, and members go on; measured on Kafka 4.3.1."""
    group, last, first = Machine(), 2**31 - 1, -(2**31)
    group.take(group.machine.loaded(GroupMetadata("consumer", last, None, None, -1, ()), START))
    asked = group.join()
    group.later(0)
    assert group.joined(asked).generation == first
    asked = group.sync("m1", assignments={"m1": b"all"})
    written = group.written()
    assert group.synced(asked).assignment == b"all"
    assert decode_record(group_key("g"), group_value(written)) == GroupRecord("g", written)
    assert group.heartbeat("m1", first) is commit(group, "m1", first) is NONE
    assert commit(group, "m1", last) is ErrorCode.ILLEGAL_GENERATION
    assert commit(group, "", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.joined(group.join("m1")).generation == first + 1
