"""Transactional ids in a real log: batches that are shared, failures, what a load finds; and real markers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.common.clients import NOBODY
from gateway.common.marker import Marker
from gateway.journal.group_commit import WRITE_TIMEOUT_SECONDS, NoEffect, Pending
from gateway.journal.lane import size_of
from gateway.transactions.internal_topic import TRANSACTION_TOPIC
from gateway.transactions.journal import ENDING_BYTES, TransactionJournal
from gateway.transactions.local_markers import LocalMarkers
from gateway.transactions.metadata import TransactionMetadata, TransactionState
from gateway.transactions.records import TransactionRecord, decode_record, transaction_key, transaction_value
from gateway.transactions.replay import LoadedTransaction
from tests.unit.gateway.log.fake_log import FakeLog
from tests.unit.gateway.transactions.home import run
from tests.unit.gateway.transactions.samples import known
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.builder import build_batch
from wireproto.records.control import read_marker
from wireproto.records.header import read_header
from wireproto.records.iteration import iter_records

Ongoing = TransactionState.ONGOING


class TransactionLog(FakeLog):
    """A gateway's log with that topic of one partition, and a journal on it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.topic.name = TRANSACTION_TOPIC
        self.broker.topics.get = {TRANSACTION_TOPIC: self.topic}.get
        self.lost: list[int] = []
        self.journal = TransactionJournal(cast("Any", self.broker), self.lost.append)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with super().running(), trio.open_nursery() as nursery:
            nursery.start_soon(self.journal.run)
            await wait_all_tasks_blocked()
            yield
            nursery.cancel_scope.cancel()

    def enter(self, name: str, metadata: TransactionMetadata | None, client: str = NOBODY) -> Pending:
        return self.journal.enter(0, name, metadata, NoEffect(), client)

    async def durable(self) -> None:
        self.acknowledge()
        self.broker.completions.settle()
        await wait_all_tasks_blocked()

    @property
    def batches(self) -> list[list[TransactionRecord]]:
        return [
            [decode_record(record.key, record.value) for record in iter_records(batch)]
            for batches in self.producer.kept.values()
            for batch in batches
        ]


def test_many_transactions_share_a_batch() -> None:
    async def main() -> None:
        log = TransactionLog()
        async with log.running():
            pending = [log.enter(f"t{number}", known(Ongoing, number)) for number in range(30)]
            await wait_all_tasks_blocked()
            assert log.batches == [
                [TransactionRecord(f"t{number}", known(Ongoing, number)) for number in range(30)]
            ]
            assert not any(one.done for one in pending)
            await log.durable()
            assert [one.outcome() for one in pending] == [ErrorCode.NONE] * 30

    run(main)


def test_what_is_not_acknowledged_takes_too_long() -> None:
    async def main() -> None:
        log = TransactionLog()
        async with log.running():
            pending = log.enter("t", known(Ongoing))
            began = trio.current_time()
            with pytest.raises(KafkaError) as late:
                await log.journal.durable(pending)
            assert late.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert trio.current_time() - began >= WRITE_TIMEOUT_SECONDS
            assert log.lost == []

    run(main)


def test_a_partition_that_fails_has_to_be_loaded_again() -> None:
    async def main() -> None:
        log = TransactionLog()
        async with log.running():
            pending = log.enter("t", known(Ongoing))
            await wait_all_tasks_blocked()
            log.partition.fail("a store was lost")
            log.broker.completions.settle()
            assert pending.outcome() is ErrorCode.NOT_COORDINATOR
            assert log.lost == [0]

    run(main)


def test_a_load_finds_the_last_of_each_and_where_it_is() -> None:
    async def main() -> None:
        log = TransactionLog()
        async with log.running():
            for name, metadata in (
                ("a", known(Ongoing)),
                ("b", known(Ongoing)),
                ("a", known(TransactionState.PREPARE_COMMIT)),
                ("c", known(TransactionState.EMPTY)),
                ("b", None),
            ):
                log.enter(name, metadata)
                await wait_all_tasks_blocked()
                await log.durable()
            assert await log.journal.load(0) == {
                "a": LoadedTransaction(known(TransactionState.PREPARE_COMMIT), 2),
                "c": LoadedTransaction(known(TransactionState.EMPTY), 3),
            }

    run(main)


def test_a_load_passes_over_what_it_cannot_read(caplog: pytest.LogCaptureFixture) -> None:
    later_key = (9).to_bytes(2) + transaction_key("later")[2:]
    later_value = (9).to_bytes(2) + transaction_value(known(Ongoing))[2:]
    records: list[tuple[bytes | None, bytes | None]] = [
        (later_key, transaction_value(known(Ongoing))),
        (transaction_key("later"), later_value),
        (transaction_key("broken"), b"\0\1\0"),
        (transaction_key("good"), transaction_value(known(Ongoing))),
    ]

    async def main() -> None:
        log = TransactionLog()
        async with log.running():
            await log.write(build_batch([(key, value, (), 1_700_000_000_000) for key, value in records]))
            assert await log.journal.load(0) == {"good": LoadedTransaction(known(Ongoing), 3)}
            assert log.journal.unreadable_records == 3

    run(main)
    assert "__transaction_state-0: the record at offset 2 is passed over" in caplog.text


