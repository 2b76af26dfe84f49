"""Parked fetches are called a few in each turn of the loop: thousands may wait for the same records.

Each call has a Fetch look again at how much there is, and who produces waits for that. Here most calls are
made at once, as long as there are few; those of a partition that too many wait for are queued, in order, and
the partitions take turns.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

import trio

from gateway.common.waiting import Waiter

CALLED_A_TURN = 128
"""Parked fetches that are called in one turn of the loop: half a millisecond."""


class Round(Protocol):
    """Those of one partition that are yet to be called."""

    def call_some(self, most: int, /) -> int:
        """Call up to `most` of them; how many it were. Fewer than `most` means that these were the last."""


class WakeUps:
    """All of one gateway. `run` calls those that are queued."""

    def __init__(self) -> None:
        self._left = CALLED_A_TURN
        self._rounds: deque[Round] = deque()
        self._work = Waiter()

    def may_call(self, many: int) -> bool:
        """Whether so many may be called now, which is counted; if not, they are to be queued."""
        if many > self._left:
            return False
        self._left -= many
        return True

    def queue(self, round_: Round) -> None:
        """Have these called in the following turns."""
        self._rounds.append(round_)
        self._work.wake()

    async def run(self) -> None:
        """Call those that are queued, for ever."""
        while True:
            if self._rounds:
                self._call_some()
                await trio.lowlevel.checkpoint()
            else:
                await self._work.wait()

    def _call_some(self) -> None:
        self._left = CALLED_A_TURN
        rounds = self._rounds
        while rounds:
            called = rounds[0].call_some(self._left)
            over = called < self._left
            self._left -= called
            if over:
                rounds.popleft()
            else:
                rounds.rotate(-1)
                return
