"""The catalog's file, as one gateway life after another has it: the real catalog over a simulated disk.

A transaction takes some milliseconds. A gateway that dies meanwhile has made it or not. A life that was
taken for dead, and goes on, finds its next transaction refused, as by the file's lock or a lost lease.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from gateway.catalog import keys
from gateway.catalog.interface import CatalogFailed, Entry
from gateway.catalog.mirror import Mirror, Plan
from gateway.catalog.mirrored import MirroredCatalog

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.sim.cluster import World


class CatalogFile:
    """What is durable. `owner` is the only one that may write."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.revision = 0
        self.on_segment: Callable[[str, bytes | None, bytes], None] = lambda _key, _before, _after: None
        """Told of each segment that is put, with its key and what was there."""
        self.on_transaction: Callable[[Plan], None] = lambda _plan: None
        """Told of each one, before it counts."""
        self.deleted: dict[str, tuple[str, ...]] = {}
        """address -> members, of segments that all members have confirmed as deleted."""
        self.owner: SimCatalog | None = None
        self.under_way: Plan | None = None

    def apply(self, plan: Plan) -> None:
        """The plan is durable."""
        self.on_transaction(plan)
        for key, entry in plan.entries.items():
            if entry is None:
                self._note_deleted(key, self.entries.pop(key, None))
            else:
                if key.startswith(keys.SEGMENTS):
                    before = self.entries.get(key)
                    self.on_segment(key, None if before is None else before.value, entry.value)
                self.entries[key] = entry
        self.revision = plan.revision

    def _note_deleted(self, key: str, entry: Entry | None) -> None:
        """Members forget a dropped segment, or one of a buried topic, before its key goes."""
        topic_id = key.removeprefix(keys.SEGMENTS).partition("/")[0]
        buried = key.startswith(keys.SEGMENTS) and keys.TOMBSTONES + topic_id in self.entries
        if entry is not None and (buried or key.startswith(keys.SEGMENT_TOMBSTONES)):
            address = key.rpartition("/")[2].rpartition("-")[2]
            self.deleted[address] = tuple(keys.unpack(entry.value)["members"])

    def crash(self, *, keep: bool) -> None:
        """The owner is gone, or no longer the owner; its transaction under way has happened if `keep`."""
        if self.under_way is not None and keep:
            self.apply(self.under_way)
        self.under_way = self.owner = None

    def range(self, prefix: str) -> list[Entry]:
        """For the checks."""
        return [self.entries[key] for key in sorted(self.entries) if key.startswith(prefix)]


class SimCatalog(MirroredCatalog):
    """One life's handle."""

    def __init__(self, file: CatalogFile, world: World) -> None:
        super().__init__(Mirror(file.entries.values(), {}, file.revision))
        file.owner = self
        self._file = file
        self._world = world

    @property
    def where(self) -> str:
        return "the simulation"

    async def _commit(self, plan: Plan) -> None:
        file = self._file
        if file.owner is self:
            file.under_way = plan
            await trio.sleep(0.001 + 0.004 * self._world.random.random())
        if file.owner is not self:
            raise CatalogFailed("another gateway has the catalog")
        file.under_way = None
        file.apply(plan)

    async def _close(self) -> None:
        pass
