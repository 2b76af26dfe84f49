"""One gateway's life on a catalog: what it changes is compared with that life."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from dafka.commands.exits import explain
from gateway.catalog import keys
from gateway.catalog.fence_rules import Unfenced
from gateway.catalog.fenced import Deposed, FencedCatalog
from gateway.catalog.interface import CatalogFailed, Compare, CompareFailed
from gateway.cluster.lineage import CatalogHistory
from gateway.common.failures import ends_process
from tests.unit.gateway.catalog.memory import MemoryCatalog

A, B = keys.topic_key("a"), keys.topic_key("b")


async def begun(catalog: MemoryCatalog, life: str) -> FencedCatalog:
    """A gateway's view of the catalog, whose life begins now."""
    fenced = FencedCatalog(catalog)
    begin = CatalogHistory(fenced).begin(life)
    await fenced.begin_life(keys.LIVES + life, begin.compares, begin.puts, begin.deletes)
    return fenced


def test_the_next_life_ends_this_one() -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        first = await begun(catalog, "1")
        await first.transact([Compare(A, 0)], {A: b"1"})
        second = await begun(catalog, "2")
        for _ in range(2):
            with pytest.raises(Deposed, match=r"has ended its life \(/lives/1\).* let one of them run"):
                await first.transact([Compare(B, 0)], {B: b"1"})
        assert catalog.get(B) is None
        await second.transact([Compare(B, 0)], {B: b"2"})
        entry = second.get(B)
        assert entry is not None
        assert entry.value == b"2"

    trio.run(main)


def test_a_transaction_that_waits_while_the_next_life_begins_fails() -> None:
    """Both are made durable by the same commit; the life that was begun first in it counts."""

    async def main() -> None:
        catalog = MemoryCatalog()
        first = await begun(catalog, "1")
        second = FencedCatalog(catalog)
        begin = CatalogHistory(second).begin("2")
        outcomes = []

        async def late() -> None:
            try:
                await first.transact([Compare(B, 0)], {B: b"1"})
            except Deposed as deposed:
                outcomes.append(deposed)

        catalog.hold()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(second.begin_life, keys.LIVES + "2", begin.compares, begin.puts, [])
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(late)
            await trio.testing.wait_all_tasks_blocked()
            catalog.let_go()
        assert len(outcomes) == 1
        assert catalog.get(B) is None

    trio.run(main)


def test_other_compares_fail_as_ever() -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        for fenced in (FencedCatalog(catalog), await begun(catalog, "1")):
            with pytest.raises(CompareFailed, match=A):
                await fenced.transact([Compare(A, 3)], {A: b""})

    trio.run(main)


def test_what_lacks_a_compare_changes_nothing() -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        for fenced in (FencedCatalog(catalog), await begun(catalog, "1")):
            with pytest.raises(Unfenced):
                await fenced.transact([], {A: b""})
        assert catalog.get(A) is None

    trio.run(main)


def test_a_failed_disk_stays_one() -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        fenced = await begun(catalog, "1")
        catalog.fail_next_commit = True
        with pytest.raises(CatalogFailed):
            await fenced.transact([Compare(A, 0)], {A: b""})

    trio.run(main)


def test_the_process_ends_and_says_what_to_do() -> None:
    deposed = Deposed("/lives/1")
    assert ends_process(ExceptionGroup("", [ValueError(), ExceptionGroup("", [deposed])]))
    code, line = explain(ExceptionGroup("", [deposed]))
    assert code == 2
    assert line.startswith("another gateway has taken this one's place")
