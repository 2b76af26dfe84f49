"""The catalogs of one process pass the suite, and catalogs with a defect do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import trio

from gateway.catalog.interface import Catalog, Change, Compare
from gateway.catalog.mirror import Plan
from gateway.catalog.mirrored import MirroredCatalog
from gateway.catalog.served.catalog import ServedCatalog
from gateway.catalog.served.server import CatalogServer
from gateway.catalog.sqlite import SqliteCatalog
from tests.unit.gateway.catalog.conformance import CASES, Case, Handles, named
from tests.unit.gateway.catalog.memory import MemoryCatalog


def run(case: Case, catalog: Catalog) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(catalog.run)
            await case(Handles(catalog, catalog))
            nursery.cancel_scope.cancel()
        await catalog.aclose()

    trio.run(main)


@pytest.mark.parametrize("case", CASES, ids=named)
def test_memory(case: Case) -> None:
    run(case, MemoryCatalog())


@pytest.mark.parametrize("case", CASES, ids=named)
def test_sqlite(case: Case, tmp_path: Path) -> None:
    run(case, SqliteCatalog(tmp_path / "catalog.sqlite"))


@pytest.mark.parametrize("case", CASES, ids=named)
def test_served(case: Case, tmp_path: Path) -> None:
    """By two processes, for all that they can tell."""
    served(case, SqliteCatalog(tmp_path / "catalog.sqlite"), tmp_path / "catalog.sock")


def served(case: Case, catalog: MirroredCatalog, path: Path) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(catalog.run)
            await nursery.start(CatalogServer(catalog).serve, path)
            handles = Handles(*[await trio.to_thread.run_sync(ServedCatalog, path) for _ in range(2)])
            for handle in handles:
                nursery.start_soon(handle.run)
            await case(handles)
            for handle in handles:
                await handle.aclose()
            nursery.cancel_scope.cancel()
        await catalog.aclose()

    trio.run(main)


class ComparesNothing(MemoryCatalog):
    """As an etcd that is sent a compare with a misspelt name."""

    async def transact(
        self,
        compares: Sequence[Compare],
        puts: Mapping[str, bytes],
        deletes: Sequence[str] = (),
        lease: int | None = None,
    ) -> int:
        del compares
        return await super().transact([], puts, deletes, lease)


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
    """Puts what should go with a lease for ever."""

    async def transact(
        self,
        compares: Sequence[Compare],
        puts: Mapping[str, bytes],
        deletes: Sequence[str] = (),
        lease: int | None = None,
    ) -> int:
        del lease
        return await super().transact(compares, puts, deletes)


class TellsInDisorder(MemoryCatalog):
    def changes(self, from_revision: int) -> list[Change]:
        return sorted(super().changes(from_revision), key=lambda change: change.key)


class LosesChanges(MemoryCatalog):
    """A watch is not told of what was deleted."""

    async def _commit(self, plan: Plan) -> None:
        await super()._commit(plan)
        plan.changes[:] = [change for change in plan.changes if change.value is not None]


@pytest.mark.parametrize(
    ("defective", "noticed_by"),
    [
        (ComparesNothing, "all_compares_must_hold"),
        (ComparesNothing, "what_is_only_compared_is_compared"),
        (ComparesNothing, "of_many_at_once_one_wins"),
        (ComparesTheFirst, "all_compares_must_hold"),
        (LosesTheLease, "keys_of_a_lease_go_with_it"),
        (TellsInDisorder, "a_watch_gives_every_change_once_and_in_order"),
        (LosesChanges, "keys_of_a_lease_go_with_it"),
    ],
)
def test_a_defect_is_noticed(defective: type[MirroredCatalog], noticed_by: str) -> None:
    (case,) = (case for case in CASES if named(case) == noticed_by)
    catalog = defective()  # type: ignore[call-arg]

    async def main() -> None:
        with trio.fail_after(5):
            await case(Handles(catalog, catalog))

    with pytest.raises((AssertionError, pytest.fail.Exception, trio.TooSlowError)):
        trio.run(main)
