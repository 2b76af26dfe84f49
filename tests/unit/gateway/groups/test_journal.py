"""What is written for groups: durable before it is answered, many in one batch, bounded, and in order."""

from __future__ import annotations

from functools import partial

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.groups.metadata import GroupMetadata
from gateway.groups.offsets import OffsetTable
from gateway.groups.records import GroupRecord, OffsetRecord
from gateway.journal.group_commit import MAX_LARGE_BYTES, WRITE_TIMEOUT_SECONDS, Pending
from gateway.journal.lane import MAX_BATCH_BYTES, MAX_WAITING_BYTES, TransactionOf
from gateway.log.idempotence.state import ProducerState
from tests.unit.gateway.groups.offsets_log import OffsetsLog, offset, run
from tests.unit.gateway.log.fake_log import FakeLog
from wireproto.kafka.errors import ErrorCode, KafkaError

EMPTY_GROUP = GroupMetadata("consumer", 4, None, None, 1_700_000_000_000, ())


def _table(*keys: tuple[str, int]) -> OffsetTable:
    """A table with an offset of each of these."""
    table = OffsetTable()
    for topic, index in keys:
        table.put(topic, index, offset(0))
    return table


def test_a_commit_is_answered_and_shown_once_it_is_durable() -> None:
    async def main() -> None:
        log, table = OffsetsLog(), OffsetTable()
        async with log.running():
            await log.begin_commit("a", table, {("t", 0): offset(5), ("t", 1): offset(6, "note")})
            assert log.batches == [
                [OffsetRecord("g", "t", 0, offset(5)), OffsetRecord("g", "t", 1, offset(6, "note"))]
            ]
            await trio.sleep(WRITE_TIMEOUT_SECONDS / 2)
            assert (log.told, table.fetch("t", 0)) == ([], None)
            await log.durable()
            assert log.told == [("a", ErrorCode.NONE)]
            assert table.fetch("t", 1) == offset(6, "note")

    run(main)


def test_what_is_committed_in_one_turn_of_the_loop_shares_a_batch() -> None:
    async def main() -> None:
        log = OffsetsLog()
        tables = {f"group {number}": OffsetTable() for number in range(3)}
        async with log.running():
            pending = [
                log.journal.begin_commit(group, table, {("t", 0): offset(number)})
                for number, (group, table) in enumerate(tables.items())
            ]
            assert log.batches == []
            await wait_all_tasks_blocked()
            assert log.batches == [
                [OffsetRecord(group, "t", 0, offset(number)) for number, group in enumerate(tables)]
            ]
            await log.durable()
            assert [one.outcome() for one in pending] == [ErrorCode.NONE] * 3
            assert [table.fetch("t", 0) for table in tables.values()] == [offset(n) for n in range(3)]

    run(main)


def test_what_is_committed_before_anybody_sends_is_sent() -> None:
    async def main() -> None:
        log, table = OffsetsLog(), OffsetTable()
        async with FakeLog.running(log), trio.open_nursery() as nursery:
            log.journal.begin_commit("g", table, {("t", 0): offset(5)})
            nursery.start_soon(log.journal.run)
            await wait_all_tasks_blocked()
            assert log.batches == [[OffsetRecord("g", "t", 0, offset(5))]]
            nursery.cancel_scope.cancel()

    run(main)


def test_what_is_committed_meanwhile_shares_a_batch() -> None:
    async def main() -> None:
        log = OffsetsLog()
        tables = {f"group {number}": OffsetTable() for number in range(20)}
        async with log.running():
            for group, table in tables.items():
                await log.begin_commit(group, table, {("t", 0): offset(len(group))}, group)
            assert len(log.batches) == 1
            await log.durable()
            assert log.told == [("group 0", ErrorCode.NONE)]
            await log.durable()
            assert sorted(log.told) == sorted((group, ErrorCode.NONE) for group in tables)
            sizes = [len(batch) for batch in log.batches]
            assert sizes == [1, 19]
            assert [record.group_id for batch in log.batches for record in batch] == list(tables)
            assert all(table.fetch("t", 0) == offset(len(group)) for group, table in tables.items())

    run(main)


