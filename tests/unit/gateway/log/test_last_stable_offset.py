"""The last stable offset of a partition: as batches, markers and log starts come, and in later lives."""

from __future__ import annotations

from pathlib import Path

import pytest
from trio.testing import wait_all_tasks_blocked

from gateway.catalog import keys
from gateway.log import partition as partition_module
from gateway.log.idempotence.state import ProducerState
from gateway.log.partition import Partition
from gateway.log.segment import Segment
from gateway.log.transactions.open_transactions import UNDECIDED
from mesh.reader import NotServed
from tests.unit.gateway.catalog.memory import MemoryCatalog
from tests.unit.gateway.log.fake_log import NOW_MS, TOPIC_ID, FakeLog, batch
from tests.unit.gateway.log.one_store import Life, OneStore, copy_of
from tests.unit.gateway.log.test_log_start import in_life, run, starts
from tests.unit.gateway.log.test_partition_appends import logged
from tests.unit.gateway.log.transactional import append, marker, transactional
from wireproto.dafka.messages import Head, Record
from wireproto.kafka.errors import ErrorCode

NONE, NOT_LEADER, OUT_OF_RANGE = (
    ErrorCode.NONE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.OFFSET_OUT_OF_RANGE,
)


def ends(partition: Partition) -> tuple[int, int, int]:
    """(last stable offset, high watermark, end)."""
    return partition.last_stable_offset, partition.high_watermark, partition.next_offset


# as batches and markers come ------------------------------------------------------------------------------


def test_it_is_the_high_watermark_where_there_are_no_transactions() -> None:
    async def body(log: FakeLog) -> None:
        partition = log.partition
        assert ends(partition) == (0, 0, 0)
        append(partition, batch(b"a", b"b"))
        assert ends(partition) == (0, 0, 2)
        await wait_all_tasks_blocked()
        log.acknowledge()
        assert ends(partition) == (2, 2, 2)

    logged(body)


@pytest.mark.parametrize("commit", [False, True])
def test_it_stays_before_an_open_transaction_until_its_marker_is_durable(commit: bool) -> None:
    async def body(log: FakeLog) -> None:
        partition = log.partition
        await log.write(batch(b"a"))
        append(partition, transactional(b"b", b"c"))
        append(partition, batch(b"d"))
        assert ends(partition) == (1, 1, 4)
        log.acknowledge()
        assert ends(partition) == (1, 4, 4)
        append(partition, batch(b"e"))
        partition.append_marker(marker(commit=commit), NOW_MS)
        append(partition, batch(b"f"))
        assert ends(partition) == (1, 4, 7), "after a crash the marker may be gone"
        log.acknowledge(upto=3)
        assert ends(partition) == (1, 5, 7)
        log.acknowledge(upto=4)
        assert ends(partition) == (6, 6, 7)
        log.acknowledge()
        assert ends(partition) == (7, 7, 7)

    logged(body)


def test_it_moves_from_one_open_transaction_to_the_next() -> None:
    async def body(log: FakeLog) -> None:
        partition = log.partition
        await log.write(transactional(pid=1), transactional(pid=2), transactional(pid=3), batch())
        assert ends(partition) == (0, 4, 4)
        for pid, stable in ((2, 0), (1, 2), (3, 7)):
            partition.append_marker(marker(pid), NOW_MS)
            log.acknowledge()
            assert ends(partition)[0] == stable

    logged(body)


def test_what_comes_of_a_transaction_that_has_begun_changes_nothing() -> None:
    async def body(log: FakeLog) -> None:
        await log.write(transactional(), transactional(sequence=1), transactional(sequence=0, epoch=1))
        assert ends(log.partition) == (0, 3, 3)
        log.partition.append_marker(marker(epoch=1, commit=True), NOW_MS)
        log.acknowledge()
        assert ends(log.partition) == (4, 4, 4)

    logged(body)


def test_a_log_start_that_moves_into_an_open_transaction_takes_it_along() -> None:
    """Below it is nothing that could be unstable, and the transaction's rest stays so."""

    async def body(log: FakeLog) -> None:
        partition = log.partition
        await log.write(batch(), transactional(), transactional(sequence=1), batch())
        assert ends(partition) == (1, 4, 4)
        partition.start_moved(1, ())
        assert ends(partition) == (1, 4, 4)
        partition.start_moved(2, ())
        assert ends(partition) == (2, 4, 4)
        append(partition, batch())
        log.acknowledge()
        assert ends(partition) == (2, 5, 5), "it never goes back"
        partition.append_marker(marker(), NOW_MS)
        log.acknowledge()
        assert ends(partition) == (6, 6, 6)
        assert partition.known_aborted(2, partition.read_hot(2, 1 << 20, whole=True) or ()) == [(7, 1)]

    logged(body)


