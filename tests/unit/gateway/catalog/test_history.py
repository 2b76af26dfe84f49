"""Watches of changes, where revisions pass that have changed nothing."""

from __future__ import annotations

import trio
from trio.testing import wait_all_tasks_blocked

from gateway.catalog.history import History, Watch
from gateway.catalog.interface import Change


def test_revisions_that_changed_nothing_are_passed_over() -> None:
    """As after a reload: it has the newest revision of an etcd that others use, too."""

    async def main() -> None:
        history = History(5)
        seen: list[Change] = []

        async def watch() -> None:
            async for change in Watch(history, "a", 8):
                seen.append(change)  # noqa: PERF401 - it never ends

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            await wait_all_tasks_blocked()
            history.add(20, [Change(7, "a", b"before")])
            await wait_all_tasks_blocked()
            history.add(30, [Change(25, "a", b"1"), Change(26, "b", b"2")])
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert seen == [Change(25, "a", b"1")]

    trio.run(main)
