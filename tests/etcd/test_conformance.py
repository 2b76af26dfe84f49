"""etcd passes the suite of all catalogs, with two gateways on one catalog."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio

from gateway.catalog.etcd.address import EtcdAddress
from gateway.catalog.etcd.catalog import EtcdCatalog
from gateway.catalog.etcd.credentials import Credentials
from gateway.catalog.interface import Change, Compare, CompareFailed, LeaseNotFound
from tests.unit.gateway.catalog.conformance import CASES, Case, Handles, named

SECONDS = 60.0


def run(case: Case, address: EtcdAddress) -> None:
    async def main() -> None:
        with trio.fail_after(SECONDS):
            catalog = await EtcdCatalog.open(address, Credentials())
            other = await EtcdCatalog.open(address, Credentials())
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(catalog.run)
                    nursery.start_soon(other.run)
                    await case(Handles(catalog, other))
                    nursery.cancel_scope.cancel()
            finally:
                await catalog.aclose()
                await other.aclose()

    trio.run(main)


@pytest.mark.parametrize("case", CASES, ids=named)
def test_etcd(case: Case, new_address: Callable[[], EtcdAddress]) -> None:
    run(case, new_address())


def test_a_lease_ends_when_it_is_not_kept_alive(new_address: Callable[[], EtcdAddress]) -> None:
    async def case(handles: Handles) -> None:
        catalog, other = handles
        short, kept = await catalog.grant_lease(2), await catalog.grant_lease(2)
        await catalog.transact([], {"kept": b""}, lease=kept)
        at = await catalog.transact([], {"short": b""}, lease=short)
        ended = trio.Event()

        async def keep_alive() -> None:
            while not ended.is_set():
                await catalog.keep_alive(kept)
                with trio.move_on_after(0.5):
                    await ended.wait()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep_alive)
            change = await anext(other.watch("", at + 1))
            assert (change.key, change.value) == ("short", None)
            await anext(catalog.watch("", at + 1))
            ended.set()
        assert [entry.key for entry in catalog.range("")] == ["kept"]
        with pytest.raises(LeaseNotFound):
            await catalog.keep_alive(short)
        with pytest.raises(CompareFailed):
            await catalog.transact([Compare("short", at)], {"short": b"late"})
        assert catalog.sequence == at, "no transaction did it"
        assert catalog.changes(at + 1) == [Change(change.revision, "short", None)]
        await catalog.revoke(kept)

    run(case, new_address())