# what readers are shown -----------------------------------------------------------------------------------


def test_who_reads_what_is_committed_is_shown_what_lies_below() -> None:
    async def body(log: FakeLog) -> None:
        partition = log.partition
        await log.write(batch(), transactional(), batch())

        def shown(offset: int, *, committed: bool) -> tuple[int | None, int | None]:
            batches = partition.read_hot(offset, 1 << 20, whole=True, committed=committed)
            size = partition.hot_bytes(offset, 1 << 20, whole=True, committed=committed)
            assert batches is not None
            assert size == sum(map(len, batches))
            return len(batches), partition.visible_end(committed)

        assert [shown(offset, committed=True) for offset in (0, 1, 2, 3)] == [(1, 1), (0, 1), (0, 1), (0, 1)]
        assert [shown(offset, committed=False) for offset in (0, 1, 2, 3)] == [(3, 3), (2, 3), (1, 3), (0, 3)]
        partition.append_marker(marker(), NOW_MS)
        assert shown(0, committed=True) == (1, 1)
        log.acknowledge()
        assert [shown(offset, committed=True) for offset in (0, 2, 4)] == [(4, 4), (2, 4), (0, 4)]
        assert partition.check_fetch_offset(4, committed=True) is NONE
        assert partition.check_fetch_offset(5, committed=True) is OUT_OF_RANGE

    logged(body)


def test_until_the_producers_are_known_nothing_is_stable() -> None:
    """Never 0, and never the high watermark: a consumer would take it for the log's end."""

    async def body(log: FakeLog) -> None:
        partition = Partition(log.context, log.topic, 0)
        assert partition.last_stable_offset == UNDECIDED
        closed = Segment("A" * 32, 0, 0, ("store-1",), 1, 0).closed(8, 7, 0)
        record = {"next_epoch": 1, "epochs": [[0, 0]], "log_start": 2}
        partition.begin_recovery([closed], record)
        assert (partition.last_stable_offset, partition.high_watermark) == (UNDECIDED, 8)
        partition.show()
        for offset in (0, 2, 5, 8, 9):
            assert partition.check_fetch_offset(offset, committed=True) is NOT_LEADER
        assert [partition.check_fetch_offset(offset) for offset in (0, 5, 8)] == [
            OUT_OF_RANGE,
            NONE,
            NOT_LEADER,
        ]
        partition.set_end(8)
        assert partition.last_stable_offset == UNDECIDED
        partition.begin_serving(ProducerState())
        assert partition.last_stable_offset == 8
        assert partition.check_fetch_offset(8, committed=True) is NONE

    logged(body)


def test_a_partition_that_fails_goes_on_to_show_what_was_stable() -> None:
    async def body(log: FakeLog) -> None:
        partition = log.partition
        await log.write(batch(), transactional(), batch())
        partition.fail("lost")
        assert [partition.check_fetch_offset(offset, committed=True) for offset in (0, 1, 2)] == [
            NONE,
            NOT_LEADER,
            NOT_LEADER,
        ]
        assert [partition.check_fetch_offset(offset) for offset in (1, 2, 3)] == [NONE, NONE, NOT_LEADER]

    logged(body)


def test_of_a_partition_that_another_gateway_leads_nothing_is_told() -> None:
    """When it is led here again it is not known what is stable: another one may have accepted a loss."""

    async def body(log: FakeLog) -> None:
        partition = log.partition
        await log.write(batch(), transactional(), batch())
        partition.led_elsewhere(3)
        assert not partition.producers.has_transactions
        partition.gained(4)
        assert [partition.check_fetch_offset(offset, committed=True) for offset in (0, 1)] == [NOT_LEADER] * 2
        closed = Segment("A" * 32, 0, 0, ("store-1",), 1, 0).closed(5, 4, 0)
        partition.begin_recovery([closed], {"next_epoch": 1, "epochs": [[0, 0]], "log_start": 0})
        partition.show()
        found = [partition.check_fetch_offset(offset, committed=True) for offset in (0, 1, 4)]
        assert found == [NOT_LEADER] * 3
        known = ProducerState()
        known.applied(8, 0, 0, 4, 1, NOW_MS, NOW_MS, is_transactional=True)
        partition.set_end(5)
        partition.begin_serving(known)
        assert ends(partition) == (4, 5, 5)

    logged(body)


def test_where_a_loss_was_accepted_it_ends_with_the_log() -> None:
    async def body(log: FakeLog) -> None:
        partition = log.partition
        await log.write(*[batch()] * 5)
        partition.fail("lost")
        partition.set_end(3)
        assert ends(partition) == (3, 3, 3)
        partition.begin_serving(ProducerState())
        assert ends(partition) == (3, 3, 3)

    logged(body)


