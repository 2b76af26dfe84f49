"""Native addresses that the catalog is to know, many at once, some of which another gateway made known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
import trio

from gateway.catalog import keys
from gateway.catalog.interface import Compare, CompareFailed, Entry
from gateway.cluster.native_addresses import KnownAddress, NativeAddresses
from tests.unit.gateway.catalog.memory import MemoryCatalog

TOPIC = bytes(range(16))


class CountingCatalog(MemoryCatalog):
    """How often it was asked for a change, in vain too. What is `hidden` is not seen before a change fails
    because of it: another gateway has made it just now.
    """

    def __init__(self) -> None:
        super().__init__()
        self.transactions = 0
        self.hidden: set[str] = set()

    def get(self, key: str) -> Entry | None:
        return None if key in self.hidden else super().get(key)

    async def transact(
        self,
        compares: Sequence[Compare],
        puts: Mapping[str, bytes],
        deletes: Sequence[str] = (),
        lease: int | None = None,
    ) -> int:
        self.transactions += 1
        try:
            return await super().transact(compares, puts, deletes, lease)
        except CompareFailed as failed:
            self.hidden.discard(failed.key)
            raise


@pytest.mark.parametrize("seen", [True, False], ids=["seen before", "on their way"])
def test_what_others_have_made_known_stays_and_the_rest_is_known_by_few_transactions(seen: bool) -> None:
    async def main() -> None:
        catalog = CountingCatalog()
        addresses = NativeAddresses(catalog)
        theirs = {f"A{number}": KnownAddress(1, 900 + number) for number in (3, 7)}
        for address, known in theirs.items():
            await catalog.transact([], {keys.native_key(TOPIC, address): known.pack()})
        if not seen:
            catalog.hidden |= {keys.native_key(TOPIC, address) for address in theirs}
        before, catalog.transactions = catalog.revision, 0
        ours = {f"A{number}": KnownAddress(0, number) for number in range(10)}
        await addresses.make(TOPIC, ours)
        assert catalog.revision == before + 1
        assert catalog.transactions == (1 if seen else 1 + len(theirs))
        assert addresses.are_to_be_kept
        assert addresses.get(TOPIC, "A0") is None, "stores may not have it in their copies"
        addresses.kept()
        assert {address: addresses.get(TOPIC, address) for address in ours} == {**ours, **theirs}

    trio.run(main)


def test_an_address_that_only_another_gateway_has_made_known_needs_no_transaction() -> None:
    async def main() -> None:
        catalog = CountingCatalog()
        addresses = NativeAddresses(catalog)
        known = KnownAddress(1, 900)
        await catalog.transact([], {keys.native_key(TOPIC, "A0"): known.pack()})
        catalog.transactions = 0
        await addresses.make(TOPIC, {"A0": KnownAddress(0, 1)})
        assert not catalog.transactions
        addresses.kept()
        assert addresses.get(TOPIC, "A0") == known

    trio.run(main)
