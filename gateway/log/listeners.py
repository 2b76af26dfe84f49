"""Who waits for news of one partition: parked Fetches, and fetch sessions that want to be told once."""

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Protocol

from gateway.log.wake_ups import WakeUps

if TYPE_CHECKING:
    from gateway.log.partition import Partition


class FetchWaiter(Protocol):
    """A parked Fetch: told when records of a partition become visible, and when the partition goes away."""

    def advanced(self, partition: "Partition", /) -> None: ...


class Listeners:
    """Those of one partition. Waiters are told of everything until they are removed, watchers once.

    Where there are many they are told in the following turns of the loop, in order and none left out; of
    several things that happened meanwhile, once.
    """

    __slots__ = ("_queued", "_waiters", "_wake_ups", "_watchers")

    def __init__(self, wake_ups: WakeUps) -> None:
        self._waiters: dict[FetchWaiter, None] = {}
        """In the order in which they came."""
        self._watchers: set[FetchWaiter] | None = None
        """Most partitions have none."""
        self._wake_ups = wake_ups
        self._queued: _Queued | None = None

    def add(self, waiter: FetchWaiter) -> None:
        """Have `waiter` told until it is removed."""
        self._waiters[waiter] = None

    def remove(self, waiter: FetchWaiter) -> None:
        """Have `waiter` told no more."""
        self._waiters.pop(waiter, None)

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
        if self._queued is not None:
            self._queued.watchers.pop(watcher, None)

    @property
    def waiting(self) -> int:
        """How many are parked."""
        return len(self._waiters)

    @property
    def watching(self) -> int:
        """How many wait to be told once."""
        return len(self._watchers or ()) + len(self._queued.watchers if self._queued is not None else ())

    def tell_all(self, partition: "Partition") -> None:
        """Records became visible, or the partition serves in another way."""
        self.tell_waiters(partition)
        self.tell_watchers(partition)

    def tell_waiters(self, partition: "Partition") -> None:
        """Tell those that are parked."""
        if self._waiters:
            if self._queued is None and self._wake_ups.may_call(len(self._waiters)):
                for waiter in tuple(self._waiters):
                    waiter.advanced(partition)
            else:
                self._queue(partition).tell_waiters()

    def tell_watchers(self, partition: "Partition") -> None:
        """What a Fetch shows of the partition is another, and nobody who is parked waits for that."""
        if self._watchers is not None:
            watchers, self._watchers = self._watchers, None
            if self._queued is None and self._wake_ups.may_call(len(watchers)):
                for watcher in watchers:
                    watcher.advanced(partition)
            else:
                self._queue(partition).watchers.update(dict.fromkeys(watchers))

    def still_waits(self, waiter: FetchWaiter) -> bool:
        """Whether it was not removed."""
        return waiter in self._waiters

    def parked(self) -> "deque[FetchWaiter]":
        """Those that are parked now, the first first."""
        return deque(self._waiters)

    def told(self) -> None:
        """Nobody is queued any more."""
        self._queued = None

    def _queue(self, partition: "Partition") -> "_Queued":
        if self._queued is None:
            self._queued = _Queued(self, partition)
            self._wake_ups.queue(self._queued)
        return self._queued


class _Queued:
    """Who of one partition is yet to be told (`gateway.log.wake_ups.Round`)."""

    __slots__ = ("_again", "_listeners", "_partition", "_waiters", "watchers")

    def __init__(self, listeners: Listeners, partition: "Partition") -> None:
        self._listeners = listeners
        self._partition = partition
        self._waiters: deque[FetchWaiter] = deque()
        self._again = False
        """Something happened since the first of these was told: afterwards all are told once more."""
        self.watchers: OrderedDict[FetchWaiter, None] = OrderedDict()

    def tell_waiters(self) -> None:
        """Tell all that are parked now."""
        if self._waiters:
            self._again = True
        else:
            self._waiters = self._listeners.parked()

    def call_some(self, most: int) -> int:
        """See `gateway.log.wake_ups.Round`."""
        called = 0
        while called < most:
            if self.watchers:
                who, _ = self.watchers.popitem(last=False)
            elif self._waiters:
                who = self._waiters.popleft()
                if not self._listeners.still_waits(who):
                    continue
            elif self._again:
                self._again = False
                self._waiters = self._listeners.parked()
                continue
            else:
                self._listeners.told()
                break
            called += 1
            who.advanced(self._partition)
        return called
