"""A store takes another one's place: whatever the old one keeps is copied, segment by segment.

Rule: a closed segment's members change only after the new one has confirmed that it has the whole of it; the
change is one catalog transaction. Until then the old one counts, whether it is there or not.

Theory of operation: the old store is marked as leaving, with the order itself, in one transaction, so that a
restart goes on with it. From then on no new segment gets it; logs whose open segment has it begin another one
with their next append, or lose it when they are idle. Then each closed segment is copied to the new store
(from any member, the old one too) and changed. When none is left the old store may be removed.

Rule: before a store is told to copy a segment, the catalog has noted it there (`Segment.copying`). A segment
that leaves its chain meanwhile is then forgotten by that store, too, whichever life sees to it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import trio

from gateway.catalog import keys
from gateway.catalog.interface import Compare, CompareFailed, Entry, unchanged
from gateway.cluster.stores import ADMITTED, REMOVED, StoreEntry, StoreRefused, Stores
from gateway.log.closer import Closer
from gateway.log.fences import Overtaken, PartlyDone
from gateway.log.segment import Segment

if TYPE_CHECKING:
    from gateway.cluster.topics import Topics
    from gateway.log.context import LogContext
    from gateway.log.fences import Changes
    from gateway.log.partition import Partition

SEGMENTS_AT_ONCE = 16
"""Segments that are copied at the same time, for all replacements together."""

LOOK_AGAIN_SECONDS = 2.0
"""Pause before the catalog is looked at again for what the old store still keeps."""

NOTED_AT_ONCE = 50
"""Segments of which one transaction notes who is to copy them."""

SEGMENTS_A_TURN = 500
"""Segments of the catalog looked at before other tasks run."""

PROGRESS_LOGGED_SECONDS = 30.0
"""How often it is said how much is left."""

logger = logging.getLogger(__name__)


OTHERS_ORDERS_SECONDS = 5.0
"""How often it is looked whether another gateway was told to replace a store: each moves what it leads."""


class _Move(NamedTuple):
    """A segment, as the catalog has it with its note, and the store that gets it."""

    entry: Entry
    segment: Segment
    target: str
    partition: Partition


@dataclass
class Progress:
    """One replacement. `left` segments are to be moved, as of the last look; `moved` were in this life."""

    left: int = 0
    moved: int = 0
    unmovable: int = 0
    """Segments for which there is no store that is not a member already."""

    def __str__(self) -> str:
        return f"{self.moved} segments moved, {self.left} left"


class Replacement:
    """The replacements of one gateway. `start` begins one; `run` works on them, earlier lives' too."""

    def __init__(self, context: LogContext, stores: Stores, topics: Topics) -> None:
        self.progress: dict[str, Progress] = {}
        """By the old store's incarnation; stays after the end, until the next start."""
        self._context = context
        self._stores = stores
        self._topics = topics
        self._slots = trio.CapacityLimiter(SEGMENTS_AT_ONCE)
        self._under_way: set[str] = set()
        self._work = trio.Event()
        self._work.set()

    async def start(self, old: StoreEntry, new: StoreEntry) -> None:
        """Have `new` take the place of `old`. Raises StoreRefused."""
        if old.incarnation == new.incarnation:
            raise StoreRefused("a store cannot take its own place")
        if old.state == REMOVED:
            raise StoreRefused(f"store {old.id} ({old.name}) is removed: it keeps nothing")
        if new.state != ADMITTED:
            raise StoreRefused(f"store {new.id} ({new.name}) is {new.state}; admit another one first")
        order = {keys.replacing_key(old.incarnation): keys.pack({"new": new.incarnation})}
        await self._stores.leave(old, order)
        self._work.set()

    async def run(self) -> None:
        """Work on what the catalog says, for ever."""
        async with trio.open_nursery() as nursery:
            while True:
                with trio.move_on_after(OTHERS_ORDERS_SECONDS):
                    await self._work.wait()
                self._work = trio.Event()
                for entry in self._context.catalog.range(keys.REPLACING):
                    old = entry.key.removeprefix(keys.REPLACING)
                    if old not in self._under_way:
                        self._under_way.add(old)
                        nursery.start_soon(self._replace, old)

    async def _replace(self, old: str) -> None:
        stores = self._stores
        self.progress.setdefault(old, Progress())  # the order may be gone already: another gateway's, too
        said = trio.current_time()
        while await self._move_all(old) or not await self._is_over(old):
            if trio.current_time() >= said + PROGRESS_LOGGED_SECONDS:
                said = trio.current_time()
                logger.info("store %s is being replaced: %s", stores.name(old), self.progress[old])
            await trio.sleep(LOOK_AGAIN_SECONDS)
        self._under_way.discard(old)
        logger.info("store %s is replaced, and may be removed now: %s", stores.name(old), self.progress[old])

    async def _is_over(self, old: str) -> bool:
        """Take the order out of the catalog; whether it was still the same."""
        key = keys.replacing_key(old)
        try:
            await self._context.catalog.transact(unchanged(self._context.catalog, [key]), {}, [key])
        except CompareFailed:
            return False
        return True

    async def _move_all(self, old: str) -> bool:
        """One look at everything; whether something was left that counts on the old store."""
        order = self._context.catalog.get(keys.replacing_key(old))
        if order is None:
            return False
        progress = self.progress.setdefault(old, Progress())
        being_written = self._leave_open_segments(old)
        segments = await self._segments_of(old)
        closed = [(entry, segment) for entry, segment in segments if not segment.is_open]
        progress.left, progress.unmovable = len(segments), 0
        new = keys.unpack(order.value)["new"]
        async with trio.open_nursery() as nursery:
            left = iter(closed)
            while some := list(islice(left, NOTED_AT_ONCE)):
                for move in await self._note_targets(old, new, some):
                    await self._slots.acquire_on_behalf_of((old, move.entry.key))
                    nursery.start_soon(self._move, old, move)
        if progress.unmovable:
            logger.warning(
                "%d segments cannot leave store %s: every other store keeps them already; admit another one",
                progress.unmovable,
                self._stores.name(old),
            )
        return being_written or bool(segments)

    def _leave_open_segments(self, old: str) -> bool:
        """Have idle logs close an open segment that the store keeps; whether there are such segments."""
        found = False
        for topic in self._topics.all():
            for partition in topic.partitions:
                if any(old in opened.segment.members for opened in partition.chain.open_segments()):
                    found = True
                    self._context.opener.end(partition)
        return found

    async def _segments_of(self, old: str) -> list[tuple[Entry, Segment]]:
        """The segments of topics that are not deleted, of which the store is a member."""
        found: list[tuple[Entry, Segment]] = []
        looked = 0
        for topic in self._topics.all():
            for entry in self._context.catalog.range(keys.segments_prefix(topic.id)):
                segment = Segment.unpack(entry.value)
                if old in segment.members:
                    found.append((entry, segment))
                looked += 1
                if not looked % SEGMENTS_A_TURN:
                    await trio.lowlevel.checkpoint()
        return found

    async def _note_targets(
        self, old: str, new: str, segments: Sequence[tuple[Entry, Segment]]
    ) -> list[_Move]:
        """Note in the catalog which store gets a copy of each of these; those that changed meanwhile are left
        for the next look.
        """
        progress, catalog = self.progress[old], self._context.catalog
        targets: dict[str, tuple[Partition, str]] = {}
        puts: dict[str, bytes] = {}
        revisions = {entry.key: entry.mod_revision for entry, _ in segments}
        for entry, segment in segments:
            partition = self._partition(entry)
            if partition is None or partition.deleted or not self._context.leads(partition):
                continue
            target = self._target(new, segment, partition)
            if target is None:
                progress.unmovable += 1
                continue
            targets[entry.key] = partition, target
            if target not in segment.copying:
                puts[entry.key] = replace(segment, copying=(*segment.copying, target)).pack()

        await self._put_targets(puts, targets, revisions)
        moves = []
        for key, (partition, target) in targets.items():
            noted = catalog.get(key)
            if noted is not None and target in (segment := Segment.unpack(noted.value)).copying:
                moves.append(_Move(noted, segment, target, partition))
        return moves

    async def _put_targets(
        self, puts: dict[str, bytes], targets: dict[str, tuple[Partition, str]], revisions: Mapping[str, int]
    ) -> None:
        """Put these; `targets` loses those that somebody else was faster with."""

        def note(partition: Partition, changes: Changes) -> bool:
            for key in by_partition[partition]:
                changes.puts[key] = puts[key]
                changes.compares.append(Compare(key, revisions[key]))
            return True

        while puts:
            by_partition: dict[Partition, list[str]] = {}
            for key in puts:
                by_partition.setdefault(targets[key][0], []).append(key)
            try:
                await self._context.fences.change(by_partition, note)
                return
            except PartlyDone as failed:
                for key in [key for key in puts if targets[key][0] in failed.done]:
                    del puts[key]
                del puts[failed.key], targets[failed.key]

    async def _move(self, old: str, move: _Move) -> None:
        """Copy one segment to the new store, and change its members."""
        progress = self.progress[old]
        entry, segment, target, partition = move
        try:
            if old not in segment.members:
                return
            members = tuple(target if member == old else member for member in segment.members)
            sources = self._stores.live_first(segment.members, segment.address)
            assert segment.last_sequence is not None
            if await self._context.copier.copy(
                target, segment.address, segment.last_sequence, sources, members=members, once=True,
                at=self._context.place(entry.mod_revision),
                wanted=lambda: not partition.deleted,
            ):  # fmt: skip
                copying = tuple(name for name in segment.copying if name != target)
                changed = replace(segment, members=members, copying=copying)
                await self._change(entry, changed, old, target, partition)
                progress.moved += 1
                progress.left -= 1
        except (CompareFailed, Overtaken):
            pass  # retention, a compaction or a deletion was faster
        finally:
            self._slots.release_on_behalf_of((old, entry.key))

    def _target(self, new: str, segment: Segment, partition: Partition) -> str | None:
        """Who is to keep the segment in the old store's place."""
        if new not in segment.members and self._stores.as_members([new]) is not None:
            return new
        return self._stores.other_for(partition.log, segment.members)

    def _partition(self, entry: Entry) -> Partition | None:
        topic_id, index, _ = entry.key.removeprefix(keys.SEGMENTS).split("/")
        topic = self._topics.by_id(bytes.fromhex(topic_id))
        return None if topic is None else topic.partitions[int(index)]

    async def _change(
        self, entry: Entry, changed: Segment, old: str, target: str, partition: Partition
    ) -> None:
        closer = self._context.closer
        await self._context.fences.free([partition])
        untold = [*closer.untold_members(changed.address, but=old), target]
        puts = {entry.key: changed.pack()}
        Closer.note(changed, partition.log, puts, untold)
        becomes_member = self._stores.as_members([target])
        if becomes_member is None:
            return  # there will be another one for it
        compares = [Compare(entry.key, entry.mod_revision), *becomes_member]
        await self._context.fences.transact([partition], puts, (), compares)
        closer.begin([changed], members=untold)
        partition.chain.replace(changed)
