"""A coordinator that has lost the end of what it knew serves nobody before all its producers are fenced."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.common.work import Work
from gateway.journal.internal_topic import partition_for
from gateway.log.partition import PartitionState
from gateway.transactions import fencing
from gateway.transactions.metadata import BUMPS_EPOCH_FROM, LAST_EPOCH
from gateway.transactions.outcomes import Answer
from tests.unit.gateway.transactions.home import ORDERS, Home, run
from tests.unit.gateway.transactions.test_after_loss import partition
from tests.unit.gateway.transactions.test_coordinator import refused
from wireproto.kafka.errors import ErrorCode

NONE, BUSY = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def lose(home: Home, name: str = "t") -> None:
    """The end of the partition that has this id, and see all out that follows."""
    home.coordinator.lost_end(home.partition(name).index)
    await wait_all_tasks_blocked()
    home.journal.settle()
    await wait_all_tasks_blocked()


async def decide(home: Home, version: int = 0) -> tuple[int, int]:
    """Its producer has committed a transaction, whose markers wait for `carry_out`."""
    home.target.go = trio.Event()
    pid, epoch = await home.open()
    assert (await home.end(pid, epoch, version=version)).error is NONE
    return pid, epoch


async def carry_out(home: Home) -> None:
    """Have markers taken, and see all out that follows."""
    home.target.go.set()
    await wait_all_tasks_blocked()
    home.journal.settle()


def has(home: Home, *partitions: Any) -> None:
    """The cluster has these."""
    for one in partitions:
        one.topic.partitions = [one]
        home.topics[one.topic.name] = one.topic


def test_an_open_transaction_is_aborted_and_its_producer_fenced() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            pid, epoch = await home.open()
            await lose(home)
            assert home.state() == "CompleteAbort"
            assert {(place, marker.is_commit) for place, marker in home.target.written} == {
                (place, False) for place in ORDERS
            }
            assert (await home.end(pid, epoch)).error is ErrorCode.PRODUCER_FENCED
            assert await home.init() == Answer(NONE, pid + 1, 0)
            assert (await home.end(pid, epoch)).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING

    run(main)


def test_nobody_is_told_that_what_was_lost_is_committed() -> None:
    """By the older protocol the last transaction that is known has the same epoch."""

    async def main() -> None:
        home = Home()
        async with home.running():
            pid, epoch = await home.open()
            assert (await home.end(pid, epoch)).error is NONE
            await wait_all_tasks_blocked()
            home.journal.settle()
            assert (await home.end(pid, epoch)).error is NONE  # once more
            await lose(home)
            assert (await home.end(pid, epoch)).error is ErrorCode.PRODUCER_FENCED
            assert await home.init() == Answer(NONE, pid + 1, 0)

    run(main)


def test_nobody_is_served_before_that_is_durable(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            pid, epoch = await home.open()
            home.journal.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
            await lose(home)
            await trio.sleep(5)
            for ask in (lambda: home.end(pid, epoch), home.init):
                assert await refused(ask) is LOADING
            assert not home.coordinator.has_everything
            home.journal.refuses = None
            await trio.sleep(2)
            home.journal.settle()
            await trio.sleep(1)
            assert home.state() == "CompleteAbort"
            assert "the producers of 1 transactional ids are fenced" in caplog.text
            # A later load finds nothing to do.
            written = len(home.journal.log)
            await home.reload("t")
            assert (len(home.journal.log), home.state()) == (written, "CompleteAbort")

    run(main)


def test_who_has_lost_nothing_goes_on() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            pid, epoch = await home.open()
            there = partition_for("t", 50)
            await lose(home, next(name for name in "abcdef" if partition_for(name, 50) != there))
            assert home.state() == "Ongoing"
            assert (await home.end(pid, epoch)).error is NONE

    run(main)


def test_what_is_decided_is_committed_where_it_is_open() -> None:
    """And not where a later transaction is: that partition has a later epoch, and refuses the marker."""

    async def main() -> None:
        home = Home()
        async with home.running():
            pid, epoch = await decide(home, 2)
            home.target.plan["orders", 1] = [ErrorCode.INVALID_PRODUCER_EPOCH]
            await lose(home)
            assert (await home.init()).error is BUSY
            await carry_out(home)
            assert home.state() == "CompleteCommit"
            ((place, marker),) = home.target.written
            assert (place, marker[:2], marker.is_commit) == (("orders", 0), (pid, epoch + 1), True)
            assert (await home.end(pid, epoch + 1, version=2)).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING
            answer = await home.init()
            assert answer.producer_id not in {-1, pid}

    run(main)


@pytest.mark.parametrize(
    ("version", "elsewhere", "over"), [(0, True, True), (0, False, False), (2, True, False)]
)
def test_by_the_older_protocol_a_later_transaction_says_that_a_commit_is_over(
    version: int, elsewhere: bool, over: bool
) -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            pid, epoch = await decide(home, version)
            has(home, partition((pid, epoch, 40)), partition((99, 0, 7), name=("b", 0)))
            if elsewhere:
                has(home, partition((pid, epoch, 50), name=("c", 0)))
            await lose(home)
            await carry_out(home)
            assert home.state() == ("Empty" if over else "CompleteCommit")
            assert (home.target.written == []) == over

    run(main)


@pytest.mark.parametrize("recovers", [True, False])
def test_a_partition_that_is_recovered_meanwhile_may_say_that_a_commit_is_over(recovers: bool) -> None:
    """It is waited for, but not for ever."""

    async def main() -> None:
        home = Home()
        async with home.running():
            pid, epoch = await decide(home)
            late = partition((pid, epoch, 50), name=("c", 0))
            late.state, late.available = PartitionState.RECOVERING, False
            late.reason = "it waits for stores"
            has(home, partition((pid, epoch, 40)), late)
            await lose(home)
            home.target.go.set()
            await trio.sleep(fencing.RECOVERY_SECONDS - 2)
            assert (await refused(home.init), home.target.written) == (LOADING, [])
            if recovers:
                late.state, late.available = PartitionState.READY, True
            await trio.sleep(4)
            home.journal.settle()
            await wait_all_tasks_blocked()
            assert home.state() == ("Empty" if recovers else "CompleteCommit")

    run(main)


def test_an_older_transaction_that_hangs_somewhere_says_nothing() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            await home.init()
            pid, epoch = await decide(home)
            has(home, partition((pid, epoch, 40)), partition((pid, epoch - 1, 5), name=("c", 0)))
            await lose(home)
            await carry_out(home)
            assert home.state() == "CompleteCommit"

    run(main)


def test_a_loss_while_ids_are_taken_over_begins_another_load(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            await home.open()
            index, may_go = home.partition("t").index, trio.Event()
            before = Work.before

            async def slow(self: Work, cost: int) -> None:
                await may_go.wait()
                await before(self, cost)

            monkeypatch.setattr(Work, "before", slow)
            home.coordinator.lost_end(index)  # reads, and waits there
            await wait_all_tasks_blocked()
            home.coordinator.lost_end(index)
            may_go.set()
            await trio.sleep(1)
            home.journal.settle()
            await wait_all_tasks_blocked()
            assert home.state() == "CompleteAbort"
            assert home.coordinator.has_everything
            assert await home.init() == Answer(NONE, 1002, 0)

    run(main)


def test_a_topic_that_is_made_anew_has_lost_nothing() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            home.journal.load_fails.add(home.partition("t").index)
            await lose(home)
            home.journal.load_fails.clear()
            home.make_topic()
            assert not home.coordinator.has_everything  # it is looked at
            await wait_all_tasks_blocked()
            await home.open()
            await home.reload("t")
            assert home.state() == "Ongoing"

    run(main)


def test_many_are_written_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencing, "AT_ONCE", 3)

    async def main() -> None:
        home = Home()
        names = [name for name in (f"t{number}" for number in range(2_000)) if partition_for(name, 50) == 0][
            :8
        ]
        async with home.running():
            for name in names:
                await home.init(name)
            await lose(home, names[0])
            found = [home.coordinator.transactions[name].machine.metadata for name in names]
            assert [one and one.producer_epoch for one in found] == [LAST_EPOCH] * 8

    run(main)


def test_a_second_loss_while_the_first_one_is_dealt_with() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            await home.open()
            home.journal.may_load = trio.Event()
            home.coordinator.lost_end(home.partition("t").index)
            await wait_all_tasks_blocked()
            home.coordinator.lost_end(home.partition("t").index)
            home.journal.may_load.set()
            await trio.sleep(1)
            home.journal.settle()
            await wait_all_tasks_blocked()
            assert home.state() == "CompleteAbort"
            assert home.coordinator.has_everything

    run(main)


def test_the_clusters_partitions_are_looked_at_only_where_they_say_something() -> None:
    async def main() -> None:
        home = Home()
        home.topics["broken"] = SimpleNamespace(name="broken", partitions=None)
        async with home.running():
            await home.open()
            await lose(home)
            assert home.state() == "CompleteAbort"

    run(main)


def test_a_producer_id_that_is_needed_for_that_is_for_its_transactional_id() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            await decide(home, BUMPS_EPOCH_FROM)
            await lose(home)
            assert set(home.producer_ids_of.values()) == {"t"}
            assert len(home.producer_ids_of) == 2

    run(main)
