"""What a partition takes, refuses, and remembers of what it refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.log import partition as partition_module
from gateway.log import pending
from gateway.log.appends import Append
from gateway.log.idempotence.state import ProducerState
from gateway.log.partition import Partition, PartitionState
from mesh.protocol.writer import RECORD_OVERHEAD_BYTES
from tests.unit.gateway.kafka_wire import run
from tests.unit.gateway.log.fake_log import NOW_MS, FakeLog, batch, header_of
from wireproto.kafka.errors import ErrorCode, KafkaError

NONE, NOT_LEADER, NO_REPLICAS, OUT_OF_ORDER = (
    ErrorCode.NONE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
)


def logged(body: Callable[[FakeLog], Awaitable[None]], **options: object) -> None:
    """Runs `body` with a log whose workers run."""

    async def main() -> None:
        log = FakeLog(**options)  # type: ignore[arg-type]
        async with log.running():
            await body(log)

    run(main, clock=MockClock(autojump_threshold=0.01))


def append(partition: Partition, content: bytes, *, acks: int = -1, has_room: bool = True) -> Append:
    view = memoryview(bytearray(content))
    return partition.append(header_of(view), view, acks, NOW_MS, gateway_has_room=has_room)


def code(partition: Partition, content: bytes, *, acks: int = -1, has_room: bool = True) -> ErrorCode:
    try:
        append(partition, content, acks=acks, has_room=has_room)
    except KafkaError as error:
        return error.code
    return NONE


# min.insync.replicas --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "stores", "acks", "expected"),
    [
        ("2", 1, -1, NO_REPLICAS),
        ("2", 1, 1, NONE),
        ("2", 1, 0, NONE),
        ("2", 2, -1, NONE),
        ("3", 2, -1, NO_REPLICAS),
        ("1", 1, -1, NONE),
    ],
)
def test_fewer_stores_than_min_insync_replicas_refuse_acks_all(
    wanted: str, stores: int, acks: int, expected: ErrorCode
) -> None:
    async def body(log: FakeLog) -> None:
        assert code(log.partition, batch(b"a"), acks=acks) is expected
        assert log.partition.next_offset == (1 if expected is NONE else 0)

    names = tuple(f"store-{number}" for number in range(1, stores + 1))
    logged(body, stores=names, configs={"min.insync.replicas": wanted})


# idempotent producers that were refused -------------------------------------------------------------------


def first(pid: int = 7, epoch: int = 0) -> bytes:
    return batch(*[b"v"] * 10, pid=pid, epoch=epoch, sequence=0)


def second(pid: int = 7, epoch: int = 0) -> bytes:
    return batch(*[b"w"] * 10, pid=pid, epoch=epoch, sequence=10)


def test_a_first_batch_that_was_refused_is_not_overtaken() -> None:
    async def body(log: FakeLog) -> None:
        partition = log.partition
        assert code(partition, first(), has_room=False) is NO_REPLICAS
        assert code(partition, second()) is NO_REPLICAS
        assert code(partition, second(pid=8)) is NONE  # another producer may begin anywhere
        assert append(partition, first()).base_offset == 10
        assert append(partition, second()).base_offset == 20
        assert append(partition, first()).base_offset == 10  # known now: a duplicate

    logged(body)


def test_a_duplicate_is_answered_when_its_original_is_durable() -> None:
    async def body(log: FakeLog) -> None:
        partition = log.partition
        both = [append(partition, first()), append(partition, first())]
        assert [one.base_offset for one in both] == [0, 0]
        await wait_all_tasks_blocked()
        assert [one.done for one in both] == [False, False]
        log.acknowledge()
        assert [one.done for one in both] == [True, True]
        assert append(partition, first()).done

    logged(body)


def test_also_while_the_partition_did_not_serve() -> None:
    async def body(log: FakeLog) -> None:
        partition = log.partition
        partition.begin_recovery((), None)
        assert code(partition, first()) is NOT_LEADER
        assert code(partition, second()) is NOT_LEADER
        partition.begin_serving(ProducerState())
        assert code(partition, second()) is NO_REPLICAS
        assert [code(partition, content) for content in (first(), second())] == [NONE, NONE]

    logged(body)


@pytest.mark.parametrize(
    "again",
    [[second()], [first(), second()]],
    ids=["refused", "the first was appended, and its answer was lost with the leader before"],
)
def test_a_known_producer_hears_of_no_gap_while_what_was_refused_is_to_come(again: list[bytes]) -> None:
    """librdkafka begins another epoch where it hears of one, and sends again what may have been appended."""

    async def body(log: FakeLog) -> None:
        partition = log.partition
        known = ProducerState()
        known.applied(7, 0, 0, 9, 10, NOW_MS, NOW_MS)
        third = batch(*[b"x"] * 10, pid=7, sequence=20)
        partition.begin_recovery((), None)
        for content in again:
            assert code(partition, content) is NOT_LEADER
        partition.set_end(10)
        partition.begin_serving(known)
        assert code(partition, third) is NO_REPLICAS, "it was sent before the answer to the second was heard"
        assert code(partition, batch(pid=7, epoch=1, sequence=20)) is OUT_OF_ORDER
        assert [code(partition, content) for content in (*again, third)] == [NONE] * (len(again) + 1)
        assert partition.next_offset == 30
        assert code(partition, batch(pid=7, sequence=40)) is OUT_OF_ORDER, "nothing was refused before it"
        assert code(partition, batch(pid=7, sequence=30), has_room=False) is NO_REPLICAS
        assert code(partition, batch(pid=7, sequence=31)) is NO_REPLICAS
        assert code(partition, batch(pid=7, sequence=30)) is NONE

    logged(body)


def test_a_known_producer_that_begins_another_epoch_hears_of_no_gap_either() -> None:
    async def body(log: FakeLog) -> None:
        partition = log.partition
        assert code(partition, first()) is NONE
        begun, second_of_it = batch(pid=7, epoch=1), batch(pid=7, epoch=1, sequence=1)
        assert code(partition, second_of_it) is OUT_OF_ORDER, "nothing was refused before it"
        assert code(partition, begun, has_room=False) is NO_REPLICAS
        assert code(partition, second_of_it) is NO_REPLICAS
        assert [code(partition, content) for content in (begun, second_of_it)] == [NONE, NONE]

    logged(body)


def test_a_batch_before_the_refused_one_may_come() -> None:
    """It was appended and lost with its segment, so only its successor was refused."""

    async def body(log: FakeLog) -> None:
        partition = log.partition
        assert code(partition, second(), has_room=False) is NO_REPLICAS
        assert code(partition, first()) is NONE
        assert code(partition, second()) is NONE

    logged(body)


def test_what_was_in_flight_when_the_partition_failed_is_not_overtaken() -> None:
    async def body(log: FakeLog) -> None:
        partition = log.partition
        waiting = append(partition, first())
        partition.fail("lost")
        assert (waiting.error, waiting.message) == (NOT_LEADER, "lost")
        # Recovered; the batch was kept nowhere, so nothing is known of the producer.
        partition.begin_recovery((), None)
        partition.set_end(0)
        partition.begin_serving(ProducerState())
        assert code(partition, second()) is NO_REPLICAS
        assert [code(partition, content) for content in (first(), second())] == [NONE, NONE]

    logged(body)


def test_a_new_epoch_has_given_up_what_was_refused() -> None:
    async def body(log: FakeLog) -> None:
        partition = log.partition
        assert code(partition, second(), has_room=False) is NO_REPLICAS
        assert code(partition, batch(pid=7, epoch=1, sequence=40)) is NONE

    logged(body)


def test_what_was_refused_is_forgotten_once_it_came() -> None:
    async def body(log: FakeLog) -> None:
        partition = log.partition
        assert code(partition, first(), has_room=False) is NO_REPLICAS
        assert code(partition, first()) is NONE
        partition.producers.begin(ProducerState())  # expired
        assert code(partition, batch(pid=7, sequence=30)) is NONE

    logged(body)


def test_a_duplicate_says_that_it_is_no_longer_awaited() -> None:
    """What an earlier leader had taken came again, and a gap after it was told as one of refused batches."""

    async def body(log: FakeLog) -> None:
        partition = log.partition
        waiting = append(partition, first())
        partition.fail("lost")
        assert waiting.error == NOT_LEADER
        known = ProducerState()
        known.applied(7, 0, 0, 9, 10, NOW_MS, NOW_MS)
        partition.begin_recovery((), None)
        partition.set_end(10)
        partition.begin_serving(known)
        assert code(partition, batch(pid=7, sequence=30)) is NO_REPLICAS
        assert code(partition, first()) is NONE
        assert code(partition, batch(pid=7, sequence=30)) is NO_REPLICAS, "it was refused itself"
        assert code(partition, second()) is NONE
        assert code(partition, batch(pid=7, sequence=20)) is NONE

    logged(body)


def test_nothing_is_remembered_of_a_partition_that_is_deleted() -> None:
    """What was in flight, and what came for it afterwards, was charged as nobody's."""

    async def body(log: FakeLog) -> None:
        partition, account = log.partition, log.context.producers.refused
        append(partition, first())
        assert code(partition, second(pid=8), has_room=False) is NO_REPLICAS
        assert account.used == 1
        partition.delete()
        assert account.used == 0
        assert code(partition, second(pid=9)) is not NONE
        assert account.used == 0

    logged(body)


