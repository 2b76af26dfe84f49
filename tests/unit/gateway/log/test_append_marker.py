"""Markers that a coordinator has appended: their bytes, what they wait for, and which are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from trio.testing import wait_all_tasks_blocked

from gateway.common.marker import Marker
from gateway.log import pending
from gateway.log.idempotence.state import ProducerState
from gateway.log.partition import Partition
from gateway.log.transactions import aborted_cache
from tests.unit.gateway.log.fake_log import NOW_MS, FakeLog, batch
from tests.unit.gateway.log.test_partition_appends import logged
from tests.unit.gateway.log.transactional import COORDINATOR_EPOCH, PID, append, marker, transactional
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.batch import check_stored
from wireproto.records.control import EndMarker, marker_batch, read_marker

NONE, NOT_LEADER, NO_REPLICAS = (
    ErrorCode.NONE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
)


def code(partition: Partition, what: Marker, *leader_epoch: int) -> ErrorCode:
    try:
        partition.append_marker(what, NOW_MS, *leader_epoch)
    except KafkaError as error:
        return error.code
    return NONE


def kept(log: FakeLog) -> list[bytes]:
    """All that was published, in order."""
    return [content for contents in log.producer.kept.values() for content in contents]


# what is appended -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [False, True])
def test_it_is_kafkas_control_batch_and_takes_one_offset(commit: bool) -> None:
    async def body(log: FakeLog) -> None:
        log.partition.leader_epoch = 4
        append(log.partition, transactional(b"a", b"b"))
        made = log.partition.append_marker(marker(commit=commit, epoch=1), NOW_MS + 9)
        assert (made.base_offset, made.last_offset, log.partition.next_offset) == (2, 2, 3)
        expected = bytearray(marker_batch(PID, 1, EndMarker(commit, COORDINATOR_EPOCH), NOW_MS + 9))
        expected[:8] = (2).to_bytes(8, "big")
        expected[12:16] = (4).to_bytes(4, "big")
        assert kept(log)[1] == bytes(expected)

    logged(body)


def test_under_log_append_time_it_stays_a_control_batch() -> None:
    async def body(log: FakeLog) -> None:
        append(log.partition, transactional())
        log.partition.append_marker(marker(commit=True), NOW_MS + 9)
        content = kept(log)[1]
        header = check_stored(content)
        assert (header.is_control, header.is_transactional, header.is_log_append_time) == (True, True, True)
        assert header.max_timestamp == NOW_MS + 9
        assert read_marker(content) == EndMarker(is_commit=True, coordinator_epoch=COORDINATOR_EPOCH)

    logged(body, configs={"message.timestamp.type": "LogAppendTime"})


def test_the_producer_is_as_the_marker_leaves_it() -> None:
    async def body(log: FakeLog) -> None:
        append(log.partition, transactional(b"a", b"b"))
        log.partition.append_marker(marker(epoch=3, coordinator_epoch=8), NOW_MS + 9)
        known = log.partition.producers.state.find(PID)
        assert known is not None
        assert (known.epoch, known.coordinator_epoch, known.first_offset) == (3, 8, -1)
        assert (known.last_offset, known.timestamp, known.used_ms) == (2, NOW_MS + 9, NOW_MS + 9)
        assert append(log.partition, transactional(epoch=3)).base_offset == 3

    logged(body)


def test_of_a_producer_that_is_not_known_it_is_appended_all_the_same() -> None:
    async def body(log: FakeLog) -> None:
        assert log.partition.append_marker(marker(epoch=3), NOW_MS).base_offset == 0
        assert append(log.partition, transactional(epoch=3)).base_offset == 1

    logged(body)


def test_what_it_has_aborted_is_with_its_segment() -> None:
    async def body(log: FakeLog) -> None:
        partition, cache = log.partition, log.context.aborted.cache
        for pid in (1, 2, 3):
            append(partition, transactional(pid=pid))
        partition.append_marker(marker(1, commit=True), NOW_MS)
        partition.append_marker(marker(3), NOW_MS)
        partition.append_marker(marker(9), NOW_MS)
        assert partition.chain.current is not None
        of_segment = partition.chain.current.aborted
        found: list[tuple[int, int, int]] = []
        of_segment.collect(0, 100, found)
        assert (found, of_segment.lowest, cache.of_open_segments) == ([(3, 2, 4)], 2, 1)
        partition.begin_recovery((), None)
        assert cache.of_open_segments == 0

    logged(body)


def test_a_segment_ends_that_has_very_many_aborted_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(log: FakeLog) -> None:
        monkeypatch.setattr(aborted_cache, "MAX_OF_SEGMENT", 2)
        for number in range(5):
            await log.write(transactional(sequence=number))
            log.partition.append_marker(marker(), NOW_MS)
            await wait_all_tasks_blocked()
            log.acknowledge()
        segments = log.partition.chain.segments()
        assert [segment.start_offset for segment in segments] == [0, 4, 8]
        assert [segment.aborted for segment in segments[:2]] == [2, 2]
        assert log.context.aborted.cache.of_open_segments == 1
        assert log.context.aborted.known(log.partition, 0, 10) is not None, "closed ones stay in memory"

    logged(body)


# what it waits for ----------------------------------------------------------------------------------------


def test_it_waits_until_as_many_stores_have_it_as_count() -> None:
    async def body(log: FakeLog) -> None:
        append(log.partition, transactional())
        made = log.partition.append_marker(marker(), NOW_MS)
        await wait_all_tasks_blocked()
        log.acknowledge(store="store-1")
        assert not made.done, "one of three is not enough, whatever the first one says"
        log.acknowledge(store="store-2", upto=0)
        assert not made.done
        log.acknowledge(store="store-2")
        assert (made.done, made.error) == (True, NONE)

    logged(body, stores=("store-1", "store-2", "store-3"))


def test_one_that_comes_again_waits_for_the_first_and_appends_nothing() -> None:
    async def body(log: FakeLog) -> None:
        partition = log.partition
        append(partition, transactional())
        both = [partition.append_marker(marker(number=1), NOW_MS) for _ in range(2)]
        assert [(one.base_offset, one.last_offset) for one in both] == [(1, 1), (1, 1)]
        await wait_all_tasks_blocked()
        log.acknowledge(upto=0)
        assert [one.done for one in both] == [False, False]
        log.acknowledge()
        assert [one.done for one in both] == [True, True]
        late = partition.append_marker(marker(number=1), NOW_MS)
        assert (late.done, late.base_offset) == (True, 1)
        assert (partition.next_offset, len(kept(log))) == (2, 2)

    logged(body)


def test_one_that_is_late_does_not_end_the_next_transaction() -> None:
    async def body(log: FakeLog) -> None:
        partition = log.partition
        append(partition, transactional())
        partition.append_marker(marker(number=1), NOW_MS)
        append(partition, transactional(sequence=1))
        partition.append_marker(marker(number=1), NOW_MS)
        assert partition.producers.state.open_transactions() == {PID: 2}
        assert partition.append_marker(marker(number=2), NOW_MS).base_offset == 3

    logged(body)


def test_when_the_partition_fails_who_waits_asks_again() -> None:
    async def body(log: FakeLog) -> None:
        partition = log.partition
        append(partition, transactional())
        both = [partition.append_marker(marker(number=1), NOW_MS) for _ in range(2)]
        partition.fail("lost")
        assert [(one.done, one.error, one.message) for one in both] == [(True, NOT_LEADER, "lost")] * 2

    logged(body)


@pytest.mark.parametrize("in_flight", ["marker", "batch"])
def test_an_undecided_marker_is_not_awaited_from_its_producer(in_flight: str) -> None:
    """Its coordinator sends it again; the producer would be held up for minutes by what it cannot send."""

    async def body(log: FakeLog) -> None:
        partition, account = log.partition, log.context.producers.refused
        await log.write(transactional())
        if in_flight == "marker":
            partition.append_marker(marker(commit=True), NOW_MS)
        else:
            append(partition, transactional(sequence=1))
        partition.fail("lost")
        assert account.used == (in_flight == "batch")

    logged(body)


# what is refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("leader_epoch", "expected"), [(-1, NONE), (3, NONE), (2, NOT_LEADER), (4, NOT_LEADER), (0, NOT_LEADER)]
)
def test_what_was_sent_to_another_leader_is_refused(leader_epoch: int, expected: ErrorCode) -> None:
    async def body(log: FakeLog) -> None:
        log.partition.leader_epoch = 3
        assert code(log.partition, marker(), leader_epoch) is expected
        assert log.partition.next_offset == (1 if expected is NONE else 0)

    logged(body)


def leaving(log: FakeLog, _: pytest.MonkeyPatch) -> None:
    log.partition.leave()


def recovering(log: FakeLog, _: pytest.MonkeyPatch) -> None:
    log.partition.begin_recovery((), None)


def deleted(log: FakeLog, _: pytest.MonkeyPatch) -> None:
    log.partition.delete()


def without_room(log: FakeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    append(log.partition, batch(b"x" * 100))
    monkeypatch.setattr(pending, "MAX_PARTITION_WINDOW_BYTES", 1)


REFUSED = [
    (leaving, NOT_LEADER, "an earlier leader"),
    (recovering, NOT_LEADER, "is being recovered"),
    (deleted, NOT_LEADER, "was deleted"),
    (without_room, NO_REPLICAS, "wait for the stores already"),
]


@pytest.mark.parametrize(("bring", "expected", "says"), REFUSED)
def test_what_may_pass_is_refused_so_that_it_comes_again(
    monkeypatch: pytest.MonkeyPatch,
    bring: Callable[[FakeLog, pytest.MonkeyPatch], None],
    expected: ErrorCode,
    says: str,
) -> None:
    async def body(log: FakeLog) -> None:
        partition = log.partition
        append(partition, transactional())
        await wait_all_tasks_blocked()
        log.acknowledge()
        bring(log, monkeypatch)
        end = partition.next_offset
        with pytest.raises(KafkaError, match=says) as refused:
            partition.append_marker(marker(number=1), NOW_MS)
        assert refused.value.code is expected
        assert partition.next_offset == end
        monkeypatch.undo()
        if bring in {leaving, without_room}:
            partition.stay()
            assert partition.producers.state.open_transactions() == {PID: 0}
            assert partition.append_marker(marker(number=1), NOW_MS).base_offset == end, "it was none yet"

    logged(body)


@pytest.mark.parametrize(("wanted", "expected"), [("1", NONE), ("2", NO_REPLICAS)])
def test_fewer_stores_than_min_insync_replicas_refuse_it(wanted: str, expected: ErrorCode) -> None:
    """It counts as sent with acks=all."""

    async def body(log: FakeLog) -> None:
        assert code(log.partition, marker()) is expected
        assert log.partition.next_offset == (1 if expected is NONE else 0)

    logged(body, configs={"min.insync.replicas": wanted})


def test_who_asks_for_one_that_is_not_recovered_has_it_recovered_first() -> None:
    async def body(log: FakeLog) -> None:
        first: list[Partition] = []
        log.context.on_recovery(lambda _: None, first.append)
        log.partition.begin_recovery((), None)
        assert code(log.partition, marker()) is NOT_LEADER
        assert first == [log.partition]

    logged(body)


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (marker(epoch=1), ErrorCode.INVALID_PRODUCER_EPOCH),
        (marker(epoch=2, coordinator_epoch=4), ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (Marker(PID, 2, 5, False, 0, 2), ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_one_of_the_past_is_refused_for_good(what: Marker, expected: ErrorCode) -> None:
    async def body(log: FakeLog) -> None:
        partition = log.partition
        append(partition, transactional(epoch=2))
        partition.append_marker(marker(epoch=2), NOW_MS)
        append(partition, transactional(epoch=2, sequence=1))
        assert code(partition, what) is expected
        assert partition.next_offset == 3
        assert partition.producers.state.open_transactions() == {PID: 2}

    logged(body)


def test_a_recovered_partition_knows_no_numbers() -> None:
    async def body(log: FakeLog) -> None:
        partition = log.partition
        partition.append_marker(marker(number=1), NOW_MS)
        partition.fail("lost")
        partition.begin_recovery((), None)
        partition.set_end(0)
        partition.begin_serving(ProducerState())
        assert partition.append_marker(marker(number=1), NOW_MS).base_offset == 0
        assert partition.next_offset == 1, "it is appended, and no repetition"

    logged(body)


def test_a_transactional_batch_without_room_is_refused_and_awaited() -> None:
    async def body(log: FakeLog) -> None:
        partition = log.partition
        partition.producers._state = full = _Full()
        assert append_code(partition, transactional()) is NO_REPLICAS
        assert append_code(partition, transactional(sequence=1)) is NO_REPLICAS
        assert append_code(partition, batch(pid=8)) is NONE, "one outside of any transaction needs no room"
        full.reason = ""
        assert append_code(partition, transactional(sequence=1)) is NO_REPLICAS, "the first one comes first"
        assert append_code(partition, transactional()) is NONE
        assert append_code(partition, transactional()) is NONE, "it is there already"

    logged(body)


class _Full(ProducerState):
    """One that has no room, until the reason is another."""

    __slots__ = ("reason",)

    def __init__(self) -> None:
        super().__init__()
        self.reason = "full"

    def why_no_room(self, *_: Any, **__: Any) -> str:
        return self.reason


def append_code(partition: Partition, content: bytes) -> ErrorCode:
    try:
        append(partition, content)
    except KafkaError as error:
        return error.code
    return NONE


@pytest.mark.parametrize("epoch", [5, 6])
def test_who_leads_again_under_the_same_epoch_knows_which_markers_came(epoch: int) -> None:
    """One that was sent again, and is late, would end the producer's next transaction."""

    async def body(log: FakeLog) -> None:
        partition = log.partition
        partition.gained(5)
        partition.set_end(0)
        partition.begin_serving(ProducerState())
        append(partition, transactional(b"a"))
        made = partition.append_marker(marker(number=1), NOW_MS)
        partition.led_elsewhere(5)
        partition.gained(epoch)
        partition.set_end(partition.next_offset)
        partition.begin_serving(ProducerState())
        assert partition.producers.check_marker(marker(number=1)) == (
            made.last_offset if epoch == 5 else None
        )

    logged(body)
