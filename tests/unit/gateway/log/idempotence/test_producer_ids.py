"""Producer ids come in blocks, and no block is handed out that too few stores remember."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from gateway.catalog import keys
from gateway.log.idempotence.producer_ids import BLOCK, BLOCK_SECONDS, ProducerIds
from gateway.log.neighbours import NoCopies
from tests.unit.gateway.catalog.memory import MemoryCatalog
from wireproto.kafka.errors import ErrorCode, KafkaError


class Copies(NoCopies):
    """Stores that remember the catalog, or do not."""

    def __init__(self) -> None:
        self.remember = True
        self.asked: list[float] = []

    is_compared = True

    async def wait_compared(self) -> None:
        await trio.lowlevel.checkpoint()

    async def keep(self, seconds: float) -> bool:
        await trio.lowlevel.checkpoint()
        self.asked.append(seconds)
        return self.remember

    def hurry(self) -> None:
        pass


def test_ids_are_counted_up_and_a_start_skips_what_is_left_of_a_block() -> None:
    async def main() -> None:
        catalog, copies = MemoryCatalog(), Copies()
        ids = ProducerIds(catalog, copies)
        assert [await ids.allocate() for _ in range(BLOCK + 1)] == list(range(BLOCK + 1))
        assert copies.asked == [BLOCK_SECONDS] * 2
        assert await ProducerIds(catalog, copies).allocate() == 2 * BLOCK

    trio.run(main)


def test_a_block_that_too_few_stores_remember_is_not_handed_out() -> None:
    async def main() -> None:
        catalog, copies = MemoryCatalog(), Copies()
        ids = ProducerIds(catalog, copies)
        assert await ids.allocate() == 0
        copies.remember = False
        assert [await ids.allocate() for _ in range(BLOCK - 1)] == list(range(1, BLOCK))
        revision = 0
        for _ in range(3):
            with pytest.raises(KafkaError) as refused:
                await ids.allocate()
            assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert ids.floor == BLOCK
            (taken,) = catalog.range(keys.PRODUCER_IDS)
            assert keys.unpack(taken.value) == 2 * BLOCK
            revision = revision or catalog.revision
            assert catalog.revision == revision  # it is taken once, however often it is asked for
        copies.remember = True
        assert await ids.allocate() == BLOCK

    trio.run(main)


class SlowCopies(Copies):
    """Stores that say nothing for as long as anybody waits, if they do not remember."""

    async def keep(self, seconds: float) -> bool:
        if not self.remember:
            await trio.sleep(seconds)
        return await super().keep(seconds)


def test_all_who_wait_for_a_block_wait_together() -> None:
    """One after the other, the hundredth would be answered after minutes."""

    async def main() -> None:
        catalog, copies = MemoryCatalog(), SlowCopies()
        copies.remember = False
        ids = ProducerIds(catalog, copies)
        refused = 0

        async def ask() -> None:
            nonlocal refused
            with pytest.raises(KafkaError):
                await ids.allocate()
            refused += 1

        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(ask)
        assert refused == 100
        assert trio.current_time() == pytest.approx(BLOCK_SECONDS, abs=0.1)

    trio.run(main, clock=MockClock(rate=0, autojump_threshold=0))


def test_who_waited_together_is_given_ids_of_blocks_that_are_remembered_and_none_twice() -> None:
    async def main() -> None:
        catalog, copies = MemoryCatalog(), Copies()
        ids = ProducerIds(catalog, copies)
        given: list[int] = []

        async def ask() -> None:
            given.append(await ids.allocate())
            (taken,) = catalog.range(keys.PRODUCER_IDS)
            assert given[-1] < keys.unpack(taken.value)
            assert given[-1] < len(copies.asked) * BLOCK

        async with trio.open_nursery() as nursery:
            for _ in range(2 * BLOCK + 500):
                nursery.start_soon(ask)
        assert sorted(given) == list(range(2 * BLOCK + 500))

    trio.run(main)
