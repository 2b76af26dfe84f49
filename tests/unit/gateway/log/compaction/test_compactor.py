"""Compaction at work on real logs: what readers see, what stores keep, what a crash at any point leaves."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from gateway.catalog import keys
from gateway.cluster.rebuild import read_back
from gateway.configs.effective import effective_topic_configs
from gateway.log import partition as partition_module
from gateway.log.compaction import compactor as compaction_module
from gateway.log.compaction import output as compaction_output
from gateway.log.compaction import run as compaction_run
from gateway.log.compaction.compactor import Compaction
from gateway.log.compaction.left_over import LeftOver, Noted, noted_outputs
from gateway.log.compaction.output import Abandoned
from gateway.log.compaction.rules import KEY_BYTES, CompactionLimits, cleanable
from gateway.log.compaction.run import CompactionRun
from gateway.log.partition import Partition, PartitionState
from gateway.log.segment import Segment
from gateway.log.tail_cache import ENTRY_OVERHEAD_BYTES
from mesh import crash_points
from mesh.protocol.address_state import Phase
from tests.unit.gateway.catalog.memory import MemoryCatalog
from tests.unit.gateway.log.fake_log import NOW_MS, batch, header_of
from tests.unit.gateway.log.one_store import STORE, Life, OneStore, copy_of
from tests.unit.gateway.log.test_log_start import in_catalog, in_life, run, starts
from tests.unit.gateway.log.test_retention import Clock
from wireproto.dafka.messages import Head, Record
from wireproto.kafka.errors import KafkaError
from wireproto.records.batch import read_header
from wireproto.records.builder import build_batch
from wireproto.records.header import DELETE_HORIZON_FLAG
from wireproto.records.iteration import iter_records
from wireproto.records.signing import sign

COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}

Pairs = list[tuple[bytes | None, bytes | None]]
Found = list[tuple[int, bytes | None, bytes | None]]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_module, "MAX_SEGMENT_BATCHES", 4)
    monkeypatch.setattr(compaction_run, "MAX_FULL_OUTPUTS", 100)
    monkeypatch.setattr(compaction_run, "PIECE_RECORDS", 3)


async def put(life: Life, *pairs: tuple[bytes | None, bytes | None], pid: int = -1, sequence: int = 0) -> int:
    """One batch; its offset."""
    records: Any = [(key, value, [], life.context.now_ms()) for key, value in pairs]
    fields = {"producer_id": pid, "producer_epoch": 0, "base_sequence": sequence} if pid >= 0 else {}
    view = memoryview(bytearray(build_batch(records, codec=len(pairs) % 5, **fields)))
    append = life.partition.append(header_of(view), view, -1, life.context.now_ms())
    await life.settle()
    return append.base_offset


async def close(life: Life) -> None:
    life.context.opener.end(life.partition)
    await life.settle()


async def read(partition: Partition, offset: int | None = None) -> Found:
    """Every record from `offset` (the log start) on, as a store has it."""
    offset = partition.log_start_offset if offset is None else offset
    found: Found = []
    while offset < partition.high_watermark:
        for content in await partition.read_cold(offset, 1):
            found += [(r.offset, r.key, r.value) for r in iter_records(content) if r.offset >= offset]
            offset = read_header(content).last_offset + 1
    return found


def newest(found: Found) -> Found:
    """What a compaction leaves of these records, tombstones included."""
    last: dict[bytes | None, int] = {key: offset for offset, key, _ in found if key is not None}
    return [record for record in found if last.get(record[1]) == record[0]]


async def while_delivering(life: Life, work: Callable[[], Any]) -> Any:
    """Do it while messages reach the store and come back."""
    result: Any = None
    async with trio.open_nursery() as nursery:

        async def deliver() -> None:
            while True:
                await life.settle()
                await trio.sleep(0.1)

        nursery.start_soon(deliver)
        try:
            result = await work()
        finally:
            nursery.cancel_scope.cancel()
    await life.settle()
    return result


async def compact(life: Life) -> Compaction:
    """One look, and the compaction if there is one to be done."""
    topics: Any = SimpleNamespace(all=lambda: [life.topic])
    compaction = Compaction(life.context, topics, 1000)
    await while_delivering(life, compaction.compact_one)
    return compaction


async def random_log(life: Life, seed: int, batches: int = 23) -> Found:
    """Batches of one to six records of few keys, some of them tombstones; all that was written."""
    chance = random.Random(seed)
    written: Found = []
    for number in range(batches):
        pairs: Pairs = [
            (b"k%d" % chance.randrange(8), None if chance.random() < 0.15 else b"v%d.%d" % (number, i))
            for i in range(chance.randrange(1, 7))
        ]
        base = await put(life, *pairs)
        written += [(base + i, key, value) for i, (key, value) in enumerate(pairs)]
    return written


def left_behind(store: OneStore, partition: Partition) -> set[str]:
    """Addresses that the store keeps something of, and that are not in the chain."""
    chain = {segment.address for segment in partition.chain.segments()}
    return {
        address
        for address in store.database.addresses("", 1000)
        if address not in chain
        and (state := store.database.load(address))
        and state.phase is not Phase.DELETED
    }


@pytest.mark.parametrize("seed", range(3))
def test_the_newest_of_each_key_stays_where_it_was(tmp_path: Path, seed: int) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        partition = life.partition
        written = await random_log(life, seed)
        end, first_open = partition.high_watermark, partition.chain.open_segments()[0].segment.start_offset
        compaction = await compact(life)
        assert (compaction.runs, compaction.failures) == (1, 0), compaction.last_error
        closed = [record for record in written if record[0] < first_open]
        expected = newest(closed) + written[len(closed) :]
        assert await read(partition) == expected
        assert compaction.records_removed == len(written) - len(expected)
        assert (partition.high_watermark, partition.log_start_offset) == (end, 0)
        for offset in range(end):
            assert await read(partition, offset) == [record for record in expected if record[0] >= offset]
        assert left_behind(store, partition) == set()
        assert catalog.range(keys.COMPACTING) == catalog.range(keys.SEGMENT_TOMBSTONES) == []
        again = await compact(life)
        assert again.runs == 0, "what is clean is left alone"

        async def after(later: Life) -> None:
            assert await read(later.partition) == expected
            more = await random_log(later, seed + 100, 9)
            assert (await compact(later)).runs == 1
            closed = [record for record in expected + more if record[0] < starts(later.partition)[-1]]
            rest = [record for record in expected + more if record[0] >= starts(later.partition)[-1]]
            assert await read(later.partition) == newest(closed) + rest
            assert left_behind(store, later.partition) == set()

        await in_life(store, await copy_of(catalog), after, configs=COMPACT)

    run(tmp_path, body, configs=COMPACT)


def test_what_goes_while_other_logs_are_looked_at_is_not_taken_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was found to be due has left the chain; the segments behind it were not judged."""

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        partition = life.partition
        for number in range(8):
            await put(life, (b"same", b"%d" % number))
        await close(life)
        assert starts(partition) == [0, 4]
        looked: list[Partition] = []

        async def meanwhile(_context: Any, one: Partition) -> None:
            looked.append(one)
            if len(looked) == 2:
                await life.context.log_starts.move({partition: gone})

        monkeypatch.setattr(compaction_module, "count_sizes", meanwhile)
        topics: Any = SimpleNamespace(all=lambda: [life.topic, other])
        other: Any = SimpleNamespace(settings=life.topic.settings, partitions=[life.topic.partitions[1]])
        compaction = Compaction(life.context, topics, 1000)
        gone = 8
        await while_delivering(life, compaction.compact_one)
        assert (compaction.runs, compaction.failures, starts(partition)) == (0, 0, [])

    run(tmp_path, body, configs=COMPACT | {"cleanup.policy": "compact,delete"}, partitions=2)


