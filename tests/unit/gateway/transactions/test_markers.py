"""Every partition of a transaction gets its marker, whatever its leader says first."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.common.marker import Marker
from gateway.transactions.markers import (
    FIRST_PAUSE_SECONDS,
    LAST_PAUSE_SECONDS,
    MARKERS_AT_ONCE,
    MARKERS_OF_A_PARTITION,
    MISSING_SECONDS,
    PROBES_AT_ONCE,
    Ending,
    Markers,
)
from gateway.transactions.metadata import TopicPartition
from tests.unit.gateway.transactions.home import ORDERS, FakeTarget, run
from wireproto.kafka.errors import ErrorCode

MARKER = Marker(70, 5, 3, is_commit=True, number=9)
FIRST, SECOND = sorted(ORDERS)
REPEATED = [
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.KAFKA_STORAGE_ERROR,
]


def ending() -> Ending:
    return Ending("t", MARKER, ORDERS)


@asynccontextmanager
async def running(target: FakeTarget) -> AsyncIterator[Markers]:
    markers = Markers(target, target.exists)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(markers.run)
        await wait_all_tasks_blocked()
        yield markers
        nursery.cancel_scope.cancel()


async def write_all(markers: Markers, one: Ending) -> None:
    """Return when it is finished."""
    finished = trio.Event()
    one.finished = finished.set
    markers.begin(one)
    await finished.wait()
    assert not one.left


async def write(target: FakeTarget, one: Ending) -> None:
    async with running(target) as markers:
        await write_all(markers, one)


def test_all_are_written_at_once() -> None:
    async def main() -> None:
        target = FakeTarget()
        await write(target, ending())
        assert sorted(target.written) == [(FIRST, MARKER), (SECOND, MARKER)]

    run(main)


def test_a_transaction_without_partitions_needs_none() -> None:
    async def main() -> None:
        target = FakeTarget()
        await write(target, Ending("t", MARKER, ()))
        assert target.tried == []

    run(main)


@pytest.mark.parametrize("error", REPEATED)
def test_errors_that_may_pass_are_tried_again_after_a_short_pause(error: ErrorCode) -> None:
    async def main() -> None:
        target = FakeTarget()
        target.plan[FIRST] = [error, error]
        one = ending()
        async with running(target) as markers:
            began = trio.current_time()
            with trio.fail_after(60):
                await write_all(markers, one)
            assert trio.current_time() - began == pytest.approx(3 * FIRST_PAUSE_SECONDS)
        assert [partition for partition, _ in target.tried].count(FIRST) == 3
        assert [partition for partition, _ in target.tried].count(SECOND) == 1
        assert (sorted(target.written), one.left) == ([(FIRST, MARKER), (SECOND, MARKER)], set())
        assert markers.written == 2

    run(main)


def test_a_partition_that_is_away_for_long_is_asked_each_second() -> None:
    async def main() -> None:
        target = FakeTarget()
        target.plan[FIRST] = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 100
        began = trio.current_time()
        await write(target, Ending("t", MARKER, [FIRST]))
        assert 90 * LAST_PAUSE_SECONDS < trio.current_time() - began < 101 * LAST_PAUSE_SECONDS

    run(main)


def test_one_that_is_away_does_not_hold_up_the_others() -> None:
    async def main() -> None:
        target = FakeTarget()
        target.plan[FIRST] = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 5
        one = ending()
        async with running(target) as markers:
            markers.begin(one)
            await trio.sleep(FIRST_PAUSE_SECONDS / 2)
            assert one.left == {FIRST}

    run(main)


@pytest.mark.parametrize(
    "error", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED]
)
def test_who_was_superseded_gives_up_and_says_so(error: ErrorCode, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        target = FakeTarget()
        target.plan[FIRST] = [error]
        one = ending()
        async with running(target) as markers:
            markers.begin(one)
            await wait_all_tasks_blocked()
        assert (target.written, one.left) == ([(SECOND, MARKER)], {FIRST})

    with caplog.at_level(logging.WARNING):
        run(main)
    assert f"transactional id t: {FIRST[0]}-{FIRST[1]} refuses the marker of producer 70" in caplog.text


def test_after_a_loss_a_partition_with_a_later_epoch_needs_none() -> None:
    async def main() -> None:
        target = FakeTarget()
        target.plan[FIRST] = [ErrorCode.INVALID_PRODUCER_EPOCH]
        target.plan[SECOND] = [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
        finished: list[None] = []
        one = Ending("t", MARKER, (FIRST, SECOND), lambda: finished.append(None), may_be_old=True)
        async with running(target) as markers:
            markers.begin(one)
            await wait_all_tasks_blocked()
            assert (one.left, finished) == ({SECOND}, [])  # another coordinator is another matter
            markers.begin(
                again := Ending("u", MARKER, (FIRST,), lambda: finished.append(None), may_be_old=True)
            )
            await wait_all_tasks_blocked()
            assert (again.left, len(finished)) == (set(), 1)

    run(main)


def test_a_partition_whose_topic_is_gone_needs_none() -> None:
    async def main() -> None:
        target = FakeTarget()
        target.gone = {FIRST}
        one = ending()
        began = trio.current_time()
        await write(target, one)
        assert target.written == [(SECOND, MARKER)]
        # It is looked for once more: this gateway may see an old catalog.
        assert MISSING_SECONDS <= trio.current_time() - began < 3 * MISSING_SECONDS

    run(main)


def test_a_topic_that_this_gateway_sees_late_gets_its_marker() -> None:
    async def main() -> None:
        target = FakeTarget()
        target.gone = {FIRST}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write, target, ending())
            await trio.sleep(MISSING_SECONDS / 2)
            target.gone.clear()
        assert sorted(target.written) == [(FIRST, MARKER), (SECOND, MARKER)]

    run(main)


def test_not_more_than_so_many_are_on_their_way() -> None:
    async def main() -> None:
        target = FakeTarget()
        target.go = trio.Event()
        many = [("many", index) for index in range(3 * MARKERS_AT_ONCE)]
        async with running(target) as markers, trio.open_nursery() as nursery:
            nursery.start_soon(write_all, markers, Ending("t", MARKER, many))
            await wait_all_tasks_blocked()
            assert len(target.tried) == MARKERS_AT_ONCE
            target.go.set()
        assert sorted(partition for partition, _ in target.written) == many

    run(main)


def transactions(how_many: int, partition: TopicPartition, client: str) -> list[Ending]:
    return [
        Ending(f"{client}-{number}", MARKER._replace(producer_id=number), [partition], client=client)
        for number in range(how_many)
    ]


def tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


def test_transactions_that_wait_for_a_partition_that_refuses_probe_it_together_and_go_on_together() -> None:
    async def main() -> None:
        target = FakeTarget()
        target.plan[FIRST] = [ErrorCode.NOT_ENOUGH_REPLICAS] * 1_000
        waiting = transactions(5_000, FIRST, "10.0.0.1")
        async with running(target) as markers:
            before = tasks()
            for one in waiting:
                markers.begin(one)
            await trio.sleep(60 * LAST_PAUSE_SECONDS)
            # Those that were on their way when it first refused, and then one in each pause.
            assert len(target.tried) < MARKERS_OF_A_PARTITION + 70
            assert tasks() <= before + 1
            target.plan[FIRST].clear()
            await trio.sleep(LAST_PAUSE_SECONDS)
            assert not any(one.left for one in waiting)
            assert len(target.written) == len({marker for _, marker in target.written}) == len(waiting)

    run(main)


def test_partitions_that_refuse_hold_up_none_that_works() -> None:
    async def main() -> None:
        target = FakeTarget()
        away = [("away", index) for index in range(2 * (MARKERS_AT_ONCE + PROBES_AT_ONCE))]
        for partition in away:
            target.plan[partition] = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 1_000
        async with running(target) as markers:
            markers.begin(Ending("greedy", MARKER, away, client="10.0.0.1"))
            await trio.sleep(30 * LAST_PAUSE_SECONDS)
            target.go = trio.Event()  # nobody is answered any more
            await trio.sleep(2 * LAST_PAUSE_SECONDS)
            assert (markers.on_their_way, markers.probes) == (0, PROBES_AT_ONCE)
            tried = len(target.tried)
            markers.begin(Ending("modest", MARKER, [FIRST], client="10.0.0.2"))
            await wait_all_tasks_blocked()
            assert target.tried[tried:] == [(FIRST, MARKER)]

    run(main)


def test_clients_of_a_partition_have_turns() -> None:
    async def main() -> None:
        target = FakeTarget()
        target.go = trio.Event()
        async with running(target) as markers:
            for one in transactions(10 * MARKERS_OF_A_PARTITION, FIRST, "10.0.0.1"):
                markers.begin(one)
            await wait_all_tasks_blocked()
            modest = Ending("modest", MARKER, [FIRST], client="10.0.0.2")
            markers.begin(modest)
            target.go.set()
            await wait_all_tasks_blocked()
            tried = [marker for _, marker in target.tried].index(MARKER)
            assert tried < 2 * MARKERS_OF_A_PARTITION

    run(main)


def test_who_is_forgotten_is_sent_no_more() -> None:
    async def main() -> None:
        target = FakeTarget()
        target.plan[FIRST] = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 100
        async with running(target) as markers:
            one, other = transactions(2, FIRST, "10.0.0.1")
            markers.begin(one)
            await trio.sleep(3 * LAST_PAUSE_SECONDS)
            markers.forget(one)
            tried = len(target.tried)
            await trio.sleep(3 * LAST_PAUSE_SECONDS)
            assert (len(target.tried), one.left) == (tried, {FIRST})
            target.plan[FIRST].clear()
            await write_all(markers, other)
            assert target.written == [(FIRST, other.marker)]

    run(main)
