"""Each catalog of this machine under clients that change the same keys at once: what they are told is one
thing after the other. And catalogs with a defect, which is found so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import trio
import trio.testing

from gateway.catalog.interface import Catalog, Compare, Entry
from gateway.catalog.mirrored import MirroredCatalog
from gateway.catalog.served.catalog import ServedCatalog
from gateway.catalog.served.server import CatalogServer
from gateway.catalog.sqlite import SqliteCatalog
from tests.linearizable.catalog_clients import HandleClients, Shared
from tests.linearizable.search import Judgement, Verdict
from tests.sim.loop import make_deterministic
from tests.unit.gateway.catalog.memory import MemoryCatalog

SEEDS = range(5)
KEPT_WHILE_ANOTHER_ENDS = 25
"""A seed with which a lease is kept alive at the moment at which it and another one are due."""

OPERATIONS = 50
"""Of each client."""

BETWEEN_CUTS = 1000
"""Turns of the loop: some transactions of each client."""


async def used_by(shared: Shared, handles: Sequence[Catalog], operations: int = OPERATIONS) -> Judgement:
    """What becomes of clients of these handles, all at once."""
    async with trio.open_nursery() as nursery:
        for number, handle in enumerate(handles):
            nursery.start_soon(HandleClients(shared, str(number), handle).run, operations)
    return shared.judge()


def judged(catalog: MirroredCatalog, shared: Shared, *, virtual: bool = False) -> Judgement:
    async def main() -> Judgement:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(catalog.run)
            told = await used_by(shared, [catalog, catalog])
            nursery.cancel_scope.cancel()
        await catalog.aclose()
        return told

    make_deterministic(shared.seed)
    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0) if virtual else None)


@pytest.mark.parametrize("seed", SEEDS)
def test_memory(seed: int) -> None:
    told = judged(MemoryCatalog(), Shared(seed))
    assert told.is_good, str(told)
    assert len(told.order) > OPERATIONS


@pytest.mark.parametrize("seed", SEEDS)
def test_sqlite(seed: int, tmp_path: Path) -> None:
    told = judged(SqliteCatalog(tmp_path / "catalog.sqlite"), Shared(seed))
    assert told.is_good, str(told)


class SlowCatalog(MemoryCatalog):
    """A transaction takes a while, so that leases end beside it."""

    async def transact(
        self,
        compares: Sequence[Compare],
        puts: Mapping[str, bytes],
        deletes: Sequence[str] = (),
        lease: int | None = None,
    ) -> int:
        await trio.sleep(0.1)
        revision = await super().transact(compares, puts, deletes, lease)
        await trio.sleep(0.1)
        return revision


@pytest.mark.parametrize("seed", [*SEEDS, KEPT_WHILE_ANOTHER_ENDS])
def test_leases_whose_time_is_over(seed: int) -> None:
    told = judged(SlowCatalog(), Shared(seed, lease_seconds=0.6), virtual=True)
    assert told.is_good, str(told)


@pytest.mark.parametrize("seed", SEEDS)
def test_served(seed: int, tmp_path: Path) -> None:
    """Two handles; the connection of the second one is cut again and again, whatever is under way."""
    path, shared = tmp_path / "catalog.sock", Shared(seed)

    async def main() -> Judgement:
        catalog = SqliteCatalog(tmp_path / "catalog.sqlite")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(catalog.run)
            await nursery.start(CatalogServer(catalog).serve, path)

            async def opened() -> ServedCatalog:
                handle = await trio.to_thread.run_sync(ServedCatalog, path)
                nursery.start_soon(handle.run)
                return handle

            steady = HandleClients(shared, "steady", await opened())
            cut = HandleClients(shared, "cut", await opened(), opened)

            async def cut_again() -> None:
                while True:
                    for _ in range(BETWEEN_CUTS):
                        await trio.lowlevel.checkpoint()
                    handle = cut.handle
                    assert isinstance(handle, ServedCatalog)
                    cut.cut()
                    await handle.aclose()
                    while cut.handle is handle:
                        await trio.lowlevel.checkpoint()

            async with trio.open_nursery() as clients:
                clients.start_soon(cut_again)
                async with trio.open_nursery() as working:
                    working.start_soon(steady.run, OPERATIONS)
                    working.start_soon(cut.run, OPERATIONS)
                clients.cancel_scope.cancel()
            for one in (steady, cut):
                await one.handle.aclose()
            nursery.cancel_scope.cancel()
        await catalog.aclose()
        return shared.judge()

    told = trio.run(main)
    assert told.is_good, str(told)


class ComparesTheFirst(MemoryCatalog):
    async def transact(
        self,
        compares: Sequence[Compare],
        puts: Mapping[str, bytes],
        deletes: Sequence[str] = (),
        lease: int | None = None,
    ) -> int:
        return await super().transact(compares[:1], puts, deletes, lease)


class LosesTheLease(MemoryCatalog):
    async def transact(
        self,
        compares: Sequence[Compare],
        puts: Mapping[str, bytes],
        deletes: Sequence[str] = (),
        lease: int | None = None,
    ) -> int:
        del lease
        return await super().transact(compares, puts, deletes)


class PutsOneByOne(MemoryCatalog):
    """Whoever reads in between sees a half."""

    async def transact(
        self,
        compares: Sequence[Compare],
        puts: Mapping[str, bytes],
        deletes: Sequence[str] = (),
        lease: int | None = None,
    ) -> int:
        revision = await super().transact(compares, dict(list(puts.items())[:1]), deletes, lease)
        return (
            await super().transact([], dict(list(puts.items())[1:]), (), lease) if len(puts) > 1 else revision
        )


class DoesItAgain(MemoryCatalog):
    """As a client that was not answered and asks once more, without a look at what has become of it."""

    async def transact(
        self,
        compares: Sequence[Compare],
        puts: Mapping[str, bytes],
        deletes: Sequence[str] = (),
        lease: int | None = None,
    ) -> int:
        first = await super().transact(compares, puts, deletes, lease)
        await super().transact([], puts, deletes, lease)
        return first


class ShowsWhatWas(MemoryCatalog):
    """`fresh` does nothing, and reads are of some transactions ago."""

    def __init__(self) -> None:
        super().__init__()
        self._were: list[list[Entry]] = [[]]

    def range(self, prefix: str, *, after: str = "", limit: int | None = None) -> list[Entry]:
        self._were.append(super().range(prefix, after=after, limit=limit))
        return self._were[-3:][0]


@pytest.mark.parametrize(
    "defective", [ComparesTheFirst, LosesTheLease, PutsOneByOne, DoesItAgain, ShowsWhatWas]
)
def test_a_defect_is_found(defective: type[MemoryCatalog]) -> None:
    verdicts = [judged(defective(), Shared(seed)).verdict for seed in SEEDS]
    assert Verdict.NOT_LINEARIZABLE in verdicts
