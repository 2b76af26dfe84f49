"""Worker threads that clients share: who wants much waits for himself, and not others for him.

Threads are for code that gives up the interpreter's lock (inflating, deflating); Python is sliced on the loop
instead (`gateway.common.work`). A piece of work may take seconds, so it is not enough to serve in order of
arrival: four batches at zstd's level 22 held all threads for a minute. Here

* one client never holds the last thread, nor do the clients of one network together: there is one for whoever
  else comes;
* clients that wait have turns, however much each has waiting;
* work is given `look`, to be called between steps: it ends the work of a client that is gone.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, TypeAlias, TypeVar

import trio

from gateway.common.clients import network_of

_R = TypeVar("_R")

Look: TypeAlias = Callable[[], object]
"""To be called in a worker between two steps. Raises what the work has to pass on, if nobody waits for it any
more."""

MIN_THREADS: Final = 2
"""With fewer there would be none to keep for others."""


class Workers:
    """`threads` threads of one trio run, at least MIN_THREADS."""

    __slots__ = ("_busy", "_limiter", "_running", "_waiting", "threads")

    def __init__(self, threads: int) -> None:
        if threads < MIN_THREADS:
            raise ValueError(f"{threads} threads cannot be shared")
        self.threads = threads
        self._busy = 0
        self._running: Counter[str] = Counter()
        """By network."""
        self._waiting: dict[str, deque[trio.lowlevel.Task]] = {}
        """By client, in the order of their turns."""
        self._limiter = trio.CapacityLimiter(threads)  # never waited for: places are given out here

    @property
    def busy(self) -> int:
        """Places that are taken."""
        return self._busy

    @property
    def waiting(self) -> int:
        """Pieces of work that wait for a thread."""
        return sum(map(len, self._waiting.values()))

    @asynccontextmanager
    async def place(self, client: str) -> AsyncIterator[None]:
        """A place for the block, when `client` has its turn: who has one may use one thread at a time."""
        await self._take(client)
        try:
            yield
        finally:
            self._give_back(client)

    async def in_thread(self, work: Callable[[Look], _R]) -> _R:
        """`work(look)` in a thread, for the holder of a place. Raises what it raises.

        If the caller is cancelled, it ends with its next look.
        """
        return await trio.to_thread.run_sync(
            partial(work, trio.from_thread.check_cancelled), limiter=self._limiter
        )

    async def run(self, client: str, work: Callable[[Look], _R]) -> _R:
        """As `in_thread`, in a place of its own. If the caller is cancelled while it waits, it is
        forgotten.
        """
        async with self.place(client):
            return await self.in_thread(work)

    async def _take(self, client: str) -> None:
        # Who waits while a thread is free has as many as its network may: so nobody is overtaken here.
        if self._busy < self.threads and self._may_have_another(client):
            self._start(client)
            return
        task = trio.lowlevel.current_task()
        self._waiting.setdefault(client, deque()).append(task)

        def abort(_: object) -> trio.lowlevel.Abort:
            queue = self._waiting[client]
            queue.remove(task)
            if not queue:
                del self._waiting[client]
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def _give_back(self, client: str) -> None:
        self._busy -= 1
        network = network_of(client)
        self._running[network] -= 1
        if not self._running[network]:
            del self._running[network]
        while self._busy < self.threads and (turn := self._next_turn()) is not None:
            queue = self._waiting.pop(turn)
            task = queue.popleft()
            if queue:
                self._waiting[turn] = queue  # its next turn is after those of all others
            self._start(turn)
            trio.lowlevel.reschedule(task)

    def _next_turn(self) -> str | None:
        return next(filter(self._may_have_another, self._waiting), None)

    def _may_have_another(self, client: str) -> bool:
        return self._running[network_of(client)] < self.threads - 1

    def _start(self, client: str) -> None:
        self._busy += 1
        self._running[network_of(client)] += 1
