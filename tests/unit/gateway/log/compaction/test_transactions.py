"""Compaction of logs with transactions: what goes, what stays for how long, and what readers are shown."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trio

from gateway.catalog import keys
from gateway.log import partition as partition_module
from gateway.log.compaction import compactor as compaction_module
from gateway.log.compaction import run as compaction_run
from gateway.log.compaction.reading import clean, learn
from gateway.log.compaction.rules import NewestOffsets
from gateway.log.compaction.transactions import TransactionsGoneThrough
from gateway.log.partition import Partition
from gateway.log.segment import UNKNOWN, Segment
from gateway.log.segment_sizes import count_sizes
from gateway.log.tail_cache import Batch
from gateway.log.transactions.aborted_reading import Aborted
from tests.unit.gateway.catalog.memory import MemoryCatalog
from tests.unit.gateway.log.compaction.test_compactor import (
    COMPACT,
    close,
    compact,
    left_behind,
    small_pieces,
    while_delivering,
)
from tests.unit.gateway.log.fake_log import NOW_MS, TOPIC_ID, batch
from tests.unit.gateway.log.one_store import Life, OneStore, copy_of
from tests.unit.gateway.log.script import Script
from tests.unit.gateway.log.test_log_start import in_life, run, starts
from tests.unit.gateway.log.test_retention import Clock
from tests.unit.gateway.log.transactional import as_shown, transactional
from tests.unit.gateway.log.transactions.test_aborted_reading import rebuilt
from wireproto.records.batch import assign_offsets
from wireproto.records.control import EndMarker, marker_batch, read_marker
from wireproto.records.header import BatchHeader, read_header
from wireproto.records.iteration import iter_records

__all__ = ["small_pieces"]

ABORT = EndMarker(is_commit=False, coordinator_epoch=5)
COMMIT = EndMarker(is_commit=True, coordinator_epoch=5)

# the walk -------------------------------------------------------------------------------------------------


def batches_of(words: str, start: int = 0) -> list[bytes]:
    """As `Script` says them, from this offset on; `a!` is a batch of producer a outside of a transaction."""
    made = []
    for offset, word in enumerate(words.split(), start):
        pid = ord(word[-1])
        if word[0] in "+-":
            content = marker_batch(pid, 0, COMMIT if word[0] == "+" else ABORT, NOW_MS)
        elif word == "p":
            content = batch(b"plain")
        elif word[-1] == "!":
            content = batch(b"outside", pid=ord(word[0]))
        else:
            content = transactional(pid=pid, key=b"k")
        placed = memoryview(bytearray(content))
        assign_offsets(placed, offset, 0)
        made.append(bytes(placed))
    return made


def walked(transactions: TransactionsGoneThrough, words: str, start: int = 0) -> str:
    """What is said of each batch: of data `-` if it is aborted, of markers `-` if they may go; else `+`."""
    said = ""
    for content in batches_of(words, start):
        header: BatchHeader = read_header(content)
        goes = transactions.may_go(header) if header.is_control else transactions.is_aborted(header)
        said += "-" if goes else "+"
    return said


a, b = ord("a"), ord("b")

WALKS: dict[str, tuple[str, list[tuple[int, int]], str]] = {
    "nothing": ("", [], ""),
    "plain batches": ("p p", [], "++"),
    "committed": ("a a +a", [], "+++"),
    "aborted: the marker stays, as something was there": ("a a -a", [(a, 0)], "--+"),
    "a marker alone may go": ("-a p +b", [], "-+-"),
    "a marker that comes again may go": ("a -a -a", [(a, 0)], "-+-"),
    "the next one of a producer": ("a -a a +a", [(a, 0)], "-+++"),
    "the next one of a producer is aborted": ("a +a a -a", [(a, 2)], "++-+"),
    "each of them is": ("a -a a -a a -a", [(a, 0), (a, 2), (a, 4)], "-+-+-+"),
    "interleaved, one is committed": ("a b a b -a +b", [(a, 0)], "-+-+++"),
    "interleaved, both are aborted": ("a b -b a -a", [(a, 0), (b, 1)], "--+-+"),
    "the one that ended first is listed first": ("a b -b a -a", [(b, 1), (a, 0)], "--+-+"),
    "one that began in an earlier segment": ("a p -a a", [(a, UNKNOWN)], "-+++"),
    "one that ends in a later segment": ("p a p a", [(a, 1)], "+-+-"),
    "another producer's commit ends nothing": ("a +b a -a", [(a, 0)], "---+"),
    "a batch outside of a transaction is none": ("a! -a a!", [(a, 1)], "+-+"),
    "what is outside leaves what is aborted": ("a p b! a -a", [(a, 0)], "-++-+"),
}


@pytest.mark.parametrize("name", WALKS)
def test_what_a_walk_says_of_each_batch(name: str) -> None:
    words, aborted, expected = WALKS[name]
    transactions = TransactionsGoneThrough()
    transactions.begin(aborted)
    assert walked(transactions, words) == expected


def test_a_walk_goes_on_in_the_next_segment_with_that_ones_list() -> None:
    transactions = TransactionsGoneThrough()
    transactions.begin([(a, 1), (b, 2)])
    assert walked(transactions, "p a b") == "+--"
    transactions.begin([(a, 1)])
    assert walked(transactions, "a b -a", 3) == "-++", "the list has all of which the segment has a part"
    transactions.begin([])
    assert walked(transactions, "+b -a +b", 6) == "+--", "what was there before is remembered"


def test_an_aborted_transaction_may_begin_within_a_batch() -> None:
    """What is left of several batches, or of one that a log start has cut, begins below it."""
    transactions = TransactionsGoneThrough()
    transactions.begin([(a, 3)])
    placed = memoryview(bytearray(transactional(b"1", b"2", b"3", pid=a)))
    assign_offsets(placed, 2, 0)
    assert transactions.is_aborted(read_header(placed))


class Left(NamedTuple):
    """What is left: of each batch its offset, and of data whether it has records."""

    batches: list[tuple[int, bool]]
    removed: int


def cleaned(words: str, aborted: Aborted, *, now_ms: int = NOW_MS, last_offset: int = 100) -> Left:
    newest = NewestOffsets()
    contents = batches_of(words)
    learning, cleaning = TransactionsGoneThrough(), TransactionsGoneThrough()
    learning.begin(aborted)
    cleaning.begin(aborted)
    assert learn(newest, contents, 0, learning)
    assert newest.upto == len(contents), "aborted batches are gone through, too"
    result = clean(newest, contents, now_ms, 1000, last_offset, cleaning)
    return Left(
        [(header.base_offset, header.count > 0) for header, _ in result.batches], result.records_removed
    )


CLEANED: dict[str, tuple[str, Aborted, int, Left]] = {
    "the committed one wins": ("a +a a +a", [], 100, Left([(1, True), (2, True), (3, True)], 1)),
    "the aborted one never wins": ("a +a a -a", [(a, 2)], 100, Left([(0, True), (1, True), (3, True)], 1)),
    "the last one stays, empty": ("a +a a", [(a, 2)], 2, Left([(0, True), (1, True), (2, False)], 1)),
    "a marker that is the last one stays": ("p -a", [], 1, Left([(1, True)], 1)),
}


@pytest.mark.parametrize("name", CLEANED)
def test_what_is_left_of_one_key(name: str) -> None:
    words, aborted, last_offset, expected = CLEANED[name]
    assert cleaned(words, aborted, last_offset=last_offset) == expected


def test_a_marker_of_nothing_gets_a_horizon_and_goes_when_that_is_over() -> None:
    (content,) = batches_of("-a")

    def once_more(content: Batch, now_ms: int, last_offset: int = 100) -> list[Batch]:
        gone_through = TransactionsGoneThrough()
        result = clean(NewestOffsets(), [content], now_ms, 1000, last_offset, gone_through)
        return [kept for _, kept in result.batches]

    (marked,) = once_more(content, NOW_MS)
    assert read_header(marked).delete_horizon == NOW_MS + 1000
    assert read_marker(bytes(marked)) == ABORT
    header, before = read_header(marked), read_header(content)
    assert (header.base_offset, header.producer_id, header.producer_epoch, header.max_timestamp) == (
        before.base_offset,
        before.producer_id,
        before.producer_epoch,
        before.max_timestamp,
    )
    assert once_more(marked, NOW_MS + 999) == [marked], "its horizon stays as it is"
    assert once_more(marked, NOW_MS + 1000) == []
    assert once_more(marked, NOW_MS + 1000, last_offset=0) == [marked], "the last batch stays"


# at work --------------------------------------------------------------------------------------------------

Shown = list[tuple[int, bytes | None, bytes | None]]


async def everything(partition: Partition) -> list[Batch]:
    """All batches, as a store has them."""
    batches: list[Batch] = []
    offset = partition.log_start_offset
    while offset < partition.high_watermark:
        batches += await partition.read_cold(offset, 1)
        offset = read_header(batches[-1]).last_offset + 1
    return batches


async def data(partition: Partition) -> Shown:
    """All records but those of markers: what read_uncommitted shows."""
    return [
        (record.offset, record.key, record.value)
        for content in await everything(partition)
        if not read_header(content).is_control
        for record in iter_records(content)
    ]


async def markers(partition: Partition) -> list[int]:
    headers = [read_header(content) for content in await everything(partition)]
    return [header.base_offset for header in headers if header.is_control]


async def committed(partition: Partition, max_bytes: int = 1) -> list[int]:
    """The offsets that read_committed shows, read with Fetches of so many bytes."""
    shown: list[int] = []
    offset = partition.log_start_offset
    while offset < partition.last_stable_offset:
        batches, aborted = await partition.read_committed(offset, max_bytes)
        shown += [place for place, _ in as_shown(batches, aborted) if place >= offset]
        offset = read_header(batches[-1]).last_offset + 1
    return shown


def newest_of(script: Script) -> dict[bytes, int]:
    """The newest committed offset of each key, of what is decided."""
    newest: dict[bytes, int] = {}
    for offset, transaction in script.values.items():
        key = script.keys[offset]
        if key is not None and (transaction is None or transaction.is_commit):
            newest[key] = offset
    return newest


def test_what_is_aborted_goes_and_wins_no_key(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        script = Script()
        await script.write(life, "p:x p:y a:x -a b:y a:z +b -a p:w")
        await close(life)
        compaction = await compact(life)
        assert (compaction.runs, compaction.failures, compaction.records_removed) == (1, 0, 3)
        partition = life.partition
        assert await data(partition) == [(0, b"x", b"0"), (4, b"y", b"4"), (8, b"w", b"8")]
        assert await committed(partition) == [0, 4, 8]
        assert await life.context.aborted.between(partition, 0, 9) == []
        assert {(one.aborted, one.lowest_aborted, one.is_compacted) for one in partition.chain.closed} == {
            (0, UNKNOWN, True)
        }
        assert left_behind(store, partition) == set()

        async def after(later: Life) -> None:
            assert (later.partition.last_stable_offset, await committed(later.partition)) == (9, [0, 4, 8])
            assert await data(later.partition) == [(0, b"x", b"0"), (4, b"y", b"4"), (8, b"w", b"8")]
            await script.write(later, "a:x -a")
            assert script.aborted(9, 11) == await later.context.aborted.between(later.partition, 0, 11)

        await in_life(store, await copy_of(catalog), after, configs=COMPACT)

    run(tmp_path, body, configs=COMPACT)


@pytest.mark.parametrize("commit", [False, True])
def test_an_open_transaction_stops_it(tmp_path: Path, commit: bool) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        script, partition = Script(), life.partition
        await script.write(life, "p:x p:x p:x p:y p:y a:w p:y p:y p:x p:x p:x")
        await close(life)
        assert (starts(partition), partition.last_stable_offset) == ([0, 4, 8], 5)
        assert (await compact(life)).runs == 1
        assert (starts(partition), [one.is_compacted for one in partition.chain.closed]) == (
            [0, 4, 8], [True, False, False],
        )  # fmt: skip
        assert [offset for offset, *_ in await data(partition)] == [2, *range(3, 11)]
        assert (await compact(life)).runs == 0
        await script.write(life, "+a" if commit else "-a")
        await close(life)
        assert (await compact(life)).runs == 1
        assert await committed(partition) == ([5, 7, 10] if commit else [7, 10])
        assert [offset for offset, *_ in await data(partition)] == ([5, 7, 10] if commit else [7, 10])

    run(tmp_path, body, configs=COMPACT)


def test_a_segment_that_ends_where_the_open_transaction_begins_is_compacted(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        await Script().write(life, "p:x p:x p:x p:x a:x p:x")
        assert (starts(life.partition), life.partition.last_stable_offset) == ([0, 4], 4)
        await compact(life)
        assert life.partition.chain.closed[0].is_compacted

    run(tmp_path, body, configs=COMPACT)


def test_a_marker_stays_until_its_time_is_over(tmp_path: Path) -> None:
    """Something was there when it was gone through first; a consumer may be reading that right now."""

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        clock, script, partition = Clock(life), Script(), life.partition

        async def again(after_ms: int) -> list[int]:
            clock.now = NOW_MS + after_ms
            await script.write(life, "p:x")
            await close(life)
            assert (await compact(life)).failures == 0
            return [offset for offset in await markers(partition) if offset < 5]

        await script.write(life, "p:x a:x -a p:x")
        assert await again(0) == [2], "the records went just now"
        assert await again(100) == [2], "from now on it has a horizon"
        (header,) = [read_header(one) for one in await everything(partition) if read_header(one).is_control]
        assert header.delete_horizon == NOW_MS + 100 + 5000
        assert await again(5099) == [2]
        assert await again(5100) == []
        assert await committed(partition) == [script.end - 1]

        async def after(later: Life) -> None:
            known = later.partition.producers.state.find(ord("a"))
            assert known is not None
            assert (known.coordinator_epoch, known.has_open, known.last_sequence) == (5, False, 0)

        await in_life(store, await copy_of(catalog), after, configs=COMPACT)

    run(tmp_path, body, configs=COMPACT | {"delete.retention.ms": "5000"})


def test_the_marker_of_what_is_committed_stays_with_its_records(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        clock, script, partition = Clock(life), Script(), life.partition
        await script.write(life, "a:kept a:x +a")
        for after_ms in (0, 10_000, 20_000):
            clock.now = NOW_MS + after_ms
            await script.write(life, "p:x")
            await close(life)
            await compact(life)
            assert await markers(partition) == [2]
            assert (await committed(partition))[0] == 0
        await script.write(life, "p:kept")
        await close(life)
        await compact(life)
        assert await markers(partition) == [2], "its last record went just now"
        for after_ms, expected in ((20_000, [2]), (24_999, [2]), (25_000, [])):
            clock.now = NOW_MS + after_ms
            await script.write(life, "p:x")
            await close(life)
            await compact(life)
            assert await markers(partition) == expected

    run(tmp_path, body, configs=COMPACT | {"delete.retention.ms": "5000"})


@pytest.mark.parametrize(
    ("words", "last"), [("p:x a:y a:y -a", 3), ("p:x p:x a:y a:y", 3), ("p:x a:y -a -a", 3)]
)
def test_a_log_that_is_compacted_ends_where_it_did(tmp_path: Path, words: str, last: int) -> None:
    """With a marker, or with a batch that is empty: another start finds the end by that."""

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        script = Script()
        await script.write(life, words)
        await close(life)
        if script.stable() < script.end:
            await script.write(life, "-a")
        for _ in range(3):
            await compact(life)
        segment = life.partition.chain.closed[0]
        assert (segment.is_compacted, segment.end_offset) == (True, last + 1)
        contents = [one for one in await everything(life.partition) if read_header(one).last_offset <= last]
        assert read_header(contents[-1]).last_offset == last
        if words.endswith("a:y"):
            assert (read_header(contents[-1]).count, list(iter_records(contents[-1]))) == (0, [])

        async def after(later: Life) -> None:
            assert later.partition.high_watermark == script.end
            assert await committed(later.partition) == await committed(life.partition)

        await in_life(store, await copy_of(catalog), after, configs=COMPACT)

    run(tmp_path, body, configs=COMPACT)


def test_a_transaction_over_several_parts_of_a_compaction_goes_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction_run, "MAX_SOURCES", 1)

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        script, partition = Script(), life.partition
        await script.write(life, "p:x a:x b:y a:x p:z a:x b:y a:x -a +b p:w a:x")
        await script.write(life, "-a")
        await close(life)
        assert starts(partition) == [0, 4, 8, 12]
        compaction = await compact(life)
        assert (compaction.runs, compaction.failures) == (1, 0), compaction.last_error
        assert all(segment.is_compacted for segment in partition.chain.closed)
        assert [offset for offset, *_ in await data(partition)] == [0, 4, 6, 10]
        assert await committed(partition) == [0, 4, 6, 10]

    run(tmp_path, body, configs=COMPACT)


# who reads meanwhile --------------------------------------------------------------------------------------


def test_what_is_swapped_while_it_is_read_is_read_again_with_its_list(tmp_path: Path) -> None:
    """Records of the chain before with the list of the chain after would show what was aborted."""

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        script, partition = Script(), life.partition
        await script.write(life, "p:x a:x a:y p:y -a p:z")
        await close(life)
        cold: Any = life.context.cold
        read_of = cold._read_of
        swapped: list[int] = []

        async def and_swap(*arguments: Any) -> Any:
            found = await read_of(*arguments)
            if not swapped:
                swapped.append(len(found))
                compaction = compaction_of(life)
                assert await compaction.compact_one()
            return found

        cold._read_of = and_swap
        batches, aborted = await while_delivering(life, lambda: partition.read_committed(0, 1 << 20))
        assert swapped == [4]
        assert [place for place, _ in as_shown(batches, aborted)] == [0, 3, 5]
        assert aborted == []

    run(tmp_path, body, configs=COMPACT)


def compaction_of(life: Life) -> compaction_module.Compaction:
    class Topics:
        @staticmethod
        def all() -> list[Any]:
            return [life.topic]

    return compaction_module.Compaction(life.context, Topics(), 1000)


@pytest.mark.parametrize("step", [1, 1 << 20])
def test_between_any_two_swaps_readers_are_shown_what_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    monkeypatch.setattr(compaction_run, "MAX_SOURCES", 1)

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        script, partition = Script(), life.partition
        await script.write(life, "p:x a:x b:y a:x p:z a:x b:y a:x -a +b p:w c:x c:x c:x p:v c:x c:x -c")
        assert len(starts(partition)) == 5
        swap = CompactionSwaps(monkeypatch, partition)
        await compact(life)
        assert len(swap.seen) == 4
        newest = set(newest_of(script).values())
        possible = {place for place, _ in script.shown(0, script.end)}
        for shown in (*swap.seen, await committed(partition, step)):
            assert newest <= set(shown) <= possible
            assert shown == sorted(set(shown))

    run(tmp_path, body, configs=COMPACT)


class CompactionSwaps:
    """`seen`: what was shown right after each swap."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, partition: Partition) -> None:
        self.seen: list[list[int]] = []
        swap: Any = compaction_run.CompactionRun._swap

        async def and_read(*arguments: Any) -> None:
            await swap(*arguments)
            with trio.CancelScope(shield=True):
                self.seen.append(await committed(partition))

        monkeypatch.setattr(compaction_run.CompactionRun, "_swap", and_read)