def test_a_known_producer_is_judged_by_what_is_known() -> None:
    async def body(log: FakeLog) -> None:
        partition = log.partition
        assert code(partition, first()) is NONE
        assert code(partition, second(), has_room=False) is NO_REPLICAS
        assert code(partition, batch(pid=7, sequence=20)) is NO_REPLICAS
        assert [code(partition, content) for content in (first(), second())] == [NONE, NONE]

    logged(body)


def test_sequences_wrap() -> None:
    async def body(log: FakeLog) -> None:
        partition, last = log.partition, 2**31 - 1
        assert code(partition, batch(pid=7, sequence=last), has_room=False) is NO_REPLICAS
        assert code(partition, batch(pid=7, sequence=0)) is NO_REPLICAS
        assert code(partition, batch(pid=7, sequence=last)) is NONE
        assert code(partition, batch(pid=7, sequence=0)) is NONE

    logged(body)


# the window -----------------------------------------------------------------------------------------------


def test_the_window_counts_what_a_batch_costs_besides_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(log: FakeLog) -> None:
        partition, content = log.partition, batch(b"a")
        room = 2 * (len(content) + RECORD_OVERHEAD_BYTES)
        monkeypatch.setattr(pending, "MAX_PARTITION_WINDOW_BYTES", room)
        assert [code(partition, content) for _ in range(3)] == [NONE, NONE, NO_REPLICAS]
        await wait_all_tasks_blocked()
        log.acknowledge(upto=0)
        assert [code(partition, content) for _ in range(2)] == [NONE, NO_REPLICAS]

    logged(body)