def test_little_is_under_way_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More messages than the sockets hold would push out those of producers."""

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        for number in range(8):
            await put(life, (b"%d" % (number % 7), b"x"))
        await close(life)
        monkeypatch.setattr(compaction_output, "WINDOW_RECORDS", 2)
        monkeypatch.setattr(partition_module, "MAX_SEGMENT_BATCHES", 100)
        store.deaf = {Head, Record}
        windows: list[int] = []
        append = life.context.producer.append

        def counted(writer: Any, content: Any) -> int:
            sequence = append(writer, content)
            windows.append(len(writer))
            return sequence

        monkeypatch.setattr(life.context.producer, "append", counted)
        compaction = await compact(life)
        assert (compaction.failures, windows) == (1, [1, 2])

    run(tmp_path, body, configs=COMPACT)


def test_memory_shows_what_the_stores_have(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        for number in range(4):
            await put(life, (b"same", b"%d" % number))
        await put(life, (b"same", b"4"))
        await compact(life)
        assert life.partition.read_hot(0, 1000, whole=True) is None
        hot = life.partition.read_hot(4, 1000, whole=True)
        assert hot is not None
        assert [r.offset for content in hot for r in iter_records(content)] == [4]
        assert life.context.tail_cache.bytes == 5 * ENTRY_OVERHEAD_BYTES + len(hot[0])

    run(tmp_path, body, configs=COMPACT)


def test_a_log_that_does_not_fit_memory_takes_several_passes(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        partition = life.partition
        written = await random_log(life, 5, 40)
        await close(life)
        passes = 0
        while True:
            plan = cleanable(partition.chain.closed, NOW_MS, CompactionLimits(0.0, 0, 2**62))
            if not plan.segments:
                break
            one = CompactionRun(life.context, partition, plan, no_rest, 3 * KEY_BYTES)
            await while_delivering(life, one.run)
            passes += 1
            assert passes < 100
        assert passes > 3
        assert await read(partition) == newest(written)
        assert left_behind(store, partition) == set()

    run(tmp_path, body, configs=COMPACT)


async def no_rest(_size: int, _seconds: float) -> None:
    await trio.lowlevel.checkpoint()


def test_a_large_outcome_is_several_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        for number in range(12):
            await put(life, (b"%d" % number, b"x"), (b"same", b"x"))
        await close(life)
        monkeypatch.setattr(partition_module, "MAX_SEGMENT_BATCHES", 5)
        await compact(life)
        assert starts(life.partition) == [0, 10, 20]
        found = await read(life.partition)
        assert [key for _, key, _ in found] == [b"%d" % n for n in range(12)] + [b"same"]
        sizes = [segment.size for segment in life.partition.chain.closed]
        assert all(size > 0 for size in sizes)

    run(tmp_path, body, configs=COMPACT)


def test_a_part_of_a_chain_makes_no_more_segments_than_a_transaction_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`segment.bytes` is smaller than it was: the swap would be refused for ever, after all the work."""
    monkeypatch.setattr(compaction_run, "MAX_OUTPUTS", 3)
    sizes = [10, 10, 10, 10, 50, -1, 30]
    segments = [
        Segment("A" * 32, 0, number, (STORE,), 1, 0).closed(number + 1, 0, 0, size=size)
        for number, size in enumerate(sizes)
    ]
    parts = compaction_run.in_parts(segments, 10)
    assert [[segment.size for segment in part] for part in parts] == [[10, 10, 10], [10], [50], [-1, 30]]
    assert [segment for part in parts for segment in part] == segments


