"""That a gateway is alive, as the catalog says, and who takes its place: one process serves, others wait.

A gateway has a key, `/alive/<id>`, under a lease that it renews. Who finds it put by another life waits as a
**standby** until it is gone: deleted by a process that ends, or with the lease of one that has died.

Rule: each transaction of the gateway compares its key as it has put it (`FencedCatalog.hold`). So nothing
that it does counts once it has lost its place, whatever it believes, and however late its messages come; and
what it would acknowledge the stores refuse, since its successor has sealed its segments. Clocks decide
nothing about data.

Rule: what clocks bound is how long it shows what may be old. Its lease is old when it was not renewed for the
lease's time, by a clock that goes on while the machine sleeps. Then it is **suspended**, if a standby was
there to take its place, or if the cluster has another gateway to take what it leads, which may be started
while this one hears nothing: it answers nobody, so that clients ask others. Renewed, it goes on as it was,
and nothing was taken; where its lease is gone it ends. Without anybody to follow it it goes on all the time:
the catalog is away, and nobody else can reach it either.

A gateway that was killed and is started again on its data directory need not wait for the lease: the
directory's lock says that its last life is over.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

import trio

from gateway.catalog import keys
from gateway.catalog.interface import (
    CatalogLost,
    Compare,
    CompareFailed,
    HistoryLost,
    LeaseNotFound,
    unchanged,
)
from gateway.common.failures import ProcessEnds
from gateway.leadership.records import AliveRecord, BadRecord, pack_alive, unpack_alive
from mesh.data_directory import EXIT_ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gateway.catalog.fenced import FencedCatalog
    from gateway.catalog.interface import Entry

LEASE_SECONDS: Final = 6.0
"""How long a gateway that says nothing keeps its place: three times an election of etcd, during which it
cannot say anything."""

RENEW_SECONDS: Final = 2.0
"""Between two renewals."""

LOOK_SECONDS: Final = 0.5
"""Between two looks at the age of the lease."""

logger = logging.getLogger(__name__)


class LeaseLost(ProcessEnds):
    """This gateway has lost its place, maybe to another one."""

    exit_code = EXIT_ENVIRONMENT

    def __init__(self) -> None:
        super().__init__(
            f"the catalog was not told for {LEASE_SECONDS:g} s that this gateway is alive, or others found "
            "its process gone, so another one may have taken its place. Nothing that was acknowledged is "
            "lost: start it again, and it waits while another one serves"
        )


def boot_time() -> float:
    """Seconds since the machine was started, also while it slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Alive:
    """One process's, of the gateway with this id, in the life of this name. `run` has to run all the time."""

    def __init__(
        self,
        catalog: FencedCatalog,
        gateway: int,
        life: str,
        last_life: str = "",
        clock: Callable[[], float] = boot_time,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`last_life`: one that this process knows to be over. `check` raises why it must not take the place:
        it cannot do a level of the cluster's features (`gateway.cluster.features`).
        """
        self.is_standby = False
        self.life = life
        self._catalog = catalog
        self._gateway = gateway
        self._key = keys.alive_key(gateway)
        self._standbys = keys.standbys_of(gateway)
        self._standby_key = self._standbys + life
        self._life = life
        self._last_life = last_life
        self._clock = clock
        self._check = check
        self._lease = 0
        self._granted = trio.Event()
        self._renewed = 0.0
        """When the lease was renewed last, or before."""
        self._has_place = False
        self.is_suspended = False
        """Whether nobody is to be answered at present: the lease is old, and somebody may have taken over."""
        self._on_suspended: list[Callable[[bool], None]] = []

    def on_suspended(self, tell: Callable[[bool], None]) -> None:
        """Have this called when `is_suspended` is another one."""
        self._on_suspended.append(tell)

    async def take(self) -> None:
        """Return when the place is this life's. Raises what `check` raises."""
        while not self._has_place:
            self._check()
            revision = self._catalog.revision
            there = self._catalog.get(self._key)
            try:
                if there is None or self._life_in(there) == self._last_life:
                    await self._put(there)
                else:
                    await self._wait(there, revision)
            except CompareFailed:
                pass  # somebody was faster
            except LeaseNotFound as lost:
                self._lose(lost.lease)  # the catalog was away for longer than that
        self.is_standby = False

    async def _put(self, there: Entry | None) -> None:
        lease = await self._have_lease()
        compares = [
            Compare(self._key, there.mod_revision if there else 0),
            *unchanged(self._catalog, [keys.FEATURES]),
        ]
        self._check()  # once more, by what is compared
        registered = unchanged(self._catalog, [self._standby_key])
        deletes = [one.key for one in registered if one.mod_revision]
        value = pack_alive(AliveRecord(self._life))
        revision = await self._catalog.transact(
            [*compares, *registered], {self._key: value}, deletes, lease=lease
        )
        self._catalog.hold(Compare(self._key, revision))
        self._has_place = True

    async def _wait(self, there: Entry, revision: int) -> None:
        """Return when the key may be gone, or after some seconds."""
        if not self.is_standby:
            self.is_standby = True
            life = self._life_in(there)
            logger.info("another gateway serves (life %s): this one waits, to take its place", life)
        lease = await self._have_lease()
        if self._catalog.get(self._standby_key) is None:
            value = pack_alive(AliveRecord(self._life))
            await self._catalog.transact(
                [Compare(self._standby_key, 0)], {self._standby_key: value}, lease=lease
            )
        with trio.move_on_after(LEASE_SECONDS):
            try:
                async for change in self._catalog.watch(self._key, revision + 1):
                    if change.key == self._key:
                        return
            except HistoryLost:
                pass

    # the lease --------------------------------------------------------------------------------------------

    async def _have_lease(self) -> int:
        if not self._lease:
            begun = self._clock()
            self._lease = await self._catalog.grant_lease(LEASE_SECONDS)
            self._renewed = begun
            self._granted.set()
        return self._lease

    def _lose(self, lease: int) -> None:
        if lease == self._lease:
            self._lease, self._granted = 0, trio.Event()

    async def run(self) -> None:
        """Renew the lease, for ever. Raises LeaseLost."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_age)
            while True:
                # By when it was asked for: one that was answered late says little of now.
                await trio.sleep(max(0.0, self._renewed + RENEW_SECONDS - self._clock()))
                await self._granted.wait()
                begun, lease = self._clock(), self._lease
                try:
                    await self._catalog.keep_alive(lease)
                except LeaseNotFound:
                    if self._has_place:
                        raise LeaseLost from None
                    self._lose(lease)
                else:
                    self._renewed = begun
                    self._suspend()

    async def _watch_age(self) -> None:
        while True:
            await trio.sleep(LOOK_SECONDS)
            if self._has_place and self._is_replaced:
                raise LeaseLost
            self._suspend()

    def _suspend(self) -> None:
        """Answer nobody, or answer again, whichever it is by now."""
        suspended = self._has_place and self._is_old and self._is_followed
        if suspended == self.is_suspended:
            return
        self.is_suspended = suspended
        if suspended:
            logger.error(
                "the catalog was not told for %g s that this gateway is alive, so others may have taken what "
                "it leads: it answers no clients until the catalog is reached again",
                LEASE_SECONDS,
            )
        else:
            logger.warning("the catalog has this gateway's lease as before: clients are answered again")
        for tell in self._on_suspended:
            tell(suspended)

    @property
    def _is_replaced(self) -> bool:
        there = self._catalog.get(self._key)
        return there is None or self._life_in(there) != self._life

    def _life_in(self, there: Entry) -> str:
        """Whose place it is. Raises CatalogLost: nobody can read it."""
        try:
            return unpack_alive(there.value).life
        except BadRecord as error:
            raise CatalogLost(
                f"the catalog {self._catalog.where} has something else in {there.key} than a gateway's life "
                f"({error}): start the version that has written it, or delete the key when no gateway runs"
            ) from None

    @property
    def _is_old(self) -> bool:
        return self._clock() > self._renewed + LEASE_SECONDS

    @property
    def _is_followed(self) -> bool:
        """Whether somebody may take its place, or what it leads: also a gateway that is down by this view of
        the catalog, which may be old.
        """
        catalog, own = self._catalog, keys.gateway_key(self._gateway)
        if catalog.range(self._standbys, limit=1) or len(catalog.range(keys.ALIVE, limit=2)) > 1:
            return True
        return any(entry.key != own for entry in catalog.range(keys.GATEWAYS, limit=2))

    async def leave(self) -> None:
        """Say that what this life leads is to be led by others, as long as its lease lasts."""
        key = keys.leaving_key(self._gateway)
        while (there := self._catalog.get(key)) is None or self._life_in(there) != self._life:
            value = pack_alive(AliveRecord(self._life, leaving=True))
            try:
                await self.put(unchanged(self._catalog, [key]), {key: value})
            except CompareFailed:
                continue

    async def put(self, compares: Sequence[Compare], puts: Mapping[str, bytes]) -> None:
        """Put something that is there for as long as this life's lease. Raises CompareFailed, LeaseLost."""
        try:
            await self._catalog.transact(compares, puts, lease=self._lease)
        except LeaseNotFound:
            raise LeaseLost from None

    async def release(self) -> None:
        """Give the place to whoever waits for it: nothing that this life does counts any more."""
        if self._lease:
            lease, self._lease = self._lease, 0
            try:
                await self._catalog.revoke(lease)
            except LeaseNotFound:
                pass  # it has it already