def test_a_batch_larger_than_the_window_goes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(log: FakeLog) -> None:
        monkeypatch.setattr(pending, "MAX_PARTITION_WINDOW_BYTES", 600)
        large, small = batch(b"a" * 1000), batch(b"b")
        assert [code(log.partition, content) for content in (large, small)] == [NONE, NO_REPLICAS]
        await wait_all_tasks_blocked()
        log.acknowledge()
        assert [code(log.partition, content) for content in (small, large)] == [NONE, NO_REPLICAS]

    logged(body)


# segments -------------------------------------------------------------------------------------------------


def test_a_segment_has_a_bounded_number_of_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(log: FakeLog) -> None:
        monkeypatch.setattr(partition_module, "MAX_SEGMENT_BATCHES", 3)
        for _ in range(7):
            await log.write(batch(b"a", b"b"))
        starts = [(segment.start_offset, segment.end_offset) for segment in log.partition.chain.segments()]
        assert starts == [(0, 6), (6, 12), (12, None)]

    logged(body)


# failure and deletion -------------------------------------------------------------------------------------


def test_a_failed_partition_is_not_recovered_for_what_was_lost_with_it() -> None:
    async def body(log: FakeLog) -> None:
        again: list[Partition] = []
        log.context.on_recovery(again.append, lambda _: None)
        partition = log.partition
        append(partition, batch(b"a"))
        assert partition.chain.current is not None
        writer = partition.chain.current.writer
        partition.fenced(writer, "taken over")
        assert (partition.state, partition.reason, again) == (
            PartitionState.FAILED,
            "taken over",
            [partition],
        )
        partition.fenced(writer, "again")
        partition.fail("once more")
        assert (partition.state, again) == (PartitionState.FAILED, [partition])
        assert log.producer.window_bytes == 0

    logged(body)


def test_a_segment_of_an_earlier_attempt_fails_nothing() -> None:
    async def body(log: FakeLog) -> None:
        partition = log.partition
        append(partition, batch(b"a"))
        assert partition.chain.current is not None
        old = partition.chain.current.writer
        partition.fail("lost")
        partition.begin_recovery((), None)
        partition.set_end(0)
        partition.begin_serving(ProducerState())
        append(partition, batch(b"b"))
        partition.fenced(old, "late")
        assert partition.state is PartitionState.READY

    logged(body)


def test_a_deleted_partition_stays_deleted() -> None:
    async def body(log: FakeLog) -> None:
        again: list[Partition] = []
        log.context.on_recovery(again.append, lambda _: None)
        partition = log.partition
        waiting = append(partition, batch(b"a"))
        assert partition.chain.current is not None
        writer = partition.chain.current.writer
        partition.delete()
        partition.fenced(writer, "sealed")
        partition.fail("something else")
        assert (partition.state, partition.reason, again) == (
            PartitionState.FAILED,
            "the topic was deleted",
            [],
        )
        assert (waiting.done, waiting.error) == (True, NOT_LEADER)
        assert code(partition, batch(b"b")) is NOT_LEADER

    logged(body)


# leader epochs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (-1, NONE),
        (3, NONE),
        (2, ErrorCode.FENCED_LEADER_EPOCH),
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (-2, ErrorCode.FENCED_LEADER_EPOCH),
        (-(2**31), ErrorCode.FENCED_LEADER_EPOCH),
        (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_only_minus_one_is_an_epoch_that_is_not_given(given: int, expected: ErrorCode) -> None:
    async def body(log: FakeLog) -> None:
        log.partition.leader_epoch = 3
        assert log.partition.check_leader_epoch(given) is expected

    logged(body)


@pytest.mark.parametrize(("epoch", "expected"), [(-2, (-2, 0)), (-1, (-1, -1)), (0, (0, 0)), (1, (-1, -1))])
def test_where_an_epoch_ended_in_an_empty_log(epoch: int, expected: tuple[int, int]) -> None:
    async def body(log: FakeLog) -> None:
        assert log.partition.end_offset_for_epoch(epoch) == expected

    logged(body)


def test_where_an_epoch_before_the_first_ended() -> None:
    async def body(log: FakeLog) -> None:
        await log.write(batch(b"a", b"b"))
        assert log.partition.end_offset_for_epoch(-2) == (-2, 0)
        assert log.partition.end_offset_for_epoch(0) == (0, 2)

    logged(body)
