"""A budget of bytes that clients share: who takes much waits for itself.

A client may hold at most HELD_PER_FREE times what is left free. So one alone gets three quarters of all, two
get three sevenths each, and something is always left for the next, who need not wait until anybody gives back
(Choudhury and Hahne's dynamic thresholds, of switches with a shared memory). Who holds nothing may take
whatever is free, so no request waits for ever; one that asks for more than there is counts as the whole.

Who has to wait does so after the others of its client, in the order in which they came. Of the clients the
one that holds least has its turn first, and those that hold as much or more wait for it: so a large request
is starved neither by small ones nor by the greedy, who wait for all and hold up nobody.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from operator import attrgetter
from typing import Final

import trio

HELD_PER_FREE: Final = 3
"""Bytes that a client may hold for each that is free."""


class SharedBudget:
    """`total` bytes, shared by the clients of one trio run: `Share` is the part of one."""

    __slots__ = ("_blocking", "_free", "_waiting", "total")

    def __init__(self, total: int) -> None:
        if total <= 0:
            raise ValueError(f"a budget of {total} bytes")
        self.total = total
        self._free = total
        self._waiting: dict[Share, None] = {}
        self._blocking: Share | None = None
        """The client whose turn it is, while anybody waits: the others wait for it. Thousands may, so they
        are looked through only when that one has its turn, or has given up."""

    @property
    def used(self) -> int:
        """Bytes taken now."""
        return self.total - self._free

    @property
    def waiting(self) -> int:
        """Tasks that wait for bytes."""
        return sum(len(share.queue) for share in self._waiting)

    def waiting_for(self, seconds: float, now: float) -> Iterator[Share]:
        """The clients of which somebody has waited so long at `now` (trio's clock)."""
        return (share for share in self._waiting if now - share.waits_since >= seconds)

    def _waits(self, share: Share) -> None:
        self._waiting[share] = None
        if self._blocking is None or share.held < self._blocking.held:
            self._blocking = share

    def _gave_up(self, share: Share, *, was_first: bool) -> None:
        if not share.queue:
            del self._waiting[share]
        if was_first and share is self._blocking:
            self._serve_waiting()  # what is free may suffice for those that waited for it

    def _released(self, share: Share) -> None:
        first = self._blocking
        if first is not None and (share.held < first.held or first.fits()):
            self._serve_waiting()

    def _serve_waiting(self) -> None:
        self._blocking = None
        while True:
            served = False
            for share in sorted(self._waiting, key=attrgetter("held")):
                if not share.serve_first():
                    self._blocking = share
                    break  # those after it hold as much, or more
                served = True
            if not served:
                return

    def __repr__(self) -> str:
        return f"SharedBudget({self.total}, free={self._free}, waiting={self.waiting})"


class _Waiting:
    """A task that waits for `size` bytes."""

    __slots__ = ("since", "size", "task")

    def __init__(self, size: int) -> None:
        self.size = size
        self.task = trio.lowlevel.current_task()
        self.since = trio.current_time()


class Share:
    """What one client holds of a budget; `client` is its name."""

    __slots__ = ("_budget", "client", "held", "queue")

    def __init__(self, budget: SharedBudget, client: str) -> None:
        self._budget = budget
        self.client = client
        self.held = 0
        self.queue: OrderedDict[_Waiting, None] = OrderedDict()

    @property
    def total(self) -> int:
        """The bytes of the whole budget."""
        return self._budget.total

    @property
    def waits_since(self) -> float:
        """When the first that waits began to (trio's clock); somebody does."""
        return next(iter(self.queue)).since

    @property
    def waits_for_itself(self) -> bool:
        """The client holds as much as the first that waits wants."""
        return next(iter(self.queue)).size <= self.held

    def wanted(self, seconds: float, now: float) -> int:
        """Bytes that those want who have waited so long at `now` (trio's clock)."""
        return sum(one.size for one in self.queue if now - one.since >= seconds)

    def try_reserve(self, size: int) -> bool:
        """Takes `size` bytes if they are free for this client, and nobody has a turn before; False otherwise.
        Never blocks.
        """
        budget = self._budget
        size = min(size, budget.total)
        free, held = budget._free - size, self.held
        if free < 0 or (held and held + size > free * HELD_PER_FREE):
            return False
        if budget._waiting and not self._has_turn():
            return False
        budget._free = free
        self.held = held + size
        return True

    async def reserve(self, size: int) -> None:
        """Takes `size` bytes, waiting for them in turn. A checkpoint only if it waits."""
        if self.try_reserve(size):
            return
        entry = _Waiting(min(size, self.total))
        self.queue[entry] = None
        self._budget._waits(self)

        def abort(_: object) -> trio.lowlevel.Abort:
            was_first = next(iter(self.queue)) is entry
            del self.queue[entry]
            self._budget._gave_up(self, was_first=was_first)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def release(self, size: int) -> None:
        """Gives back `size` bytes of one reservation: as many as were asked for."""
        budget = self._budget
        size = min(size, budget.total)
        if size > self.held:
            raise RuntimeError(f"{size - self.held} bytes more were released than reserved")
        self.held -= size
        budget._free += size
        if budget._waiting:
            budget._released(self)

    def fits(self) -> bool:
        """Whether what the first that waits wants is there for it."""
        size = next(iter(self.queue)).size
        free, held = self._budget._free - size, self.held
        return free >= 0 and (not held or held + size <= free * HELD_PER_FREE)

    def serve_first(self) -> bool:
        """The first that waits takes what it wants, if that is there for it; whether it was."""
        if not self.fits():
            return False
        budget = self._budget
        entry, _ = self.queue.popitem(last=False)
        if not self.queue:
            del budget._waiting[self]
        budget._free -= entry.size
        self.held += entry.size
        trio.lowlevel.reschedule(entry.task)
        return True

    def _has_turn(self) -> bool:
        """Whether nobody waits who comes first."""
        return not any(share.held <= self.held for share in self._budget._waiting)
