"""Copies of the simulated catalog's file, and the operator who puts one of them back by mistake.

What an older catalog does before the stores refute it counts for nothing: the newest one is put back then.
But what it has the stores do counts, and the promises are checked on what is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mesh.store.catalog_memory import load_head
from tests.sim.loop import BrokenPromise

if TYPE_CHECKING:
    from gateway.catalog.interface import Entry
    from tests.sim.cluster import World

COPY_SECONDS = 0.2
"""How often a copy is made."""

REFUSED_SECONDS = 20.0
"""How long the stores may take to refute an older one: they are all there, if not all of the time."""


class Copy(NamedTuple):
    """The file at some moment."""

    at: float
    entries: dict[str, Entry]
    revision: int
    deleted: dict[str, tuple[str, ...]]


class OlderCatalogs:
    """The copies of one schedule; `in_place` while an older one is where the newest was."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._copies: list[Copy] = []
        self._newest: Copy | None = None
        self._times = 0
        if world.plan.remembers:
            world.loop.after(0.0, self._make_copy)

    @property
    def in_place(self) -> bool:
        return self._newest is not None

    def _copy(self) -> Copy:
        file = self._world.catalog_file
        return Copy(self._world.loop.now, dict(file.entries), file.revision, dict(file.deleted))

    def _make_copy(self) -> None:
        if not self.in_place:
            self._copies.append(self._copy())
        if self._world.working:
            self._world.loop.after(COPY_SECONDS, self._make_copy)

    def put_back(self, seconds: float) -> None:
        """Have the catalog be as it was so long ago."""
        world = self._world
        older = [copy for copy in self._copies if copy.at <= world.loop.now - seconds]
        if self.in_place or not older or not self._is_remembered_since(older[-1]):
            return
        self._newest = self._copy()
        self._hooks = world.catalog_file.on_segment, world.catalog_file.on_transaction
        self._put(older[-1])
        world.catalog_file.on_segment = lambda *_: None
        world.catalog_file.on_transaction = lambda *_: None
        world.reached["older catalogs put back"] += 1
        self._times += 1
        world.loop.after(REFUSED_SECONDS, self._must_be_refused, self._times)

    def _is_remembered_since(self, copy: Copy) -> bool:
        """Whether a majority of the stores knows that the catalog went on: what nobody waited for takes a
        second until then.
        """
        memories = [load_head(member.database()).memory for member in self._world.members]
        return sum(one.sequence > copy.revision for one in memories) >= len(memories) // 2 + 1

    def restore(self) -> None:
        """Put the newest one in its place again."""
        assert self._newest is not None
        file = self._world.catalog_file
        file.owner = file.under_way = None
        file.on_segment, file.on_transaction = self._hooks
        self._put(self._newest)
        self._newest = None

    def _put(self, copy: Copy) -> None:
        file = self._world.catalog_file
        file.entries, file.revision = dict(copy.entries), copy.revision
        file.deleted = dict(copy.deleted)

    def _must_be_refused(self, times: int) -> None:
        if self.in_place and times == self._times and not self._world.loop.over.is_set():
            self._world.loop.end(
                BrokenPromise(
                    f"a catalog that went back serves for {REFUSED_SECONDS} s, and no store objects"
                )
            )
