"""Leader epochs come from one counter: drawn with what uses them, never twice, never back for a client."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from gateway.catalog import keys
from gateway.catalog.interface import Compare, CompareFailed
from gateway.log.epoch_counter import MAX_HEARD_AHEAD, EpochCounter
from gateway.log.idempotence.state import ProducerState
from gateway.log.partition import Partition, PartitionState
from gateway.log.segment import Segment
from tests.unit.gateway.catalog.memory import MemoryCatalog
from tests.unit.gateway.log.fake_log import TOPIC_ID, FakeLog, batch, header_of


async def use(catalog: MemoryCatalog, counter: EpochCounter, *epochs: int, key: str = "/used") -> None:
    compares: list[Compare] = []
    puts = {key: keys.pack(epochs)}
    async with counter.using(epochs, compares, puts):
        await catalog.transact(compares, puts)


def drawn(catalog: MemoryCatalog) -> int | None:
    entry = catalog.get(keys.LEADER_EPOCH)
    return None if entry is None else int(keys.unpack(entry.value))


# the counter ----------------------------------------------------------------------------------------------


def test_a_number_is_drawn_in_the_first_transaction_that_uses_it() -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        counter = EpochCounter(catalog)
        assert (counter.leadership, counter.next, drawn(catalog)) == (0, 0, None)
        await use(catalog, counter, 0)
        assert (counter.leadership, counter.next, drawn(catalog)) == (0, 1, 0)
        entry, used = catalog.get(keys.LEADER_EPOCH), catalog.get("/used")
        assert entry is not None
        assert used is not None
        assert entry.mod_revision == used.mod_revision
        await use(catalog, counter, 0)
        assert catalog.get(keys.LEADER_EPOCH) == entry
        await use(catalog, counter, 0, 1)
        assert (counter.next, drawn(catalog)) == (2, 1)

    trio.run(main)


def test_a_life_that_uses_nothing_draws_nothing() -> None:
    catalog = MemoryCatalog()
    for _ in range(3):
        assert EpochCounter(catalog).leadership == 0
    assert catalog.revision == 0


def test_each_life_begins_above_those_before() -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        for number in range(3):
            counter = EpochCounter(catalog)
            assert counter.leadership == number
            await use(catalog, counter, number)

    trio.run(main)


def test_many_transactions_at_a_time_draw_a_number_once() -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        counter = EpochCounter(catalog)
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(lambda key: use(catalog, counter, 0, key=key), f"/used/{number}")
        assert (len(catalog.range("/used/")), drawn(catalog)) == (20, 0)
        # The first one draws; the others have gone together.
        assert catalog.committed == [1, 19]

    trio.run(main)


def test_what_another_gateway_has_drawn_is_not_used() -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        mine, other = EpochCounter(catalog), EpochCounter(catalog)
        assert mine.leadership == other.leadership == 0
        await use(catalog, other, 0, key="/other")
        with pytest.raises(CompareFailed) as failed:
            await use(catalog, mine, 0, key="/mine")
        assert failed.value.key == keys.LEADER_EPOCH
        assert catalog.get("/mine") is None
        await use(catalog, mine, mine.next, key="/mine")
        assert drawn(catalog) == 1
        # A number from before that one is not this life's, however high its own are.
        with pytest.raises(CompareFailed):
            await use(catalog, mine, 0)

    trio.run(main)


def test_what_is_drawn_for_another_life_is_not_used_here() -> None:
    """A slot goes to another gateway, under the number that a partition here was about to begin with."""

    async def main() -> None:
        catalog = MemoryCatalog()
        counter = EpochCounter(catalog)
        await use(catalog, counter, 0)
        about_to = counter.next
        compares: list[Compare] = []
        puts = {"/given": b"1"}
        async with counter.using([about_to], compares, puts, for_another=True):
            await catalog.transact(compares, puts)
        assert (drawn(catalog), counter.is_taken(about_to), counter.next) == (1, True, 2)
        with pytest.raises(CompareFailed):
            await use(catalog, counter, about_to)
        await use(catalog, counter, 0, 2)
        assert drawn(catalog) == 2

    trio.run(main)


def test_of_two_gateways_that_draw_at_once_one_has_the_number() -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        counters = [EpochCounter(catalog), EpochCounter(catalog)]
        failed: list[EpochCounter] = []

        async def draw(counter: EpochCounter, key: str) -> None:
            try:
                await use(catalog, counter, 0, key=key)
            except CompareFailed:
                failed.append(counter)

        async with trio.open_nursery() as nursery:
            for number, counter in enumerate(counters):
                nursery.start_soon(draw, counter, f"/used/{number}")
        assert (len(failed), len(catalog.range("/used/")), drawn(catalog)) == (1, 1, 0)

    trio.run(main)


def test_a_transaction_that_fails_draws_nothing() -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        counter = EpochCounter(catalog)
        compares = [Compare("/not-there", 7)]
        puts: dict[str, bytes] = {}
        with pytest.raises(CompareFailed):
            async with counter.using([0], compares, puts):
                await catalog.transact(compares, puts)
        assert (drawn(catalog), counter.next) == (None, 0)
        await use(catalog, counter, 0)
        assert drawn(catalog) == 0

    trio.run(main)


def record(next_epoch: int) -> bytes:
    return keys.pack({"next_epoch": next_epoch, "epochs": [], "log_start": 0})


OPEN = Segment("A" * 32, 9, 0, ("S",), 1, 0)


@pytest.mark.parametrize(
    ("entries", "leadership"),
    [
        ({}, 0),
        ({keys.partition_key(TOPIC_ID, 0): record(3), keys.partition_key(TOPIC_ID, 1): record(7)}, 7),
        (
            {
                keys.partition_key(TOPIC_ID, 0): record(3),
                keys.segment_key(TOPIC_ID, 0, 0, OPEN.address): OPEN.pack(),
            },
            10,
        ),
        ({keys.partition_key(TOPIC_ID, 0): record(3), keys.LEADER_EPOCH: keys.pack(20)}, 21),
        # A version from before the counter has written since:
        ({keys.partition_key(TOPIC_ID, 0): record(30), keys.LEADER_EPOCH: keys.pack(20)}, 30),
    ],
)
def test_the_counter_of_an_older_catalog_begins_above_its_epochs(
    entries: dict[str, bytes], leadership: int
) -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        if entries:
            await catalog.transact([], entries)
        counter = EpochCounter(catalog)
        assert counter.leadership == leadership
        await use(catalog, counter, leadership)
        assert drawn(catalog) == leadership
        assert EpochCounter(catalog).leadership == leadership + 1

    trio.run(main)


def test_what_a_store_knows_lies_below_the_next_number() -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        counter = EpochCounter(catalog)
        counter.heard(40)
        counter.heard(30)
        assert (counter.leadership, counter.next, catalog.revision) == (0, 41, 0)
        # What this life had before is good all the same: nobody has drawn it.
        await use(catalog, counter, 0)
        assert (counter.next, drawn(catalog)) == (41, 0)
        await use(catalog, counter, 41)
        assert (counter.next, drawn(catalog)) == (42, 41)

    trio.run(main)


def test_no_store_uses_the_numbers_up() -> None:
    counter = EpochCounter(MemoryCatalog())
    counter.heard(MAX_HEARD_AHEAD)
    assert counter.next == 0


# partitions -----------------------------------------------------------------------------------------------


def begin(partition: Partition, catalog: MemoryCatalog) -> None:
    """Recovery of a log without segments."""
    entry = catalog.get(keys.partition_key(partition.topic.id, partition.index))
    partition.begin_recovery([], None if entry is None else keys.unpack(entry.value))
    partition.begin_serving(ProducerState())


PARTITIONS = 3

Step = tuple[str, int]

steps = st.lists(st.tuples(st.sampled_from(["write", "recover", "restart"]), st.integers(0, PARTITIONS - 1)))


@given(steps)
def test_no_client_is_told_of_a_lower_epoch_and_no_two_leaders_write_under_one(steps: list[Step]) -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        told, wrote = [-1] * PARTITIONS, dict[tuple[int, int], int]()
        lives: dict[int, int] = {}
        terms, life = [0] * PARTITIONS, 0
        log = FakeLog(partitions=PARTITIONS, catalog=catalog)

        def look() -> None:
            for index, partition in enumerate(log.topic.partitions):
                assert partition.leader_epoch >= told[index]
                told[index] = partition.leader_epoch

        async def write(index: int) -> None:
            partition = log.topic.partitions[index]
            epoch = partition.leader_epoch
            # One leadership, of one life, has written under it in this log; and one life in all.
            assert wrote.setdefault((index, epoch), terms[index]) == terms[index]
            assert lives.setdefault(epoch, life) == life
            partition.next_epoch = max(partition.next_epoch, epoch + 1)
            compares: list[Compare] = []
            puts = {keys.partition_key(TOPIC_ID, index): record(partition.next_epoch)}
            async with log.context.epoch_counter.using([epoch], compares, puts):
                await catalog.transact(compares, puts)

        for what, index in steps:
            if what == "write":
                await write(index)
            elif what == "recover":
                terms[index] += 1
                begin(log.topic.partitions[index], catalog)
            else:
                terms, life = [term + 1 for term in terms], life + 1
                log = FakeLog(partitions=PARTITIONS, catalog=catalog)
                for partition in log.topic.partitions:
                    begin(partition, catalog)
            look()

    trio.run(main)


def append(partitions: Iterable[Partition]) -> None:
    for partition in partitions:
        view = memoryview(bytearray(batch(b"value")))
        partition.append(header_of(view), view, -1, 0)


def test_all_partitions_of_a_life_and_its_new_ones_write_under_one_number() -> None:
    async def main() -> None:
        log = FakeLog(partitions=3)
        catalog = log.context.catalog
        async with log.running():
            for partition in log.topic.partitions:
                await log.write(batch(b"value"), partition=partition)
            revision = catalog.revision
            added = Partition(log.context, log.topic, 3)
            added.begin_serving(ProducerState())
            await log.write(batch(b"value"), partition=added)
            segments = [Segment.unpack(entry.value) for entry in catalog.range(keys.SEGMENTS)]
            assert [segment.epoch for segment in segments] == [0] * 4
            entry = catalog.get(keys.LEADER_EPOCH)
            assert entry is not None
            assert entry.mod_revision < revision

    trio.run(main)


def test_partitions_whose_number_another_gateway_has_drawn_are_recovered_under_the_next() -> None:
    async def main() -> None:
        log = FakeLog(partitions=2)
        again: list[Partition] = []
        log.context.on_recovery(again.append, lambda _: None)
        catalog = log.catalog
        await use(catalog, EpochCounter(catalog), 0)
        async with log.running():
            append(log.topic.partitions)
            await trio.testing.wait_all_tasks_blocked()
            assert again == log.topic.partitions
            assert {partition.state for partition in again} == {PartitionState.FAILED}
            assert log.requests.opened == []
            for partition in again:
                begin(partition, catalog)
                partition.set_end(0)
                assert partition.leader_epoch == 1
            for partition in again:
                await log.write(batch(b"value"), partition=partition)
            assert {one.epoch for one in log.requests.opened} == {1}
            assert drawn(catalog) == 1

    trio.run(main)
