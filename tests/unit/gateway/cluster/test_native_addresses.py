"""Native addresses that the catalog is to know, many at once, some of which another gateway made known."""

from __future__ import annotations

import trio

from gateway.catalog import keys
from gateway.cluster.native_addresses import KnownAddress, NativeAddresses
from tests.unit.gateway.catalog.memory import MemoryCatalog

TOPIC = bytes(range(16))


def test_what_others_have_made_known_stays_and_the_rest_is_known_by_few_transactions() -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        addresses = NativeAddresses(catalog)
        theirs = {f"A{number}": KnownAddress(1, 900 + number) for number in (3, 7)}
        for address, known in theirs.items():
            await catalog.transact([], {keys.native_key(TOPIC, address): known.pack()})
        before = catalog.revision
        ours = {f"A{number}": KnownAddress(0, number) for number in range(10)}
        await addresses.make(TOPIC, ours)
        assert catalog.revision == before + 1
        assert addresses.are_to_be_kept
        assert addresses.get(TOPIC, "A0") is None, "stores may not have it in their copies"
        addresses.kept()
        assert {address: addresses.get(TOPIC, address) for address in ours} == {**ours, **theirs}

    trio.run(main)


def test_an_address_that_only_another_gateway_has_made_known_needs_no_transaction() -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        addresses = NativeAddresses(catalog)
        known = KnownAddress(1, 900)
        await catalog.transact([], {keys.native_key(TOPIC, "A0"): known.pack()})
        before = catalog.revision
        await addresses.make(TOPIC, {"A0": KnownAddress(0, 1)})
        assert catalog.revision == before
        addresses.kept()
        assert addresses.get(TOPIC, "A0") == known

    trio.run(main)
