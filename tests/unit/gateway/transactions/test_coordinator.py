"""The transaction coordinator: who may ask it what, and when it answers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.journal.internal_topic import partition_for
from gateway.transactions import forgetting, sweep
from gateway.transactions import room as room_module
from gateway.transactions.adding import AddPartitions
from gateway.transactions.coordinator import UNTIL_FREE_SECONDS
from gateway.transactions.ending import EndTxn
from gateway.transactions.forgetting import IDLE_MS, LOOK_SECONDS
from gateway.transactions.metadata import BUMPS_EPOCH_FROM, LAST_EPOCH
from gateway.transactions.outcomes import Answer
from tests.unit.gateway.transactions.home import LEADER_EPOCH, ORDERS, TIMEOUT_MS, Home, run
from wireproto.kafka.errors import ErrorCode, KafkaError

NONE = ErrorCode.NONE
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def refused(ask: Callable[[], Awaitable[Any]]) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        await ask()
    return raised.value.code


async def refused_by_all(home: Home) -> set[ErrorCode]:
    """What each kind of request is told."""

    async def describe() -> None:
        home.coordinator.find_one("t")

    async def verify() -> None:
        home.coordinator.verify("t", 1, 0, ORDERS)

    asks: list[Callable[[], Awaitable[Any]]] = [
        home.init, lambda: home.add(1, 0), lambda: home.end(1, 0), describe, verify
    ]  # fmt: skip
    return {await refused(ask) for ask in asks}


def test_a_producer_goes_through_its_transactions() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            assert await home.init() == Answer(NONE, 1001, 0)
            assert await home.init() == Answer(NONE, 1001, 1)
            for commit in (True, False):
                assert await home.add(1001, 1) is NONE
                assert home.state() == "Ongoing"
                assert await home.end(1001, 1, commit=commit) == Answer(NONE)
                await wait_all_tasks_blocked()
                assert home.state() == ("CompleteCommit" if commit else "CompleteAbort")
            commits, aborts = home.target.written[:2], home.target.written[2:]
            assert {partition for partition, _ in commits} == {partition for partition, _ in aborts} == ORDERS
            assert [marker[:4] for _, marker in commits] == [(1001, 1, LEADER_EPOCH, True)] * 2
            assert [marker[:4] for _, marker in aborts] == [(1001, 1, LEADER_EPOCH, False)] * 2

    run(main)


def test_an_id_that_is_anybodys_is_kept_only_by_the_producer_that_names_it() -> None:
    """So ids from before are bound when a producer begins, and what goes on is not disturbed."""

    async def main() -> None:
        home = Home()
        async with home.running():
            assert await home.init() == Answer(NONE, 1001, 0)
            home.anybodys.add(1001)
            assert await home.init(producer_id=1001, producer_epoch=0) == Answer(NONE, 1001, 1)
            assert await home.add(1001, 1) is NONE
            assert await home.init() == Answer(BUSY)
            await wait_all_tasks_blocked()
            assert [marker[:2] for _, marker in home.target.written] == [(1001, 2)] * 2
            assert await home.init() == Answer(NONE, 1002, 0)
            assert await home.add(1001, 1) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
            assert (await home.init(producer_id=1001, producer_epoch=1)).error is ErrorCode.PRODUCER_FENCED
            assert await home.init() == Answer(NONE, 1002, 1)
            assert home.producer_ids_of == {1001: "t", 1002: "t"}

    run(main)


@pytest.mark.parametrize("names", [False, True])
def test_an_id_that_does_not_fit_is_kept_by_nobody(names: bool) -> None:
    """Nothing could be written with it."""

    async def main() -> None:
        home = Home()
        async with home.running():
            assert await home.init() == Answer(NONE, 1001, 0)
            home.somebody_elses.add(1001)
            has, epoch = (1001, 0) if names else (-1, -1)
            assert await home.init(producer_id=has, producer_epoch=epoch) == Answer(NONE, 1002, 0)
            assert await home.add(1002, 0) is NONE

    run(main)


@pytest.mark.parametrize("ask", ["add", "end"])
def test_an_id_that_is_not_known_has_no_producers(ask: str) -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            if ask == "add":
                assert await home.add(1, 0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
            else:
                assert await home.end(1, 0) == Answer(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            assert set(home.coordinator.verify("t", 1, 0, ORDERS).values()) == {
                ErrorCode.INVALID_PRODUCER_ID_MAPPING
            }
            assert home.coordinator.find_one("t") is None
            assert home.coordinator.transactions == {}

    run(main)


def test_a_timeout_that_is_too_long_is_refused_before_anything_else() -> None:
    async def main() -> None:
        home = Home(topic=False)
        async with home.running():
            assert (await home.init(timeout_ms=900_001)).error is ErrorCode.INVALID_TRANSACTION_TIMEOUT
            assert home.created == 0
            assert (await home.init(timeout_ms=900_000)).error is NONE

    run(main)


# where ids are served ---------------------------------------------------------------------------------------


def test_the_first_producer_makes_the_topic_and_others_do_not() -> None:
    async def main() -> None:
        home = Home(topic=False)
        async with home.running():
            assert await refused(lambda: home.add(1, 0)) is NOT_COORDINATOR
            assert await refused(lambda: home.end(1, 0)) is NOT_COORDINATOR
            home.coordinator.check_all_served()  # there are none
            assert home.created == 0
            assert await home.init() == Answer(NONE, 1001, 0)
            assert home.created == 1

    run(main)


def test_without_the_topic_a_producer_is_to_ask_again() -> None:
    async def main() -> None:
        home = Home(topic=False)
        home.created = -1
        async with home.running():
            assert await refused(home.init) is NOT_AVAILABLE

    run(main)


def test_nobody_is_answered_from_a_partition_that_is_not_loaded() -> None:
    async def main() -> None:
        home = Home()
        home.journal.may_load = trio.Event()
        async with home.running():
            assert await refused_by_all(home) == {LOADING}
            assert home.coordinator.partitions_loading == 50
            with pytest.raises(KafkaError):
                home.coordinator.check_all_served()
            home.journal.may_load.set()
            await wait_all_tasks_blocked()
            assert (await home.init()).error is NONE

    run(main)


def test_ids_of_a_partition_that_goes_are_another_gateways() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            await home.open()
            home.move("t", here=False)
            assert await refused_by_all(home) == {NOT_COORDINATOR}
            assert home.coordinator.node_of("t") == 2
            assert home.coordinator.room.held.used == 0
            home.move("t", here=True)
            await wait_all_tasks_blocked()
            assert home.state() == "Ongoing"
            assert home.coordinator.node_of("t") == 1

    run(main)


def test_a_gateway_that_stops_answers_nobody() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            await home.open()
            home.coordinator.stop()
            assert await refused_by_all(home) == {NOT_AVAILABLE}
            assert home.coordinator.room.held.used == 0

    run(main)


def test_a_topic_that_was_deleted_takes_all_ids_with_it() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            await home.open()
            home.topics.clear()
            assert await refused(lambda: home.add(1001, 0)) is NOT_COORDINATOR
            home.journal.log.clear()
            home.make_topic()
            assert await refused(lambda: home.add(1001, 0)) is LOADING
            await wait_all_tasks_blocked()
            assert await home.add(1001, 0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING

    run(main)


# what is durable --------------------------------------------------------------------------------------------


def test_nobody_is_answered_before_it_is_durable_and_others_ask_again_meanwhile() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            pid, epoch = await home.open()
            home.journal.held = True
            await home.begin("end", home.end(pid, epoch))
            assert home.answers == {}
            assert home.state() == "Ongoing"
            assert (await home.init()).error is BUSY
            assert await home.add(pid, epoch) is BUSY
            assert (await home.end(pid, epoch)).error is BUSY
            assert home.target.tried == []
            home.journal.settle()
            await wait_all_tasks_blocked()
            assert home.answers == {"end": Answer(NONE)}
            assert home.state() == "PrepareCommit"
            home.journal.settle()
            assert home.state() == "CompleteCommit"

    run(main)


@pytest.mark.parametrize("error", [NOT_AVAILABLE, NOT_COORDINATOR])
def test_what_could_not_be_written_changes_nothing(error: ErrorCode) -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            pid, epoch = await home.open()
            for refuses in (True, False):
                # Refused at once, or on its way and then refused.
                home.journal.refuses = error if refuses else None
                home.journal.held = True
                for _ in range(3):
                    await home.begin("fence", home.init())
                    if not refuses:
                        home.journal.settle(error)
                        await wait_all_tasks_blocked()
                    assert home.answers.pop("fence") is error
                    assert home.state() == "Ongoing"
            home.journal.held = False
            # It is not fenced, and the outage has used no epoch.
            assert await home.add(pid, epoch) is NONE
            assert (await home.init()).error is BUSY
            await wait_all_tasks_blocked()
            assert await home.init() == Answer(NONE, pid, epoch + 2)

    run(main)


def test_what_takes_too_long_may_take_effect_later() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            pid, epoch = await home.open()
            home.journal.held = True
            await home.begin("end", home.end(pid, epoch))
            await trio.sleep(5.1)
            assert home.answers == {"end": NOT_AVAILABLE}
            assert (await home.end(pid, epoch)).error is BUSY  # nobody knows yet
            home.journal.held = False
            home.journal.settle()
            await wait_all_tasks_blocked()
            assert home.state() == "CompleteCommit"
            assert await home.end(pid, epoch) == Answer(NONE)

    run(main)


def test_a_new_id_that_could_not_be_written_is_not_there() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            home.journal.held = True
            await home.begin("init", home.init())
            assert len(home.coordinator.transactions) == 1
            home.journal.settle(NOT_AVAILABLE)
            await wait_all_tasks_blocked()
            assert home.answers == {"init": NOT_AVAILABLE}
            home.journal.refuses = NOT_AVAILABLE
            assert await refused(home.init) is NOT_AVAILABLE
            assert home.coordinator.transactions == {}
            assert home.coordinator.room.held.used == 0

    run(main)


def test_two_that_begin_an_id_at_once_do_not_share_it() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            home.journal.held = True
            await home.begin("first", home.init())
            await home.begin("second", home.init())
            home.journal.settle()
            await wait_all_tasks_blocked()
            assert home.answers == {"first": Answer(NONE, 1001, 0), "second": Answer(BUSY)}

    run(main)


def test_a_partition_that_was_lost_is_asked_what_it_has() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            pid, epoch = await home.open()
            home.journal.held = True
            await home.begin("kept", home.end(pid, epoch))
            # The log has it, but nobody knows: what is on its way is settled with an error, then lost.
            (pending,) = home.journal.on_its_way
            home.journal.log.append((pending.index, *pending.record))
            home.journal.settle(NOT_COORDINATOR)
            home.journal.held = False
            home.coordinator._lost(home.partition("t").index)
            assert home.state() == ""
            await wait_all_tasks_blocked()
            assert home.answers == {"kept": NOT_COORDINATOR}
            assert home.state() == "CompleteCommit"
            assert {partition for partition, _ in home.target.written} == ORDERS

    run(main)


def test_a_load_brings_back_what_was_answered() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            pid, epoch = await home.open()
            before = home.coordinator.transactions["t"].machine.metadata
            await home.reload("t")
            assert home.coordinator.transactions["t"].machine.metadata == before
            assert home.coordinator.transactions["t"].coordinator_epoch == LEADER_EPOCH + 1
            assert await home.end(pid, epoch) == Answer(NONE)
            await wait_all_tasks_blocked()
            assert {marker.coordinator_epoch for _, marker in home.target.written} == {LEADER_EPOCH + 1}

    run(main)


def test_a_producer_whose_answer_was_lost_with_its_coordinator_is_not_fenced() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            await home.init()
            assert await home.init(producer_id=1001, producer_epoch=0) == Answer(NONE, 1001, 1)
            await home.reload("t")
            assert await home.init(producer_id=1001, producer_epoch=0) == Answer(NONE, 1001, 1)
            await home.init()  # another one
            await home.reload("t")
            fenced = await home.init(producer_id=1001, producer_epoch=1)
            assert fenced == Answer(ErrorCode.PRODUCER_FENCED)

    run(main)


# what happens by itself -------------------------------------------------------------------------------------


def test_a_transaction_that_is_open_for_too_long_is_aborted(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            pid, epoch = await home.open()
            await trio.sleep(TIMEOUT_MS / 1000 + 1)  # between two looks
            assert home.state() == "Ongoing"
            home.journal.refuses = NOT_AVAILABLE
            await trio.sleep(sweep.TIMEOUTS_SECONDS)
            assert home.state() == "Ongoing"
            home.journal.refuses = None
            with caplog.at_level(logging.INFO):
                await trio.sleep(sweep.TIMEOUTS_SECONDS)
                home.journal.settle()
                await wait_all_tasks_blocked()
            assert home.state() == "CompleteAbort"
            assert home.coordinator.timed_out == 1
            assert "transactional id t: its transaction is aborted" in caplog.text
            (marker,) = {marker for _, marker in home.target.written}
            assert marker[:4] == (pid, epoch + 1, LEADER_EPOCH, False)
            assert (await home.end(pid, epoch)).error is ErrorCode.PRODUCER_FENCED
            assert await home.init() == Answer(NONE, pid, epoch + 2)

    run(main)


def test_an_id_that_nobody_uses_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "TIMEOUTS_SECONDS", 600.0)  # or a week would be 60,480 looks

    async def main() -> None:
        home = Home()
        async with home.running():
            await home.init("idle")
            pid, epoch = await home.open("used")
            await trio.sleep(sweep.EXPIRATION_MS / 1000 - 3700)
            home.journal.settle()
            await wait_all_tasks_blocked()
            assert (home.state("idle"), home.state("used")) == ("Empty", "CompleteAbort")
            assert (await home.init("used")).error is NONE
            await trio.sleep(3 * 3600)
            home.journal.settle()
            assert (home.state("idle"), home.state("used")) == ("", "Empty")
            await home.reload("idle")
            assert home.state("idle") == ""
            assert await home.init("idle") == Answer(NONE, pid + 1, 0)
            assert epoch == 0

    run(main)


# markers ----------------------------------------------------------------------------------------------------


def test_the_next_transaction_waits_for_the_markers_of_the_last() -> None:
    async def main() -> None:
        home = Home()
        home.target.go = trio.Event()
        async with home.running():
            pid, epoch = await home.open()
            assert await home.end(pid, epoch) == Answer(NONE)
            await wait_all_tasks_blocked()
            assert home.state() == "PrepareCommit"
            assert await home.add(pid, epoch) is BUSY
            assert home.coordinator.transactions["t"].partitions_left == ORDERS
            home.target.go.set()
            await wait_all_tasks_blocked()
            assert await home.add(pid, epoch) is NONE

    run(main)


def test_one_round_of_markers_takes_no_time() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            pid, epoch = await home.open(partitions=frozenset(("many", index) for index in range(200)))
            began = trio.current_time()
            await home.end(pid, epoch)
            await wait_all_tasks_blocked()
            assert home.state() == "CompleteCommit"
            assert trio.current_time() == began
            assert len(home.target.written) == 200

    run(main)


def test_a_load_resumes_markers_and_their_number_does_not_go_back() -> None:
    async def main() -> None:
        home = Home()
        home.target.go = trio.Event()
        async with home.running():
            pid, epoch = await home.open()
            home.partition("t").next_offset = 2
            await home.end(pid, epoch)
            await wait_all_tasks_blocked()
            await home.reload("t")
            assert home.state() == "PrepareCommit"
            home.target.go.set()
            await wait_all_tasks_blocked()
            assert home.state() == "CompleteCommit"
            before = {marker for _, marker in home.target.tried if marker.coordinator_epoch == LEADER_EPOCH}
            after = {marker for _, marker in home.target.written}
            assert [marker.number for marker in before] == [3]
            # Its record is at offset 2: the same transaction has the same number.
            assert {marker[:5] for marker in after} == {(pid, epoch, LEADER_EPOCH + 1, True, 3)}
            home.partition("t").next_offset = 4
            await home.add(pid, epoch)
            await home.end(pid, epoch)
            await wait_all_tasks_blocked()
            assert home.target.written[-1][1].number == 5

    run(main)


def test_a_client_whose_share_is_used_up_holds_up_no_other_one() -> None:
    """Of the same partition, where its own transactions wait to be complete."""

    async def main() -> None:
        home = Home()
        home.target.go = trio.Event()
        names = [name for name in (f"t{number}" for number in range(2_000)) if partition_for(name, 50) == 0]
        many, other = names[:20], names[20]
        async with home.running():
            for name in (*many, other):
                client = "other" if name == other else "greedy"
                _, pid, epoch = await home.init(name, client=client)
                assert await home.add(pid, epoch, ORDERS, name) is NONE
                await home.end(pid, epoch, name)
            home.journal.refuses = NOT_AVAILABLE
            home.target.go.set()
            await trio.sleep(0.5)
            home.journal.refused_client = "greedy"
            await trio.sleep(1.1)
            home.journal.settle()
            assert home.state(other) == "CompleteCommit"
            assert {home.state(name) for name in many} == {"PrepareCommit"}

    run(main)


@pytest.mark.parametrize("again", [True, False])
def test_that_it_is_complete_is_written_again_and_again(again: bool) -> None:
    async def main() -> None:
        home = Home()
        home.target.go = trio.Event()
        async with home.running():
            pid, epoch = await home.open()
            await home.end(pid, epoch)
            await wait_all_tasks_blocked()
            home.journal.refuses = NOT_AVAILABLE
            home.target.go.set()
            await trio.sleep(3)
            assert home.state() == "PrepareCommit"
            if again:
                home.journal.refuses = None
                await trio.sleep(1.1)
                assert home.state() == "CompleteCommit"
            else:  # the next coordinator has to
                home.journal.refuses = None
                await home.reload("t")
                assert home.state() == "CompleteCommit"
                assert len(home.target.written) == 4

    run(main)


# room -------------------------------------------------------------------------------------------------------


def test_what_ids_hold_is_bounded_and_shared(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(room_module, "MAX_TRANSACTIONS_BYTES", 10 * (room_module.ID_BYTES + 40))

    async def main() -> None:
        home = Home()
        async with home.running():
            for number in range(5):
                assert (await home.init(f"greedy-{number}", client="a")).error is NONE
            # An error on which clients ask again.
            assert await refused(lambda: home.init("greedy-5", client="a")) is NOT_AVAILABLE
            assert (await home.init("modest", client="b")).error is NONE
            assert (await home.init("greedy-0", client="a")).error is NONE  # who is there goes on
            many = frozenset(("orders", index) for index in range(60))
            assert await refused(lambda: home.add(1001, 1, many, "greedy-0")) is NOT_AVAILABLE
            assert home.state("greedy-0") == "Empty"
            assert home.coordinator.room.refused == 2
            held = home.coordinator.room.held
            assert held.used == held.held("a") + held.held("b")
            home.coordinator.stop()
            assert held.used == 0

    with caplog.at_level(logging.WARNING):
        run(main)
    assert "gets nothing more" in caplog.text


def test_at_the_bound_ids_that_nobody_has_used_for_long_make_room_for_new_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The client's own, or nobody's, and none with a transaction: as for who has one for each checkpoint."""
    monkeypatch.setattr(room_module, "MAX_TRANSACTIONS_BYTES", 12 * (room_module.ID_BYTES + 40))

    async def main() -> None:
        home = Home()
        async with home.running():
            assert (await home.init("of-b", client="b")).error is NONE
            opened = await home.init("id-0", client="a", timeout_ms=900_000)
            for number in range(1, 5):
                assert (await home.init(f"id-{number}", client="a")).error is NONE
            assert await refused(lambda: home.init("id-5", client="a")) is NOT_AVAILABLE, "none is idle"
            await trio.sleep(IDLE_MS / 1000 - 60)
            assert await home.add(opened.producer_id, 0, name="id-0") is NONE
            await trio.sleep(61)
            home.coordinator.transactions["id-4"].becomes_of("c")
            assert (await home.init("id-5", client="a")).error is NONE
            assert sorted(home.coordinator.transactions) == ["id-0", "id-4", "id-5", "of-b"]
            assert home.state("id-0") == "Ongoing"
            held = home.coordinator.room.held
            assert held.used == held.held("a") + held.held("b") + held.held("c")

    run(main)


