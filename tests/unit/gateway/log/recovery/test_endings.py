"""Ends of many partitions in one transaction, and what becomes of the others if one of them fails."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from gateway.catalog import keys, pieces
from gateway.catalog.interface import Compare, CompareFailed
from gateway.log.fences import Overtaken
from gateway.log.recovery.endings import Endings
from tests.unit.gateway.catalog.memory import MemoryCatalog
from tests.unit.gateway.log.fake_log import TOPIC_ID
from tests.unit.gateway.log.one_store import Life, OneStore

PARTITIONS = 20
NAME = keys.topic_key("orders")


def record(index: int) -> str:
    return keys.partition_key(TOPIC_ID, index)


def run(tmp_path: Path, body: Callable[[Life, MemoryCatalog], Awaitable[None]]) -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        life = Life(OneStore(tmp_path), catalog, partitions=PARTITIONS)
        life.topic.revision = await catalog.transact([], {NAME: keys.pack({"id": TOPIC_ID.hex()})})
        with trio.fail_after(20):
            await body(life, catalog)

    trio.run(main)


async def put_all(
    life: Life, endings: Endings, compares: dict[int, Compare] | None = None
) -> dict[int, Exception | None]:
    """What became of the record of each partition."""
    outcomes: dict[int, Exception | None] = {}

    async def put(index: int) -> None:
        wanted = [compares[index]] if compares and index in compares else []
        try:
            await endings.put(life.topic.partitions[index], {record(index): b"%d" % index}, [], wanted)
        except (CompareFailed, Overtaken) as error:
            outcomes[index] = error
        else:
            outcomes[index] = None

    async with trio.open_nursery() as nursery:
        for index in range(PARTITIONS):
            nursery.start_soon(put, index)
    return outcomes


def values(catalog: MemoryCatalog) -> dict[str, bytes]:
    return {entry.key: entry.value for entry in catalog.range(keys.PARTITIONS)}


def test_what_comes_together_is_one_transaction(tmp_path: Path) -> None:
    async def body(life: Life, catalog: MemoryCatalog) -> None:
        endings = Endings(life.context)
        before = catalog.revision
        assert await put_all(life, endings) == dict.fromkeys(range(PARTITIONS))
        assert values(catalog) == {record(index): b"%d" % index for index in range(PARTITIONS)}
        assert catalog.revision == before + 1
        assert endings.transactions == 1
        assert {one.fence.revision for one in life.topic.partitions} == {catalog.revision}

    run(tmp_path, body)


def test_no_transaction_is_larger_than_it_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part here is a put, and compares the partition; and all of them compare the topic."""
    monkeypatch.setattr(pieces, "MAX_OPERATIONS", pieces.ADDED_OPERATIONS + 4)

    async def body(life: Life, catalog: MemoryCatalog) -> None:
        endings = Endings(life.context)
        assert await put_all(life, endings) == dict.fromkeys(range(PARTITIONS))
        assert len(values(catalog)) == PARTITIONS
        assert endings.transactions == math.ceil(PARTITIONS / 3)

    run(tmp_path, body)


def test_of_one_that_fails_the_others_hear_nothing(tmp_path: Path) -> None:
    async def body(life: Life, catalog: MemoryCatalog) -> None:
        other, overtaken = "/other", record(5)
        await catalog.transact([], {other: b"", overtaken: b"another gateway's"})
        endings = Endings(life.context)
        outcomes = await put_all(life, endings, {3: Compare(other, 0)})
        assert {index: type(error) for index, error in outcomes.items() if error is not None} == {
            3: CompareFailed,
            5: Overtaken,
        }
        expected = {record(index): b"%d" % index for index in range(PARTITIONS) if index != 3}
        assert values(catalog) == expected | {overtaken: b"another gateway's"}

    run(tmp_path, body)


@pytest.mark.parametrize("together", [1, 2])
def test_a_topic_that_changes_meanwhile_fails_nobody(tmp_path: Path, together: int) -> None:
    """Partitions are created, or configs altered, by the same commit of the catalog."""

    async def body(life: Life, catalog: MemoryCatalog) -> None:
        endings = Endings(life.context)

        async def alter() -> None:
            life.topic.revision = await catalog.transact(
                [], {NAME: keys.pack({"id": TOPIC_ID.hex(), "x": 1})}
            )

        async with trio.open_nursery() as nursery:
            with catalog.held():
                nursery.start_soon(alter)
                await trio.testing.wait_all_tasks_blocked()
                for index in range(together):
                    nursery.start_soon(
                        endings.put, life.topic.partitions[index], {record(index): b"%d" % index}, [], []
                    )
                await trio.testing.wait_all_tasks_blocked()
        assert values(catalog) == {record(index): b"%d" % index for index in range(together)}

    run(tmp_path, body)


def test_who_is_cancelled_leaves_nobody_behind(tmp_path: Path) -> None:
    """The first one puts for all: it goes on to its end."""

    async def body(life: Life, catalog: MemoryCatalog) -> None:
        endings = Endings(life.context)
        scope = trio.CancelScope()

        async def first() -> None:
            with scope:
                await endings.put(life.topic.partitions[0], {record(0): b"0"}, [], [])

        async with trio.open_nursery() as nursery:
            with catalog.held():
                nursery.start_soon(first)
                await trio.testing.wait_all_tasks_blocked()
                for index in (1, 2):
                    nursery.start_soon(
                        endings.put, life.topic.partitions[index], {record(index): b"%d" % index}, [], []
                    )
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
                await trio.testing.wait_all_tasks_blocked()
        assert values(catalog) == {record(index): b"%d" % index for index in range(3)}
        assert endings.transactions == 2

    run(tmp_path, body)