# in later lives -------------------------------------------------------------------------------------------


async def write(life: Life, *contents: bytes) -> None:
    for content in contents:
        append(life.partition, content)
        await life.settle()


async def end(life: Life, *, commit: bool = False) -> None:
    life.partition.append_marker(marker(commit=commit), NOW_MS)
    await life.settle()


async def close(life: Life) -> None:
    life.context.opener.end(life.partition)
    await life.settle()


@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.parametrize("commit", [False, True])
def test_an_open_transaction_is_open_in_the_next_life(tmp_path: Path, is_closed: bool, commit: bool) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        await write(life, batch(), transactional(), batch())
        if is_closed:
            await close(life)

        async def after(later: Life) -> None:
            assert ends(later.partition) == (1, 3, 3)
            assert later.partition.producers.state.open_transactions() == {7: 1}
            await write(later, transactional(sequence=1))
            assert ends(later.partition) == (1, 4, 4)
            await end(later, commit=commit)
            assert ends(later.partition) == (5, 5, 5)

            async def last(again: Life) -> None:
                assert ends(again.partition) == (5, 5, 5)
                assert await again.context.aborted.between(again.partition, 0, 5) == (
                    [] if commit else [(7, 1)]
                )
                assert await again.context.aborted.between(again.partition, 5, 6) == []

            await in_life(store, await copy_of(later.catalog), last)

        await in_life(store, await copy_of(catalog), after)

    run(tmp_path, body)


def test_a_marker_that_was_appended_and_lost_leaves_its_transaction_open(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        await write(life, batch(), transactional())
        store.deaf = {Head, Record}
        life.partition.append_marker(marker(number=1), NOW_MS)
        await life.settle()
        assert ends(life.partition) == (1, 2, 3)
        store.hear_all()

        async def after(later: Life) -> None:
            assert ends(later.partition) == (1, 2, 2)
            assert later.partition.append_marker(marker(number=1), NOW_MS).base_offset == 2
            await later.settle()
            assert ends(later.partition) == (3, 3, 3)

        await in_life(store, await copy_of(catalog), after)

    run(tmp_path, body)


def test_retention_may_drop_the_first_part_of_an_open_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_module, "MAX_SEGMENT_BATCHES", 2)

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        await write(life, batch(), *[transactional(sequence=number) for number in range(4)])
        assert (starts(life.partition), ends(life.partition)) == ([0, 2, 4], (1, 5, 5))
        await life.context.log_starts.move({life.partition: 2})
        assert (starts(life.partition), ends(life.partition)) == ([2, 4], (2, 5, 5))

        async def after(later: Life) -> None:
            assert (later.partition.log_start_offset, ends(later.partition)) == (2, (2, 5, 5))
            assert later.partition.producers.state.open_transactions() == {7: 1}
            await end(later)
            assert ends(later.partition) == (6, 6, 6)
            assert await later.context.aborted.between(later.partition, 2, 6) == [(7, 1)]

        await in_life(store, await copy_of(catalog), after)

    run(tmp_path, body)


def test_a_log_that_was_emptied_keeps_its_open_transaction(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        await write(life, batch(), transactional())
        await close(life)
        await life.context.log_starts.move({life.partition: 2})
        await life.settle()
        assert (starts(life.partition), ends(life.partition)) == ([], (2, 2, 2))
        assert catalog.get(keys.producers_key(TOPIC_ID, 0)) is not None

        async def after(later: Life) -> None:
            assert ends(later.partition) == (2, 2, 2)
            assert later.partition.producers.state.open_transactions() == {7: 1}
            await write(later, transactional(sequence=1))
            assert ends(later.partition) == (2, 3, 3)
            assert later.partition.chain.segments()[0].first_unstable == 1
            await end(later)
            assert ends(later.partition) == (4, 4, 4)
            assert await later.context.aborted.between(later.partition, 2, 4) == [(7, 1)]

        await in_life(store, await copy_of(catalog), after)

    run(tmp_path, body)


def test_what_cannot_be_read_says_nothing_of_what_is_stable(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        await write(life, batch(), transactional())
        await close(life)
        later = Life(store, await copy_of(catalog))

        async def fails(*_: object) -> None:
            raise NotServed("gone")

        later.context.reader.beginning = fails  # type: ignore[assignment, method-assign]
        async with later.running():
            assert not later.partition.available
            assert later.partition.last_stable_offset == UNDECIDED
            assert later.partition.check_fetch_offset(0) is NONE
            assert later.partition.check_fetch_offset(0, committed=True) is NOT_LEADER

    run(tmp_path, body)
