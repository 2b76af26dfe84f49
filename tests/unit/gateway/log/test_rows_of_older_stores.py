"""A store of a release from before transactions makes rows of markers that say nothing of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.common.marker import Marker
from mesh.protocol import ingest
from tests.unit.gateway.catalog.memory import MemoryCatalog
from tests.unit.gateway.log.fake_log import NOW_MS, header_of
from tests.unit.gateway.log.one_store import Life, OneStore, copy_of
from tests.unit.gateway.log.test_log_start import in_life, run
from wireproto.records.builder import build_batch
from wireproto.records.control import EndMarker, marker_batch
from wireproto.records.header import TRANSACTIONAL_FLAG, read_header
from wireproto.records.row import Row, row_of, unmarked


def older_row(content: bytes, running_max: int) -> Row:
    """As releases before made it: from the header alone."""
    header = read_header(content)
    return row_of(content, running_max)._replace(
        base_sequence=header.base_sequence, attributes=header.attributes
    )


async def produce(life: Life, producer_id: int, sequence: int) -> None:
    batch = build_batch(
        [(None, b"value", [], NOW_MS)],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        attributes=TRANSACTIONAL_FLAG,
    )
    view = memoryview(bytearray(batch))
    life.partition.append(header_of(view), view, -1, life.context.now_ms())
    await life.settle()


async def end(life: Life, producer_id: int, *, commit: bool) -> None:
    life.partition.append_marker(Marker(producer_id, 0, 3, commit, 1), life.context.now_ms())
    await life.settle()


def test_markers_are_read_where_rows_do_not_have_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "row_of", older_row)

    async def body(life: Life, store: OneStore, catalog: MemoryCatalog) -> None:
        await produce(life, 1, 0)
        await produce(life, 2, 0)
        await end(life, 1, commit=True)
        await produce(life, 1, 1)
        await produce(life, 3, 0)
        await end(life, 2, commit=False)

        async def after(later: Life) -> None:
            partition = later.partition
            assert partition.last_stable_offset == 3
            assert partition.producers.state.open_transactions() == {1: 3, 3: 4}
            known = partition.producers.state.find(2)
            assert known is not None
            assert known.coordinator_epoch == 3
            batches, aborted = await partition.read_committed(0, 1 << 20)
            assert [read_header(batch).base_offset for batch in batches] == [0, 1, 2]
            assert aborted == [(2, 1)]

        await in_life(store, await copy_of(catalog), after)

    run(tmp_path, body)


def test_which_rows_say_nothing_of_a_marker() -> None:
    marker = marker_batch(1, 0, EndMarker(is_commit=True, coordinator_epoch=2), 5)
    data = build_batch([(None, b"x", [], 5)], producer_id=1, producer_epoch=0, base_sequence=0)
    rows = [row_of(data, -1), row_of(marker, -1), older_row(marker, -1), row_of(data, -1)]
    assert list(unmarked(b"".join(row.pack() for row in rows))) == [2]
    assert list(unmarked(row_of(data, -1).pack() * 100)) == []
    assert list(unmarked(b"")) == []
