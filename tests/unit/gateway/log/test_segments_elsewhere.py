"""Segments of what another gateway leads are found in the catalog as a chain finds them in memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio

from gateway.catalog import keys
from gateway.log.chain import SegmentChain
from gateway.log.segment import Segment
from gateway.log.segments_elsewhere import segment_at
from tests.unit.gateway.catalog.memory import MemoryCatalog

ID = bytes(range(16))
SEGMENTS = [
    Segment("a", 1, 10, ("s",), 1, 1000, end_offset=100, last_sequence=9),
    Segment("b", 2, 100, ("s",), 1, 2000, end_offset=1000, last_sequence=9),
    Segment("c", 3, 1000, ("s",), 1, 3000),
]


@pytest.mark.parametrize("offset", [0, 9, 10, 99, 100, 999, 1000, 5000])
def test_the_last_one_that_begins_at_or_below_an_offset(offset: int) -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        puts = {keys.segment_key(ID, 3, one.start_offset, one.address): one.pack() for one in SEGMENTS}
        others = {keys.segment_key(ID, index, 0, "x"): b"junk" for index in (2, 4, 30)}
        await catalog.transact([], {**puts, **others})
        chain = SegmentChain()
        chain.load(SEGMENTS)
        partition: Any = SimpleNamespace(topic=SimpleNamespace(id=ID), index=3)
        assert segment_at(catalog, partition, offset) == chain.segment_at(offset)

    trio.run(main)