@pytest.mark.parametrize("seed", range(6))
def test_any_log_over_compactions_and_lives_shows_what_is_committed(tmp_path: Path, seed: int) -> None:
    chance, script = random.Random(seed), Script()

    async def some(life: Life) -> None:
        clock = Clock(life)
        clock.now = NOW_MS + chance.randrange(100_000)
        partition = life.partition
        for _ in range(chance.randrange(8, 20)):
            pid = chance.choice("abc")
            words = ["p:x", *(f"{pid}:{key}" for key in "xyz")]
            if script.still_open(ord(pid)) is not None:
                words += [f"-{pid}", f"-{pid}", f"+{pid}"]
            await script.write(life, chance.choice(words))
        if chance.random() < 0.7:
            await close(life)
        assert (await compact(life)).failures == 0
        stable = script.stable()
        newest = {place for place in newest_of(script).values() if place < stable}
        shown = await committed(partition, chance.choice([1, 300, 1 << 20]))
        assert shown == sorted(set(shown))
        assert set(shown) <= {place for place, _ in script.shown(0, stable)}
        # A younger record that is not compacted yet may have taken the place of one that is stable.
        assert {place for place in newest if place >= partition.log_start_offset} <= set(shown)
        assert left_behind(life.store, partition) == set()

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        await some(life)
        lives = catalog
        for _ in range(4):
            lives = await copy_of(lives)
            await in_life(store, lives, some, configs=COMPACT)
        assert any(segment.is_compacted for segment in segments_in(lives))

    run(tmp_path, body, configs=COMPACT | {"delete.retention.ms": "20000"})


def segments_in(catalog: MemoryCatalog) -> list[Segment]:
    return [Segment.unpack(one.value) for one in catalog.range(keys.segments_prefix(TOPIC_ID))]


# counts ---------------------------------------------------------------------------------------------------


def test_of_a_compacted_segment_that_was_read_back_the_count_is_noted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look at the log was a transaction of the catalog, for ever."""
    monkeypatch.setattr(partition_module, "MAX_SEGMENT_BATCHES", 6)

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        script = Script()
        await script.write(life, "p:x a:x -a p:x")
        await close(life)
        await compact(life)
        await script.write(life, "a:x -a")
        await close(life)
        from_stores = await rebuilt(life)

        async def after(later: Life) -> None:
            await count_sizes(later.context, later.partition)
            await count_sizes(later.context, later.partition)
            assert [
                (one.is_compacted, one.aborted, one.lowest_aborted) for one in segments_in(later.catalog)
            ] == [
                (True, 0, UNKNOWN),
                (False, 1, 4),
            ]
            revision = later.catalog.revision
            await count_sizes(later.context, later.partition)
            assert later.catalog.revision == revision

        await in_life(store, from_stores, after, configs=COMPACT)

    run(tmp_path, body, configs=COMPACT)
