"""One store of the simulated cluster: the real `mesh.store.store.Store` and `Server` on a simulated disk.

What is simulated: the link (`SimNode`), the database's engine (`SimDatabase`), the committer's thread
(`SimCommitter`: an fsync is an event some milliseconds later) and the threads that read. A crash ends the
tasks and the handle at once, whatever they were doing; the next process opens the same disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from mesh.protocol.commit import Commit
from mesh.protocol.disk import StoreCorrupt
from mesh.store.committer import Committer, Fsync
from mesh.store.db import StoreFailed
from mesh.store.store import Store, StoreSettings
from tests.sim.disk import Disk, SimDatabase
from tests.sim.loop import NodeClock, clock_here
from tests.sim.network import SimNode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.sim.cluster import World


class StoreContext:
    """In the place of ZeroMQ's context: leads the real store's constructor to its simulated parts."""

    def __init__(self, member: Member) -> None:
        self.member = member

    def deliver(self) -> None:
        """Nothing waits in buffers of ours here."""

    def deliver_after(self, act: Callable[[Commit], None], commit: Commit) -> None:
        act(commit)


class SimCommitter(Committer):
    """The committer without its thread."""

    member: Member

    def start(self) -> None:
        pass

    def write(self, commit: Commit) -> bool:
        """As the real one's with `--fsync always`."""
        database = self._database
        assert isinstance(database, SimDatabase)
        database.write(commit)
        self.statistics.commits += 1
        self.member.writing = commit
        self.member.world.loop.after(self.member.fsync_seconds(), self._fsynced, commit)
        return False

    def _fsynced(self, commit: Commit) -> None:
        database = self._database
        assert isinstance(database, SimDatabase)
        if database.handle.dead:
            return
        if self.member.node is not None and self.member.node.paused:
            self.member.world.loop.after(0.01, self._fsynced, commit)
            return
        database.flush()
        self.member.writing = None
        self.member.world.history.on_fsynced(self.member.incarnation, commit)
        self._report(commit, None)
        self.member.world.loop.poke()

    def stop(self) -> None:
        pass


class Member:
    """A store's place in the cluster: its disk, and the process that runs on it or not."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.name = f"store {number}"
        self.incarnations = 0
        self.incarnation = ""
        self.disk = Disk()
        self.slow = 0
        """Faults that make the disk slow now."""
        self.full = 0
        self.emptied = False
        """The next process finds an empty disk."""
        self.wanted_down = 0
        """Faults that keep it down now."""
        self.store: Store | None = None
        self.node: SimNode | None = None
        self.writing: Commit | None = None
        """Written, and not fsynced."""
        self._scope = trio.CancelScope()
        self.clock = NodeClock(world.loop, world.random.uniform(0, 1e6), world.random.uniform(0.6, 1.6))
        self.new_incarnation()

    def new_incarnation(self) -> None:
        """An empty disk: whoever comes back here is another store."""
        self.incarnation = self.next_incarnation()
        self.is_new = True
        """Of its identity: its database cannot know it yet."""
        self.disk = Disk()
        self.writing = None

    def next_incarnation(self) -> str:
        """An incarnation that this store never was."""
        self.incarnations += 1
        return f"{self.number + 1:015X}{self.incarnations:017X}"

    def check_may_change(self, cause: str) -> None:
        """As an identity: it may become another store by itself."""

    def become(self, incarnation: str) -> None:
        """As an identity: it is another store now, whatever the process was started as."""
        self.world.gave_up(self, self.incarnation)
        self.incarnation = incarnation

    @property
    def up(self) -> bool:
        return self.store is not None

    def fsync_seconds(self) -> float:
        plan, draw = self.world.plan, self.world.random.random()
        return (0.5 if self.slow else plan.fsync_seconds) * (0.5 + draw)

    def database(self) -> SimDatabase:
        """A handle of the checks' own: it sees what is written."""
        return SimDatabase(self.disk)

    def start(self) -> None:
        """Start the process, unless a fault keeps it down."""
        if self.store is None and not self.wanted_down:
            self.world.nursery.start_soon(self._run)

    async def _run(self) -> None:
        if self.store is not None or self.wanted_down:
            return
        if self.emptied:
            self.disk, self.emptied = Disk(), False
        self.disk.full = bool(self.full)
        clock_here.set(self.clock)
        with trio.CancelScope() as self._scope:
            settings = StoreSettings(
                self._path(),
                self.incarnation,
                name=self.name,
                scrub_interval_seconds=self.world.plan.scrub_seconds,
            )
            try:
                store = Store(self._context(), settings, self)
            except StoreFailed:
                self._never_started()
                return
            self.store, self.is_new = store, False
            try:
                await store.run()
            except* StoreFailed:
                if self.store is store:
                    self._failed()
            except* Exception:
                # A killed process runs no further; here its tasks unwind, and may trip over each other.
                if self.store is store:
                    raise

    def _path(self) -> Path:
        from pathlib import Path

        return Path(self.name)

    def _context(self) -> Any:
        return StoreContext(self)

    def _never_started(self) -> None:
        """Its disk is full; something starts it again."""
        if self.node is not None:
            self.node.leave()
            self.node = None
        self.world.loop.after(0.3, self.start)

    def _failed(self) -> None:
        """The process ended by itself, for its disk; something starts it again."""
        self.world.reached["store ended by its disk"] += 1
        self.crash(keep=True)
        self.world.loop.after(0.3, self.start)

    def crash(self, *, keep: bool) -> None:
        """The process is gone, now; `keep` what was written and not fsynced."""
        if self.store is None:
            return
        database = self.store.database
        assert isinstance(database, SimDatabase)
        assert self.node is not None
        database.handle.dead = True
        self.world.reached["records copied between stores"] += self.store.ingest.copied_records
        self.world.reached["ranges repaired by a scrub"] += self.store.scrub.repaired_ranges
        self.node.leave()
        self.store = self.node = None
        self.disk.crash(keep=keep)
        if keep and self.writing is not None:
            self.world.history.on_fsynced(self.incarnation, self.writing)
        self.writing = None
        self._scope.cancel()


def make_node(context: StoreContext) -> SimNode:
    """In the place of `Node` in `mesh.store.store`."""
    member = context.member
    member.node = SimNode(member.world.network, member.name, member.clock)
    return member.node


def make_database_for(world: World) -> Callable[[Path], SimDatabase]:
    """In the place of `Database` in `mesh.store.store`: the path is the member's name."""

    def make(path: Path) -> SimDatabase:
        return SimDatabase(world.member(str(path)).disk)

    return make


def make_committer_for(world: World) -> Callable[..., SimCommitter]:
    """In the place of `Committer` in `mesh.store.store`."""

    def make(
        database: SimDatabase,
        _fsync: Fsync,
        interval: float,
        report: Callable[[Commit, StoreFailed | None], None],
    ) -> SimCommitter:
        committer = SimCommitter(database, Fsync.ALWAYS, interval, report)
        committer.member = next(m for m in world.members if m.disk is database.handle.disk)
        return committer

    return make


__all__ = ["Member", "StoreContext", "StoreCorrupt", "make_committer_for", "make_database_for", "make_node"]
