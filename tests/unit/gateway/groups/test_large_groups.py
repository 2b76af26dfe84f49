"""A group of very many members: what a record may make us build is bounded, and members go in linear time."""

from __future__ import annotations

import struct

import pytest

from gateway.groups import group as group_module
from gateway.groups.group import EXPIRED_AT_ONCE
from gateway.groups.group_state import GroupLimits, GroupState
from gateway.groups.member import MAX_MEMBERS, Member
from gateway.groups.metadata import GroupMetadata, MemberMetadata
from gateway.groups.records import GroupRecord, decode_record, group_key, group_value
from gateway.groups.replay import Replay
from gateway.groups.roster import Roster
from gateway.journal.fields import MalformedRecord
from tests.differential.batches import Record, batch
from tests.unit.gateway.groups.members import START, Machine
from tests.unit.gateway.groups.offsets_log import feed, finished
from wireproto.kafka.errors import ErrorCode

SESSION_MS = 10_000


def group_of(members: int) -> GroupMetadata:
    return GroupMetadata(
        "consumer", 5, "range", "m0", 0,
        tuple(
            MemberMetadata(f"m{number}", None, "", "", 60_000, SESSION_MS, b"", b"") for number in
            range(members)
        ),
    )  # fmt: skip


def test_a_record_of_as_many_members_as_may_join_is_read_and_one_more_is_not() -> None:
    record = decode_record(group_key("g"), group_value(group_of(MAX_MEMBERS)))
    assert record == GroupRecord("g", group_of(MAX_MEMBERS))
    with pytest.raises(MalformedRecord, match=f"a group of {MAX_MEMBERS + 1} members"):
        decode_record(group_key("g"), group_value(group_of(MAX_MEMBERS + 1)))


def test_a_count_is_refused_before_a_member_is_made() -> None:
    """A million members in 30 MB, the first of which is malformed: the count is what is refused."""
    head = struct.pack(">hh8sihhq", 3, 8, b"consumer", 5, -1, -1, 0)
    value = head + struct.pack(">i", 1_000_000) + b"\xff" * 30_000_000
    with pytest.raises(MalformedRecord, match="1000000 members"):
        decode_record(group_key("g"), value)


def test_a_group_that_is_too_large_is_passed_over_and_the_others_are_there() -> None:
    replay = Replay(0)
    values = {"large": group_of(MAX_MEMBERS + 1), "small": group_of(2)}
    records = [Record(group_value(value), key=group_key(name)) for name, value in values.items()]
    feed(replay, batch(records))
    assert {name: loaded.metadata for name, loaded in finished(replay).items()} == {"small": group_of(2)}


def test_nobody_joins_a_group_that_has_as_many_members_as_may_be() -> None:
    assert GroupLimits().max_size == MAX_MEMBERS
    group = Machine(max_size=2)
    group.join()
    group.join()
    refused = group.join()
    group.later(0)
    assert group.answers[refused].error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_members_that_go_in_the_order_in_which_they_came_leave_no_holes_to_be_searched() -> None:
    """A dict looks at each hole again: 100,000 members took nine seconds. Steps are counted, not seconds."""
    roster = Roster()
    members = [Member(f"m{number}", None, "", "", 1, 1, ()) for number in range(2000)]
    for member in members:
        roster.add(member)
    for number, member in enumerate(members[:-1]):
        assert roster.leader == f"m{number}"
        roster.remove(member)
    assert roster.leader == members[-1].member_id
    assert type(roster.by_id).__name__ == "OrderedDict"  # finds the first one without a search


def test_members_whose_time_is_over_are_given_up_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_module, "EXPIRED_AT_ONCE", 3)
    group = Machine()
    group.take(group.machine.loaded(group_of(8), START))
    sizes = []
    now = START._replace(seconds=START.seconds + SESSION_MS / 1000)
    while group.machine.wake <= now.seconds:
        group.take(group.machine.tick(now))
        sizes.append(len(group.machine.roster))
    assert sizes == [5, 2, 0]
    assert group.machine.state is GroupState.EMPTY
    assert EXPIRED_AT_ONCE < MAX_MEMBERS
