"""Clients of a catalog that change and read the same few keys at the same time, through several handles; what
they were told is judged as one history.

A handle's reads are strict behind `fresh`. Without it they may be old, but they never go back, and show at
least what was there when the handle's last transaction, or its last `fresh`, was asked for and what that has
found: such a read may have been right at any time since.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import trio

from gateway.catalog.interface import CatalogLost, Compare, CompareFailed, LeaseNotFound
from tests.linearizable.catalog_model import (
    NO_SUCH_LEASE,
    Catalog,
    EndLease,
    KeepAlive,
    Known,
    Look,
    Transact,
    of_catalog,
    with_revisions,
)
from tests.linearizable.recorder import Moment, Recorder
from tests.linearizable.search import UNKNOWN, Judgement, judge

if TYPE_CHECKING:
    from gateway.catalog.interface import Catalog as Handle

KEYS = ("a", "b", "c")
CLIENTS = 2
"""Of each handle."""

CUT_OFF = 0.04
"""Share of the transactions whose client is cancelled while it waits."""

TURNS = 8
"""Of the loop until then, at most."""

LEASE_SECONDS = 3600.0
"""Of a lease that only its holder ends."""


@dataclass
class Shared:
    """What the clients of one history share."""

    seed: int
    lease_seconds: float = LEASE_SECONDS
    prefix: str = "/clients/"
    recorder: Recorder = field(default_factory=Recorder)
    numbers: count[int] = field(default_factory=lambda: count(1))
    revisions: dict[bytes, int] = field(default_factory=dict)
    """Value -> the revision that somebody has seen it with."""

    def judge(self) -> Judgement:
        """What became of it."""
        history = with_revisions(self.recorder.operations(), self.revisions)
        return judge(history, of_catalog, Catalog())


class HandleClients:
    """The clients of one handle. `reopen` gives another handle when this one is lost; None: it never is."""

    def __init__(
        self,
        shared: Shared,
        name: str,
        handle: Handle,
        reopen: Callable[[], Awaitable[Handle]] | None = None,
    ) -> None:
        self.handle = handle
        self._shared = shared
        self._name = name
        self._reopen = reopen
        self._reopening = trio.Lock()
        self.leases: set[int] = set()
        """Those that its clients have."""
        self._known_since: Moment | None = None
        """What was there at this moment the handle shows."""
        self._sequence = 0
        """The highest that it has shown."""
        self._shown: tuple[Known, ...] | None = None

    async def run(self, operations: int) -> None:
        """Have each client do so many things."""
        self._known_since = self._shared.recorder.now()
        async with trio.open_nursery() as nursery:
            for number in range(CLIENTS):
                client = _Client(self, self._shared, f"{self._name}.{number}", nursery)
                nursery.start_soon(client.run, operations)

    def cut(self) -> None:
        """The handle is about to be lost, and the leases with it that were granted to it."""
        for lease in self.leases:
            self._shared.recorder.begin("the catalog", EndLease(lease))
        self.leases.clear()

    async def lost(self, handle: Handle) -> None:
        """This handle is of no use any more."""
        assert self._reopen is not None, "a handle was lost that nobody has cut"
        async with self._reopening:
            if self.handle is handle:
                since = self._shared.recorder.now()
                self.handle = await self._reopen()
                self._known_since, self._sequence, self._shown = since, 0, None

    def fulfilled(self, since: Moment, handle: Handle) -> None:
        """What was there at this moment is shown from now on."""
        if handle is self.handle:
            self._known_since = max(self._known_since or since, since)

    def look(self) -> None:
        """What is shown now, without asking for the newest. Raises AssertionError: it goes back."""
        handle, recorder = self.handle, self._shared.recorder
        assert handle.sequence >= self._sequence, "reads have gone back"
        self._sequence = handle.sequence
        shown = self.shown()
        if shown != self._shown:
            self._shown = shown
            recorder.end(recorder.begin(self._name, Look(), self._known_since), shown)

    def shown(self) -> tuple[Known, ...]:
        prefix = self._shared.prefix
        entries = self.handle.range(prefix)
        self._shared.revisions.update((one.value, one.mod_revision) for one in entries)
        return tuple((one.key.removeprefix(prefix), one.value, one.mod_revision) for one in entries)


class _Client:
    def __init__(self, handles: HandleClients, shared: Shared, name: str, nursery: trio.Nursery) -> None:
        self._handles = handles
        self._nursery = nursery
        self._shared = shared
        self._recorder = shared.recorder
        self._name = name
        self._random = random.Random(f"{shared.seed} {name}")
        self._lease = 0

    async def run(self, operations: int) -> None:
        kinds = [self._move, self._move, self._put, self._fresh, self._look, self._look, self._hold]
        for _ in range(operations):
            handle = self._handles.handle
            try:
                await self._random.choice(kinds)(handle)
            except (CatalogLost, trio.ClosedResourceError):
                self._lease = 0
                await self._handles.lost(handle)
            await trio.lowlevel.checkpoint()

    # reads ------------------------------------------------------------------------------------------------

    async def _look(self, handle: Handle) -> None:
        if handle is self._handles.handle:
            self._handles.look()

    async def _fresh(self, handle: Handle) -> None:
        row = self._recorder.begin(self._name, Look())
        try:
            await handle.fresh()
        except BaseException:
            self._recorder.forget(row)
            raise
        if handle is self._handles.handle:
            self._recorder.end(row, self._handles.shown())
            self._handles.fulfilled(row.invoked, handle)
        else:
            self._recorder.forget(row)

    # changes ----------------------------------------------------------------------------------------------

    async def _move(self, handle: Handle) -> None:
        """Two keys change together, as they were read."""
        one, other = self._random.sample(KEYS, 2)
        await self._transact(handle, [one, other], {one: self._value(), other: self._value()})

    async def _put(self, handle: Handle) -> None:
        """One key changes, or goes, and another one is only compared."""
        key, compared = self._random.sample(KEYS, 2)
        deletes = self._random.random() < 0.3
        puts = {f"only {self._name}": self._value()} if deletes else {key: self._value()}
        await self._transact(handle, [compared], puts, [key] if deletes else [])

    async def _hold(self, handle: Handle) -> None:
        """A lease is taken, used, kept alive, or ended."""
        draw = self._random.random()
        if not self._lease:
            await self._grant(handle)
        elif draw < 0.5:
            await self._transact(handle, [], {f"held by {self._name}": self._value()}, lease=self._lease)
        else:
            await (self._keep if draw < 0.8 else self._end)(handle)

    def _value(self) -> bytes:
        return b"%d" % next(self._shared.numbers)

    async def _transact(
        self,
        handle: Handle,
        compared: list[str],
        puts: dict[str, bytes],
        deletes: list[str] | None = None,
        lease: int = 0,
    ) -> None:
        prefix = self._shared.prefix
        there = {key: handle.get(prefix + key) for key in compared}
        compares = [Compare(key, 0 if entry is None else entry.mod_revision) for key, entry in there.items()]
        self._shared.revisions.update((one.value, one.mod_revision) for one in there.values() if one)
        known = tuple((compare.key, compare.mod_revision) for compare in compares)
        number = next(self._shared.numbers)
        asked = Transact(number, known, tuple(puts.items()), tuple(deletes or ()), lease)
        row = self._recorder.begin(self._name, asked)
        with trio.CancelScope() as scope:
            if self._random.random() < CUT_OFF:
                self._nursery.start_soon(self._cut_off, scope)
            try:
                revision = await handle.transact(
                    [Compare(prefix + compare.key, compare.mod_revision) for compare in compares],
                    {prefix + key: value for key, value in puts.items()},
                    [prefix + key for key in deletes or ()],
                    lease or None,
                )
            except CompareFailed as failed:
                self._recorder.end(row, failed.key.removeprefix(prefix))
                self._check_why(handle, failed.key, {prefix + one.key: one.mod_revision for one in compares})
            except LeaseNotFound:
                self._recorder.end(row, NO_SUCH_LEASE)
                self._lease = 0
            else:
                self._recorder.end(row, revision)
                assert handle.revision >= revision, "the own transaction is not shown"
        if row.answered not in (UNKNOWN, NO_SUCH_LEASE):
            self._handles.fulfilled(row.invoked, handle)

    @staticmethod
    def _check_why(handle: Handle, failed: str, compared: dict[str, int]) -> None:
        """Reads show why a compare failed, or what has come since: a key that was not to be there may be gone
        again by now.
        """
        entry = handle.get(failed)
        there = 0 if entry is None else entry.mod_revision
        assert there != compared[failed] or not there, f"{failed} is as it was compared"

    async def _cut_off(self, scope: trio.CancelScope) -> None:
        for _ in range(self._random.randint(0, TURNS)):
            await trio.lowlevel.checkpoint()
        scope.cancel()

    # leases -----------------------------------------------------------------------------------------------

    async def _grant(self, handle: Handle) -> None:
        since = self._recorder.now()
        self._lease = await handle.grant_lease(self._shared.lease_seconds)
        self._handles.leases.add(self._lease)
        self._may_end(since)

    def _may_end(self, since: Moment) -> None:
        """From then on its time may be over, unless it was kept alive later."""
        seconds = self._shared.lease_seconds
        if seconds < LEASE_SECONDS:
            self._ending = self._recorder.begin("time", EndLease(self._lease), (since[0] + seconds, 0))

    async def _keep(self, handle: Handle) -> None:
        row = self._recorder.begin(self._name, KeepAlive(self._lease))
        try:
            await handle.keep_alive(self._lease)
        except LeaseNotFound:
            self._recorder.end(row, NO_SUCH_LEASE)
            self._lease = 0
        else:
            self._recorder.end(row, None)
            if self._shared.lease_seconds < LEASE_SECONDS:
                self._recorder.forget(self._ending)
                self._may_end(row.invoked)

    async def _end(self, handle: Handle) -> None:
        row, self._lease, lease = self._recorder.begin(self._name, EndLease(self._lease)), 0, self._lease
        self._handles.leases.discard(lease)
        try:
            await handle.revoke(lease)
        except LeaseNotFound:
            self._recorder.end(row, NO_SUCH_LEASE)
        else:
            self._recorder.end(row, None)