def test_without_acknowledgement_a_commit_times_out_and_may_take_effect_later() -> None:
    async def main() -> None:
        log, table = OffsetsLog(), OffsetTable()
        async with log.running():
            await log.begin_commit("late", table, {("t", 0): offset(1)})
            await trio.sleep(WRITE_TIMEOUT_SECONDS - 0.1)
            assert log.told == []
            await trio.sleep(0.2)
            assert log.told == [("late", ErrorCode.COORDINATOR_NOT_AVAILABLE)]
            assert table.fetch("t", 0) is None
            assert not table.is_empty()  # it is in the log, and may become durable
            await log.durable()
            assert table.fetch("t", 0) == offset(1)
            assert log.lost == []

    run(main)


def test_a_deletion_that_nobody_may_cut_off_ends_in_time_also_when_the_gateway_stops() -> None:
    """Deletions are shielded; whoever watches the deadlines of requests stops with the gateway, and the
    stores may be away. It would wait for ever, and the process with it.
    """

    async def main() -> None:
        log, table = OffsetsLog(), _table(("t", 0))

        async def delete() -> None:
            with trio.CancelScope(shield=True, deadline=100 * WRITE_TIMEOUT_SECONDS):
                await log.journal.delete_group("g", table)

        began = trio.current_time()
        with trio.CancelScope() as everything:
            async with log.running():
                await log.begin("deleted", delete)
                everything.cancel()
        assert trio.current_time() - began <= WRITE_TIMEOUT_SECONDS
        assert log.told == [("deleted", ErrorCode.COORDINATOR_NOT_AVAILABLE)]

    run(main)


def test_a_commit_that_was_not_sent_in_time_never_is() -> None:
    async def main() -> None:
        log, table = OffsetsLog(), OffsetTable()
        async with log.running():
            await log.begin_commit("sent", table, {("t", 0): offset(1)})
            await log.begin_commit("waits", table, {("t", 0): offset(2)})
            await trio.sleep(WRITE_TIMEOUT_SECONDS + 0.1)
            assert [code for _, code in log.told] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
            await log.durable()
            await log.durable()
            assert len(log.batches) == 1
            assert (table.fetch("t", 0), table.keys()) == (offset(1), [("t", 0)])
            # The next one goes out at once: nothing is thought to be on its way.
            await log.begin_commit("next", table, {("t", 0): offset(3)})
            await log.durable()
            assert log.told[-1] == ("next", ErrorCode.NONE)

    run(main)


def test_who_goes_away_does_not_take_his_commit_back() -> None:
    async def main() -> None:
        log, table = OffsetsLog(), OffsetTable()
        async with log.running():
            (await log.begin_commit("a", table, {("t", 0): offset(1)})).cancel()
            (await log.begin_commit("b", table, {("t", 1): offset(2)})).cancel()
            await log.durable()
            await log.durable()
            assert log.told == []
            assert (table.fetch("t", 0), table.fetch("t", 1)) == (offset(1), offset(2))

    run(main)


def test_a_partition_that_fails_has_to_be_loaded_again() -> None:
    async def main() -> None:
        log, table = OffsetsLog(), OffsetTable()
        async with log.running():
            await log.begin_commit("sent", table, {("t", 0): offset(1)})
            await log.begin_commit("waits", table, {("t", 1): offset(2)})
            log.partition.fail("the store has this segment sealed")
            await trio.sleep(1)
            assert dict(log.told) == dict.fromkeys(("sent", "waits"), ErrorCode.NOT_COORDINATOR)
            assert log.lost == [0]
            assert table.is_empty()
            await log.begin_commit("after", table, {("t", 0): offset(3)})
            assert log.told[-1] == ("after", ErrorCode.NOT_COORDINATOR)
            assert log.lost == [0]  # nothing of that one was ever appended

    run(main)


def test_what_the_log_refuses_is_answered_as_clients_of_groups_know_it() -> None:
    async def main() -> None:
        log, table = OffsetsLog(), OffsetTable()
        async with log.running():
            log.partition.begin_recovery((), None)
            await log.begin_commit("recovering", table, {("t", 0): offset(1)})
            log.partition.begin_serving(ProducerState())
            log.topic.settings = log.topic.settings.__class__(
                **{name: getattr(log.topic.settings, name) for name in log.topic.settings.__slots__}
                | {"min_insync_replicas": 2}
            )
            await log.begin_commit("too few stores", table, {("t", 0): offset(1)})
            log.broker.topics.get = lambda _name: None
            await log.begin_commit("no topic", table, {("t", 0): offset(1)})
            assert log.told == [
                ("recovering", ErrorCode.NOT_COORDINATOR),
                ("too few stores", ErrorCode.COORDINATOR_NOT_AVAILABLE),
                ("no topic", ErrorCode.COORDINATOR_NOT_AVAILABLE),
            ]
            assert (log.batches, log.lost, table.is_empty()) == ([], [], True)

    run(main)