def test_a_part_of_a_chain_fills_no_more_segments_than_a_transaction_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compaction_run, "MAX_FULL_OUTPUTS", 2)
    segments = [
        Segment("A" * 32, 0, number, (STORE,), 1, 0).closed(number + 1, batches - 1, 0, size=1)
        for number, batches in enumerate([3, 3, 2, 1, 3, 9, 8, 1])
    ]
    parts = compaction_run.in_parts(segments, 1000)
    assert [[segment.start_offset for segment in part] for part in parts] == [
        [0, 1, 2],
        [3, 4],
        [5],
        [6],
        [7],
    ]


def test_where_too_many_segments_would_come_of_one_the_last_one_is_larger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`segment.bytes` was lowered to a batch of this log."""

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        monkeypatch.setattr(partition_module, "MAX_SEGMENT_BATCHES", 100)
        monkeypatch.setattr(compaction_output, "MAX_OUTPUTS", 3)
        for number in range(12):
            await put(life, (b"%d" % number, b"x"))
        written = await read(life.partition)
        await put(life, (b"0", b"y"))
        await close(life)
        assert len(life.partition.chain.closed) == 1
        life.topic.settings = replace(life.topic.settings, segment_bytes=100)
        await compact(life)
        assert starts(life.partition) == [0, 2, 3]
        assert [key for _, key, _ in await read(life.partition)] == [
            *(key for _, key, _ in written[1:]),
            b"0",
        ]
        assert left_behind(store, life.partition) == set()

    run(tmp_path, body, configs=COMPACT)


def test_a_long_chain_is_swapped_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        monkeypatch.setattr(compaction_run, "MAX_SOURCES", 2)
        written = await random_log(life, 6)
        await close(life)
        assert len(life.partition.chain.closed) > 4
        compaction = await compact(life)
        assert (compaction.runs, compaction.failures) == (1, 0), compaction.last_error
        assert await read(life.partition) == newest(written)
        assert left_behind(store, life.partition) == set()
        assert (await compact(life)).runs == 0

    run(tmp_path, body, configs=COMPACT)


def test_a_bug_in_a_compaction_is_counted_and_put_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        written = await random_log(life, 6)
        await close(life)

        def bug(*_: Any) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(compaction_run, "clean", bug)
        compaction = await compact(life)
        assert (compaction.runs, compaction.failures) == (0, 1)
        assert "ZeroDivisionError" in compaction.last_error
        assert await read(life.partition) == written
        assert left_behind(store, life.partition) == set()

    run(tmp_path, body, configs=COMPACT)
    assert "ZeroDivisionError" in caplog.text


def test_the_last_batch_stays_though_it_is_empty(tmp_path: Path) -> None:
    """A record without a key from before the topic was compacted."""

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        await put(life, (b"a", b"1"))
        await put(life, (None, b"2"), (None, b"3"))
        await close(life)
        await compact(life)
        assert await read(life.partition) == [(0, b"a", b"1")]
        assert (life.partition.high_watermark, life.partition.chain.closed[-1].end_offset) == (3, 3)
        backup = await copy_of(catalog)

        async def after(later: Life) -> None:
            assert await put(later, (b"b", b"4")) == 3

        await in_life(store, backup, after, configs=COMPACT)

    run(tmp_path, body, configs=COMPACT)


def test_tombstones_stay_for_their_time(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        clock = Clock(life)
        partition = life.partition
        await put(life, (b"a", b"1"), (b"b", b"2"))
        await put(life, (b"a", None))
        await close(life)
        await compact(life)
        gone = [(1, b"b", b"2"), (2, b"a", None)]
        assert await read(partition) == gone
        (content,) = await partition.read_cold(2, 1)
        assert read_header(content).attributes & DELETE_HORIZON_FLAG
        assert [r.timestamp for r in iter_records(content)] == [NOW_MS]
        for later, expected in ((86_399_999, gone), (86_400_000, gone[:1])):
            clock.now = NOW_MS + later
            base = await put(life, (b"c%d" % later, b"3"))
            await close(life)
            await compact(life)
            assert [record for record in await read(partition) if record[0] < 3] == expected
            assert (await read(partition))[-1][0] == base

    run(tmp_path, body, configs=COMPACT | {"delete.retention.ms": "86400000"})


def test_idempotent_producers_stay_known(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        for number in range(3):
            await put(life, (b"same", b"%d" % number), pid=7, sequence=number)
        await put(life, (b"same", b"last"))
        await close(life)
        await compact(life)
        assert await read(life.partition) == [(3, b"same", b"last")]

        async def after(later: Life) -> None:
            assert await put(later, (b"same", b"2"), pid=7, sequence=2) == 2, "as it was answered long ago"
            with pytest.raises(KafkaError):
                await put(later, (b"same", b"5"), pid=7, sequence=5)
            assert await put(later, (b"same", b"3"), pid=7, sequence=3) == 4

        await in_life(store, await copy_of(catalog), after, configs=COMPACT)

    run(tmp_path, body, configs=COMPACT)


def test_a_batch_that_does_not_parse_stays_as_it_is(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        await put(life, (b"a", b"1"))
        good = batch(*[b"x"] * 20)
        bad = sign(read_header(good), b"\xff" * 200)
        view = memoryview(bytearray(bad))
        life.partition.append(header_of(view), view, -1, NOW_MS)
        await life.settle()
        await put(life, (b"a", b"2"))
        await close(life)
        assert (await compact(life)).runs == 1
        (content,) = await life.partition.read_cold(1, 1)
        assert bytes(content)[21:] == bad[21:]
        assert await read(life.partition, 21) == [(21, b"a", b"2")]

    run(tmp_path, body, configs=COMPACT)


def test_timestamps_and_epochs_are_found_in_what_is_left(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        clock = Clock(life)
        for number in range(4):
            clock.now = NOW_MS + number
            await put(life, (b"%d" % (number % 2), b"x"))
        backup = await copy_of(catalog)

        async def after(later: Life) -> None:
            clock = Clock(later)
            clock.now = NOW_MS + 10
            for number in range(4):
                await put(later, (b"new%d" % number, b"x"))
            await close(later)
            assert later.partition.epochs.to_list() == [[0, 0], [1, 4]]
            await compact(later)
            partition = later.partition
            assert [offset for offset, *_ in await read(partition)] == [2, 3, 4, 5, 6, 7]
            assert await partition.offset_for_timestamp(NOW_MS) == (2, NOW_MS + 2, 0)
            assert await partition.offset_for_timestamp(NOW_MS + 4) == (4, NOW_MS + 10, 1)
            assert await partition.max_timestamp() == (4, NOW_MS + 10, 1)
            assert partition.end_offset_for_epoch(0) == (0, 4)

        await in_life(store, backup, after, configs=COMPACT)

    run(tmp_path, body, configs=COMPACT)


# crashes ---------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process ends here, and nothing that it does behind it counts."""


