"""Two gateways on one catalog: whoever slept while the other one took its place changes nothing any more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio

from gateway.catalog import keys
from gateway.catalog.fenced import Deposed
from gateway.catalog.interface import CompareFailed
from tests.in_process import several_stores
from tests.in_process.several_stores import Gateway, batch, cluster
from tests.unit.gateway.catalog.memory import MemoryCatalog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gateway.catalog.interface import Compare


class Handle:
    """One gateway's connection to a catalog that others use, too. `asleep` holds up its transactions."""

    def __init__(self, catalog: MemoryCatalog, path: Path) -> None:
        self.path = path
        self.awake = trio.Event()
        self.awake.set()
        self.holds_segment = trio.Event()
        self.refused = trio.Event()
        self._catalog = catalog

    async def transact(
        self,
        compares: Sequence[Compare],
        puts: Mapping[str, bytes],
        deletes: Sequence[str] = (),
        lease: int | None = None,
    ) -> int:
        if not self.awake.is_set():
            if any(key.startswith(keys.SEGMENTS) for key in puts):
                self.holds_segment.set()
            await self.awake.wait()
        try:
            return await self._catalog.transact(compares, puts, deletes, lease)
        except CompareFailed:
            self.refused.set()
            raise

    def sleep(self) -> None:
        self.awake = trio.Event()

    async def aclose(self) -> None:
        """The others go on."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)


def test_a_gateway_that_was_deposed_in_the_middle_of_a_transaction_writes_nothing_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one is about to insert the segment for offset 1, and sleeps; the second one serves what is
    there, which is nothing that anybody would seal, and gives offset 1 to somebody else.
    """

    async def main() -> None:
        catalog = MemoryCatalog()
        handles: list[Handle] = []

        def opened(path: Path) -> Handle:
            handles.append(Handle(catalog, path))
            return handles[-1]

        monkeypatch.setattr(several_stores, "SqliteCatalog", opened)
        async with cluster(tmp_path, monkeypatch) as made:
            with pytest.RaisesGroup(Deposed, flatten_subgroups=True, allow_unwrapped=True):
                async with made.gateway(monkeypatch, topics=(("orders", 1),)) as (first, client):
                    await several_stores.produce(client, batch(b"0"))
                    await end_segment(first)
                    handles[0].sleep()
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(ignore_answer, client)
                        with trio.fail_after(20):
                            await handles[0].holds_segment.wait()
                        async with made.gateway(monkeypatch, data="second") as (second, other):
                            try:
                                assert await several_stores.produce(other, batch(b"another one's")) == (0, 1)
                                await confirmed_by_all(catalog)
                                before = segments(catalog)
                            finally:
                                # What is under way there comes to its end, also if it is cancelled.
                                handles[0].awake.set()
                            with trio.fail_after(20):
                                await handles[0].refused.wait()
                            assert segments(catalog) == before
                            assert len(await made.contents(second)) == 2
                        nursery.cancel_scope.cancel()

    trio.run(main)


async def end_segment(gateway: Gateway) -> None:
    partition = gateway.partition()
    gateway.broker.context.opener.end(partition)
    await until(lambda: partition.chain.current is None and not gateway.catalog.range(keys.CLOSING))


async def confirmed_by_all(catalog: MemoryCatalog) -> None:
    """Two of three are enough for a Produce; that the third one has the open segment is noted after the
    answer. (Of a closed one nothing more is noted.)
    """

    def is_noted() -> bool:
        noted = [json.loads(segment) for segment in segments(catalog).values()]
        return all(one["confirmed"] == one["members"] for one in noted if one["end"] is None)

    await until(is_noted)


async def until(is_so: Callable[[], bool]) -> None:
    for _ in range(2000):
        if is_so():
            return
        await trio.sleep(0.01)
    raise AssertionError("it does not come")


def segments(catalog: MemoryCatalog) -> dict[str, bytes]:
    return {entry.key: entry.value for entry in catalog.range(keys.SEGMENTS)}


async def ignore_answer(client: Any) -> None:
    await several_stores.produce(client, batch(b"late"))
