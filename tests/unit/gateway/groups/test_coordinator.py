"""The coordinator: when groups are served, their time and their records, what is bounded and how it ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.groups import expiry as expiry_module
from gateway.groups import room as room_module
from gateway.groups.events import Effect, Now
from gateway.groups.group import GroupMachine
from gateway.groups.group_state import GroupState, empty_group_bytes
from gateway.groups.internal_topic import OFFSETS_TOPIC
from gateway.groups.records import CommittedOffset
from gateway.journal import coordinator as coordinator_module
from gateway.journal.internal_topic import java_hash, partition_for
from tests.unit.gateway.groups.group_home import SESSION_MS, Home, reply, run
from wireproto.kafka.errors import ErrorCode, KafkaError

NONE = ErrorCode.NONE
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
KEPT_MS = 2**62
"""A commit so far in the future that its retention never ends."""


def refused(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value.code


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("payments", 1382682413),
        ("größe", 98762257),
        ("\U0001f600", 1772899),
        ("polygenelubricants", -(2**31)),
    ],
)
def test_groups_are_where_java_would_look_for_them(text: str, expected: int) -> None:
    assert java_hash(text) == expected
    assert partition_for(text, 50) == (0 if expected == -(2**31) else abs(expected)) % 50


# being served ----------------------------------------------------------------------------------------------


def test_the_topic_is_made_when_the_first_coordinator_is_asked_for() -> None:
    async def main() -> None:
        home = Home(topic=False)
        async with home.running():
            assert refused(home.join) is ErrorCode.NOT_COORDINATOR
            home.coordinator.check_all_served()
            await home.coordinator.find("g")
            await home.stable()
            await home.coordinator.find("h")
            assert home.created == 1

    run(main)


def test_a_topic_that_cannot_be_made_is_a_coordinator_that_is_not_there() -> None:
    async def main() -> None:
        home = Home(topic=False)
        home.created = -1
        async with home.running():
            with pytest.raises(KafkaError) as caught:
                await home.coordinator.find("g")
            assert caught.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE

    run(main)


def test_nobody_is_answered_from_a_partition_that_is_not_loaded() -> None:
    async def main() -> None:
        home = Home()
        home.journal.may_load = trio.Event()
        async with home.running():
            coordinator = home.coordinator
            for call in (
                home.join,
                lambda: home.sync("m1", 1),
                lambda: home.leave("m1"),
                lambda: coordinator.for_fetch("g"),
                lambda: coordinator.for_commit("g", "", None, -1),
                lambda: coordinator.for_delete("g"),
                coordinator.check_all_served,
            ):
                assert refused(call) is LOADING
            assert home.heartbeat() is NONE
            assert coordinator.partitions_loading == 50
            before = trio.current_time()
            await coordinator.find("g")
            assert trio.current_time() - before == coordinator_module.LOAD_PATIENCE_SECONDS
            home.journal.may_load.set()
            await coordinator.find("g")
            await home.stable()
            await wait_all_tasks_blocked()
            assert coordinator.partitions_loading == 0

    run(main)


def test_a_partition_that_cannot_be_read_is_tried_again_and_holds_up_no_other() -> None:
    async def main() -> None:
        home = Home()
        away = partition_for("g", 50)
        home.journal.load_fails = {away}
        async with home.running():
            await home.stable("another group")
            await trio.sleep(60)
            assert refused(home.join) is LOADING
            assert 60 < home.journal.loads.count(away) < 70
            home.journal.load_fails = set()
            await trio.sleep(1.1)
            await home.stable()

    run(main)


def test_groups_of_a_partition_that_goes_are_another_gateways() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            await home.stable()
            ticket = home.sync("m1", 1)
            await ticket.synced()
            assert home.coordinator.node_of("g") == 1
            home.move("g", here=False)
            assert "g" not in home.coordinator.groups
            for call in (home.join, lambda: home.leave("m1"), lambda: home.coordinator.for_fetch("g")):
                assert refused(call) is ErrorCode.NOT_COORDINATOR
            assert home.heartbeat() is ErrorCode.NOT_COORDINATOR
            assert home.coordinator.node_of("g") == 2
            await home.coordinator.find("g")
            assert home.coordinator.partitions_loading == 0
            home.coordinator.check_all_served()
            await home.stable("another group")

    run(main)


def test_groups_of_a_partition_that_comes_back_are_read_from_the_log() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            await home.stable()
            home.move("g", here=False)
            home.journal.may_load = trio.Event()
            home.move("g", here=True)
            assert refused(home.join) is LOADING
            assert home.coordinator.partitions_loading == 1
            home.journal.may_load.set()
            await wait_all_tasks_blocked()
            assert home.heartbeat() is NONE
            assert home.coordinator.partitions_loading == 0

    run(main)


def test_what_a_load_finds_that_began_before_the_partition_went_is_old() -> None:
    async def main() -> None:
        home = Home()
        home.journal.may_load = first = trio.Event()
        async with home.running():
            home.move("g", here=False)
            home.move("g", here=True)
            second = home.journal.may_load = trio.Event()
            first.set()
            await wait_all_tasks_blocked()
            assert refused(home.join) is LOADING
            second.set()
            await trio.sleep(2)
            await home.stable()
            assert home.coordinator.partitions_loading == 0

    run(main)


def test_groups_go_on_after_a_restart_where_they_were() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            await home.stable()
        again = Home()
        again.journal.log = home.journal.log
        async with again.running():
            assert again.heartbeat() is NONE
            assert (await again.sync("m1", 1).synced()).assignment == b"all"
            await trio.sleep(SESSION_MS / 1000 + 0.1)
            assert again.group().machine.state is GroupState.EMPTY
            assert again.journal.log["g"].members == ()

    run(main)


def test_a_partition_that_was_lost_is_read_again() -> None:
    """What was written last may be kept or not: only the log knows."""

    async def main() -> None:
        home = Home()
        async with home.running():
            await home.stable()
            waits = home.join(new_member_id="m2")
            old = home.group()
            home.coordinator._lost(partition_for("g", 50))
            assert (await reply(waits)).error is ErrorCode.NOT_COORDINATOR
            assert old.machine.state is GroupState.DEAD
            assert home.group() is not old
            assert home.heartbeat() is NONE
            assert list(home.group().machine.roster.by_id) == ["m1"]

    run(main)


def test_a_topic_that_is_deleted_takes_its_groups_along() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            await home.stable()
            waits = home.join(new_member_id="m2")
            del home.topics[OFFSETS_TOPIC]
            home.journal.log.clear()
            assert home.heartbeat() is ErrorCode.NOT_COORDINATOR
            assert (await reply(waits)).error is ErrorCode.NOT_COORDINATOR
            await home.coordinator.find("g")
            assert home.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
            await home.stable()

    run(main)


def test_a_gateway_that_stops_sends_everybody_away() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            await home.stable()
            waits = home.join(new_member_id="m2")
            home.coordinator.stop()
            assert (await reply(waits)).error is ErrorCode.NOT_COORDINATOR
            assert refused(home.join) is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert refused(home.coordinator.check_all_served) is ErrorCode.COORDINATOR_NOT_AVAILABLE

    run(main)


# time and the log ------------------------------------------------------------------------------------------


def test_who_is_silent_for_its_session_timeout_is_removed() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            await home.stable()
            for _ in range(5):
                await trio.sleep(SESSION_MS / 1000 - 0.1)
                assert home.heartbeat() is NONE
            await trio.sleep(SESSION_MS / 1000 - 0.1)
            assert home.group().machine.state is GroupState.STABLE
            await trio.sleep(0.2)
            assert home.group().machine.state is GroupState.EMPTY
            assert home.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID

    run(main)


def test_the_initial_delay_passes_by_itself() -> None:
    async def main() -> None:
        home = Home(group_initial_rebalance_delay_ms=3000)
        async with home.running():
            before = trio.current_time()
            assert (await home.join().joined()).generation == 1
            assert trio.current_time() - before == 3

    run(main)


def test_an_assignment_waits_for_the_log() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            await home.join().joined()
            home.journal.go = trio.Event()
            waits = home.sync("m1", 1, m1=b"all")
            await trio.sleep(3)
            assert not waits.answered
            assert home.heartbeat() is NONE
            home.journal.go.set()
            assert (await waits.synced()).assignment == b"all"

    run(main)


def test_an_assignment_that_is_not_written_is_not_handed_out() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            await home.join().joined()
            home.journal.fails = ErrorCode.COORDINATOR_NOT_AVAILABLE
            synced = await home.sync("m1", 1, m1=b"all").synced()
            assert (synced.error, synced.assignment) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, b"")
            home.journal.fails = None
            assert (await home.join(member_id="m1").joined()).generation == 2
            assert (await home.sync("m1", 2, m1=b"all").synced()).assignment == b"all"

    run(main)


def test_records_of_a_group_are_written_one_after_the_other() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            await home.stable()
            home.journal.go = trio.Event()
            home.leave("m1")
            await wait_all_tasks_blocked()
            assert (await home.join(new_member_id="m2").joined()).generation == 3  # time goes on
            synced = home.sync("m2", 3, m2=b"all")
            await trio.sleep(3)
            assert not synced.answered
            assert [metadata.generation for _, metadata in home.journal.written if metadata] == [1, 2]
            home.journal.go.set()
            assert (await synced.synced()).assignment == b"all"
            assert [metadata.generation for _, metadata in home.journal.written if metadata] == [1, 2, 3]
            assert home.journal.log["g"].members[0].assignment == b"all"

    run(main)


def test_a_defect_in_one_group_has_it_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    good = GroupMachine.tick
    failed: list[GroupMachine] = []

    def fails_once(machine: GroupMachine, now: Now) -> list[Effect]:
        if machine.group_id == "g" and not failed:
            failed.append(machine)
            raise ZeroDivisionError
        return good(machine, now)

    async def main() -> None:
        home = Home()
        async with home.running():
            await home.stable("other")
            await home.stable()
            group, other = home.group(), home.group("other")
            assert group.partition != other.partition
            monkeypatch.setattr(GroupMachine, "tick", fails_once)
            await trio.sleep(SESSION_MS / 1000 - 0.1)
            assert home.heartbeat(group_id="other") is NONE
            await trio.sleep(0.2)
            assert failed == [group.machine]
            assert home.group() is not group
            assert home.heartbeat() is NONE  # it has its session again
            assert home.group("other") is other
            await trio.sleep(SESSION_MS / 1000 + 0.1)
            assert home.group().machine.state is GroupState.EMPTY

    run(main)


# requests --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("session_ms", [-1, 0, 5999, 1_800_001, 2**31 - 1])
def test_session_timeouts_are_within_bounds(session_ms: int) -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            assert refused(lambda: home.join(session_ms=session_ms)) is ErrorCode.INVALID_SESSION_TIMEOUT
            home.join(session_ms=6000), home.join(session_ms=1_800_000, new_member_id="m2")

    run(main)


def test_group_ids_that_are_empty_or_unknown() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            for call in (lambda: home.join(""), lambda: home.sync("m", 1, ""), lambda: home.leave("m", "")):
                assert refused(call) is ErrorCode.INVALID_GROUP_ID
            assert home.heartbeat(group_id="") is ErrorCode.INVALID_GROUP_ID
            for call in (
                lambda: home.join("g", "stranger"),
                lambda: home.sync("m", 1, "g"),
                lambda: home.leave("m", "g"),
            ):
                assert refused(call) is ErrorCode.UNKNOWN_MEMBER_ID
            assert home.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
            assert home.coordinator.loaded() == []

    run(main)


def test_who_may_commit() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            coordinator = home.coordinator
            assert refused(lambda: coordinator.for_commit("g", "m1", None, 1)) is ErrorCode.GROUP_ID_NOT_FOUND
            simple = coordinator.for_commit("", "", None, -1)
            assert coordinator.for_fetch("") is simple
            assert coordinator.for_fetch("g") is None
            await home.stable()
            assert coordinator.for_commit("g", "m1", None, 1) is home.group()
            assert refused(lambda: coordinator.for_commit("g", "m1", None, 2)) is ErrorCode.ILLEGAL_GENERATION
            assert refused(lambda: coordinator.for_offset_delete("")) is ErrorCode.INVALID_GROUP_ID
            assert refused(lambda: coordinator.for_offset_delete("h")) is ErrorCode.GROUP_ID_NOT_FOUND
            assert coordinator.for_offset_delete("g") is home.group()

    run(main)


# deleting --------------------------------------------------------------------------------------------------


def test_a_group_is_deleted_with_its_offsets_when_the_log_has_it() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            await home.stable()
            home.group().offsets.put("orders", 3, CommittedOffset(1, 0, "", 0))
            assert refused(lambda: home.coordinator.for_delete("g")) is ErrorCode.NON_EMPTY_GROUP
            home.leave("m1")
            await wait_all_tasks_blocked()
            home.journal.go = trio.Event()
            home.nursery.start_soon(home.coordinator.delete, home.coordinator.for_delete("g"))
            await wait_all_tasks_blocked()
            for call in (
                home.join, lambda: home.coordinator.for_commit("g", "", None, -1),
                lambda: home.coordinator.for_delete("g"), lambda: home.coordinator.for_offset_delete("g"),
            ):  # fmt: skip
                assert refused(call) is LOADING
            assert home.coordinator.for_fetch("g") is home.group()
            home.journal.go.set()
            await wait_all_tasks_blocked()
            assert home.journal.deleted == [("g", [("orders", 3)])]
            assert home.coordinator.for_fetch("g") is None
            assert refused(lambda: home.coordinator.for_delete("g")) is ErrorCode.GROUP_ID_NOT_FOUND
            assert home.coordinator.room.groups.used == 0
            await home.stable()

    run(main)


def test_a_group_whose_deletion_is_not_written_stays() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            await home.stable()
            home.leave("m1")
            await wait_all_tasks_blocked()
            home.journal.fails = ErrorCode.COORDINATOR_NOT_AVAILABLE
            with pytest.raises(KafkaError):
                await home.coordinator.delete(home.coordinator.for_delete("g"))
            home.journal.fails = None
            assert home.group().machine.state is GroupState.EMPTY
            assert (await home.join(new_member_id="m2").joined()).generation == 3

    run(main)


def test_only_what_nobody_uses_is_dropped() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            await home.stable()
            await home.coordinator.drop_if_unused(home.group())
            home.leave("m1")
            await wait_all_tasks_blocked()
            home.group().offsets.put("orders", 3, CommittedOffset(1, 0, "", 0))
            await home.coordinator.drop_if_unused(home.group())
            home.group().offsets.put("orders", 3, None)
            assert not home.journal.deleted
            await home.coordinator.drop_if_unused(home.group())
            assert home.journal.deleted == [("g", [])]
            simple = home.coordinator.for_commit("never written", "", None, -1)
            await home.coordinator.drop_if_unused(simple)
            assert len(home.journal.deleted) == 1
            assert home.coordinator.loaded() == []

    run(main)


# bounds ----------------------------------------------------------------------------------------------------


def test_one_group_may_not_take_all_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room_module, "MAX_GROUP_BYTES", 10_000)

    async def main() -> None:
        home = Home()
        async with home.running():
            assert refused(lambda: home.join(metadata=b"x" * 8000)) is ErrorCode.GROUP_MAX_SIZE_REACHED
            home.join(metadata=b"x" * 4000)
            call = lambda: home.join(metadata=b"x" * 4000, new_member_id="m2")  # noqa: E731
            assert refused(call) is ErrorCode.GROUP_MAX_SIZE_REACHED

    run(main)


def test_all_groups_have_one_bound_and_what_goes_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room_module, "MAX_GROUPS_BYTES", 20_000)

    async def main() -> None:
        home = Home()
        async with home.running():
            groups = [f"g{n}" for n in range(100)]
            taken = []
            for group_id in groups:
                try:
                    home.join(group_id, metadata=b"x" * 100)
                    taken.append(group_id)
                except KafkaError:
                    break
            assert 3 < len(taken) < 10
            assert refused(lambda: home.join("h")) is ErrorCode.POLICY_VIOLATION
            for group_id in taken:
                home.leave("m1", group_id)
            await trio.sleep(1)
            for group in home.coordinator.loaded():
                await home.coordinator.drop_if_unused(group)
            assert home.coordinator.room.groups.used == 0
            home.join("h")

    run(main)


def test_a_group_that_waits_for_nothing_has_no_task() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            idle = trio.lowlevel.current_statistics().tasks_living
            await home.stable()
            assert trio.lowlevel.current_statistics().tasks_living == idle + 1
            home.leave("m1")
            await trio.sleep(SESSION_MS / 1000 + 0.1)  # what was due next before it left
            assert trio.lowlevel.current_statistics().tasks_living == idle

    run(main)


def test_a_group_that_is_not_there_costs_no_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of a long id takes milliseconds, and a request may ask for hundreds."""
    hashed: list[str] = []

    def counted(group_id: str, partitions: int) -> int:
        hashed.append(group_id)
        return partition_for(group_id, partitions)

    monkeypatch.setattr(coordinator_module, "partition_for", counted)

    async def main() -> None:
        home = Home()
        home.journal.may_load = trio.Event()
        async with home.running():
            coordinator = home.coordinator
            assert refused(lambda: coordinator.for_fetch("g")) is LOADING
            home.journal.may_load.set()
            await wait_all_tasks_blocked()
            hashed.clear()
            assert coordinator.for_fetch("g") is None
            assert refused(lambda: coordinator.for_delete("g")) is ErrorCode.GROUP_ID_NOT_FOUND
            assert hashed == []
            away = partition_for("g", 50)
            home.journal.load_fails = {away}
            coordinator._lost(away)
            await wait_all_tasks_blocked()
            assert refused(lambda: coordinator.for_fetch("g")) is LOADING
            assert coordinator.partitions_loading == 1

    run(main)