def kill_at(monkeypatch: pytest.MonkeyPatch, point: str, times: int) -> None:
    reached = 0

    def reach(name: str) -> None:
        nonlocal reached
        reached += name == point
        if name == point and reached == times:
            raise Killed

    async def nothing(_context: Any, _outputs: Any) -> None:
        await trio.lowlevel.checkpoint()

    monkeypatch.setattr(crash_points, "reach", reach)
    monkeypatch.setattr(compaction_run, "forget_outputs", nothing)


POINTS = [
    *(("during-compaction", times) for times in (1, 3, 5)),
    ("before-compaction-swap", 1),
    ("after-compaction-swap", 1),
]


@pytest.mark.parametrize("lost_catalog", [False, True], ids=["catalog kept", "catalog lost"])
@pytest.mark.parametrize("deaf", [set(), {b"C"}], ids=["heard", "deaf to ends"])
@pytest.mark.parametrize(("point", "times"), POINTS)
def test_killed_at_any_point_nothing_is_lost(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
    times: int,
    deaf: set[type | bytes],
    lost_catalog: bool,
) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        written = await random_log(life, 11)
        await close(life)
        store.deaf = deaf
        with monkeypatch.context() as patched:
            kill_at(patched, point, times)
            with pytest.raises(BaseExceptionGroup) as caught:
                await compact(life)
            assert caught.group_contains(Killed, depth=1)
        backup = await copy_of(catalog)
        store.deaf = set()
        if lost_catalog:
            backup = MemoryCatalog()
            await backup.transact([], await read_back(life.context.reader, [STORE]))

        async def after(later: Life) -> None:
            assert later.partition.state is PartitionState.READY, later.partition.reason
            await while_delivering(later, LeftOver(later.context).forget)
            found = await read(later.partition)
            assert newest(found) == newest(written)
            assert set(found) <= set(written)
            assert later.partition.high_watermark == written[-1][0] + 1
            if not lost_catalog:
                swapped = point == "after-compaction-swap"
                assert (found == newest(written)) == swapped
            await later.settle()
            assert left_behind(store, later.partition) == set()
            await put(later, (b"more", b"more"))
            await close(later)
            assert (await compact(later)).failures == 0
            assert newest(await read(later.partition)) == [
                *newest(written),
                (written[-1][0] + 1, b"more", b"more"),
            ]
            assert left_behind(store, later.partition) == set()

        await in_life(store, backup, after, configs=COMPACT)

    run(tmp_path, body, configs=COMPACT)


