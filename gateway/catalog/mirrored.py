"""What catalogs within one process share: one commit at a time for everything that waits, reads from the
mirror.

Who comes while nothing is being written commits at once; who comes during a commit waits in the queue, and
the first of those to run after it commits for all of them. So no task of its own is needed, and a lone
transaction waits for no timer. All whom one commit answers go on in the same turn of the loop, and what they
do next goes out together: a lock, which is handed from one to the next, would take a turn for each.
"""

import math
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import trio

from gateway.catalog.history import History, Watch
from gateway.catalog.interface import CatalogFailed, Change, Compare, Entry, LeaseNotFound
from gateway.catalog.mirror import Grant, Mirror, Plan, Revoke, Step, Transaction, check_transaction


class _Waiting:
    __slots__ = ("outcome", "step")

    def __init__(self, step: Step) -> None:
        self.step = step
        self.outcome: int | Exception | None = None


PUT_BACK: Final = (
    "Put back the newest catalog (the directory gateway/) of these stores; or read it back from them: start"
    " once with --rebuild-catalog (of a mesh: 'dafka gateway rebuild-catalog')"
)


LATE_SECONDS: Final = 1.0
"""A look at the leases that is so late was held up with everything else in this process."""


class MirroredCatalog(ABC):
    """A `Catalog` over anything that can make a plan durable."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._history = History(mirror.revision)
        self._queue: list[_Waiting] = []
        self._committing: trio.Event | None = None
        """Set when the commit that is under way is over; None while there is none."""
        self._on_commit: list[Callable[[Plan], None]] = []
        self._refusal: Exception | None = None  # what every further transaction raises
        # Leases that were found at the start begin anew: their holders had no way to keep them alive
        # meanwhile. The clock is read when it first can be, since a catalog may be opened before trio
        # runs.
        self._deadlines: dict[int, float] = dict.fromkeys(mirror.leases, math.nan)
        self._deadlines_changed = trio.Event()

    def on_commit(self, tell: Callable[[Plan], None]) -> None:
        """Have this called with each commit that has changed something, before anybody who waits for it goes
        on.
        """
        self._on_commit.append(tell)

    @property
    def revision(self) -> int:
        return self._mirror.revision

    @property
    def sequence(self) -> int:
        return self._mirror.revision

    @property
    def put_back(self) -> str:
        return PUT_BACK

    @property
    def trouble(self) -> str:
        return ""  # what cannot be written ends the process

    @property
    @abstractmethod
    def where(self) -> str:
        """See `Catalog`."""

    async def fresh(self) -> None:
        await trio.lowlevel.checkpoint()  # nobody else writes

    def get(self, key: str) -> Entry | None:
        return self._mirror.get(key)

    def range(self, prefix: str, *, after: str = "", limit: int | None = None) -> list[Entry]:
        return self._mirror.range(prefix, after=after, limit=limit)

    async def transact(
        self,
        compares: Sequence[Compare],
        puts: Mapping[str, bytes],
        deletes: Sequence[str] = (),
        lease: int | None = None,
    ) -> int:
        step = Transaction(tuple(compares), dict(puts), tuple(deletes), lease or 0)
        check_transaction(step)
        return await self._submit(step)

    def watch(self, prefix: str, from_revision: int) -> Watch:
        return Watch(self._history, prefix, from_revision)

    def changes(self, from_revision: int) -> list[Change]:
        return self._history.kept_since(from_revision)

    async def grant_lease(self, ttl_seconds: float) -> int:
        # Not counted up: a number that was used before could be kept alive by its forgetful old holder.
        lease = 1 + secrets.randbelow(2**62)
        await self._submit(Grant(lease, ttl_seconds))
        return lease

    async def keep_alive(self, lease: int) -> None:
        await trio.lowlevel.checkpoint()
        if lease not in self._deadlines:
            raise LeaseNotFound(lease)
        self._deadlines[lease] = trio.current_time() + self._mirror.leases[lease]
        self._wake_run()

    async def revoke(self, lease: int) -> None:
        # From here on it cannot be kept alive any more, though its keys are there until the commit.
        self._deadlines.pop(lease, None)
        with trio.CancelScope(shield=True):  # without a deadline and without an end it would be for ever
            await self._submit(Revoke(lease))

    async def run(self) -> None:
        due = math.inf
        while True:
            now = trio.current_time()
            if now > due + LATE_SECONDS:
                # This process was stopped, or its machine slept: their holders had no way either.
                self._deadlines = dict.fromkeys(self._deadlines, math.nan)
            for lease, deadline in self._deadlines.items():
                if math.isnan(deadline):
                    self._deadlines[lease] = now + self._mirror.leases[lease]
            for lease in [lease for lease, deadline in self._deadlines.items() if deadline <= now]:
                if self._deadlines.get(lease, math.inf) > now:
                    continue  # it was kept alive, or ended, while another one was ended
                try:
                    await self.revoke(lease)
                except LeaseNotFound:
                    pass  # its holder was quicker
            due = min(self._deadlines.values(), default=math.inf)
            with trio.move_on_at(due):
                await self._deadlines_changed.wait()

    async def aclose(self) -> None:
        with trio.CancelScope(shield=True):
            while self._committing is not None:
                await self._committing.wait()
            if not isinstance(self._refusal, trio.ClosedResourceError):
                self._refuse_all(trio.ClosedResourceError("the catalog is closed"))
                await self._close()

    async def _submit(self, step: Step) -> int:
        waiting = _Waiting(step)
        self._queue.append(waiting)
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
            while self._committing is not None and waiting.outcome is None:
                await self._committing.wait()
            if waiting.outcome is None:
                over = self._committing = trio.Event()
                try:
                    # Half a commit cannot be taken back: whoever is cancelled now is so after it.
                    with trio.CancelScope(shield=True):
                        await trio.lowlevel.checkpoint()  # what others begin in this turn goes along
                        await self._commit_queue()
                finally:
                    self._committing = None
                    over.set()
        except trio.Cancelled:
            if waiting in self._queue:
                self._queue.remove(waiting)  # nobody has begun it: it never happens
            raise
        assert waiting.outcome is not None
        if isinstance(waiting.outcome, Exception):
            raise waiting.outcome
        return waiting.outcome

    async def _commit_queue(self) -> None:
        batch, self._queue = self._queue, []
        if self._refusal is None:
            plan = self._mirror.plan(waiting.step for waiting in batch)
            try:
                if plan.changes_something:
                    await self._commit(plan)
            except CatalogFailed as failure:
                self._refuse_all(failure)
            except BaseException as error:
                # The others hear of it, too: nobody knows what has become of the commit.
                self._refuse_all(CatalogFailed(f"a commit of the catalog ended with {error!r}"))
                for waiting in batch:
                    waiting.outcome = self._refusal
                raise
            else:
                self._mirror.apply(plan)
                self._start_leases(plan)
                for waiting, outcome in zip(batch, plan.outcomes, strict=True):
                    waiting.outcome = outcome
                self._history.add(plan.revision, plan.changes)
                for tell in self._on_commit:
                    tell(plan)
                return
        for waiting in batch:
            waiting.outcome = self._refusal

    def _start_leases(self, plan: Plan) -> None:
        granted = {
            lease: ttl_seconds for lease, ttl_seconds in plan.leases.items() if ttl_seconds is not None
        }
        if granted:
            now = trio.current_time()
            self._deadlines.update((lease, now + ttl_seconds) for lease, ttl_seconds in granted.items())
            self._wake_run()

    def _refuse_all(self, refusal: Exception) -> None:
        self._refusal = refusal
        self._history.fail(refusal)

    def _wake_run(self) -> None:
        self._deadlines_changed.set()
        self._deadlines_changed = trio.Event()

    @abstractmethod
    async def _commit(self, plan: Plan) -> None:
        """Makes the plan durable, all of it or nothing.

        Raises:
            CatalogFailed: It is not known whether it is.
        """

    @abstractmethod
    async def _close(self) -> None:
        """Releases what is held."""
