"""etcd forgets old revisions: who was away for longer reads everything anew, and misses nothing."""

from __future__ import annotations

from collections.abc import Callable

import trio
from trio.testing import wait_all_tasks_blocked

from gateway.catalog.etcd.address import EtcdAddress
from gateway.catalog.etcd.catalog import EtcdCatalog
from gateway.catalog.etcd.credentials import Credentials
from gateway.catalog.interface import Change, HistoryLost
from tests.peers.etcd import Etcd

SECONDS = 60.0


def test_a_catalog_that_was_away_while_etcd_has_forgotten_goes_on(
    etcd_process: Etcd, new_address: Callable[[], EtcdAddress]
) -> None:
    async def main() -> None:
        address = new_address()
        catalog = await EtcdCatalog.open(address, Credentials())
        other = await EtcdCatalog.open(address, Credentials())
        seen: list[Change] = []

        async def watch() -> None:
            while True:
                try:
                    async for change in catalog.watch("", catalog.revision + 1):
                        seen.append(change)  # noqa: PERF401 - it never ends
                except HistoryLost:
                    seen.clear()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(other.run)
            for number in range(10):
                await other.transact([], {"/a": b"%d" % number, f"/k{number}": b""})
            await other.transact([], {}, ["/k0"])
            # Others use the same etcd: its revision goes on.
            (member,) = etcd_process.members
            for _ in range(5):
                member.ask("/v3/kv/put", {"key": "L290aGVy", "value": ""})
            told = member.ask("/v3/kv/put", {"key": "L290aGVy", "value": ""})
            member.ask("/v3/kv/compaction", {"revision": told["header"]["revision"]})
            nursery.start_soon(watch)
            nursery.start_soon(catalog.run)
            await catalog.fresh()
            assert catalog.range("") == other.range("")
            at = await other.transact([], {"/b": b"later"})
            await catalog.fresh()
            assert catalog.range("") == other.range("")
            await wait_all_tasks_blocked()
            assert seen[-1] == Change(at, "/b", b"later")
            nursery.cancel_scope.cancel()
        await catalog.aclose()
        await other.aclose()

    async def bounded() -> None:
        with trio.fail_after(SECONDS):
            await main()

    trio.run(bounded)
