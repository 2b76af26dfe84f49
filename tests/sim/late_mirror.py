"""One gateway's view of a catalog that several share: what others, and itself, have changed it shows later.

A transaction counts in the catalog at once; whoever made it goes on when its own view shows it, as with a
watch (`gateway.catalog.etcd.catalog`). Each commit comes after a time of its own, in order.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import trio

from gateway.catalog.history import History, Watch
from gateway.catalog.interface import CatalogFailed, Change, Compare, CompareFailed, Entry
from gateway.catalog.mirror import Mirror, Plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.sim.catalog import SimCatalog
    from tests.sim.cluster import World

MOSTLY_SECONDS = 0.005
SELDOM_SECONDS = 0.15
SELDOM = 0.05
"""A commit comes within the first time mostly, and seldom within the second one."""

LATE_TRANSACTIONS = 0.5
"""Share of those that are made while the catalog is not reached, and are sent only when it is again; the
others happen, and their outcome is learned then."""


class LateMirror:
    """See `Catalog`."""

    trouble = ""
    where = "the simulation"
    put_back = ""

    def __init__(self, catalog: SimCatalog, world: World) -> None:
        self._catalog = catalog
        self._world = world
        self._mirror = Mirror(catalog.range(""), {}, catalog.revision)
        self._history = History(catalog.revision)
        self._waiting: deque[Plan] = deque()
        self._advanced = trio.Event()
        self._is_stalled = False
        self._is_over = False
        self._cuts = 0
        self._reachable = trio.Event()
        self._reachable.set()
        catalog.on_commit(self._later)

    def _later(self, plan: Plan) -> None:
        self._waiting.append(plan)
        seconds = SELDOM_SECONDS if self._world.random.random() < SELDOM else MOSTLY_SECONDS
        self._world.loop.after(seconds * self._world.random.random(), self._take, plan)

    def stall(self) -> None:
        """Nothing that happens from now on is shown any more: it is cut off from the catalog's changes."""
        self._is_stalled = True

    def cut_off(self) -> None:
        """The catalog is not reached, until `reach_again`."""
        self._cuts += 1
        if self._cuts == 1:
            self._is_stalled = True
            self._reachable = trio.Event()

    def reach_again(self) -> None:
        """What has happened meanwhile is shown, and who has waited goes on."""
        self._cuts -= 1
        if self._cuts or self._is_over:
            return
        self._is_stalled = False
        if self._waiting:
            self._take(self._waiting[-1])
        self._reachable.set()

    async def _reach(self) -> None:
        if not self._reachable.is_set():
            await self._reachable.wait()
            if self._is_over:
                raise CatalogFailed("it is gone")

    def end(self) -> None:
        """Whose view it is is gone: nobody waits any more."""
        self._is_over = True
        self._advanced.set()
        self._reachable.set()

    def _take(self, due: Plan) -> None:
        """This one is due, and all before it with it."""
        if self._is_stalled:
            return
        while self._waiting and self._waiting[0].revision <= due.revision:
            plan = self._waiting.popleft()
            self._mirror.apply(plan)
            self._history.add(plan.revision, plan.changes)
        self._advanced.set()
        self._advanced = trio.Event()

    @property
    def revision(self) -> int:
        return self._mirror.revision

    @property
    def sequence(self) -> int:
        return self._mirror.revision

    def get(self, key: str) -> Entry | None:
        return self._mirror.get(key)

    def range(self, prefix: str, *, after: str = "", limit: int | None = None) -> list[Entry]:
        return self._mirror.range(prefix, after=after, limit=limit)

    def watch(self, prefix: str, from_revision: int) -> Watch:
        return Watch(self._history, prefix, from_revision)

    def changes(self, from_revision: int) -> list[Change]:
        return self._history.kept_since(from_revision)

    async def fresh(self) -> None:
        await self._reach()
        await trio.sleep(0.002 * self._world.random.random())
        await self._shown(self._catalog.revision)

    async def transact(
        self,
        compares: Sequence[Compare],
        puts: Mapping[str, bytes],
        deletes: Sequence[str] = (),
        lease: int | None = None,
    ) -> int:
        # What was sent in the last moment may have happened: who waits learns that when it is settled.
        if not self._reachable.is_set() and self._world.random.random() < LATE_TRANSACTIONS:
            await self._reach()
        try:
            revision = await self._catalog.transact(compares, puts, deletes, lease)
        except CompareFailed:
            await self._reach()
            await self._shown(self._catalog.revision)
            raise
        await self._reach()
        await self._shown(revision)
        return revision

    async def _shown(self, revision: int) -> None:
        while self.revision < revision:
            await self._advanced.wait()
            if self._is_over:
                raise CatalogFailed("it is gone")

    async def grant_lease(self, ttl_seconds: float) -> int:
        await self._reach()
        return await self._catalog.grant_lease(ttl_seconds)

    async def keep_alive(self, lease: int) -> None:
        await self._reach()
        await self._catalog.keep_alive(lease)

    async def revoke(self, lease: int) -> None:
        await self._catalog.revoke(lease)

    async def run(self) -> None:
        await trio.sleep_forever()

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()
