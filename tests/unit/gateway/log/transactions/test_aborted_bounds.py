"""What clients can make the lists of aborted transactions cost, and what becomes of it at the bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.log.recovery.producers_at_end import read_aborted
from gateway.log.transactions import aborted_reading
from gateway.log.transactions.aborted import ENTRY_BYTES
from gateway.log.transactions.aborted_cache import SEGMENT_BYTES, AbortedCache
from tests.unit.gateway.catalog.memory import MemoryCatalog
from tests.unit.gateway.log.fake_log import NOW_MS, FakeLog
from tests.unit.gateway.log.one_store import Life, OneStore
from tests.unit.gateway.log.script import Script
from tests.unit.gateway.log.test_log_start import run
from tests.unit.gateway.log.test_partition_appends import logged
from tests.unit.gateway.log.transactional import append, marker, transactional
from tests.unit.gateway.log.transactions.test_aborted_reading import small_segments

__all__ = ["small_segments"]

MANY_LOADS = 20


@pytest.mark.parametrize("segments_kept", [0, 2])
def test_a_range_of_more_segments_than_memory_keeps_is_told_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, segments_kept: int
) -> None:
    """Each read pushed out what the range needed besides, and was begun anew for ever."""

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        script = Script()
        await script.write(life, "z y x b -b -z c -c -y d -d -x p p p")
        life.context.aborted.cache = AbortedCache(segments_kept * (SEGMENT_BYTES + 3 * ENTRY_BYTES))

        async def counted(*arguments: Any) -> Any:
            assert life.context.aborted.loads < MANY_LOADS, "it is read over and over"
            return await read_aborted(*arguments)

        monkeypatch.setattr(aborted_reading, "read_aborted", counted)
        assert await life.context.aborted.between(life.partition, 0, 3) == script.aborted(0, 3)

    run(tmp_path, body)


def test_what_is_deleted_counts_no_more() -> None:
    """Else every segment of the gateway ends with its thousandth aborted transaction, once enough topics
    were deleted.
    """

    async def body(log: FakeLog) -> None:
        cache = log.context.aborted.cache
        append(log.partition, transactional())
        log.partition.append_marker(marker(), NOW_MS)
        assert cache.of_open_segments == 1
        for _ in range(2):
            log.partition.delete()
            assert cache.of_open_segments == 0

    logged(body)
