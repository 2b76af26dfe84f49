"""What is known of idempotent producers after a start on a segment that a compaction has written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.log import partition as partition_module
from gateway.log.idempotence.state import PRODUCER_ID_EXPIRATION_MS, ProducerState
from tests.unit.gateway.catalog.memory import MemoryCatalog
from tests.unit.gateway.log import one_store
from tests.unit.gateway.log.compaction.test_compactor import (
    COMPACT,
    close,
    compact,
    put,
    small_pieces,
)
from tests.unit.gateway.log.fake_log import NOW_MS
from tests.unit.gateway.log.one_store import Life, OneStore, copy_of
from tests.unit.gateway.log.test_log_start import in_life, run

__all__ = ["small_pieces"]


@pytest.fixture(autouse=True)
def one_segment(monkeypatch: pytest.MonkeyPatch, small_pieces: None) -> None:
    monkeypatch.setattr(partition_module, "MAX_SEGMENT_BATCHES", 100)


def known(life: Life) -> list[int]:
    """The producers that the partition knows."""
    return [one[0] for one in life.partition.producers.state.active(life.context.now_ms())]


def test_a_producer_that_had_expired_stays_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of its batches are left: known by them it would be refused what it sends next."""

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        await put(life, (b"x", b"0"), pid=7, sequence=0)
        await put(life, (b"y", b"1"), pid=7, sequence=1)
        await close(life)
        later_ms = NOW_MS + PRODUCER_ID_EXPIRATION_MS + 1000
        monkeypatch.setattr(one_store, "NOW_MS", later_ms)
        await put(life, (b"y", b"other"), pid=8, sequence=0)
        await close(life)
        await compact(life)
        assert len(life.partition.chain.closed) == 1

        async def after(later: Life) -> None:
            assert known(later) == [8]
            assert await put(later, (b"x", b"2"), pid=7, sequence=2) == 3

        await in_life(store, await copy_of(catalog), after, configs=COMPACT)

    run(tmp_path, body, configs=COMPACT)


def test_producers_of_old_batches_do_not_push_out_newer_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from_snapshot: Any = ProducerState.from_snapshot
    made_by: Any
    for made_by in (ProducerState.__init__, from_snapshot.__func__):
        monkeypatch.setitem(made_by.__kwdefaults__, "max_producers", 3)

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        for number in range(1, 6):
            await put(life, (b"k%d" % number, b"v"), pid=number, sequence=0)
        assert await put(life, (b"account", b"old"), pid=6, sequence=0) == 5
        await put(life, (b"account", b"new"))
        assert known(life) == [4, 5, 6]
        await close(life)
        await compact(life)

        async def after(later: Life) -> None:
            assert known(later) == [4, 5, 6]
            assert await put(later, (b"account", b"old"), pid=6, sequence=0) == 5, "it is in the log already"

        await in_life(store, await copy_of(catalog), after, configs=COMPACT)

    run(tmp_path, body, configs=COMPACT)
