"""How one partition's recovery waits for stores: as long as it takes, saying for which, and only while it is
wanted.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import trio

from gateway.log.partition import Partition, PartitionState

if TYPE_CHECKING:
    from gateway.log.neighbours import LogStores

GRACE_SECONDS = 0.5
"""How long recovery waits for the stores that are there and that it could do without."""

PATIENCE_SECONDS = 5.0
"""How long a partition waits for stores that are there before others need not wait for it."""

AWAY_PATIENCE_SECONDS = 0.5
"""The same for stores that are not there."""

AGAIN_SECONDS = 1.0
"""Pause before something is asked again that a store was too slow for."""

LOOK_SECONDS = 1.0
"""How often an attempt that waits looks whether it is still wanted."""

LEAST_PAUSE_SECONDS = 0.01
"""Between two such looks, however the seconds were rounded."""


class Superseded(Exception):
    """The partition was deleted, or failed, or is led by another gateway, or anew, meanwhile."""


class StoreWaits:
    """The waits of one attempt to recover `partition`. `names` are the stores that it waits for, once that
    takes long; `settled` is called when that is so.
    """

    def __init__(self, stores: "LogStores", partition: Partition, settled: Callable[[], None]) -> None:
        self.names: tuple[str, ...] = ()
        self._stores = stores
        self._partition = partition
        self._leaderships = partition.leaderships
        self._settled = settled
        self._progress = trio.Event()

    def progressed(self) -> None:
        """Something was heard that may be waited for."""
        self._progress.set()
        self._progress = trio.Event()

    async def until(
        self, done: Callable[[], bool], missing: Callable[[], Iterable[str]], why: Callable[[], str] = str
    ) -> None:
        """Return when `done`. Who is `missing`, and `why`, is said if it takes long. Raises Superseded."""
        started = trio.current_time()
        while not done():
            names = tuple(sorted(set(missing())))
            waited = trio.current_time() - started
            patience = PATIENCE_SECONDS if any(map(self._stores.live, names)) else AWAY_PATIENCE_SECONDS
            if waited >= patience:
                self._say(names, why())
            pause = LOOK_SECONDS if waited >= patience else max(patience - waited, LEAST_PAUSE_SECONDS)
            with trio.move_on_after(pause):
                await self._progress.wait()
            self.check_wanted()
        self.names = ()

    async def a_moment(self, done: Callable[[], bool]) -> None:
        """Return when `done`, or a moment later anyhow."""
        with trio.move_on_after(GRACE_SECONDS):
            while not done():
                await self._progress.wait()

    async def pause(self, names: Iterable[str], why: str) -> None:
        """Return after a while, before these stores are asked again. Raises Superseded."""
        self._say(names, f": {why}")
        await trio.sleep(AGAIN_SECONDS)
        self.check_wanted()

    def _say(self, names: Iterable[str], why: str = "") -> None:
        """Others need not wait for this partition any more."""
        self.names = tuple(names)
        stores = ", ".join(map(self._stores.name, self.names))
        self._partition.recovery_waits(f"its recovery waits for the stores {stores}{why}")
        self._settled()

    def check_wanted(self) -> None:
        """Raises Superseded."""
        if not self.is_wanted:
            raise Superseded

    @property
    def is_wanted(self) -> bool:
        """Whether the attempt may go on."""
        partition = self._partition
        is_same = partition.leaderships == self._leaderships and not partition.deleted
        return is_same and partition.state is PartitionState.RECOVERING

    @property
    def is_old(self) -> bool:
        """Whether this gateway has lost the partition meanwhile, or leads it anew."""
        return self._partition.leaderships != self._leaderships
