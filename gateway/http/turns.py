"""Little of the loop at a time, all pages together.

As `gateway.common.work`, but by the clock, since what a step costs is not known before it; and for all pages
at once, since there may be many of them and the loop serves Kafka first: whoever works holds the turn, gives
it up when it is spent, rests as long as it worked, and comes again after the others.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter

import trio

from gateway.http.limits import TURN_SECONDS


class Turns:
    """One for all pages of a gateway."""

    def __init__(self) -> None:
        self._lock = trio.Lock()
        self._began = 0.0

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Work for the length of the block: it calls `breathe` between steps, and waits for nothing else."""
        await self._lock.acquire()
        self._began = perf_counter()
        try:
            yield
        finally:
            self._lock.release()

    @property
    def spent(self) -> bool:
        """Whether others are to have their turn now."""
        return perf_counter() - self._began >= TURN_SECONDS

    async def breathe(self) -> None:
        """Let others have their turn if this one is spent. What was looked up before may be gone after it."""
        if not self.spent:
            return
        worked = perf_counter() - self._began
        self._lock.release()
        try:
            await trio.sleep(worked)
        finally:
            with trio.CancelScope(shield=True):
                await self._lock.acquire()
        self._began = perf_counter()
        await trio.lowlevel.checkpoint_if_cancelled()
