"""What a gateway that was overtaken, or deposed, does not change any more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.catalog import keys
from gateway.catalog.fenced import Deposed, FencedCatalog
from gateway.catalog.interface import Compare
from gateway.cluster.deletion import Deletion
from gateway.cluster.lineage import CatalogHistory
from gateway.log.compaction.left_over import Noted, forget_outputs
from gateway.log.compaction.output import OutputWriter
from gateway.log.fences import CHANGED_ELSEWHERE, Changes, Overtaken, PartlyDone
from gateway.log.notes import Note, take_notes
from gateway.log.partition import Partition
from gateway.log.segment_sizes import _note as note_size
from mesh.protocol.writer import State
from tests.unit.gateway.catalog.memory import MemoryCatalog
from tests.unit.gateway.log.fake_log import NOW_MS, TOPIC_ID, batch, header_of
from tests.unit.gateway.log.one_store import STORE, Life, OneStore

NAME = keys.topic_key("orders")
RECORD, RECORD_1 = keys.partition_key(TOPIC_ID, 0), keys.partition_key(TOPIC_ID, 1)
LOG = keys.log_name(TOPIC_ID, 0)


async def put_topic(life: Life, catalog: MemoryCatalog) -> None:
    """The topic is in the catalog, as its gateway has read it."""
    life.topic.revision = await catalog.transact([], {NAME: keys.pack({"id": TOPIC_ID.hex()})})


async def begin(catalog: FencedCatalog, life: str) -> None:
    begun = CatalogHistory(catalog).begin(life)
    await catalog.begin_life(keys.LIVES + life, begun.compares, begun.puts, begun.deletes)


def fenced(life: Life) -> FencedCatalog:
    catalog = life.context.catalog
    assert isinstance(catalog, FencedCatalog)
    return catalog


def run(tmp_path: Path, body: Callable[[Life, MemoryCatalog], Awaitable[None]], partitions: int = 2) -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        life = Life(OneStore(tmp_path), catalog, partitions=partitions)
        await put_topic(life, catalog)
        with trio.fail_after(20):
            await body(life, catalog)

    trio.run(main)


def append(life: Life, index: int = 0) -> None:
    view = memoryview(bytearray(batch(b"value")))
    life.topic.partitions[index].append(header_of(view), view, -1, NOW_MS)


def content(catalog: MemoryCatalog) -> dict[str, bytes]:
    return {entry.key: entry.value for entry in catalog.range("")}


# another gateway has changed the partition ---------------------------------------------------------------


def test_a_partition_that_another_gateway_has_changed_is_read_anew_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.log.recovery.recovery.AGAIN_SECONDS", 0)

    async def body(life: Life, catalog: MemoryCatalog) -> None:
        async with life.running():
            first, second = life.topic.partitions
            await life.write(3, first)
            assert first.chain.current is not None
            first.chain.current.outdate()
            record = catalog.get(RECORD)
            assert record is not None
            other = keys.unpack(record.value) | {"next_epoch": 7}
            await catalog.transact([], {RECORD: keys.pack(other)})
            append(life, 0)
            append(life, 1)
            await wait_all_tasks_blocked()
            assert first.reason == CHANGED_ELSEWHERE
            assert len(catalog.range(keys.segments_prefix(TOPIC_ID) + "000000/")) == 1
            assert len(catalog.range(keys.segments_prefix(TOPIC_ID) + "000001/")) == 1
            for _ in range(10):
                await trio.sleep(0.01)
                await life.settle()
            assert [one.high_watermark for one in (first, second)] == [3, 1]
            assert first.leader_epoch == 7
            await life.write(1, first)
            assert first.high_watermark == 4
            assert keys.unpack(catalog.get(RECORD).value)["next_epoch"] == 8  # type: ignore[union-attr]

    run(tmp_path, body)


def test_of_several_transactions_one_may_fail_and_it_is_told_what_is_done(tmp_path: Path) -> None:
    count, spoilt = 200, 77

    async def body(life: Life, catalog: MemoryCatalog) -> None:
        other = await catalog.transact([], {"/other": b""})

        def compose(partition: Partition, changes: Changes) -> bool:
            changes.puts[partition.fence.key] = b"{}"
            changes.compares.append(Compare("/other", 0 if partition.index == spoilt else other))
            return True

        with pytest.raises(PartlyDone) as caught:
            await life.context.fences.change(life.topic.partitions, compose)
        assert caught.value.key == "/other"
        put = {entry.key for entry in catalog.range(keys.PARTITIONS)}
        assert {one.fence.key for one in caught.value.done} == put
        assert 0 < len(put) < count
        assert all(one.fence.under_way is None for one in life.topic.partitions)

    run(tmp_path, body, partitions=count)


def test_a_change_of_many_partitions_is_made_in_pieces_that_a_catalog_takes(tmp_path: Path) -> None:
    count = 1000

    async def body(life: Life, catalog: MemoryCatalog) -> None:
        def compose(partition: Partition, changes: Changes) -> bool:
            changes.puts[partition.fence.key] = b"%d" % partition.index
            return partition.index % 10 != 0

        before = catalog.revision
        done = await life.context.fences.change(life.topic.partitions, compose)
        assert sorted(one.index for one in done) == [index for index in range(count) if index % 10]
        values = {entry.key: entry.value for entry in catalog.range(keys.PARTITIONS)}
        assert values == {one.fence.key: b"%d" % one.index for one in done}
        assert catalog.revision - before < count // 40, "as few transactions as may be"

    run(tmp_path, body, partitions=count)


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "made again"])
def test_what_belongs_to_a_deleted_topic_drops_out(tmp_path: Path, again: bool) -> None:
    async def body(life: Life, catalog: MemoryCatalog) -> None:
        async with life.running():
            await life.write(2)
            await catalog.transact([], {keys.tombstone_key(TOPIC_ID): b"{}"}, [NAME])
            if again:
                await catalog.transact([], {NAME: keys.pack({"id": bytes(16).hex()})})
            before = content(catalog)
            append(life, 1)
            await life.settle()
            assert life.topic.partitions[1].deleted
            with pytest.raises(Overtaken) as overtaken:
                await life.context.fences.transact([life.partition], {RECORD: b""})
            assert list(overtaken.value.partitions) == [life.partition]
            assert life.partition.deleted
            assert content(catalog) == before

    run(tmp_path, body)


def test_no_log_start_moves_where_another_gateway_has_deleted_everything(tmp_path: Path) -> None:
    async def body(life: Life, catalog: MemoryCatalog) -> None:
        async with life.running():
            await life.write(2)
            await catalog.transact([], {}, [NAME, RECORD])
            before = content(catalog)
            await life.context.log_starts.move({life.partition: 1})
            assert content(catalog) == before
            assert life.partition.log_start_offset == 0

    run(tmp_path, body)


def test_a_topic_whose_configs_another_gateway_has_changed_goes_on(tmp_path: Path) -> None:
    async def body(life: Life, catalog: MemoryCatalog) -> None:
        async with life.running():
            await life.write(2)
            changed = await catalog.transact([], {NAME: keys.pack({"id": TOPIC_ID.hex(), "configs": {}})})
            append(life, 1)
            await life.settle()
            assert life.topic.partitions[1].high_watermark == 1
            assert life.topic.revision == changed

    run(tmp_path, body)


# within one gateway ----------------------------------------------------------------------------------------


def test_who_comes_while_a_record_is_being_put_waits_for_it(tmp_path: Path) -> None:
    """A log start, an opening segment and a note that meet: none of them fails, whatever the order."""

    async def body(life: Life, catalog: MemoryCatalog) -> None:
        async with life.running(), trio.open_nursery() as nursery:
            await life.write(4)
            partition = life.partition
            note = keys.segment_tombstone_key("A" * 32)
            await catalog.transact([], {note: keys.pack({"members": [STORE], "log": LOG})})
            with catalog.held():
                assert partition.chain.current is not None
                partition.chain.current.outdate()
                append(life)
                await wait_all_tasks_blocked()
                assert partition.fence.under_way is not None
                nursery.start_soon(life.context.log_starts.move, {partition: 2})
                entry = catalog.get(note)
                assert entry is not None
                nursery.start_soon(take_notes, life.context, [Note.of(entry)])
                await wait_all_tasks_blocked()
                assert len(catalog._queue) == 1
            await life.settle()
            assert (partition.high_watermark, partition.log_start_offset) == (5, 2)
            assert partition.available
            assert catalog.get(note) is None
            assert partition.fence.revision == catalog.get(RECORD).mod_revision  # type: ignore[union-attr]

    run(tmp_path, body)


@pytest.mark.parametrize("ends", [False, True], ids=["while it is put", "when it was put"])
def test_who_only_compares_a_record_that_this_gateway_puts_comes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    """A catalog that does several at once has done the later one first: nobody else has changed anything."""

    async def body(life: Life, catalog: MemoryCatalog) -> None:
        async with life.running():
            await life.write(4)
            partition, fences = life.partition, life.context.fences
            transact = type(catalog).transact
            put = trio.Event()
            goes_on = trio.Event()

            async def the_later_one_first(one: MemoryCatalog, compares: Any, puts: Any, *more: Any) -> int:
                if RECORD not in puts:
                    await put.wait()
                    return await transact(one, compares, puts, *more)
                revision = await transact(one, compares, puts, *more)
                put.set()
                await goes_on.wait()
                return revision

            monkeypatch.setattr(type(catalog), "transact", the_later_one_first)
            record = catalog.get(RECORD)
            assert record is not None
            refused: list[Overtaken] = []

            async def only_compare() -> None:
                try:
                    await fences.transact([partition], {}, [keys.segment_tombstone_key("A" * 32)])
                except Overtaken as overtaken:
                    refused.append(overtaken)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(only_compare)
                await wait_all_tasks_blocked()
                nursery.start_soon(fences.transact, [partition], {RECORD: record.value})
                if ends:
                    goes_on.set()
                await wait_all_tasks_blocked()
                goes_on.set()
            assert [list(overtaken.partitions) for overtaken in refused] == [[]]
            assert partition.available
            assert partition.fence.revision == catalog.get(RECORD).mod_revision  # type: ignore[union-attr]

    run(tmp_path, body)


def test_what_was_made_of_an_earlier_reading_says_nothing_of_a_later_one(tmp_path: Path) -> None:
    async def body(life: Life, catalog: MemoryCatalog) -> None:
        async with trio.open_nursery() as nursery:
            await life.recovery.recover([life.partition], new=True)
            fence = life.partition.fence
            with catalog.held():
                nursery.start_soon(life.context.fences.transact, [life.partition], {RECORD: b"{}"})
                await wait_all_tasks_blocked()
                fence.read(catalog.get(RECORD))
            await wait_all_tasks_blocked()
            assert catalog.get(RECORD) is not None
            assert fence.revision == 0
            with pytest.raises(Overtaken):
                await life.context.fences.transact([life.partition], {RECORD: b"{}"})

    run(tmp_path, body)


def test_a_transaction_that_puts_a_record_is_not_left_in_the_middle(tmp_path: Path) -> None:
    async def body(life: Life, catalog: MemoryCatalog) -> None:
        async with trio.open_nursery() as nursery:
            with catalog.held():
                nursery.start_soon(life.context.fences.transact, [life.partition], {RECORD: b"{}"})
                await wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
        entry = catalog.get(RECORD)
        assert entry is not None
        assert life.partition.fence.revision == entry.mod_revision

    run(tmp_path, body)


def test_a_note_that_was_put_anew_stays(tmp_path: Path) -> None:
    async def body(life: Life, catalog: MemoryCatalog) -> None:
        notes = {keys.closing_key(one * 32): keys.pack({"members": [STORE], "log": LOG}) for one in "AB"}
        older = keys.closing_key("C" * 32)
        await catalog.transact([], notes | {older: keys.pack({"members": [STORE]})})
        read = [Note.of(entry) for entry in catalog.range(keys.CLOSING)]
        await catalog.transact([], {read[0].key: keys.pack({"members": ["other"], "log": LOG})})
        await take_notes(life.context, read)
        assert [entry.key for entry in catalog.range(keys.CLOSING)] == [read[0].key]

    run(tmp_path, body)


def test_notes_of_a_deleted_topic_go_with_its_tombstone_and_after_it(tmp_path: Path) -> None:
    async def body(life: Life, catalog: MemoryCatalog) -> None:
        value = keys.pack({"members": [STORE], "log": LOG})
        tombstone = keys.tombstone_key(TOPIC_ID)
        for buried in (True, False):
            await catalog.transact([], {keys.segment_tombstone_key("A" * 32): value, tombstone: b""}, [NAME])
            if not buried:
                await catalog.transact([], {}, [tombstone])
            await take_notes(life.context, map(Note.of, catalog.range(keys.SEGMENT_TOMBSTONES)))
            assert not catalog.range(keys.SEGMENT_TOMBSTONES)

    run(tmp_path, body)


def test_what_an_older_version_noted_of_a_compaction_is_forgotten(tmp_path: Path) -> None:
    """Nobody knows whose it is: it is compared by itself, and so is the tombstone in its place."""

    async def body(life: Life, catalog: MemoryCatalog) -> None:
        older = Noted("A" * 32, (STORE,), 1, "", -1)
        await catalog.transact([], {keys.compacting_key(older.address): keys.pack({"members": [STORE]})})
        await forget_outputs(life.context, [older])
        assert [entry.key for entry in catalog.range(keys.COMPACTING)] == []
        (tombstone,) = catalog.range(keys.SEGMENT_TOMBSTONES)
        assert tombstone.key == keys.segment_tombstone_key(older.address)
        assert keys.unpack(tombstone.value) == {"members": [STORE], "log": "", "epoch": -1}

    run(tmp_path, body)


def test_a_swap_whose_note_is_gone_changes_nothing(tmp_path: Path) -> None:
    """Another gateway has given the compaction up, and has its outputs forgotten."""

    async def body(life: Life, catalog: MemoryCatalog) -> None:
        async with life.running():
            await life.write(2)
            writer = OutputWriter(life.context, life.partition, life.partition.chain.segments(), b"")
            await writer._begin()
            (note,) = writer.notes
            assert catalog.get(note.key).mod_revision == note.mod_revision  # type: ignore[union-attr]
            await forget_outputs(life.context, writer.noted)
            assert not catalog.range(keys.COMPACTING)
            assert len(catalog.range(keys.SEGMENT_TOMBSTONES)) == 1

    run(tmp_path, body)


# deposed ----------------------------------------------------------------------------------------------------


async def open_segment(life: Life) -> None:
    append(life, 1)
    await life.context.opener._insert_all(life.context.opener._take_ready())


async def note_answers(life: Life) -> None:
    def note(partition: Any, changes: Changes) -> bool:
        changes.puts[keys.segment_key(TOPIC_ID, 0, 0, "A")] = b""
        return True

    await life.context.fences.change([life.partition], note)


async def move_log_start(life: Life) -> None:
    await life.context.log_starts.move({life.partition: 2})


async def take_producer_ids(life: Life) -> None:
    await life.context.producer_ids.allocate()


async def bury_topic(life: Life) -> None:
    await Deletion(life.context, life.stores).bury(life.topic)


async def begin_compaction(life: Life) -> None:
    writer = OutputWriter(life.context, life.partition, life.partition.chain.segments(), b"")
    await writer._begin()


async def forget_compaction(life: Life) -> None:
    await forget_outputs(life.context, [Noted("C" * 32, (STORE,), 1, LOG, 1)])


async def note_closed(life: Life) -> None:
    await take_notes(life.context, map(Note.of, life.catalog.range(keys.CLOSING)))


async def forget_segment(life: Life) -> None:
    deletion = Deletion(life.context, life.stores)
    deletion._old = life.catalog.revision
    await deletion._take_changes()
    await deletion._delete_dropped()


async def note_segment_size(life: Life) -> None:
    closed = life.partition.chain.closed[0]
    await note_size(life.context, life.partition, replace(closed, size=9, aborted=0))


LATE = [
    open_segment,
    note_answers,
    move_log_start,
    take_producer_ids,
    bury_topic,
    begin_compaction,
    forget_compaction,
    note_closed,
    forget_segment,
    note_segment_size,
]


@pytest.mark.parametrize("late", LATE, ids=lambda one: one.__name__)
@pytest.mark.parametrize("deposed", [False, True], ids=["lives", "deposed"])
def test_a_deposed_gateway_changes_nothing_any_more(
    tmp_path: Path, late: Callable[[Life], Awaitable[None]], deposed: bool
) -> None:
    async def body(life: Life, catalog: MemoryCatalog) -> None:
        async with life.running():
            await life.write(2)
            assert life.partition.chain.current is not None
            life.partition.chain.current.outdate()
            await life.write(2)
            assert life.partition.chain.closed
            assert life.partition.chain.current.writer.state is State.OPEN
            value = keys.pack({"members": [STORE], "log": LOG})
            notes = keys.CLOSING + "E" * 32, keys.SEGMENT_TOMBSTONES + "D" * 32, keys.COMPACTING + "C" * 32
            await catalog.transact([], dict.fromkeys(notes, value))
            await begin(fenced(life), "1")
            if not deposed:
                before = catalog.revision
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(late, life)
                    await life.settle()
                assert catalog.revision > before
                return
            await begin(FencedCatalog(catalog), "2")
            before_it = content(catalog)
            raised: list[BaseException] = []

            async def catch() -> None:
                try:
                    await late(life)
                except Deposed as error:
                    raised.append(error)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(catch)
                await life.settle()
            assert len(raised) == 1
            assert content(catalog) == before_it

    run(tmp_path, body)


def test_the_one_that_opens_segments_ends_with_its_gateway(tmp_path: Path) -> None:
    async def body(life: Life, catalog: MemoryCatalog) -> None:
        with pytest.RaisesGroup(Deposed, flatten_subgroups=True, allow_unwrapped=True):
            async with life.running():
                await begin(fenced(life), "1")
                await life.write(2)
                await begin(FencedCatalog(catalog), "2")
                append(life, 1)
                await trio.sleep_forever()

    run(tmp_path, body)
