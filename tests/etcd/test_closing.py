"""A catalog that is closed while it waits for etcd ends without an error: a gateway stops without it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.catalog.etcd.address import EtcdAddress
from gateway.catalog.etcd.attempts import Seen
from gateway.catalog.etcd.catalog import EtcdCatalog
from gateway.catalog.etcd.credentials import Credentials
from gateway.catalog.etcd.words import Body

SECONDS = 60.0


def test_one_that_waits_until_its_mirror_is_up_to_date_ends(
    new_address: Callable[[], EtcdAddress], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch is at a member that is behind the others, so that what those have does not come."""

    async def main() -> None:
        catalog = await EtcdCatalog.open(new_address(), Credentials())
        told = trio.Event()

        def ahead(_answer: Body, sent: Seen) -> Seen:
            told.set()
            return replace(sent, mod_revision=sent.mod_revision + 1)

        monkeypatch.setattr(catalog, "_history_in", ahead)
        with trio.fail_after(SECONDS):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(catalog.run)
                await told.wait()
                await wait_all_tasks_blocked()
                await catalog.aclose()

    trio.run(main)