def test_two_that_take_ids_over_from_each_other_leave_room_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room_module, "MAX_TRANSACTIONS_BYTES", 24 * (room_module.ID_BYTES + 40))

    async def main() -> None:
        home = Home()
        async with home.running():
            made = 0
            for _ in range(5):
                for _ in range(24):
                    try:
                        await home.init(f"id-{made}", client="a")
                    except KafkaError:
                        break
                    made += 1
                for number in range(made):
                    assert (await home.init(f"id-{number}", client="b")).error is NONE, "its producer goes on"
            held = home.coordinator.room.held
            assert held.held("a") + held.held("b") == held.used
            for number in range(2):
                assert (await home.init(f"modest-{number}", client="c")).error is NONE

    run(main)


def test_who_asks_for_room_again_and_again_has_ids_looked_through_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also while others get their room by what was found then."""
    monkeypatch.setattr(room_module, "MAX_TRANSACTIONS_BYTES", 12 * (room_module.ID_BYTES + 40))

    async def main() -> None:
        home = Home()
        async with home.running():
            for number in range(3):
                assert (await home.init(f"b-{number}", client="b")).error is NONE
            await trio.sleep(IDLE_MS / 1000)
            for number in range(4):
                assert (await home.init(f"a-{number}", client="a")).error is NONE
            looks = home.coordinator.forgetting.looks
            for _ in range(20):
                assert await refused(lambda: home.init("a-more", client="a")) is NOT_AVAILABLE
            for number in range(3, 7):
                assert (await home.init(f"b-{number}", client="b")).error is NONE
            assert home.coordinator.forgetting.looks == looks + 1
            await trio.sleep(LOOK_SECONDS)
            assert await refused(lambda: home.init("a-more", client="a")) is NOT_AVAILABLE
            assert home.coordinator.forgetting.looks == looks + 2

    run(main)


@pytest.mark.parametrize("found", [1, 256])
def test_all_of_a_client_s_idle_ids_make_room_however_few_are_found_at_once(
    monkeypatch: pytest.MonkeyPatch, found: int
) -> None:
    monkeypatch.setattr(room_module, "MAX_TRANSACTIONS_BYTES", 8 * (room_module.ID_BYTES + 40))
    monkeypatch.setattr(forgetting, "FORGOTTEN_AT_ONCE", found)

    async def main() -> None:
        home = Home()
        async with home.running():
            for number in range(4):
                assert (await home.init(f"old-{number}", client="a")).error is NONE
                await trio.sleep(1)
            await trio.sleep(IDLE_MS / 1000)
            for number in range(4):
                assert (await home.init(f"new-{number}", client="a")).error is NONE
                left = [name for name in sorted(home.coordinator.transactions) if name.startswith("old")]
                assert left == ([f"old-{one}" for one in range(number + 1, 4)] if found == 1 else [])
            assert await refused(lambda: home.init("new-4", client="a")) is NOT_AVAILABLE

    run(main)


def test_an_id_from_the_log_is_the_client_s_whose_producer_is_accepted_and_nobody_else_s() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            pid, epoch = await home.open()
            await home.reload("t")
            held = home.coordinator.room.held
            one = home.coordinator.transactions["t"]
            wrong = AddPartitions(pid + 1, epoch, frozenset((("orders", 7),)))
            assert home.coordinator.begin_to_add("t", wrong, "hostile").answer.error is not NONE
            assert (one.client, held.held("hostile")) == ("", 0)
            right = AddPartitions(pid, epoch, frozenset((("orders", 7),)))
            assert (await home.coordinator.add("t", right, "c")).error is NONE
            assert one.client == "c"
            assert held.held("c") == held.used > 0
            assert (await home.init(client="d")).error is BUSY  # the open transaction is aborted first
            assert one.client == "c"
            await wait_all_tasks_blocked()
            assert (await home.init(client="d")).error is NONE
            assert (held.held("c"), held.held("d")) == (0, held.used)

    run(main)


def test_an_id_from_the_log_is_the_client_s_that_ends_its_transaction() -> None:
    """Where partitions are added by other gateways a producer asks its coordinator for nothing else."""

    async def main() -> None:
        home = Home()
        async with home.running():
            pid, epoch = await home.open()
            await home.reload("t")
            held = home.coordinator.room.held
            one = home.coordinator.transactions["t"]
            wrong = await home.coordinator.end("t", EndTxn(pid, epoch + 1, is_commit=True), "hostile")
            assert (wrong.error is not NONE, one.client, held.held("hostile")) == (True, "", 0)
            assert (await home.coordinator.end("t", EndTxn(pid, epoch, is_commit=True), "c")).error is NONE
            assert (one.client, held.held("c")) == ("c", held.used)

    run(main)


def test_who_adds_waits_for_the_end_of_the_last_transaction_and_not_for_long() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            pid, epoch = await home.open()
            home.target.go = trio.Event()
            assert (await home.end(pid, epoch)).error is NONE
            more = AddPartitions(pid, epoch, frozenset((("orders", 7),)))
            began = trio.current_time()
            assert await home.coordinator.add("t", more) == Answer(BUSY)
            assert trio.current_time() - began == pytest.approx(UNTIL_FREE_SECONDS)
            await home.begin("next", home.coordinator.add("t", more))
            assert home.answers == {}
            began = trio.current_time()
            home.target.go.set()
            await wait_all_tasks_blocked()
            assert (home.answers, home.state()) == ({"next": Answer(NONE)}, "Ongoing")
            assert trio.current_time() == began, "it is woken, and looks at no clock"

    run(main)


def test_a_transaction_gives_back_what_its_partitions_took() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            answer = await home.init()
            empty = home.coordinator.room.held.used
            await home.add(answer.producer_id, 0)
            assert home.coordinator.room.held.used > empty
            await home.end(answer.producer_id, 0)
            await wait_all_tasks_blocked()
            assert home.coordinator.room.held.used == empty

    run(main)


def test_states_are_counted() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            await home.init("a")
            await home.init("b")
            await home.open("c")
            assert home.coordinator.states() == {
                ("Empty",): 2,
                ("Ongoing",): 1,
                ("PrepareCommit",): 0,
                ("PrepareAbort",): 0,
                ("CompleteCommit",): 0,
                ("CompleteAbort",): 0,
            }

    run(main)


def exhaust(home: Home, name: str) -> None:
    """Its producer has the last epoch that one can have."""
    machine = home.coordinator.transactions[name].machine
    assert machine.metadata is not None
    machine.metadata = replace(machine.metadata, producer_epoch=LAST_EPOCH - 1)


def test_every_producer_id_is_for_its_transactional_id() -> None:
    """The first one, and each that comes after the last epoch of the one before."""

    async def main() -> None:
        home = Home()
        home.version = BUMPS_EPOCH_FROM
        async with home.running():
            first = (await home.init("t")).producer_id
            exhaust(home, "t")
            by_init = (await home.init("t")).producer_id
            await home.add(by_init, 0)
            exhaust(home, "t")
            by_end = (await home.end(by_init, LAST_EPOCH - 1, version=BUMPS_EPOCH_FROM)).producer_id
            await wait_all_tasks_blocked()
            other, epoch = await home.open("u")
            exhaust(home, "u")
            await trio.sleep(TIMEOUT_MS / 1000 + 60)
            assert home.state("u") == "CompleteAbort"
            metadata = home.coordinator.transactions["u"].machine.metadata
            assert metadata is not None
            assert (metadata.producer_id, epoch) == (max(home.producer_ids_of), 0)
            assert home.producer_ids_of == {
                first: "t", by_init: "t", by_end: "t", other: "u", metadata.producer_id: "u"
            }  # fmt: skip
            assert len(home.producer_ids_of) == 5

    run(main)
