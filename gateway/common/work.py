"""Turns: how much is done for one connection before all others have theirs.

One thread does everything, so whoever works without a pause keeps everybody waiting. Work is charged *before*
each step, by what it is known to cost (`gateway.common.costs`), not by how many requests or partitions it is:
a step may be one empty name, or a batch of a megabyte. When a turn is spent there is a checkpoint. What comes
after it must look again at whatever may have changed meanwhile: topics, configs, groups, sessions. So a step
is begun at a named point, `await work.before(...)`, and looks up what it needs after that.

Only code that gives up the interpreter's lock goes to threads (`gateway.common.workers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import trio

from gateway.common.costs import ELEMENT

_T = TypeVar("_T")
_R = TypeVar("_R")

TURN: Final = 8_000_000
"""Nanoseconds of a turn, as charged. With two milliseconds producers lost a
tenth: answers leave, and stores are given what was appended, at its end."""

BREATH: Final = 256
"""Elements between two turns where they are counted rather than charged: Fetch does so, it is asked most."""


class Work:
    """What is left of one turn, in nanoseconds. A connection has one; its requests charge it."""

    __slots__ = ("charged", "left")

    def __init__(self) -> None:
        self.left = TURN
        self.charged = 0
        """All that was charged with `before`."""

    def renew(self) -> None:
        """Others have had their turn."""
        self.left = TURN

    def is_over_with(self, cost: int) -> bool:
        """Charge a step; True if others are to have their turn before it. A step that costs more than a turn
        is done in a turn of its own.
        """
        self.charged += cost
        left = self.left
        self.left = left - cost
        return left < cost and left < TURN

    def owes(self, cost: int) -> None:
        """Charge a step that is done, if only that shows what it costs: what comes next pays for it."""
        self.charged += cost
        self.left -= cost

    async def before(self, cost: int) -> None:
        """Charge a step that is about to be done, and let others have their turn if this one is spent."""
        if self.is_over_with(cost):
            await self.turn(cost)

    async def turn(self, cost: int) -> None:
        """Let others have their turn; then a step of this cost has been charged to the next one."""
        await trio.lowlevel.checkpoint()
        self.left = TURN - cost

    async def each(self, make: Callable[[_T], _R], elements: Iterable[_T], cost: int = ELEMENT) -> list[_R]:
        """`make` of each element, which costs so much."""
        made = []
        for element in elements:
            await self.before(cost)
            made.append(make(element))
        return made
