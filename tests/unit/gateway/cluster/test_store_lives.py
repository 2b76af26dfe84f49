"""What two gateways with one catalog remember of a store's starts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import trio

from gateway.catalog import keys
from gateway.cluster.store_lives import StoreLives, puts
from mesh.protocol.vouching import StoreLife, Told, Vouching
from tests.unit.gateway.catalog.memory import MemoryCatalog

STORE = "A" * 32
FIRST, SECOND = b"1" * 8, b"2" * 8


class Gateway:
    """What one of them knows; `counted` are the starts that count, as they came."""

    def __init__(self, catalog: MemoryCatalog) -> None:
        self.vouching = Vouching()
        self.counted: list[StoreLife] = []
        presence: Any = SimpleNamespace(
            vouching=self.vouching, keep=None, counts_now=lambda _store, life: self.counted.append(life)
        )
        self.lives = StoreLives(catalog, presence, lambda _store: True)

    def hears(self, nonce: bytes, commit: int, remembered: bytes = b"", remembered_commit: int = -1) -> None:
        self.vouching.told(Told(STORE, nonce, commit, remembered, remembered_commit), 0.0)


def remembered(catalog: MemoryCatalog) -> bytes:
    entry = catalog.get(keys.store_life_key(STORE))
    assert entry is not None
    return entry.value


def test_what_another_one_has_put_since_is_known_before_it_is_changed() -> None:
    """One that has not heard of a store's new start does not put the old one over it."""

    async def main() -> None:
        catalog = MemoryCatalog()
        await catalog.transact([], puts({STORE: StoreLife(FIRST, 100)}))
        one, two = Gateway(catalog), Gateway(catalog)
        two.hears(FIRST, 101)
        one.hears(SECOND, 5, FIRST, 100)
        await one.lives._keep_all()
        (kept,) = puts({STORE: StoreLife(SECOND, 5)}).values()
        assert remembered(catalog) == kept
        await two.lives._keep_all()
        assert remembered(catalog) == kept
        assert two.counted == [StoreLife(SECOND, 5)]

    trio.run(main)


def test_each_goes_on_with_what_it_has_put_itself() -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        one, two = Gateway(catalog), Gateway(catalog)
        one.hears(FIRST, 1)
        await one.lives._keep_all()
        for commit in (2, 3):
            for gateway in (one, two):
                gateway.hears(FIRST, commit)
                await gateway.lives._keep_all()
                (kept,) = puts({STORE: StoreLife(FIRST, commit)}).values()
                assert remembered(catalog) == kept

    trio.run(main)
