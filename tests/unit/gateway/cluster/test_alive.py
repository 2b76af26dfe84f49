"""One process serves as a gateway and others wait: who is next, when, and what the former can still do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from dafka.processes.last_life import last_life_in, note_life
from gateway.catalog import keys
from gateway.catalog.fenced import Deposed, FencedCatalog
from gateway.catalog.interface import CatalogLost, Compare, LeaseNotFound
from gateway.cluster.alive import LEASE_SECONDS, LOOK_SECONDS, RENEW_SECONDS, Alive, LeaseLost
from gateway.leadership.records import unpack_alive
from tests.unit.gateway.catalog.memory import MemoryCatalog

A, B, C = "A" * 16, "B" * 16, "C" * 16


class Process:
    """One process that would serve."""

    def __init__(self, catalog: MemoryCatalog, life: str, last_life: str = "", *, gateway: int = 1) -> None:
        self.catalog = FencedCatalog(catalog)
        self.alive = Alive(self.catalog, gateway, life, last_life, clock=trio.current_time)
        self.serves = trio.Event()
        self.scope = trio.CancelScope()

    async def run(self) -> None:
        with self.scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.alive.run)
                await self.alive.take()
                self.serves.set()

    async def change(self) -> None:
        await self.catalog.transact([Compare("/other", self._revision)], {"/other": b""})

    @property
    def _revision(self) -> int:
        entry = self.catalog.get("/other")
        return entry.mod_revision if entry else 0


class Away(MemoryCatalog):
    """Takes no renewals while it is `away`, and ends no lease: nobody reaches it."""

    away = False

    def __init__(self) -> None:
        super().__init__()
        self._is_back = trio.Event()

    def back(self) -> None:
        """Each lease has its full time again, as with etcd."""
        self.away = False
        now = trio.current_time()
        self._deadlines = {lease: now + self._mirror.leases[lease] for lease in self._deadlines}
        self._is_back.set()

    async def keep_alive(self, lease: int) -> None:
        if self.away:
            await self._is_back.wait()
        await super().keep_alive(lease)

    async def revoke(self, lease: int) -> None:
        if self.away:
            await self._is_back.wait()
        if self._deadlines[lease] > trio.current_time():
            raise LeaseNotFound(lease)  # it has time again
        await super().revoke(lease)


Body = Callable[[MemoryCatalog, trio.Nursery], Awaitable[None]]


def run(body: Body, catalog: MemoryCatalog | None = None) -> None:
    async def main() -> None:
        made = catalog or MemoryCatalog()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.run)
            await body(made, nursery)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.fixture(autouse=True)
def unknown_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """`/other` stands for whatever a gateway changes."""
    monkeypatch.setattr("gateway.catalog.fenced.check_fenced", lambda *_: None)


def who_serves(catalog: MemoryCatalog) -> str:
    entry = catalog.get(keys.alive_key(1))
    return unpack_alive(entry.value).life if entry else ""


def standbys(catalog: MemoryCatalog) -> list[str]:
    return [entry.key.removeprefix(keys.standbys_of(1)) for entry in catalog.range(keys.standbys_of(1))]


def test_who_is_alone_serves_at_once_and_goes_on() -> None:
    async def body(catalog: MemoryCatalog, nursery: trio.Nursery) -> None:
        first, begun = Process(catalog, A), trio.current_time()
        nursery.start_soon(first.run)
        await first.serves.wait()
        assert trio.current_time() == begun
        await trio.sleep(10 * LEASE_SECONDS)
        assert who_serves(catalog) == A
        await first.change()

    run(body)


@pytest.mark.parametrize("released", [True, False], ids=["it ends", "it is killed"])
def test_a_standby_takes_the_place(released: bool) -> None:
    async def body(catalog: MemoryCatalog, nursery: trio.Nursery) -> None:
        first, second = Process(catalog, A), Process(catalog, B)
        nursery.start_soon(first.run)
        await first.serves.wait()
        nursery.start_soon(second.run)
        await trio.sleep(3 * LEASE_SECONDS)
        assert (who_serves(catalog), standbys(catalog)) == (A, [B])
        assert second.alive.is_standby
        await first.change()
        ended = trio.current_time()
        first.scope.cancel()
        if released:
            await first.alive.release()
        await second.serves.wait()
        took = trio.current_time() - ended
        if released:
            assert took == 0
        else:
            assert LEASE_SECONDS - RENEW_SECONDS <= took <= LEASE_SECONDS
        assert (who_serves(catalog), standbys(catalog)) == (B, [])
        assert not second.alive.is_standby
        await second.change()
        with pytest.raises(Deposed, match=keys.alive_key(1)):
            await first.change()

    run(body)


def test_of_two_standbys_one_takes_the_place_and_the_other_waits_on() -> None:
    async def body(catalog: MemoryCatalog, nursery: trio.Nursery) -> None:
        first, others = Process(catalog, A), [Process(catalog, B), Process(catalog, C)]
        nursery.start_soon(first.run)
        await first.serves.wait()
        for other in others:
            nursery.start_soon(other.run)
        await trio.sleep(1)
        assert standbys(catalog) == [B, C]
        first.scope.cancel()
        await trio.sleep(2 * LEASE_SECONDS)
        (second,) = [other for other in others if other.serves.is_set()]
        (third,) = [other for other in others if other is not second]
        assert third.alive.is_standby
        second.scope.cancel()
        await third.serves.wait()
        assert standbys(catalog) == []

    run(body)


def test_a_gateway_that_is_started_again_on_its_directory_does_not_wait(tmp_path: Path) -> None:
    async def body(catalog: MemoryCatalog, nursery: trio.Nursery) -> None:
        assert last_life_in(tmp_path) == ""
        first = Process(catalog, A)
        nursery.start_soon(first.run)
        await first.serves.wait()
        note_life(tmp_path, A)
        first.scope.cancel()
        again, begun = Process(catalog, B, last_life_in(tmp_path)), trio.current_time()
        nursery.start_soon(again.run)
        await again.serves.wait()
        assert trio.current_time() == begun
        await trio.sleep(3 * LEASE_SECONDS)
        assert who_serves(catalog) == B, "the end of the old lease takes nothing with it"
        with pytest.raises(Deposed):
            await first.change()

    run(body)


def test_a_directory_of_an_older_life_than_the_one_that_serves_waits() -> None:
    async def body(catalog: MemoryCatalog, nursery: trio.Nursery) -> None:
        first, second = Process(catalog, A), Process(catalog, B, C)
        nursery.start_soon(first.run)
        await first.serves.wait()
        nursery.start_soon(second.run)
        await trio.sleep(3 * LEASE_SECONDS)
        assert not second.serves.is_set()

    run(body)


def test_whose_lease_is_gone_ends() -> None:
    async def body(catalog: MemoryCatalog, nursery: trio.Nursery) -> None:
        first = Process(catalog, A)

        async def serve() -> None:
            with pytest.RaisesGroup(LeaseLost, flatten_subgroups=True):
                await first.run()

        async with trio.open_nursery() as until_it_ends:
            until_it_ends.start_soon(serve)
            await first.serves.wait()
            entry = catalog.get(keys.alive_key(1))
            assert entry is not None
            await catalog.revoke(entry.lease)

    run(body)


@pytest.mark.parametrize("beside", ["a standby", "another gateway", "nobody"])
def test_who_cannot_renew_its_lease_is_suspended_where_somebody_may_follow(beside: str) -> None:
    async def body(catalog: MemoryCatalog, nursery: trio.Nursery) -> None:
        assert isinstance(catalog, Away)
        first = Process(catalog, A)
        told: list[bool] = []
        first.alive.on_suspended(told.append)
        nursery.start_soon(first.run)
        await first.serves.wait()
        if beside == "a standby":
            nursery.start_soon(Process(catalog, B).run)
        elif beside == "another gateway":
            nursery.start_soon(Process(catalog, B, gateway=2).run)
        await trio.sleep(LOOK_SECONDS)
        away = trio.current_time()
        catalog.away = True
        await trio.sleep(LEASE_SECONDS - RENEW_SECONDS - LOOK_SECONDS)
        assert not first.alive.is_suspended
        await trio.sleep(RENEW_SECONDS + 2 * LOOK_SECONDS)
        assert first.alive.is_suspended == (beside != "nobody")
        assert trio.current_time() - away < 2 * LEASE_SECONDS
        catalog.back()
        await trio.sleep(RENEW_SECONDS)
        assert not first.alive.is_suspended
        assert told == ([] if beside == "nobody" else [True, False])
        await first.change()
        assert who_serves(catalog) == A

    run(body, Away())


def test_what_nobody_can_read_is_said() -> None:
    async def body(catalog: MemoryCatalog, nursery: trio.Nursery) -> None:
        await catalog.transact([], {keys.alive_key(1): b'{"v": 2}'})
        with pytest.raises(CatalogLost, match=r"memory has something else in /alive/1 .*version 2"):
            await Process(catalog, A).alive.take()

    run(body)


class Forgets(MemoryCatalog):
    """Its first lease is gone before it is used."""

    forgot = 0

    async def grant_lease(self, ttl_seconds: float) -> int:
        lease = await super().grant_lease(ttl_seconds)
        if not self.forgot:
            self.forgot = lease
            await self.revoke(lease)
        return lease


def test_a_lease_that_is_gone_before_it_was_used_is_not_tried_again() -> None:
    async def body(catalog: MemoryCatalog, nursery: trio.Nursery) -> None:
        first = Process(catalog, A)
        nursery.start_soon(first.run)
        await first.serves.wait()
        assert who_serves(catalog) == A
        await trio.sleep(3 * LEASE_SECONDS)
        assert who_serves(catalog) == A

    run(body, Forgets())


def test_who_sees_another_one_in_its_place_ends() -> None:
    """It slept for longer than its lease, and nothing that it does would tell it."""

    async def body(catalog: MemoryCatalog, nursery: trio.Nursery) -> None:
        first = Process(catalog, A)

        async def serve() -> None:
            with pytest.RaisesGroup(LeaseLost, flatten_subgroups=True):
                await first.run()

        async with trio.open_nursery() as until_it_ends:
            until_it_ends.start_soon(serve)
            await first.serves.wait()
            nursery.start_soon(Process(catalog, B, last_life=A).run)

    run(body)


def test_a_standby_whose_lease_has_run_out_is_one_again() -> None:
    async def body(catalog: MemoryCatalog, nursery: trio.Nursery) -> None:
        first, second = Process(catalog, A), Process(catalog, B)
        nursery.start_soon(first.run)
        await first.serves.wait()
        nursery.start_soon(second.run)
        await trio.sleep(1)
        entry = catalog.get(keys.standbys_of(1) + B)
        assert entry is not None
        await catalog.revoke(entry.lease)
        assert standbys(catalog) == []
        await trio.sleep(2 * LEASE_SECONDS)
        assert standbys(catalog) == [B]
        first.scope.cancel()
        await second.serves.wait()

    run(body)


class CannotDo(Exception):
    """What the cluster's features demand."""