def test_what_is_replaced_goes_only_when_the_stores_know_the_new_ends(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        await random_log(life, 3)
        await close(life)
        before = {segment.address for segment in life.partition.chain.closed}
        store.deaf = {b"C"}
        await compact(life)
        assert left_behind(store, life.partition) == before
        store.hear_all()
        await life.settle()
        await life.settle()
        assert left_behind(store, life.partition) == set()

    run(tmp_path, body, configs=COMPACT)


def test_a_segment_that_goes_meanwhile_ends_the_compaction_without_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        written = await random_log(life, 8)
        await close(life)
        first_end = life.partition.chain.closed[0].end_offset or 0
        plan = cleanable(life.partition.chain.closed, NOW_MS, CompactionLimits(0.0, 0, 2**62))

        async def rest(_size: int, _seconds: float) -> None:
            await life.context.log_starts.move({life.partition: first_end})

        one = CompactionRun(life.context, life.partition, plan, rest)
        with pytest.raises(BaseExceptionGroup) as caught:
            await while_delivering(life, one.run)
        assert caught.group_contains(Abandoned, depth=1)
        assert one.was_overtaken
        await life.settle()
        assert await read(life.partition) == [record for record in written if record[0] >= first_end]
        assert left_behind(store, life.partition) == set()

    run(tmp_path, body, configs=COMPACT)


def test_a_segment_that_goes_while_the_swap_is_on_its_way_to_the_disk_is_not_put_back(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        written = await random_log(life, 8)
        await close(life)
        first_end = life.partition.chain.closed[0].end_offset or 0
        plan = cleanable(life.partition.chain.closed, NOW_MS, CompactionLimits(0.0, 0, 2**62))
        transact = catalog.transact
        overtaken: list[bool] = []

        async def overtake(compares: Any, puts: Any, deletes: Any = (), lease: Any = None) -> int:
            if not overtaken and any(key.startswith(keys.SEGMENTS) for key in deletes):
                overtaken.append(True)
                await life.context.log_starts.move({life.partition: first_end})
            return await transact(compares, puts, deletes, lease)

        catalog.transact = overtake  # type: ignore[method-assign]
        one = CompactionRun(life.context, life.partition, plan, no_rest)
        with pytest.raises(BaseExceptionGroup) as caught:
            await while_delivering(life, one.run)
        assert overtaken
        assert caught.group_contains(Abandoned, depth=1)
        assert in_catalog(catalog) == (first_end, starts(life.partition))
        await life.settle()
        assert await read(life.partition) == [record for record in written if record[0] >= first_end]
        assert left_behind(store, life.partition) == set()

    run(tmp_path, body, configs=COMPACT)


def test_a_compaction_that_retention_overtook_is_not_put_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        written = await random_log(life, 8)
        await close(life)
        first_end = life.partition.chain.closed[0].end_offset or 0

        async def rest(_size: int, _seconds: float) -> None:
            await life.context.log_starts.move({life.partition: first_end})

        monkeypatch.setattr(compaction_module, "_rest", rest)
        topics: Any = SimpleNamespace(all=lambda: [life.topic])
        compaction = Compaction(life.context, topics, 1000)
        await while_delivering(life, compaction.compact_one)
        assert (compaction.runs, compaction.failures) == (0, 0)
        await while_delivering(life, compaction.compact_one)
        assert (compaction.runs, compaction.failures) == (1, 0)
        assert await read(life.partition) == newest([one for one in written if one[0] >= first_end])

    run(tmp_path, body, configs=COMPACT)


def test_stores_that_take_nothing_put_it_off(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        written = await random_log(life, 8)
        await close(life)
        store.deaf = {b"O"}
        compaction = await compact(life)
        assert (compaction.runs, compaction.failures) == (0, 1)
        assert "taken nothing" in compaction.last_error
        store.hear_all()
        await life.settle()
        assert await read(life.partition) == written
        assert left_behind(store, life.partition) == set()
        assert catalog.range(keys.COMPACTING) == []

    run(tmp_path, body, configs=COMPACT)


def test_only_compacted_topics_are(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        written = await random_log(life, 8)
        await close(life)
        assert (await compact(life)).runs == 0
        assert await read(life.partition) == written
        life.topic.settings = effective_topic_configs(COMPACT)
        assert (await compact(life)).runs == 1

    run(tmp_path, body)


# a catalog that is older than it was ------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["during-compaction", "before-compaction-swap"])
def test_a_catalog_from_before_the_swap_deletes_nothing_that_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """The sources are gone: what its notes call given up is all that there is."""

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        written = await random_log(life, 12)
        await close(life)
        older: dict[str, bytes] = {}

        def reach(name: str) -> None:
            if name == point and not older and catalog.range(keys.COMPACTING):
                older.update({entry.key: entry.value for entry in catalog.range("")})

        with monkeypatch.context() as patched:
            patched.setattr(crash_points, "reach", reach)
            await compact(life)
        assert await read(life.partition) == newest(written)
        restored = MemoryCatalog()
        await restored.transact([], older)
        noted = [key for key in older if key.startswith(keys.COMPACTING)]
        assert noted
        chain = {segment.address for segment in life.partition.chain.segments()}

        async def after(later: Life) -> None:
            assert later.partition.state is not PartitionState.READY
            assert "the catalog is older than store" in later.partition.reason
            left = LeftOver(later.context)
            await while_delivering(later, left.forget)
            await later.settle()
            assert left.is_empty, "it was judged, and is not asked about again"
            assert [entry.key for entry in restored.range(keys.COMPACTING)] == noted
            phases = [state.phase for address in chain if (state := store.database.load(address))]
            assert len(phases) == len(chain)
            assert Phase.DELETED not in phases

        await in_life(store, restored, after, configs=COMPACT)

        async def again(later: Life) -> None:
            assert await read(later.partition) == newest(written)

        await in_life(store, await copy_of(catalog), again, configs=COMPACT)

    run(tmp_path, body, configs=COMPACT)


def test_what_was_left_over_waits_for_members_that_say_so(tmp_path: Path) -> None:
    """A store that does not answer may know more: nothing is deleted without it."""

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        await put(life, (b"a", b"1"))
        note = {
            keys.compacting_key("A" * 32): keys.pack(
                {"members": [STORE, "B", "C"], "w": 2, "log": life.partition.log}
            )
        }
        await catalog.transact([], note)
        verify = life.context.reader.verify

        async def only_one_answers(store: str, entries: Any) -> Any:
            return await verify(store, entries) if store == STORE else await trio.sleep_forever()

        life.context.reader.verify = only_one_answers  # type: ignore[assignment, method-assign]
        left = LeftOver(life.context)
        await while_delivering(life, left.forget)
        assert not left.is_empty
        (one,) = noted_outputs(life.context)
        assert (one.address, one.needed) == ("A" * 32, 2)
        alone = {
            keys.compacting_key("A" * 32): keys.pack({"members": [STORE], "w": 1, "log": life.partition.log})
        }
        await catalog.transact([], alone)
        left = LeftOver(life.context)
        await while_delivering(life, left.forget)
        assert left.is_empty
        assert noted_outputs(life.context) == []

    run(tmp_path, body, configs=COMPACT)


def test_what_another_gateway_has_put_into_the_chain_since_is_not_left_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It was under way when this gateway began, and the log has come to this one later: the members know how
    it ended, and so does the catalog.
    """

    async def body(life: Life, _store: OneStore, catalog: MemoryCatalog) -> None:
        await put(life, (b"a", b"1"))
        await close(life)
        (made,) = life.partition.chain.segments()
        note = Noted(made.address, made.members, made.w, life.partition.log, made.epoch)
        await catalog.transact([], note.put())
        left = LeftOver(life.context)
        assert not left.is_empty
        await catalog.transact([], {}, list(note.put()))
        assert left.is_empty
        await while_delivering(life, left.forget)
        assert "the catalog is older" not in caplog.text

    run(tmp_path, body, configs=COMPACT)
