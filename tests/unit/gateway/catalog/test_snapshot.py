"""Much of a catalog, of one moment, while others work and write."""

from __future__ import annotations

import pytest
import trio

from gateway.catalog import snapshot as snapshots
from gateway.catalog.snapshot import snapshot
from tests.unit.gateway.catalog.memory import MemoryCatalog

PREFIXES = ("/a/", "/b")


def all_of(catalog: MemoryCatalog) -> dict[str, bytes]:
    return {entry.key: entry.value for prefix in PREFIXES for entry in catalog.range(prefix)}


async def fill(catalog: MemoryCatalog, count: int) -> None:
    for prefix in (*PREFIXES, "/c/"):
        await catalog.transact([], {f"{prefix}{number:04d}": b"0" for number in range(count)})


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 100])
def test_it_has_everything_under_its_prefixes(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "ENTRIES_AT_ONCE", 10)

    async def main() -> None:
        catalog = MemoryCatalog()
        await fill(catalog, count)
        assert await snapshot(catalog, PREFIXES) == (catalog.revision, all_of(catalog))

    trio.run(main)


@pytest.mark.parametrize("kept", [1000, 3])
def test_it_is_of_one_moment_whatever_is_written_meanwhile(
    kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "ENTRIES_AT_ONCE", 10)

    async def main() -> None:
        catalog = MemoryCatalog()
        await fill(catalog, 100)
        catalog._history._max_changes = kept
        turns = 0

        async def write() -> None:
            nonlocal turns
            for number in range(8):
                puts = {f"/a/{number:04d}": b"1", f"/b{number:04d}x": b"1", f"/c/{number:04d}": b"1"}
                await catalog.transact([], puts, [f"/b{99 - number:04d}"])
                turns += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            found = await snapshot(catalog, PREFIXES)
            assert turns > 0
            assert found == (catalog.revision, all_of(catalog))

    trio.run(main)
