"""Which aborted transactions a reader is told of, over the segments of a chain, and what catalogs say."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import trio

from gateway.catalog import keys
from gateway.cluster.rebuild import read_back
from gateway.log import partition as partition_module
from gateway.log.segment import UNKNOWN, Segment
from gateway.log.segment_sizes import count_sizes
from gateway.log.transactions.aborted_cache import AbortedCache
from mesh.reader import NotServed
from tests.unit.gateway.catalog.memory import MemoryCatalog
from tests.unit.gateway.log.fake_log import NOW_MS, TOPIC_ID
from tests.unit.gateway.log.one_store import STORE, Life, OneStore, copy_of
from tests.unit.gateway.log.script import Script
from tests.unit.gateway.log.test_log_start import in_life, run, starts
from tests.unit.gateway.log.transactional import as_shown
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.header import read_header

BATCHES = 3
"""In a segment of these tests; each batch has one record, so that offsets are places."""


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_module, "MAX_SEGMENT_BATCHES", BATCHES)


def in_catalog(catalog: MemoryCatalog) -> list[Segment]:
    return [Segment.unpack(one.value) for one in catalog.range(keys.segments_prefix(TOPIC_ID))]


def counted(segment: Segment) -> tuple[int, int, int]:
    return segment.aborted, segment.lowest_aborted, segment.first_unstable


async def check_all(life: Life, script: Script) -> None:
    """Every range of the log is told of what it must be, and shown so."""
    partition = life.partition
    assert (partition.high_watermark, partition.last_stable_offset) == (script.end, script.stable())
    for offset in range(script.end):
        for end in range(offset + 1, script.end + 1):
            assert await life.context.aborted.between(partition, offset, end) == script.aborted(offset, end)
    for offset in range(script.stable()):
        batches, aborted = await partition.read_committed(offset, 1 << 20)
        end = read_header(batches[-1]).last_offset + 1
        assert as_shown(batches, aborted) == script.shown(offset, end)
        hot = partition.read_hot(offset, 1 << 20, whole=True, committed=True)
        if hot:
            known = partition.known_aborted(offset, hot)
            assert known is None or as_shown(hot, known) == script.shown(offset, script.stable())


SCRIPTS = {
    "nothing": "p p p p",
    "one, in its segment": "a -a p p",
    "one that is open": "p a p p",
    "an abort in the next segment": "p a a -a p",
    "an abort that begins the next segment": "p p a -a",
    "one over three segments": "p a p p p p p a -a p",
    "interleaved": "a b a b -a b c -b a c -a c -c p",
    "the younger one ends first": "a b -b p p p -a p p",
    "the next one of a producer": "a -a a p +a a -a a p p -a",
    "commits between": "a b +a c a -b p +c a -a",
    "a marker of nothing": "-a p a -a -a p p",
    "an old open one behind which many end": "z a -a b p p -b c -c d -d p -z p",
    "nothing but markers in a segment": "a b c -a -b -c",
}


@pytest.mark.parametrize("restart", ["", "at the end", "in the middle"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_readers_are_told_of_every_aborted_transaction_that_they_meet(
    tmp_path: Path, name: str, restart: str
) -> None:
    words = SCRIPTS[name].split()
    middle = len(words) // 2 if restart == "in the middle" else len(words)
    script = Script()

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        await script.write(life, " ".join(words[:middle]))
        await check_all(life, script)

        async def after(later: Life) -> None:
            await script.write(later, " ".join(words[middle:]))
            await check_all(later, script)

        if restart:
            await in_life(store, await copy_of(catalog), after)

    run(tmp_path, body)


@pytest.mark.parametrize("seed", range(6))
def test_also_of_any_log_over_any_lives(tmp_path: Path, seed: int) -> None:
    chance, script = random.Random(seed), Script()

    async def some(life: Life) -> None:
        for _ in range(chance.randrange(1, 14)):
            pid = chance.choice("abc")
            words = ["p", pid, pid, pid]
            if script.still_open(ord(pid)) is not None:
                words += [f"-{pid}", f"-{pid}", f"+{pid}"]
            await script.write(life, chance.choice(words))
        await check_all(life, script)

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        await some(life)
        lives = catalog
        for _ in range(4):
            lives = await copy_of(lives)
            await in_life(store, lives, some)
        assert len(in_catalog(lives)) > 4

    run(tmp_path, body)


# what the catalog says ------------------------------------------------------------------------------------


def test_a_closed_segment_has_its_counts_in_the_catalog(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        script = Script()
        await script.write(life, "a b a -b c -a p p p -c d d d e p d -d p +e p")
        *closed, last = in_catalog(catalog)
        assert [counted(segment) for segment in closed] == [script.counts(segment) for segment in closed]
        assert [counted(segment) for segment in closed] == [
            (0, -1, -1), (2, 0, 0), (0, -1, 4), (1, 4, 4), (0, -1, 10), (1, 10, 10),
        ]  # fmt: skip
        assert (last.start_offset, last.first_unstable) == (18, 13)

    run(tmp_path, body)


def test_what_has_no_transactions_looks_in_the_catalog_as_before(tmp_path: Path) -> None:
    """A gateway of an older version reads it."""

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        await Script().write(life, "p a -a p p p p")
        values = [json.loads(one.value) for one in catalog.range(keys.segments_prefix(TOPIC_ID))]
        assert [(value.get("aborted"), value.get("first_unstable")) for value in values] == [
            ([1, 1], None), (None, None), (None, None),
        ]  # fmt: skip

    run(tmp_path, body)


def test_segments_of_the_time_before_count_as_without_any() -> None:
    old = Segment("A" * 32, 0, 6, (STORE,), 1, NOW_MS).closed(9, 2, NOW_MS, size=3, aborted=0)
    value = json.loads(old.pack())
    assert not {"aborted", "first_unstable"} & value.keys()
    assert Segment.unpack(old.pack()) == old
    assert (counted(old), old.ends_nothing_below) == ((0, -1, -1), 6)


@pytest.mark.parametrize(
    ("aborted", "lowest", "first_unstable"), [(0, -1, -1), (3, 0, 0), (UNKNOWN, UNKNOWN, 4), (7, 5, -1)]
)
def test_a_segments_counts_are_packed(aborted: int, lowest: int, first_unstable: int) -> None:
    opened = Segment("A" * 32, 0, 6, (STORE,), 1, NOW_MS, first_unstable=first_unstable)
    segment = opened.closed(9, 2, NOW_MS, aborted=aborted, lowest_aborted=lowest)
    assert Segment.unpack(segment.pack()) == segment
    assert counted(segment) == (aborted, lowest, first_unstable)
    assert segment.ends_nothing_below == (6 if first_unstable < 0 else first_unstable)


def test_what_a_recovery_has_closed_is_counted_once(tmp_path: Path) -> None:
    script = Script()

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        await script.write(life, "p a p p p a -a b p -b")

        async def after(later: Life) -> None:
            last = in_catalog(later.catalog)[-1]
            assert (last.start_offset, last.end_offset, last.aborted) == (9, 10, UNKNOWN)
            await count_sizes(later.context, later.partition)
            for segment in (*in_catalog(later.catalog), *later.partition.chain.closed):
                assert counted(segment) == script.counts(segment)
            revision = later.catalog.revision
            await count_sizes(later.context, later.partition)
            assert later.catalog.revision == revision

        await in_life(store, await copy_of(catalog), after)

    run(tmp_path, body)


async def rebuilt(life: Life) -> MemoryCatalog:
    """The catalog as its stores remember it."""
    catalog = MemoryCatalog()
    await catalog.transact([], await read_back(life.context.reader, [STORE]))
    return catalog


def test_a_rebuilt_catalog_lists_them_all(tmp_path: Path) -> None:
    script = Script()

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        await script.write(life, "z a -a b p p -b c -c d -d p -z p p p e p")
        from_stores = await rebuilt(life)

        async def after(later: Life) -> None:
            closed = in_catalog(later.catalog)
            assert [(segment.aborted, segment.first_unstable) for segment in closed] == [
                (UNKNOWN, script.counts(segment)[2]) for segment in closed
            ]
            await check_all(later, script)
            assert later.context.aborted.loads == len(closed) - 1, "each once, but for the one recovered"
            await count_sizes(later.context, later.partition)
            assert [counted(segment) for segment in in_catalog(later.catalog)] == [
                script.counts(segment) for segment in closed
            ]
            await script.write(later, "-e p p p")
            await check_all(later, script)

        await in_life(store, from_stores, after)

    run(tmp_path, body)


# what is read for it --------------------------------------------------------------------------------------


async def prepared(life: Life, words: str) -> Script:
    """A log of which nothing is in memory."""
    script = Script()
    await script.write(life, words)
    life.context.aborted.cache = AbortedCache()
    return script


LONG = "a -a p p p p p b -b p c p p p -c d p p p p"
"""One aborted transaction in the first segment, one in the third, one from the fourth to the fifth."""


@pytest.mark.parametrize(
    ("offset", "end", "loads"),
    [
        (0, 1, 1),  # nothing behind the first one begins there
        (0, 3, 1),
        (3, 6, 0),  # what ends behind it begins behind it, and the catalog says that it has none
        (3, 9, 1),
        (6, 7, 0),  # in this segment one begins behind it
        (6, 9, 1),
        (9, 10, 0),
        (9, 12, 1),  # the segment of the marker, though nothing of it is read
        (12, 14, 1),
        (15, 18, 0),
        (0, 18, 3),
    ],
)
def test_only_segments_are_read_that_may_have_some(tmp_path: Path, offset: int, end: int, loads: int) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        script = await prepared(life, LONG)
        assert starts(life.partition) == [0, 3, 6, 9, 12, 15, 18]
        aborted = life.context.aborted
        assert (aborted.known(life.partition, offset, end) is None) == (loads > 0)
        assert aborted.loads == 0
        assert await aborted.between(life.partition, offset, end) == script.aborted(offset, end)
        assert aborted.loads == loads
        assert aborted.known(life.partition, offset, end) == script.aborted(offset, end)
        await aborted.between(life.partition, offset, end)
        assert aborted.loads == loads, "memory has them now"

    run(tmp_path, body)


def test_who_asks_at_the_same_time_waits_for_one_read(tmp_path: Path) -> None:
    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        script = await prepared(life, LONG)
        found: list[Any] = []

        async def ask() -> None:
            found.append(await life.context.aborted.between(life.partition, 0, 3))

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(ask)
        assert found == [script.aborted(0, 3)] * 5
        assert life.context.aborted.loads == 1

    run(tmp_path, body)


def test_what_cannot_be_read_is_told_so_and_asked_again_the_next_time(tmp_path: Path) -> None:
    """An answer without the list would show what was aborted."""

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        script = await prepared(life, LONG)
        reader: Any = life.context.reader
        beginning = reader.beginning

        async def fails(*_: Any) -> Any:
            await trio.lowlevel.checkpoint()
            raise NotServed("no store has it")

        reader.beginning = fails
        codes: list[ErrorCode] = []

        async def ask() -> None:
            try:
                await life.context.aborted.between(life.partition, 0, 3)
            except KafkaError as error:
                codes.append(error.code)

        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(ask)
        assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
        with pytest.raises(KafkaError, match=r"the aborted transactions of segment .* no store has it"):
            await life.partition.read_committed(0, 1 << 20)
        reader.beginning = beginning
        assert await life.context.aborted.between(life.partition, 0, 3) == script.aborted(0, 3)

    run(tmp_path, body)


def test_what_ended_in_a_segment_that_was_left_open_is_not_known_until_it_is_recovered(
    tmp_path: Path,
) -> None:
    """Nor guessed: records that were stable before, and were aborted there, would be shown as committed."""

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        script = Script()
        await script.write(life, "b -b p a p p -a p")
        partition = life.partition
        assert partition.last_stable_offset == 8
        partition.fail("lost")
        assert as_shown(*await partition.read_committed(3, 1 << 20)) == script.shown(3, 6)
        partition.begin_recovery(in_catalog(catalog), None)
        assert [segment.start_offset for segment in partition.chain.left_open()] == [6]
        assert partition.check_fetch_offset(3, committed=True) is ErrorCode.NONE
        with pytest.raises(KafkaError) as refused:
            await partition.read_committed(3, 1 << 20)
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert life.context.aborted.known(partition, 3, 6) is None
        assert as_shown(*await partition.read_committed(0, 1 << 20)) == script.shown(0, 3), (
            "it is of no matter"
        )

    run(tmp_path, body)