def test_one_write_is_in_one_batch_or_refused() -> None:
    async def main() -> None:
        log, table = OffsetsLog(), OffsetTable()
        async with log.running():
            many = {("t", index): offset(index, "m" * 1000) for index in range(1100)}
            await log.begin_commit("too large", table, many)
            assert log.told == [("too large", ErrorCode.UNKNOWN_SERVER_ERROR)]
            assert (log.batches, table.is_empty()) == ([], True)
            fits = dict(list(many.items())[:900])
            await log.begin_commit("large", table, fits)
            await log.durable()
            assert log.told[-1] == ("large", ErrorCode.NONE)
            assert [len(batch) for batch in log.batches] == [900]
            await log.begin_commit("long", table, {("t", 0): offset(1)}, "g" * 40_000)
            assert log.told[-1] == ("long", ErrorCode.UNKNOWN_SERVER_ERROR)
            assert table.count == 900

    run(main)


@pytest.mark.parametrize(
    ("name", "size", "bound"),
    [("small", 2000, MAX_WAITING_BYTES), ("large", MAX_BATCH_BYTES + 1000, MAX_LARGE_BYTES)],
)
def test_what_waits_is_bounded(name: str, size: int, bound: int) -> None:
    async def main() -> None:
        log, table = OffsetsLog(), OffsetTable()
        async with log.running():
            piece = 2000
            commit = {("t", index): offset(0, "m" * piece) for index in range(max(1, size // piece))}
            count = 0
            while not log.told:
                await log.begin_commit(name, table, commit)
                count += 1
            assert log.told == [(name, ErrorCode.COORDINATOR_NOT_AVAILABLE)]
            assert 0.9 * bound < (count - 1) * size < 1.1 * bound
            while len(log.told) < count:
                await log.durable()
            assert [code for _, code in log.told[1:]] == [ErrorCode.NONE] * (count - 1)
            await log.begin_commit(name, table, commit)
            await log.durable()
            assert log.told[-1] == (name, ErrorCode.NONE)

    run(main)


@pytest.mark.parametrize("size", [2000, MAX_BATCH_BYTES + 1000], ids=["small", "large"])
@pytest.mark.parametrize("in_transactions", [False, True], ids=["plain", "in-transactions"])
def test_who_commits_as_fast_as_he_can_leaves_room_for_others(size: int, in_transactions: bool) -> None:
    """All commits are in one order, whoever sends them; what may wait is shared by those who do."""
    commit = {("t", index): offset(0, "m" * 2000) for index in range(max(1, size // 2000))}

    async def main() -> None:
        log, table = OffsetsLog(), OffsetTable()
        async with log.running():

            def enter(number: int, sender: str) -> Pending:
                guards = log.topic.partitions[0].producers.guards
                part_of = TransactionOf(number, 0, guards.take(number), sender) if in_transactions else None
                return log.journal.begin_commit("g", table, commit, 0, part_of=part_of, sender=sender)

            order: list[Pending] = [enter(0, "greedy")]
            await wait_all_tasks_blocked()  # it is on its way
            error: ErrorCode | None = None
            while error is None:
                try:
                    order.append(enter(len(order), "greedy"))
                except KafkaError as refused:
                    error = refused.code
            assert error is ErrorCode.COORDINATOR_NOT_AVAILABLE
            modest = [enter(len(order) + number, f"modest-{number}") for number in range(3)]
            while not modest[-1].done:
                await log.durable()
                done = [one.done for one in (*order, *modest)]
                assert done == sorted(done, reverse=True), "in the order in which they came"
            assert {one.error for one in (*order, *modest)} == {None}
            enter(10_000, "greedy")

    run(main)


def test_a_deletion_comes_behind_the_commits_before_it() -> None:
    async def main() -> None:
        log, table = OffsetsLog(), OffsetTable()
        async with log.running():
            await log.begin_commit("commit", table, {("t", 0): offset(1), ("t", 1): offset(1)})
            await log.begin("delete", partial(log.journal.delete_offsets, "g", table, [("t", 0)]))
            await log.begin_commit("again", table, {("t", 1): offset(2)})
            await log.durable()
            assert table.fetch("t", 0) == offset(1)
            await log.durable()
            assert table.fetch("t", 0) is None
            assert {name for name, _ in log.told} == {"commit", "delete", "again"}
            assert log.batches[1] == [OffsetRecord("g", "t", 0, None), OffsetRecord("g", "t", 1, offset(2))]

    run(main)


def test_a_group_and_its_end() -> None:
    async def main() -> None:
        log = OffsetsLog()
        async with log.running():
            await log.begin("write", partial(log.journal.write_group, "g", EMPTY_GROUP))
            await log.durable()
            await log.begin("delete", partial(log.journal.delete_group, "g", _table(("t", 0), ("u", 9))))
            await log.durable()
            assert log.told == [("write", ErrorCode.NONE), ("delete", ErrorCode.NONE)]
            assert log.batches == [
                [GroupRecord("g", EMPTY_GROUP)],
                [OffsetRecord("g", "t", 0, None), OffsetRecord("g", "u", 9, None), GroupRecord("g", None)],
            ]

    run(main)


def test_the_end_of_a_group_with_many_offsets_takes_several_batches_the_group_last() -> None:
    async def main() -> None:
        log = OffsetsLog()
        keys = [("topic", index) for index in range(2000)]
        async with log.running():
            await log.begin("delete", partial(log.journal.delete_group, "g", _table(*keys)))
            while not log.told:
                await log.durable()
            assert log.told == [("delete", ErrorCode.NONE)]
            assert len(log.batches) > 1
            records = [record for batch in log.batches for record in batch]
            assert records == [
                *(OffsetRecord("g", topic, index, None) for topic, index in keys),
                GroupRecord("g", None),
            ]

    run(main)


def test_a_deletion_that_is_late_takes_the_offsets_along_when_the_log_has_it() -> None:
    """What is shown has to be what a restart would read."""

    async def main() -> None:
        log, table = OffsetsLog(), _table(("t", 0))
        async with log.running():
            await log.begin("delete", partial(log.journal.delete_group, "g", table))
            await trio.sleep(WRITE_TIMEOUT_SECONDS + 0.1)
            assert log.told == [("delete", ErrorCode.COORDINATOR_NOT_AVAILABLE)]
            assert table.fetch("t", 0) == offset(0)
            await log.begin_commit("new", table, {("t", 1): offset(7)})
            await log.durable()
            await log.durable()
            assert log.batches[0] == [OffsetRecord("g", "t", 0, None), GroupRecord("g", None)]
            assert (table.fetch("t", 0), table.fetch("t", 1)) == (None, offset(7))

    run(main)


def test_settled_is_what_was_written_before() -> None:
    async def main() -> None:
        log, table = OffsetsLog(), OffsetTable()
        async with log.running():
            await log.begin("idle", partial(log.journal.settle, "g"))
            assert log.told == [("idle", ErrorCode.NONE)]
            await log.begin_commit("commit", table, {("t", 0): offset(1)})
            await log.begin("settle", partial(log.journal.settle, "g"))
            await trio.sleep(1)
            assert len(log.told) == 1
            await log.durable()
            assert {name for name, _ in log.told} == {"idle", "commit", "settle"}
            await log.begin("idle again", partial(log.journal.settle, "g"))
            assert log.told[-1] == ("idle again", ErrorCode.NONE)

    run(main)


def test_what_is_on_its_way_is_loaded() -> None:
    """It is acknowledged to its client, and would be in a table that nobody looks at any more."""

    async def main() -> None:
        log, loaded = OffsetsLog(), []
        async with log.running():
            await log.begin_commit("commit", OffsetTable(), {("t", 0): offset(7)})

            async def load() -> None:
                loaded.append(await log.journal.load(0))

            await log.begin("load", load)
            assert (log.told, loaded) == ([], [])
            await log.durable()
            assert sorted(log.told) == [("commit", ErrorCode.NONE), ("load", ErrorCode.NONE)]
            assert loaded[0]["g"].offsets.fetch("t", 0) == offset(7)

    run(main)


def test_without_the_topic_there_is_nothing_to_settle_or_load() -> None:
    async def main() -> None:
        log = OffsetsLog()
        log.broker.topics.get = lambda _name: None
        with pytest.raises(KafkaError) as failed:
            await log.journal.settle("g")
        assert failed.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        with pytest.raises(KafkaError) as failed:
            await log.journal.load(0)
        assert failed.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE

    run(main)
