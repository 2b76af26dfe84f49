"""Log starts that move: what the catalog says first, what the stores forget then, what clients are told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.catalog import keys
from gateway.cluster.deletion import RETRY_SECONDS, Deletion
from gateway.cluster.replacement import Progress, Replacement
from gateway.cluster.stores import Stores
from gateway.log import partition as partition_module
from gateway.log.neighbours import NoCopies
from gateway.log.partition import Partition, PartitionState
from gateway.log.segment import Segment
from mesh.protocol.address_state import Phase
from mesh.protocol.commit import Commit, Truncation
from mesh.reader import NotServed
from tests.unit.gateway.catalog.memory import MemoryCatalog
from tests.unit.gateway.cluster.test_deletion import BAD, GOOD, Setup
from tests.unit.gateway.log.fake_log import NOW_MS, TOPIC_ID, FakeLog, batch, header_of
from tests.unit.gateway.log.one_store import Life, OneStore, copy_of
from tests.unit.gateway.log.test_cold import lookups
from wireproto.dafka.messages import Head, Record
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.batch import read_header

BATCHES = 3
"""In a segment of these tests; each batch has one record."""


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_module, "MAX_SEGMENT_BATCHES", BATCHES)


def run(path: Path, body: Callable[[Life, OneStore, MemoryCatalog], Awaitable[None]], **life: Any) -> None:
    """`body` with a life that has recovered, and whose stores forget what they are told to."""

    async def main() -> None:
        store, catalog = OneStore(path), MemoryCatalog()
        with trio.fail_after(3600):
            await in_life(store, catalog, lambda one: body(one, store, catalog), **life)
        store.database.close()

    trio.run(main, clock=MockClock(autojump_threshold=0))


async def in_life(
    store: OneStore, catalog: MemoryCatalog, body: Callable[[Life], Awaitable[None]], **settings: Any
) -> None:
    life = Life(store, catalog, **settings)
    deletion = Deletion(life.context, life.stores)
    async with life.running(), trio.open_nursery() as nursery:
        nursery.start_soon(deletion.run)
        await body(life)
        nursery.cancel_scope.cancel()


async def write(life: Life, records: int) -> None:
    """One after the other is durable: one that is still being opened takes all that come meanwhile."""
    for _ in range(records):
        await life.write()


def starts(partition: Partition) -> list[int]:
    """The first offsets of the segments in its chain."""
    return [segment.start_offset for segment in partition.chain.segments()]


def in_catalog(catalog: MemoryCatalog) -> tuple[int, list[int]]:
    """(log start, first offsets of segments) as the catalog has them."""
    entry = catalog.get(keys.partition_key(TOPIC_ID, 0))
    assert entry is not None
    segments = [Segment.unpack(one.value) for one in catalog.range(keys.segments_prefix(TOPIC_ID))]
    return keys.unpack(entry.value)["log_start"], [segment.start_offset for segment in segments]


def forgotten(store: OneStore, address: str) -> bool:
    """Whether the store has deleted an address, with every record of it."""
    state = store.database.load(address)
    return state is not None and state.phase is Phase.DELETED and store.database.row(address, 0) == (b"", -1)


def test_whole_segments_below_it_go_and_one_that_it_lies_in_stays(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        partition = life.partition
        await write(life, 10)
        addresses = [segment.address for segment in partition.chain.segments()]
        assert starts(partition) == [0, 3, 6, 9]
        assert await life.context.log_starts.delete_records({partition: 7}) == {partition: 7}
        await life.settle()
        assert (partition.log_start_offset, starts(partition)) == (7, [6, 9])
        assert in_catalog(catalog) == (7, [6, 9])
        assert catalog.range(keys.SEGMENT_TOMBSTONES) == []
        assert [forgotten(store, address) for address in addresses] == [True, True, False, False]
        assert [partition.check_fetch_offset(offset) for offset in (6, 7, 10)] == [
            ErrorCode.OFFSET_OUT_OF_RANGE,
            ErrorCode.NONE,
            ErrorCode.NONE,
        ]
        assert await life.context.log_starts.delete_records({partition: 2}) == {partition: 7}
        assert await life.context.log_starts.delete_records({partition: -1}) == {partition: 10}
        await life.settle()
        assert starts(partition) == [9], "the open segment stays, whatever lies below the log start"
        await write(life, 3)
        assert in_catalog(catalog) == (10, [9, 12]), "an opening segment takes no log start back"

    run(tmp_path, body)


class Forgetful(NoCopies):
    """Stores of which too few remember the catalog."""

    is_compared = True

    async def wait_compared(self) -> None:
        pass

    async def keep(self, _seconds: float) -> bool:
        return False

    def hurry(self) -> None:
        pass


def test_what_too_few_stores_remember_is_to_be_asked_again(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        partition = life.partition
        await write(life, 10)
        life.context.copies = Forgetful()
        answers = await life.context.log_starts.delete_records({partition: 7})
        refused = answers[partition]
        assert isinstance(refused, KafkaError)
        assert refused.code is ErrorCode.REQUEST_TIMED_OUT
        assert partition.log_start_offset == 7
        life.context.copies = NoCopies()
        assert await life.context.log_starts.delete_records({partition: 7}) == {partition: 7}

    run(tmp_path, body)


@pytest.mark.parametrize("left", [keys.PARTITIONS, keys.SEGMENTS, ""])
def test_a_topic_that_another_gateway_is_deleting_is_left_alone(tmp_path: Path, left: str) -> None:
    """Its entries leave the catalog piece by piece, and this gateway does not know that it is deleted."""

    async def body(life: Life, _store: OneStore, catalog: MemoryCatalog) -> None:
        partition = life.partition
        await write(life, 10)
        await life.settle()
        gone = [
            entry.key
            for prefix in (keys.PARTITIONS, keys.SEGMENTS)
            for entry in catalog.range(prefix)
            if prefix != left
        ]
        await catalog.transact([], {}, gone)
        await life.context.log_starts.move({partition: 7})
        assert not catalog.range(keys.SEGMENT_TOMBSTONES)
        assert starts(partition) == [0, 3, 6, 9]
        assert {entry.key for entry in catalog.range("/")}.isdisjoint(gone)

    run(tmp_path, body)


def test_the_next_life_knows_the_log_start(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        await write(life, 8)
        await life.context.log_starts.delete_records({life.partition: 4})

        async def after(later: Life) -> None:
            partition = later.partition
            assert partition.state is PartitionState.READY
            assert (partition.log_start_offset, partition.high_watermark) == (4, 8)
            assert starts(partition) == [3, 6]
            assert partition.epochs.to_list() == [[0, 4]]
            assert partition.end_offset_for_epoch(0) == (0, 8)

        await in_life(store, await copy_of(catalog), after)

    run(tmp_path, body)


def test_everything_may_go_and_offsets_go_on(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        partition = life.partition
        await write(life, 4)
        life.context.opener.end(partition)
        await life.settle()
        await life.context.log_starts.move({partition: 4})
        await life.settle()
        assert in_catalog(catalog) == (4, [])
        dropped = [c for c in catalog.changes(1) if c.value and c.key.startswith(keys.SEGMENT_TOMBSTONES)]
        marks = ["last" in keys.unpack(change.value or b"") for change in dropped]
        assert marks == [False, True], "after the last one nothing tells the stores where the log ends"

        async def after(later: Life) -> None:
            assert later.partition.log_start_offset == later.partition.high_watermark == 4
            await write(later, 1)
            assert (later.partition.high_watermark, starts(later.partition)) == (5, [4])
            assert later.partition.epochs.to_list() == [[1, 4]]

        await in_life(store, await copy_of(catalog), after)

    run(tmp_path, body)


def test_a_log_goes_on_at_its_start_where_what_is_left_ends_below(tmp_path: Path) -> None:
    """Offsets below the log start are shown to nobody: what is appended there would be lost at once."""

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        await write(life, 3)
        await life.context.log_starts.move({life.partition: 2})
        backup = await copy_of(catalog)
        state = store.database.load(life.partition.chain.segments()[-1].address)
        assert state is not None
        row, running_max = store.database.row(state.address, 0)
        lost = Commit()
        lost.truncations.append(Truncation(state, 0, row, running_max))
        store.database.write(lost)
        store.open()

        async def after(later: Life) -> None:
            partition = later.partition
            assert partition.state is PartitionState.READY, partition.reason
            assert partition.log_start_offset == partition.high_watermark == 2
            await write(later, 1)
            (content,) = await partition.read_cold(2, 1)
            assert read_header(content).base_offset == 2
            await later.context.log_starts.move({partition: 0})
            assert starts(partition) == [2], "what lies below it goes"

        await in_life(store, backup, after, accept_loss=True)

    run(tmp_path, body)


def idempotent(partition: Partition, sequence: int) -> int:
    """Append one record of producer 7; its offset."""
    view = memoryview(bytearray(batch(b"value", pid=7, sequence=sequence)))
    return partition.append(header_of(view), view, -1, NOW_MS).base_offset


@pytest.mark.parametrize("crash_in_next", [False, True], ids=["idle", "with an empty open segment"])
def test_a_late_retry_is_known_though_all_records_have_expired(tmp_path: Path, crash_in_next: bool) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        partition = life.partition
        for sequence in range(2):
            idempotent(partition, sequence)
        await life.settle()
        life.context.opener.end(partition)
        await life.settle()
        if crash_in_next:
            store.deaf = {Record, Head}
            view = memoryview(bytearray(batch()))
            partition.append(header_of(view), view, -1, NOW_MS)
            await life.settle()
        await life.context.log_starts.move({partition: 2})
        await life.settle()
        backup = await copy_of(catalog)
        store.deaf = set()

        async def after(later: Life) -> None:
            assert later.partition.high_watermark == 2
            assert idempotent(later.partition, 1) == 1, "the second of them, which was appended long ago"
            assert idempotent(later.partition, 2) == 2
            await later.settle()
            assert later.partition.high_watermark == 3

        await in_life(store, backup, after)

    run(tmp_path, body)


def test_a_crash_between_catalog_and_stores_is_made_good_by_the_next_life(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        await write(life, 7)
        first = life.partition.chain.segments()[0].address
        store.deaf = {b"X"}
        await life.context.log_starts.move({life.partition: 3})
        await life.settle()
        assert not forgotten(store, first)
        backup = await copy_of(catalog)
        store.hear_all()

        async def after(later: Life) -> None:
            await later.settle()
            assert forgotten(store, first)
            assert later.catalog.range(keys.SEGMENT_TOMBSTONES) == []
            assert (later.partition.log_start_offset, starts(later.partition)) == (3, [3, 6])

        await in_life(store, backup, after)

    run(tmp_path, body)


@pytest.mark.parametrize("first", ["move", "open"])
def test_a_move_and_an_opening_segment_that_meet_in_the_catalog_lose_nothing(first: str) -> None:
    """Both write the partition's record: the log start must not go back, nor the next epoch."""

    async def main() -> None:
        log = FakeLog()
        partition, catalog = log.partition, log.catalog
        async with log.running(), trio.open_nursery() as nursery:
            await log.write(*[batch() for _ in range(BATCHES)])
            partition.leader_epoch = 5  # as after another life: the next segment uses it up
            with catalog.held():

                async def move() -> None:
                    await log.context.log_starts.move({partition: 2})

                def append() -> None:
                    view = memoryview(bytearray(batch()))
                    partition.append(header_of(view), view, -1, NOW_MS)

                if first == "move":
                    nursery.start_soon(move)
                    await wait_all_tasks_blocked()
                append()
                await wait_all_tasks_blocked()
                if first == "open":
                    nursery.start_soon(move)
                    await wait_all_tasks_blocked()
            await wait_all_tasks_blocked()
            log.acknowledge()
            nursery.cancel_scope.cancel()
        entry = catalog.get(keys.partition_key(TOPIC_ID, 0))
        assert entry is not None
        record = keys.unpack(entry.value)
        assert record == {"next_epoch": 6, "epochs": [[0, 2], [5, 3]], "log_start": 2}
        assert partition.log_start_offset == 2

    trio.run(main)


