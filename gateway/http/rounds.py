"""Work that is done once a second, and only while somebody looks."""

from __future__ import annotations

import abc
import logging

import trio

from gateway.common.failures import ends_process
from gateway.http.turns import Turns

ROUND_SECONDS = 1.0
"""Seconds between the beginnings of two rounds."""

LOOKED_SECONDS = 10.0
"""Seconds that rounds go on after somebody looked: a page that asks now and then has rates at once."""

FIRST_ROUND_SECONDS = 3.0
"""Seconds that who looks first waits for the first round; then it is told that nothing is known yet."""

logger = logging.getLogger(__name__)


class Rounds(abc.ABC):
    """`looked` has rounds made for a while; `round` is one."""

    def __init__(self, turns: Turns, looked_seconds: float = LOOKED_SECONDS) -> None:
        self.turns = turns
        self.rounds = 0
        """Rounds since the last pause."""
        self._looked_seconds = looked_seconds
        self._until = -1.0
        self._wanted = trio.Event()
        self._made = trio.Event()

    def looked(self) -> None:
        """Somebody looks."""
        self._until = trio.current_time() + self._looked_seconds
        self._wanted.set()

    async def first(self) -> None:
        """Somebody looks, and waits until there is something to see, but not for long."""
        self.looked()
        if not self.rounds:
            with trio.move_on_after(FIRST_ROUND_SECONDS):
                await self._made.wait()

    async def run(self) -> None:
        """Make rounds, for ever."""
        while True:
            await self._wanted.wait()
            began = trio.current_time()
            if began > self._until:
                self._wanted = trio.Event()
                self._made = trio.Event()
                self.rounds = 0
                self.forget()
                continue
            try:
                await self.round()
            except Exception as error:
                if ends_process(error):
                    raise
                logger.exception("a round of sums for the status page failed")
            self.rounds += 1
            self._made.set()
            await trio.sleep_until(max(began + ROUND_SECONDS, trio.current_time() + ROUND_SECONDS / 2))

    @abc.abstractmethod
    async def round(self) -> None:
        """Make one round."""

    @abc.abstractmethod
    def forget(self) -> None:
        """Nobody has looked for a while: what is known is old."""