LONG = "x" * 30_000
"""About as long as a client may make a name."""


def test_what_clients_call_themselves_takes_memory_too() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            coordinator = home.coordinator
            before = coordinator.room.groups.used
            home.join(LONG, client_id=LONG, new_member_id=LONG + "-1")
            assert coordinator.room.groups.used - before > 3 * len(LONG)
            before = coordinator.room.groups.used
            home.join(LONG, new_member_id=LONG + "-2", needs_known_member_id=True)
            assert len(home.group(LONG).machine.pending) == 1
            assert coordinator.room.groups.used - before > len(LONG)
            before = coordinator.room.groups.used
            coordinator.for_commit(LONG + "-3", "", None, -1)
            assert coordinator.room.groups.used - before > len(LONG)
            for group in coordinator.loaded():
                group.unload(NONE)
            assert coordinator.room.groups.used == 0

    run(main)


def test_long_names_do_not_get_around_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room_module, "MAX_GROUPS_BYTES", 100_000)

    async def main() -> None:
        home = Home()
        async with home.running():
            coordinator = home.coordinator
            coordinator.for_commit(LONG + "-1", "", None, -1)
            coordinator.for_commit(LONG + "-2", "", None, -1)
            call = lambda: coordinator.for_commit(LONG * 2, "", None, -1)  # noqa: E731
            assert refused(call) is ErrorCode.POLICY_VIOLATION
            assert refused(lambda: home.join("g", client_id=LONG)) is ErrorCode.POLICY_VIOLATION
            home.join("g")

    run(main)