def test_a_segment_whose_end_the_next_one_waits_for_is_not_dropped(tmp_path: Path) -> None:
    """Or nobody would ever announce the next one, and its producers would wait for ever."""

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        partition = life.partition
        await write(life, BATCHES)
        store.deaf = {b"C"}
        await write(life, 1)
        assert partition.high_watermark == BATCHES, "the next segment waits"
        await life.context.log_starts.move({partition: BATCHES})
        assert (partition.log_start_offset, starts(partition)) == (BATCHES, [0, BATCHES])
        store.hear_all()
        await life.settle()
        assert partition.high_watermark == BATCHES + 1
        await life.context.log_starts.move({partition: 0})
        assert starts(partition) == [BATCHES], "a later move drops it"

    run(tmp_path, body)


def test_a_move_that_comes_between_a_roll_and_the_telling_of_it_leaves_the_segment(tmp_path: Path) -> None:
    """The transaction is another task's commit: it is seen a moment before the members are told the end."""

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        partition = life.partition
        await write(life, BATCHES)
        moved: list[Any] = []
        apply = catalog._mirror.apply

        def apply_and_move(plan: Any) -> None:
            apply(plan)
            if not moved and any(key.startswith(keys.CLOSING) for key in plan.entries):
                moved.append(life.context.log_starts._plan(partition, BATCHES, 1000))

        catalog._mirror.apply = apply_and_move  # type: ignore[method-assign]
        await write(life, 1)
        (move,) = moved
        assert move is not None
        assert (move.start, move.dropped) == (BATCHES, []), "its end is to be heard first"

    run(tmp_path, body)


