"""Whether transactional batches may be appended: what the coordinator's answer becomes for the producer,
guards, and the order of what comes after a batch that was refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine
from typing import Any, cast

import pytest

from gateway.log.idempotence.state import ProducerState
from gateway.log.partition import Partition
from gateway.produce.verification import Verification
from gateway.transactions.verifier import Producing, Verifier
from tests.unit.gateway.log.fake_log import NOW_MS, FakeLog, batch
from tests.unit.gateway.log.test_partition_appends import logged
from tests.unit.gateway.log.transactional import PID, append, marker, transactional
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.header import read_header

OLD, KNOWS_ABORTABLE, ADDS = 10, 11, 12

Body = Callable[[FakeLog], Coroutine[Any, Any, None]]


class Coordinator:
    """Gives one answer for all; `meanwhile` happens while it is asked for the first time."""

    def __init__(self, error: ErrorCode = ErrorCode.NONE, meanwhile: Callable[[], object] = int) -> None:
        self.error = error
        self.asked: list[tuple[Producing, list[Any]]] = []
        self._meanwhile = meanwhile

    async def check(self, who: Producing, partitions: Collection[Any], client: str) -> dict[Any, ErrorCode]:
        assert client == "client"
        self.asked.append((who, list(partitions)))
        if len(self.asked) == 1:
            self._meanwhile()
        return dict.fromkeys(partitions, self.error)


async def verified(
    partition: Partition,
    content: bytes,
    coordinator: Coordinator,
    *,
    version: int = OLD,
    transactional_id: str | None = "tx",
    others: Collection[bytes] = (),
) -> ErrorCode:
    """What becomes of a batch; it is appended if nothing is wrong."""
    verification = Verification(transactional_id, version, "client")
    for one in (*others, content):
        verification.take(partition, memoryview(one))
    try:
        if verification.is_needed:
            await verification.ask(cast("Verifier", coordinator))
        verification.check(partition, read_header(content))
        append(partition, content)
    except KafkaError as error:
        return error.code
    finally:
        verification.close()
    return ErrorCode.NONE


NOT_ENOUGH, NONE = ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NONE


@pytest.mark.parametrize(
    ("answer", "old", "knowing", "adding"),
    [
        (NONE, NONE, NONE, NONE),
        *((ErrorCode(passing), NOT_ENOUGH, NOT_ENOUGH, NOT_ENOUGH) for passing in (14, 15, 16)),
        (ErrorCode.CONCURRENT_TRANSACTIONS, NOT_ENOUGH, NOT_ENOUGH, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.PRODUCER_FENCED, *[ErrorCode.INVALID_PRODUCER_EPOCH] * 3),
        (
            ErrorCode.TRANSACTION_ABORTABLE,
            ErrorCode.INVALID_TXN_STATE,
            *[ErrorCode.TRANSACTION_ABORTABLE] * 2,
        ),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, *[ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 3),
    ],
)
def test_what_the_coordinator_says_becomes_what_the_producer_knows(
    answer: ErrorCode, old: ErrorCode, knowing: ErrorCode, adding: ErrorCode
) -> None:
    async def body(log: FakeLog) -> None:
        found = [
            await verified(log.partition, transactional(pid=version), Coordinator(answer), version=version)
            for version in (OLD, KNOWS_ABORTABLE, ADDS)
        ]
        assert found == [old, knowing, adding]
        assert log.partition.next_offset == 3 * (answer is NONE)
        assert len(log.partition.producers.guards) == 0

    logged(body)


def test_who_it_asks_for_and_whether_it_is_to_be_added() -> None:
    async def body(log: FakeLog) -> None:
        coordinator = Coordinator()
        for version in (OLD, ADDS):
            await verified(log.partition, transactional(pid=version, epoch=3), coordinator, version=version)
        place = log.topic.name, 0
        assert coordinator.asked == [
            (Producing("tx", OLD, 3, adds=False), [place]),
            (Producing("tx", ADDS, 3, adds=True), [place]),
        ]

    logged(body)


def test_of_a_transaction_that_is_open_here_nobody_is_asked() -> None:
    async def body(log: FakeLog) -> None:
        coordinator = Coordinator()
        append(log.partition, transactional())
        assert await verified(log.partition, transactional(sequence=1), coordinator) is NONE
        assert coordinator.asked == []
        assert await verified(log.partition, transactional(epoch=1), coordinator) is NONE
        assert len(coordinator.asked) == 1, "another epoch is another transaction"

    logged(body)


def test_plain_batches_are_not_asked_for() -> None:
    async def body(log: FakeLog) -> None:
        coordinator = Coordinator()
        verification = Verification("tx", OLD, "client")
        verification.take(log.partition, memoryview(batch(pid=8)))
        verification.take(log.partition, memoryview(batch()))
        assert not verification.is_needed
        assert coordinator.asked == []

    logged(body)


@pytest.mark.parametrize("version", [OLD, ADDS])
@pytest.mark.parametrize("what", ["marker", "batch", "recovery"])
def test_what_happens_meanwhile_has_it_asked_again(what: str, version: int) -> None:
    """What was said before may be of what has ended since."""

    async def body(log: FakeLog) -> None:
        partition = log.partition

        def recovery() -> None:
            partition.fail("lost")
            partition.begin_recovery((), None)
            partition.set_end(0)
            partition.begin_serving(ProducerState())

        def ended_batch() -> None:
            append(partition, transactional())
            partition.append_marker(marker(epoch=0), NOW_MS)

        meanwhile = {
            "marker": lambda: partition.append_marker(marker(), NOW_MS),
            "batch": ended_batch,
            "recovery": recovery,
        }[what]
        content = transactional(sequence=int(what == "batch"))
        coordinator = Coordinator(meanwhile=meanwhile)
        assert await verified(partition, content, coordinator, version=version) is NONE
        assert len(coordinator.asked) == 2

    logged(body)


def test_a_partition_that_is_not_there_says_so_itself() -> None:
    async def body(log: FakeLog) -> None:
        log.partition.fail("lost")
        coordinator = Coordinator(ErrorCode.TRANSACTION_ABORTABLE)
        assert await verified(log.partition, transactional(), coordinator) is (
            ErrorCode.NOT_LEADER_OR_FOLLOWER
        )
        assert coordinator.asked == []

    logged(body)


@pytest.mark.parametrize("transactional_id", [None])
def test_without_a_transactional_id_there_is_no_transaction(transactional_id: str | None) -> None:
    async def body(log: FakeLog) -> None:
        coordinator = Coordinator()
        found = await verified(log.partition, transactional(), coordinator, transactional_id=transactional_id)
        assert found is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert coordinator.asked == []

    logged(body)


def test_batches_of_two_producers_in_one_request_are_refused() -> None:
    async def body(log: FakeLog) -> None:
        coordinator = Coordinator()
        found = await verified(log.partition, transactional(), coordinator, others=[transactional(pid=8)])
        assert found is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert coordinator.asked == []
        assert len(log.partition.producers.guards) == 0

    logged(body)


@pytest.mark.parametrize(("version", "first"), [(OLD, NONE), (ADDS, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)])
def test_who_adds_by_writing_begins_with_sequence_0(version: int, first: ErrorCode) -> None:
    async def body(log: FakeLog) -> None:
        assert (
            await verified(log.partition, transactional(sequence=5), Coordinator(), version=version) is first
        )
        if first is not NONE:
            assert await verified(log.partition, transactional(), Coordinator(), version=version) is NONE

    logged(body)


@pytest.mark.parametrize(
    ("answer", "later"),
    [
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, NOT_ENOUGH),
        (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ],
)
def test_no_later_batch_overtakes_one_that_was_refused(answer: ErrorCode, later: ErrorCode) -> None:
    async def body(log: FakeLog) -> None:
        assert await verified(log.partition, transactional(), Coordinator(answer)) is not NONE
        assert await verified(log.partition, transactional(sequence=1), Coordinator()) is later
        assert await verified(log.partition, transactional(), Coordinator()) is NONE
        assert await verified(log.partition, transactional(sequence=1), Coordinator()) is NONE

    logged(body)


def test_what_was_refused_for_good_binds_no_other_epoch() -> None:
    async def body(log: FakeLog) -> None:
        refused = Coordinator(ErrorCode.TRANSACTION_ABORTABLE)
        await verified(log.partition, transactional(sequence=2), refused)
        assert await verified(log.partition, transactional(epoch=1), Coordinator()) is NONE
        assert await verified(log.partition, transactional(epoch=1, sequence=1), Coordinator()) is NONE

    logged(body)


def test_guards_of_one_producer_are_shared_and_given_back() -> None:
    async def body(log: FakeLog) -> None:
        guards = log.partition.producers.guards
        one, same, other = guards.take(PID), guards.take(PID), guards.take(PID + 1)
        assert one is same
        assert one is not other
        guards.give_back(PID, one)
        assert guards.holds(PID, same)
        guards.void(PID)
        assert not guards.holds(PID, same)
        assert guards.holds(PID + 1, other)
        later = guards.take(PID)
        guards.give_back(PID, same)
        assert guards.holds(PID, later), "the one that is void was given back"
        guards.give_back(PID, later)
        guards.give_back(PID + 1, other)
        assert len(guards) == 0

    logged(body)