def test_groups_that_nothing_is_left_of_make_room_when_it_is_short(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Those with offsets stay. Who is refused over and over does not have all groups looked at as often."""

    async def main() -> None:
        home = Home()
        async with home.running():
            coordinator = home.coordinator
            coordinator.for_commit("kept", "", None, -1).offsets.put(
                OFFSETS_TOPIC, 0, CommittedOffset(1, -1, "", KEPT_MS)
            )
            for number in range(3):
                await home.stable(f"g{number}")
                home.leave("m1", f"g{number}")
            await wait_all_tasks_blocked()
            coordinator.room.groups.total = coordinator.room.groups.used
            call = lambda: coordinator.for_commit("new", "", None, -1)  # noqa: E731
            for _ in range(2):
                assert refused(call) is ErrorCode.POLICY_VIOLATION
            assert refused(lambda: home.join("new")) is ErrorCode.POLICY_VIOLATION
            assert coordinator.room.refused == 3
            assert "group new gets nothing more: 4 groups: those of client unknown hold" in caplog.text
            await wait_all_tasks_blocked()
            assert list(coordinator.groups) == ["kept"]
            for number in range(3):
                coordinator.for_commit(f"u{number}", "", None, -1)
            assert refused(call) is ErrorCode.POLICY_VIOLATION
            await wait_all_tasks_blocked()
            assert refused(call) is ErrorCode.POLICY_VIOLATION  # they were looked at a moment ago
            await trio.sleep(expiry_module.ROOM_SECONDS)
            assert refused(call) is ErrorCode.POLICY_VIOLATION
            await wait_all_tasks_blocked()
            coordinator.for_commit("new", "", None, -1)

    run(main)


@pytest.mark.parametrize(
    ("bound", "code"),
    [("MAX_GROUPS_BYTES", ErrorCode.POLICY_VIOLATION), ("MAX_GROUP_BYTES", ErrorCode.GROUP_MAX_SIZE_REACHED)],
)
def test_who_is_in_a_group_may_join_again_when_there_is_no_room_for_others(
    monkeypatch: pytest.MonkeyPatch, bound: str, code: ErrorCode
) -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            await home.stable()
            used = home.coordinator.room.groups.used
            monkeypatch.setattr(room_module, bound, used)
            home.coordinator.room.groups.total = room_module.MAX_GROUPS_BYTES
            assert refused(lambda: home.join(new_member_id="m2")) is code
            assert (await home.join(member_id="m1").joined()).generation == 2
            assert refused(lambda: home.join(member_id="m1", metadata=b"longer")) is code

    run(main)


def test_a_record_that_still_waits_does_not_bring_a_deleted_group_back() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            await home.stable()
            home.join(member_id="m1")
            home.journal.go = trio.Event()
            home.sync("m1", 2, m1=b"all")
            await wait_all_tasks_blocked()
            home.leave("m1")  # its record waits for that of generation 2
            home.nursery.start_soon(home.coordinator.delete, home.coordinator.for_delete("g"))
            await wait_all_tasks_blocked()
            home.journal.go.set()
            await wait_all_tasks_blocked()
            assert home.coordinator.for_fetch("g") is None
            assert "g" not in home.journal.log

    run(main)


def test_a_log_that_fails_while_the_gateway_stops_begins_nothing() -> None:
    """The tasks of groups have ended, and the node still hears of the stores."""

    async def main() -> None:
        home = Home()
        async with home.running():
            await home.stable()
        home.coordinator._lost(partition_for("g", 50))
        home.coordinator.start(trio.sleep_forever)

    run(main)


def offset(metadata: str = "") -> CommittedOffset:
    return CommittedOffset(1, -1, metadata, KEPT_MS)


def test_one_client_cannot_fill_what_groups_may_hold() -> None:
    """Somebody who makes groups without end has half of the room; who comes with one still finds some."""

    async def main() -> None:
        home = Home()
        async with home.running():
            coordinator = home.coordinator
            coordinator.room.groups.total = 40 * empty_group_bytes("00")
            for made in range(20):
                coordinator.for_commit(f"{made:02}", "", None, -1, "greedy")
            with pytest.raises(KafkaError, match="client greedy hold") as error:
                coordinator.for_commit("20", "", None, -1, "greedy")
            assert error.value.code is ErrorCode.POLICY_VIOLATION
            coordinator.for_commit("vi", "", None, -1, "victim")
            home.join("mo", client="another")
            assert refused(lambda: home.join("more", client="greedy")) is ErrorCode.POLICY_VIOLATION
            for group in coordinator.loaded():
                group.unload(NONE)
            assert [coordinator.room.groups.held(who) for who in ("greedy", "victim", "another")] == [0, 0, 0]

    run(main)


def test_offsets_are_counted_and_one_client_cannot_fill_their_room() -> None:
    """What is there may be committed anew; deletions make room again."""

    async def main() -> None:
        home = Home()
        async with home.running():
            coordinator = home.coordinator
            room = coordinator.room.offsets
            room.total = 10_000
            long = {("t", 0): offset("m" * 4000)}
            first = coordinator.for_commit("g1", "", None, -1, "greedy", long)
            first.offsets.put("t", 0, long["t", 0])
            assert room.held("greedy") == first.offsets.bytes > 4000
            call = lambda: coordinator.for_commit("g2", "", None, -1, "greedy", long)  # noqa: E731
            assert refused(call) is ErrorCode.POLICY_VIOLATION
            assert coordinator.for_fetch("g2") is None
            assert coordinator.for_commit("g1", "", None, -1, "greedy", long) is first
            longer = {("t", 0): offset("m" * 4096), ("t", 1): offset("m" * 2000)}
            call = lambda: coordinator.for_commit("g1", "", None, -1, "greedy", longer)  # noqa: E731
            assert refused(call) is ErrorCode.POLICY_VIOLATION
            coordinator.for_commit("g3", "", None, -1, "victim", {("t", 0): offset()})
            first.offsets.put("t", 0, offset("short"))
            assert room.used == first.offsets.bytes < 400
            first.offsets.put("t", 0, None)
            assert room.used == 0
            coordinator.for_commit("g2", "", None, -1, "greedy", long)

    run(main)


def test_a_group_that_was_loaded_is_of_the_first_client_that_comes() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            coordinator = home.coordinator
            group = coordinator.for_commit("g", "", None, -1)
            group.offsets.put("t", 0, offset())
            size = group.offsets.bytes
            assert (coordinator.room.offsets.used, coordinator.room.offsets.held("a")) == (size, 0)
            for client in ("a", "b"):
                coordinator.for_commit("g", "", None, -1, client)
                assert coordinator.room.offsets.held("a") == size
                assert coordinator.room.groups.held("a") == coordinator.room.groups.used

    run(main)