@pytest.mark.parametrize(
    ("offset", "configs", "internal", "state", "expected"),
    [
        (2, {}, False, PartitionState.READY, 2),
        (-1, {}, False, PartitionState.READY, 4),
        (4, {}, False, PartitionState.READY, 4),
        (5, {}, False, PartitionState.READY, ErrorCode.OFFSET_OUT_OF_RANGE),
        (-2, {}, False, PartitionState.READY, ErrorCode.OFFSET_OUT_OF_RANGE),
        (2, {"cleanup.policy": "compact"}, False, PartitionState.READY, ErrorCode.POLICY_VIOLATION),
        (2, {"cleanup.policy": "compact,delete"}, False, PartitionState.READY, 2),
        (2, {}, True, PartitionState.READY, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (2, {}, False, PartitionState.RECOVERING, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_what_a_delete_records_may_ask_for(
    offset: int, configs: dict[str, str], internal: bool, state: PartitionState, expected: int | ErrorCode
) -> None:
    async def main() -> None:
        log = FakeLog(configs=configs)
        log.topic.internal = internal
        async with log.running():
            await log.write(*[batch() for _ in range(BATCHES)])
            await log.write(batch())
            if state is PartitionState.RECOVERING:
                log.partition.begin_recovery((), None)
            answer = (await log.context.log_starts.delete_records({log.partition: offset}))[log.partition]
        assert (answer.code if isinstance(answer, KafkaError) else answer) == expected
        assert log.partition.log_start_offset == (expected if type(expected) is int else 0)

    trio.run(main)


def test_many_segments_leave_in_several_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        log = FakeLog()
        monkeypatch.setattr("gateway.log.log_start.SEGMENTS_AT_ONCE", 2)
        async with log.running():
            for _ in range(5 * BATCHES):
                await log.write(batch())
                await wait_all_tasks_blocked()
            revision = log.context.catalog.revision
            await log.context.log_starts.move({log.partition: 4 * BATCHES})
            assert log.context.catalog.revision == revision + 2
            assert starts(log.partition) == [4 * BATCHES]
            assert log.context.log_starts.segments_removed == 4
            assert log.context.log_starts.bytes_removed == 4 * BATCHES * len(batch())

    trio.run(main)


def test_a_reader_in_the_middle_of_what_goes_is_told_that_it_is_out_of_range() -> None:
    async def main() -> None:
        log = FakeLog(tail_cache_bytes=1)
        lookups(log)
        async with log.running():
            for _ in range(3 * BATCHES):
                await log.write(batch())
                await wait_all_tasks_blocked()
            real = log.reader.read

            async def gone_meanwhile(*asked: Any) -> list[bytes]:
                await log.context.log_starts.move({log.partition: 2 * BATCHES})
                log.reader.read = real  # type: ignore[method-assign]
                raise NotServed("deleted")

            log.reader.read = gone_meanwhile  # type: ignore[method-assign,assignment]
            with pytest.raises(KafkaError) as caught:
                await log.partition.read_cold(1, 1000)
            assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
            assert len(await log.partition.read_cold(2 * BATCHES, 1000)) == BATCHES

    trio.run(main)


def test_the_highest_timestamp_is_looked_for_behind_the_log_start(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        partition = life.partition
        for timestamp in (50, 90, 10, 30, 20):  # the first three are one segment
            view = memoryview(bytearray(batch(b"value", timestamp=timestamp)))
            partition.append(header_of(view), view, -1, NOW_MS)
            await life.settle()
        found = [await partition.max_timestamp()]
        for start in (2, 3, 4):
            await life.context.log_starts.move({partition: start})
            found.append(await partition.max_timestamp())
        assert found == [(1, 90, 0), (3, 30, 0), (3, 30, 0), (4, 20, 0)]
        assert await partition.offset_for_timestamp(15) == (4, 20, 0)

    run(tmp_path, body)


def test_a_copy_for_another_members_place_is_forgotten_when_its_segment_went_meanwhile() -> None:
    async def main() -> None:
        log = FakeLog(stores=("old", "other"))
        known = Stores.always(log.catalog, ["old", "other", "new"])
        topics: Any = SimpleNamespace(by_id=log.broker.topics.by_id, all=lambda: [log.topic])
        replacement = Replacement(log.context, known, topics)
        replacement.progress["old"] = Progress()
        catalog = log.catalog
        async with log.running():
            for _ in range(2):
                view = memoryview(bytearray(batch()))
                for _ in range(BATCHES):
                    one = memoryview(bytearray(view))
                    log.partition.append(header_of(one), one, -1, NOW_MS)
                await wait_all_tasks_blocked()
                for member in ("old", "other"):
                    log.acknowledge(store=member)
                await wait_all_tasks_blocked()
            segment = log.partition.chain.closed[0]
            key = keys.segment_key(TOPIC_ID, 0, 0, segment.address)
            entry = catalog.get(key)
            assert entry is not None

            (move,) = await replacement._note_targets("old", "new", [(entry, segment)])
            tombstone = keys.segment_tombstone_key(segment.address)
            told: list[str] = []

            async def copied(*_: Any, **__: Any) -> bool:
                await log.context.log_starts.move({log.partition: BATCHES})
                dropped = catalog.get(tombstone)
                assert dropped is not None
                told.extend(keys.unpack(dropped.value)["members"])
                await catalog.transact([], {}, [tombstone])  # all of them have confirmed
                return True

            log.context.copier.copy = copied  # type: ignore[method-assign]
            await replacement._slots.acquire_on_behalf_of(("old", entry.key))
            await replacement._move("old", move)
            assert told == ["old", "other", "new"]
            assert catalog.get(tombstone) is catalog.get(entry.key) is None

    trio.run(main)


def test_a_tombstone_that_got_another_member_meanwhile_stays_until_that_one_has_confirmed() -> None:
    async def main() -> None:
        setup = Setup()
        key = keys.segment_tombstone_key("E" * 32)
        await setup.catalog.transact([], {key: keys.pack({"members": [GOOD]})})
        asked = setup.stores.ask

        async def meanwhile(store: str, make: Any) -> Any:
            setup.stores.ask = asked  # type: ignore[method-assign]
            await setup.catalog.transact([], {key: keys.pack({"members": [GOOD, BAD]})})
            return await asked(store, make)

        setup.stores.ask = meanwhile  # type: ignore[method-assign]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(setup.deletion.run)
            await trio.sleep(RETRY_SECONDS)
            assert setup.left() == set()
            assert setup.stores.deleted == {GOOD: ["E" * 32] * 2, BAD: ["E" * 32]}
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_what_a_compaction_has_replaced_in_the_catalog_only_so_far_stays_in_the_chain(tmp_path: Path) -> None:
    """The catalog shows a transaction before whoever made it goes on: the chain follows a moment later."""

    async def body(life: Life, _store: OneStore, catalog: MemoryCatalog) -> None:
        partition = life.partition
        await write(life, 10)
        sources = list(partition.chain.closed[:2])
        made = replace(sources[0], address="F" * 32, end_offset=6, last_sequence=5, cleaned_to=6)

        def key(segment: Segment) -> str:
            return keys.segment_key(TOPIC_ID, 0, segment.start_offset, segment.address)

        await catalog.transact([], {key(made): made.pack()}, [key(segment) for segment in sources])
        assert await life.context.log_starts.delete_records({partition: 4}) == {partition: 4}
        partition.compacted([segment.address for segment in sources], [made])
        assert partition.chain.closed[0] == made
        assert starts(partition) == [0, 6, 9]
        assert in_catalog(catalog) == (4, [0, 6, 9])
        assert await life.context.log_starts.delete_records({partition: 7}) == {partition: 7}
        assert starts(partition) == [6, 9]
        assert in_catalog(catalog) == (7, [6, 9])

    run(tmp_path, body)
