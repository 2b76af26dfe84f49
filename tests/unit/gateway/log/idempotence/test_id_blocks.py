"""Producer ids are given once, whatever life gives them."""

from __future__ import annotations

import pytest
import trio

from gateway.catalog.interface import CatalogFailed
from gateway.log.idempotence.producer_ids import BLOCK, ProducerIds
from gateway.log.neighbours import NoCopies
from tests.unit.gateway.catalog.memory import MemoryCatalog


def test_no_life_gives_an_id_again() -> None:
    async def main() -> None:
        catalog, given = MemoryCatalog(), []
        for count in (1, BLOCK, 2 * BLOCK + 1, 1):
            life = ProducerIds(catalog, NoCopies())
            assert life.floor % BLOCK == 0
            given += [await life.allocate() for _ in range(count)]
            assert given[-1] < life.floor
        assert given == sorted(set(given))
        assert given[-1] < len(given) + 4 * BLOCK, "a life wastes less than a block"

    trio.run(main)


def test_those_who_ask_at_the_same_time_get_different_ones() -> None:
    async def main() -> None:
        ids, given = ProducerIds(MemoryCatalog(), NoCopies()), []

        async def ask() -> None:
            given.extend([await ids.allocate() for _ in range(BLOCK)])

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask)
        assert sorted(given) == list(range(3 * BLOCK))

    trio.run(main)


def test_an_id_of_a_block_that_could_not_be_taken_is_given_to_nobody() -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        ids = ProducerIds(catalog, NoCopies())
        catalog.fail_next_commit = True
        with pytest.raises(CatalogFailed):
            await ids.allocate()
        assert ids.floor == 0

    trio.run(main)
