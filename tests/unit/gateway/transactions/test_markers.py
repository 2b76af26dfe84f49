"""Every partition of a transaction gets its marker, whatever its leader says first."""

from __future__ import annotations

import logging

import pytest
import trio

from gateway.common.marker import Marker
from gateway.transactions.markers import (
    FIRST_PAUSE_SECONDS,
    LAST_PAUSE_SECONDS,
    MARKERS_AT_ONCE,
    MISSING_SECONDS,
    Ending,
    Markers,
)
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


def test_all_are_written_at_once() -> None:
    async def main() -> None:
        target = FakeTarget()
        assert await Markers(target, target.exists).write(ending())
        assert sorted(target.written) == [(FIRST, MARKER), (SECOND, MARKER)]

    run(main)


def test_a_transaction_without_partitions_needs_none() -> None:
    async def main() -> None:
        target = FakeTarget()
        assert await Markers(target, target.exists).write(Ending("t", MARKER, ()))
        assert target.tried == []

    run(main)


@pytest.mark.parametrize("error", REPEATED)
def test_errors_that_may_pass_are_tried_again_after_a_short_pause(error: ErrorCode) -> None:
    async def main() -> None:
        target = FakeTarget()
        target.plan[FIRST] = [error, error]
        markers, one = Markers(target, target.exists), ending()
        began = trio.current_time()
        assert await markers.write(one)
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
        assert await Markers(target, target.exists).write(Ending("t", MARKER, [FIRST]))
        assert 90 * LAST_PAUSE_SECONDS < trio.current_time() - began < 101 * LAST_PAUSE_SECONDS

    run(main)


def test_one_that_is_away_does_not_hold_up_the_others() -> None:
    async def main() -> None:
        target = FakeTarget()
        target.plan[FIRST] = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 5
        one = ending()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Markers(target, target.exists).write, one)
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
        assert not await Markers(target, target.exists).write(one)
        assert (target.written, one.left) == ([(SECOND, MARKER)], {FIRST})

    with caplog.at_level(logging.WARNING):
        run(main)
    assert f"transactional id t: {FIRST[0]}-{FIRST[1]} refuses the marker of producer 70" in caplog.text


def test_a_partition_whose_topic_is_gone_needs_none() -> None:
    async def main() -> None:
        target = FakeTarget()
        target.gone = {FIRST}
        one = ending()
        began = trio.current_time()
        assert await Markers(target, target.exists).write(one)
        assert target.written == [(SECOND, MARKER)]
        # It is looked for once more: this gateway may see an old catalog.
        assert MISSING_SECONDS <= trio.current_time() - began < 3 * MISSING_SECONDS

    run(main)


def test_a_topic_that_this_gateway_sees_late_gets_its_marker() -> None:
    async def main() -> None:
        target = FakeTarget()
        target.gone = {FIRST}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Markers(target, target.exists).write, ending())
            await trio.sleep(MISSING_SECONDS / 2)
            target.gone.clear()
        assert sorted(target.written) == [(FIRST, MARKER), (SECOND, MARKER)]

    run(main)


def test_not_more_than_so_many_are_on_their_way() -> None:
    async def main() -> None:
        target = FakeTarget()
        target.go = trio.Event()
        many = [("many", index) for index in range(3 * MARKERS_AT_ONCE)]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Markers(target, target.exists).write, Ending("t", MARKER, many))
            await trio.testing.wait_all_tasks_blocked()
            assert len(target.tried) == MARKERS_AT_ONCE
            target.go.set()
        assert sorted(partition for partition, _ in target.written) == many

    run(main)