def test_a_transaction_that_is_too_large_is_refused_while_it_can_still_end() -> None:
    """Its end is a longer record than the last one before it."""

    async def main() -> None:
        log = TransactionLog()
        async with log.running():
            largest = log.journal.group_commit.place_at(0).largest
            names = ["n" * 200 + str(10_000 + number) for number in range(largest // 300)]

            def of(last: int) -> TransactionMetadata:
                return known(Ongoing, partitions=frozenset((name, 0) for name in (*names, "l" * last)))

            def size(last: int) -> int:
                return size_of((transaction_key("t"), transaction_value(of(last))))

            # One name more than fills the rest: its length has as many bytes all the time.
            fits = 20_000 + largest - ENDING_BYTES - size(20_000)
            assert size(fits) == largest - ENDING_BYTES
            with pytest.raises(KafkaError) as refused:
                log.enter("t", of(fits + 1))
            assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
            assert log.batches == []
            ongoing = log.enter("t", of(fits))
            await wait_all_tasks_blocked()
            await log.durable()
            assert ongoing.outcome() is ErrorCode.NONE
            ends = known(
                TransactionState.PREPARE_COMMIT,
                partitions=of(fits).partitions,
                previous_producer_id=1,
                next_producer_id=2,
                next_producer_epoch=3,
                last_producer_epoch=4,
                client_version=2,
            )
            assert isinstance(log.enter("t", ends), Pending)

    run(main)


# markers ----------------------------------------------------------------------------------------------------


def marker(number: int, *, commit: bool = True, coordinator_epoch: int = 3) -> Marker:
    return Marker(70, 5, coordinator_epoch, commit, number)


def test_a_marker_is_appended_and_answered_when_it_is_durable() -> None:
    async def main() -> None:
        log = FakeLog()
        log.broker.deliver = lambda: None
        log.broker.topics.get = {"t": log.topic}.get
        target = LocalMarkers(cast("Any", log.broker), cast("Any", None))
        assert target.exists(("t", 0))
        assert not target.exists(("t", 1))
        assert not target.exists(("u", 0))
        told: list[ErrorCode] = []

        async def write(one: Marker) -> None:
            told.append(await target.write(("t", 0), one))

        async with log.running(), trio.open_nursery() as nursery:
            nursery.start_soon(write, marker(1))
            await wait_all_tasks_blocked()
            assert told == []
            log.acknowledge()
            log.broker.completions.settle()
            await wait_all_tasks_blocked()
            nursery.start_soon(write, marker(1))  # once more: it is done
            await wait_all_tasks_blocked()
            assert told == [ErrorCode.NONE, ErrorCode.NONE]
            ((batch,),) = log.producer.kept.values()
            header = read_header(batch)
            assert (header.producer_id, header.producer_epoch, header.is_control) == (70, 5, True)
            assert read_marker(batch) == (True, 3)
            assert await target.write(("t", 0), marker(0, coordinator_epoch=2)) is (
                ErrorCode.TRANSACTION_COORDINATOR_FENCED
            )
            assert await target.write(("u", 0), marker(2)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            nursery.start_soon(write, marker(3))
            await wait_all_tasks_blocked()
            log.partition.fail("a store was lost")
            log.broker.completions.settle()
            await wait_all_tasks_blocked()
            assert told[2:] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
            assert await target.write(("t", 0), marker(3)) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(main)


def fill(log: TransactionLog, wide: TransactionMetadata) -> int:
    """Enter as much as one client may; how much that was."""
    for taken in range(1_000_000):
        try:
            log.enter(f"greedy-{taken}", wide, "greedy")
        except KafkaError as error:
            if error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
                return taken
            raise
    raise AssertionError("there is no bound")


@pytest.mark.parametrize("partitions", [1, 6000], ids=["small", "too-large-to-share-a-batch"])
def test_who_writes_as_fast_as_he_can_keeps_nobody_waiting(partitions: int) -> None:
    wide = replace(
        known(Ongoing), partitions=frozenset((f"orders-{index}", 0) for index in range(partitions))
    )

    async def main() -> None:
        log = TransactionLog()
        async with log.running():
            first = log.enter("first", wide, "greedy")
            await wait_all_tasks_blocked()  # it is on its way
            assert fill(log, wide) > 30
            modest = log.enter("modest", known(Ongoing), "modest")
            await log.durable()
            assert (first.done, modest.done) == (True, False)
            for _ in range(2):  # its turn comes with the second batch after that at the latest
                await log.durable()
            assert (modest.done, modest.error) == (True, None)
            log.enter("again", wide, "greedy")

    run(main)


def test_who_waits_for_many_writes_waits_no_longer_than_for_one() -> None:
    """Another gateway asks for hundreds of transactions at once, and gives all of them up after ten seconds:
    those of a partition whose stores are away must not take the others with them.
    """

    async def main() -> None:
        log = TransactionLog()
        async with log.running():
            began = trio.current_time()
            entered = [log.enter(f"t-{number}", known(Ongoing)) for number in range(4)]
            for pending in entered:
                with pytest.raises(KafkaError) as raised:
                    await log.journal.durable(pending)
                assert raised.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert trio.current_time() - began == pytest.approx(WRITE_TIMEOUT_SECONDS, abs=1.0)

    run(main)
