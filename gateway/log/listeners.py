"""Who waits for news of one partition: parked Fetches, and fetch sessions that want to be told once."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gateway.log.partition import Partition


class FetchWaiter(Protocol):
    """A parked Fetch: told when records of a partition become visible, and when the partition goes away."""

    def advanced(self, partition: "Partition", /) -> None: ...


class Listeners:
    """Those of one partition. Waiters are told of everything until they are removed, watchers once."""

    __slots__ = ("_waiters", "_watchers")

    def __init__(self) -> None:
        self._waiters: set[FetchWaiter] = set()
        self._watchers: set[FetchWaiter] | None = None
        """Most partitions have none."""

    def add(self, waiter: FetchWaiter) -> None:
        """Have `waiter` told until it is removed."""
        self._waiters.add(waiter)

    def remove(self, waiter: FetchWaiter) -> None:
        """Have `waiter` told no more."""
        self._waiters.discard(waiter)

    def watch(self, watcher: FetchWaiter) -> None:
        """Have `watcher` told once, when anything is not as it is now that a Fetch of the partition shows."""
        if self._watchers is None:
            self._watchers = {watcher}
        else:
            self._watchers.add(watcher)

    def unwatch(self, watcher: FetchWaiter) -> None:
        """Do not have `watcher` told any more."""
        if self._watchers is not None:
            self._watchers.discard(watcher)

    @property
    def waiting(self) -> int:
        """How many are parked."""
        return len(self._waiters)

    @property
    def watching(self) -> int:
        """How many wait to be told once."""
        return len(self._watchers or ())

    def tell_all(self, partition: "Partition") -> None:
        """Records became visible, or the partition serves in another way."""
        self.tell_waiters(partition)
        self.tell_watchers(partition)

    def tell_waiters(self, partition: "Partition") -> None:
        """Tell those that are parked."""
        if self._waiters:
            for waiter in tuple(self._waiters):
                waiter.advanced(partition)

    def tell_watchers(self, partition: "Partition") -> None:
        """What a Fetch shows of the partition is another, and nobody who is parked waits for that."""
        if self._watchers is not None:
            watchers, self._watchers = self._watchers, None
            for watcher in watchers:
                watcher.advanced(partition)
