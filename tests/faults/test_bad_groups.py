"""Group requests that are well formed and ill meant: too much, too many, stale, unknown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol.admin import DeleteGroupsRequest, ListGroupsRequest

from tests.differential.groups import RANGE, describe, heartbeat, join, leave, sync
from tests.differential.side import OF_GROUPS, await_coordinator, await_groups
from tests.differential.wire import Connection, decode, encode
from tests.faults.victim import MIB, Victim
from tests.peers.standalone import Standalone

INVALID_SESSION_TIMEOUT, MEMBER_ID_REQUIRED, GROUP_MAX_SIZE_REACHED, POLICY_VIOLATION = 26, 79, 81, 44
UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND = 25, 22, 68, 69
UNKNOWN_SERVER_ERROR, INVALID_GROUP_ID, REBALANCE_IN_PROGRESS = -1, 24, 27


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    """A server whose groups wait for nobody."""
    with Standalone(None, "--group-initial-rebalance-delay-ms", "0") as server:
        made = Victim(server)
        with made.connect() as connection:
            await_coordinator(connection, OF_GROUPS)
            await_groups(connection)
        yield made


def pipelined(connection: Connection, *requests: Any) -> list[Any]:
    """The answers to requests that are sent at once."""
    connection.send(b"".join(encode(request) for request in requests))
    answers = []
    for request in requests:
        received = connection.receive()
        assert received is not None
        answers.append(decode(request.API_KEY, request.API_VERSION, received))
    return answers


def stable_member(connection: Connection, group: str, metadata: bytes = RANGE[0][1]) -> str:
    joined = connection.ask(join(group, version=3, protocols=[("range", metadata)]))
    assert joined.error_code == 0, joined
    synced = connection.ask(sync(group, joined.member_id, joined.generation_id, {joined.member_id: b"all"}))
    assert synced.error_code == 0, synced
    found: str = joined.member_id
    return found


def test_more_metadata_than_a_request_may_have_is_hung_up_on(victim: Victim) -> None:
    with victim.bounded(24 * MIB):
        assert victim.answer_to(encode(join("huge", protocols=[("range", bytes(10 * MIB))]))) is None


def test_a_group_takes_so_much_metadata_and_no_more(victim: Victim) -> None:
    large = [("range", bytes(7 * MIB))]
    with victim.bounded(128 * MIB), victim.connect() as connection:
        # An id costs nothing.
        assert connection.ask(join("fat", version=4, protocols=large)).error_code == MEMBER_ID_REQUIRED
        members = [connection.ask(join("fat", version=4)).member_id for _ in range(4)]
        waiting = [victim.connect() for _ in members]
        for other, member in zip(waiting, members, strict=True):
            other.send(encode(join("fat", member, version=4, protocols=large, rebalance_ms=2000)))
        codes = []
        for other in waiting:
            received = other.receive()
            assert received is not None
            codes.append(decode(11, 4, received).error_code)
            other.close()
        assert codes.count(GROUP_MAX_SIZE_REACHED) == 2
        assert codes.count(0) == 2


def test_a_generation_that_is_too_large_to_be_written_is_not_handed_out(victim: Victim) -> None:
    with victim.bounded(64 * MIB), victim.connect() as connection:
        joined = connection.ask(join("wide", version=3))
        large = {joined.member_id: bytes(2 * MIB)}
        synced = connection.ask(sync("wide", joined.member_id, joined.generation_id, large))
        assert (synced.error_code, synced.assignment) == (UNKNOWN_SERVER_ERROR, b"")
        assert connection.ask(join("wide", joined.member_id, version=3)).generation_id == 2


def test_ten_thousand_members_that_never_come(victim: Victim) -> None:
    with victim.bounded(48 * MIB), victim.connect() as connection:
        answers = pipelined(connection, *[join("crowd", version=4)] * 10_000)
        assert {answer.error_code for answer in answers} == {MEMBER_ID_REQUIRED}
        assert len({answer.member_id for answer in answers}) == 10_000
        (left,) = pipelined(connection, leave("crowd", *((answer.member_id, None) for answer in answers)))
        assert {member.error_code for member in left.members} == {0}
        (nobody,) = pipelined(connection, leave("crowd", *((answer.member_id, None) for answer in answers)))
        assert {member.error_code for member in nobody.members} == {UNKNOWN_MEMBER_ID}


def test_odd_numbers_and_names(victim: Victim) -> None:
    with victim.connect() as connection:
        for session_ms in (-(2**31), -1, 0, 1, 2**31 - 1):
            assert connection.ask(join("odd", session_ms=session_ms)).error_code == INVALID_SESSION_TIMEOUT
        for rebalance_ms in (-(2**31), -1, 0, 2**31 - 1):
            group = f"odd {rebalance_ms}"
            asked = join(group, version=3, rebalance_ms=rebalance_ms)
            joined = connection.ask(asked)
            assert joined.error_code == 0
            left = connection.ask(leave(group, (joined.member_id, None))).members[0].error_code
            # With no time for it at all its SyncGroup is late already.
            assert left == 0 if rebalance_ms > 0 else left in {0, UNKNOWN_MEMBER_ID}
        many = [(f"p{n}", b"") for n in range(10_000)]
        assert connection.ask(join("odd", version=3, protocols=many)).error_code == POLICY_VIOLATION
        name = "line\nforged\0" + "\u2028" * 10_000
        member = stable_member(connection, name)
        assert connection.ask(heartbeat(name, member, 1)).error_code == 0
        assert "\nforged" not in victim.server.log
        listed = connection.ask(ListGroupsRequest(version=5, states_filter=[], types_filter=[])).groups
        assert name in {group.group_id for group in listed}
    victim.check()


def test_who_is_stale_or_unknown_changes_nothing(victim: Victim) -> None:
    """A zombie of an earlier generation, and a stranger, try everything."""
    with victim.connect() as connection:
        zombie = stable_member(connection, "zombies")
        connection.ask(leave("zombies", (zombie, None)))
        member = stable_member(connection, "zombies")
        generation = connection.ask(join("zombies", member, version=3)).generation_id
        connection.ask(sync("zombies", member, generation, {member: b"mine"}))
        for who in (zombie, "stranger", ""):
            for request in (
                heartbeat("zombies", who, generation), sync("zombies", who, generation, {member: b"stolen"}),
                join("zombies", who or "nobody", version=9),
            ):  # fmt: skip
                assert connection.ask(request).error_code == UNKNOWN_MEMBER_ID
            assert connection.ask(leave("zombies", (who, None))).members[0].error_code == UNKNOWN_MEMBER_ID
        for stale in (generation - 1, generation + 1, -1, 2**31 - 1):
            for request in (
                heartbeat("zombies", member, stale),
                sync("zombies", member, stale, {member: b"x"}),
            ):
                assert connection.ask(request).error_code == ILLEGAL_GENERATION
        assert connection.ask(heartbeat("zombies", member, generation)).error_code == 0
        assert connection.ask(sync("zombies", member, generation)).assignment == b"mine"
        deleted = connection.ask(DeleteGroupsRequest(version=2, groups_names=["zombies", "unknown", ""]))
        assert [result.error_code for result in deleted.results] == [
            NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, GROUP_ID_NOT_FOUND,
        ]  # fmt: skip


def test_assignments_for_members_that_are_not_there(victim: Victim) -> None:
    """The leader's SyncGroup names strangers, names one twice, leaves one out: nobody gets another's."""
    with victim.connect() as connection, victim.connect() as other:
        leader = connection.ask(join("strangers", version=3)).member_id
        other.send(encode(join("strangers", version=3)))
        while connection.ask(heartbeat("strangers", leader, 1)).error_code != REBALANCE_IN_PROGRESS:
            pass
        joined = connection.ask(join("strangers", leader, version=3))
        received = other.receive()
        assert received is not None
        second = decode(11, 3, received).member_id
        strangers = {f"stranger {number}": b"stolen" for number in range(5000)}
        request = sync("strangers", leader, joined.generation_id, strangers | {leader: b"first"})
        request.assignments += sync("", "", 0, {leader: b"mine"}).assignments
        with victim.bounded(32 * MIB):
            assert connection.ask(request).assignment == b"mine"
            assert other.ask(sync("strangers", second, joined.generation_id)).assignment == b""
        (described,) = connection.ask(describe("strangers")).groups
        assert {one.member_id for one in described.members} == {leader, second}


def test_one_large_group_asked_for_very_often(victim: Victim) -> None:
    with victim.connect() as connection:
        stable_member(connection, "large", b"\0\1" + b"\0" * (500 * 1024))
        with victim.bounded(220 * MIB):
            described = connection.ask(describe(*["large"] * 5000)).groups
    codes = [group.error_code for group in described]
    assert codes == sorted(codes)  # the first ones are described
    assert 60 < codes.count(0) < 75
    assert set(codes) == {0, POLICY_VIOLATION}
