"""Ids that nobody uses make room: who waits for that, and how often all are looked through."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio

from gateway.journal.group_commit import WRITE_TIMEOUT_SECONDS
from gateway.transactions import forgetting
from gateway.transactions.forgetting import IDLE_MS, LOOK_SECONDS, Forgetting
from gateway.transactions.metadata import TransactionMetadata, TransactionState
from tests.unit.gateway.transactions.home import run

NOW_MS = 10 * IDLE_MS


class Ids:
    """Ids of clients, each used so many ms ago. `takes_seconds`: until one is forgotten, or is not."""

    def __init__(self, *used: tuple[str, int], takes_seconds: float = 0, fails: bool = False) -> None:
        self.loaded: list[Any] = [
            SimpleNamespace(
                transactional_id=f"{client}-{ago_ms}",
                client=client,
                machine=SimpleNamespace(
                    metadata=TransactionMetadata(1, 0, 1, TransactionState.EMPTY, NOW_MS - ago_ms),
                    pending=None,
                ),
            )
            for client, ago_ms in used
        ]
        self.takes_seconds = takes_seconds
        self.fails = fails
        self.forgotten: list[str] = []
        self.forgetting = Forgetting(lambda: list(self.loaded), self.forget)

    async def forget(self, one: Any) -> None:
        await trio.sleep(self.takes_seconds)
        if not self.fails:
            one.machine.metadata = None
            self.loaded.remove(one)
            self.forgotten.append(one.transactional_id)

    async def ask(self, client: str) -> None:
        await self.forgetting.make_room(client, NOW_MS, lambda: False)


def test_who_asks_waits_no_longer_than_a_write_may_take_however_many_ask() -> None:
    """Nothing can be written: one after the other they would wait for nearly a minute."""
    ids = Ids(*(("a", IDLE_MS + one) for one in range(10)), takes_seconds=WRITE_TIMEOUT_SECONDS, fails=True)

    async def main() -> None:
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(ids.ask, "a")
        assert trio.current_time() - began == pytest.approx(WRITE_TIMEOUT_SECONDS)

    run(main)


def test_those_that_go_are_the_client_s_and_nobody_s_the_longest_idle_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forgetting, "FORGOTTEN_AT_ONCE", 2)
    used = [("a", IDLE_MS + 1), ("b", IDLE_MS + 9), ("a", IDLE_MS - 1), ("", IDLE_MS + 5), ("", IDLE_MS + 3)]
    ids = Ids(*used, ("a", IDLE_MS + 4))

    async def main() -> None:
        for _ in range(4):
            await ids.ask("a")

    run(main)
    names = [f"-{IDLE_MS + 5}", f"a-{IDLE_MS + 4}", f"-{IDLE_MS + 3}", f"a-{IDLE_MS + 1}"]
    assert (sorted(ids.forgotten[:2]), sorted(ids.forgotten[2:])) == (sorted(names[:2]), sorted(names[2:]))
    assert [one.transactional_id for one in ids.loaded] == [f"b-{IDLE_MS + 9}", f"a-{IDLE_MS - 1}"]


def test_all_are_looked_through_again_at_once_only_as_long_as_that_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forgetting, "FORGOTTEN_AT_ONCE", 2)

    async def main() -> None:
        ids = Ids(*(("a", IDLE_MS + one) for one in range(6)), ("b", IDLE_MS))
        for asked in range(1, 4):
            await ids.ask("a")
            assert (ids.forgetting.looks, len(ids.forgotten)) == (asked, 2 * asked)
        for _ in range(9):
            await ids.ask("a")
            await ids.ask("b")
            await ids.ask("c")
        assert (ids.forgetting.looks, ids.loaded) == (3, [])
        ids.fails = True
        ids.loaded = Ids(*(("a", IDLE_MS + one) for one in range(6))).loaded
        await trio.sleep(LOOK_SECONDS)
        for _ in range(9):
            await ids.ask("a")
        assert ids.forgetting.looks == 4

    run(main)