@pytest.mark.parametrize("when", ["before", "meanwhile", "at that moment"])
def test_who_cannot_do_what_the_cluster_does_takes_no_place(when: str) -> None:
    """Nor does a standby take it; and what it has found itself able to do is compared."""

    async def body(catalog: MemoryCatalog, nursery: trio.Nursery) -> None:
        process = Process(catalog, A)

        def check() -> None:
            if catalog.get(keys.FEATURES) is not None:
                raise CannotDo

        process.alive._check = check
        other = Process(catalog, B)
        nursery.start_soon(process.alive.run)
        if when == "before":
            await catalog.transact([], {keys.FEATURES: b"{}"})
        if when == "meanwhile":
            nursery.start_soon(other.run)
            await other.serves.wait()
        refused = trio.Event()

        async def take() -> None:
            with pytest.raises(CannotDo):
                await process.alive.take()
            refused.set()

        if when == "at that moment":
            lease = catalog.grant_lease

            async def grant(ttl_seconds: float) -> int:
                await catalog.transact([], {keys.FEATURES: b"{}"})
                return await lease(ttl_seconds)

            catalog.grant_lease = grant  # type: ignore[method-assign]
        nursery.start_soon(take)
        if when == "meanwhile":
            await trio.sleep(LEASE_SECONDS / 2)
            assert process.alive.is_standby
            await catalog.transact([], {keys.FEATURES: b"{}"})
        await refused.wait()
        assert who_serves(catalog) == (B if when == "meanwhile" else "")

    run(body)


def test_levels_that_change_while_the_place_is_taken_are_looked_at_again() -> None:
    async def body(catalog: MemoryCatalog, nursery: trio.Nursery) -> None:
        process = Process(catalog, A)
        seen: list[bool] = []
        process.alive._check = lambda: seen.append(catalog.get(keys.FEATURES) is not None)
        nursery.start_soon(process.alive.run)
        await process.alive._have_lease()
        with catalog.held():
            nursery.start_soon(catalog.transact, [], {keys.FEATURES: b"{}"})
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(process.alive.take)
            await trio.testing.wait_all_tasks_blocked()
        await trio.testing.wait_all_tasks_blocked()
        assert who_serves(catalog) == A
        assert seen == [False, False, True, True]

    run(body)
