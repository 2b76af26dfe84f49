"""Memory budgets: how many bytes of requests and of answers the gateway may hold at once.

A budget is a number of bytes that tasks take from and give back to. Whoever finds too little left waits,
first come first served: a large request is not starved by many small ones, at the price that small ones
wait until it has its turn. One that asks for more than the whole budget counts as the whole, so it goes ahead
once it is alone: no request that the size limit lets through can wait for ever.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

import trio


class Memory(Protocol):
    """Where bytes are taken from and given back: a `Budget`, or a client's share of one
    (`gateway.common.shared_budget`).
    """

    @property
    def total(self) -> int: ...

    def try_reserve(self, size: int) -> bool: ...

    async def reserve(self, size: int) -> None: ...

    def release(self, size: int) -> None: ...


class Budget:
    """`total` bytes, shared by the tasks of one trio run."""

    __slots__ = ("_free", "_waiting", "total")

    def __init__(self, total: int) -> None:
        if total <= 0:
            raise ValueError(f"a budget of {total} bytes")
        self.total = total
        self._free = total
        self._waiting: deque[tuple[int, trio.lowlevel.Task]] = deque()

    @property
    def used(self) -> int:
        """Bytes taken now."""
        return self.total - self._free

    @property
    def waiting(self) -> int:
        """Tasks that wait for bytes."""
        return len(self._waiting)

    def try_reserve(self, size: int) -> bool:
        """Takes `size` bytes if they are free and nobody waits for some; False otherwise. Never blocks."""
        size = min(size, self.total)
        if size > self._free or self._waiting:
            return False
        self._free -= size
        return True

    async def reserve(self, size: int) -> None:
        """Takes `size` bytes, waiting for them in turn. A checkpoint only if it waits."""
        if self.try_reserve(size):
            return
        entry = (min(size, self.total), trio.lowlevel.current_task())
        self._waiting.append(entry)

        def abort(_: object) -> trio.lowlevel.Abort:
            self._waiting.remove(entry)
            # What is free may suffice for those that wait after the one that gave up.
            self._serve_waiting()
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def release(self, size: int) -> None:
        """Gives back `size` bytes of one reservation: as many as were asked for."""
        self._free += min(size, self.total)
        if self._free > self.total:
            raise RuntimeError(f"{self._free - self.total} bytes more were released than reserved")
        if self._waiting:
            self._serve_waiting()

    def _serve_waiting(self) -> None:
        waiting = self._waiting
        while waiting and waiting[0][0] <= self._free:
            size, task = waiting.popleft()
            self._free -= size
            trio.lowlevel.reschedule(task)


class Gate:
    """Open or closed; who comes to a closed gate waits, for a limited time, until it opens.

    The log closes the gate while its windows hold as much as they may: connections then stop reading
    after the next Produce request, and TCP slows the producers down.
    """

    __slots__ = ("_lot", "is_open")

    def __init__(self) -> None:
        self.is_open = True
        self._lot = trio.lowlevel.ParkingLot()

    def open(self) -> None:
        self.is_open = True
        self._lot.unpark_all()

    def close(self) -> None:
        self.is_open = False

    async def wait(self, seconds: float) -> None:
        """Returns when the gate is open, at the latest after `seconds`."""
        with trio.move_on_after(seconds):
            while not self.is_open:
                await self._lot.park()
