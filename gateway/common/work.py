"""Work: what requests ask for is charged, and clients have turns.

One thread does everything, so whoever works without a pause keeps everybody waiting. Work is charged *before*
each step, by what it is known to cost (`gateway.common.costs`), not by how many requests or partitions it is:
a step may be one empty name, or a batch of a megabyte. When its client's turn is spent, it waits for the next
one (`gateway.common.turns`). What comes after that must look again at whatever may have changed meanwhile:
topics, configs, groups, sessions. So a step is begun at a named point, `await work.before(...)`, and looks up
what it needs after that.

A request begins with `FREE`, for which it never waits: what asks for little is not held up by other requests
of its client that ask for much.

Only code that gives up the interpreter's lock goes to threads (`gateway.common.workers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import trio

from gateway.common.costs import COUNTED, ELEMENT
from gateway.common.turns import TURN, Turns

_T = TypeVar("_T")
_R = TypeVar("_R")

FREE: Final = TURN // 32
"""Nanoseconds of a request for which it waits for no turn: they are charged all the same."""

BREATH: Final = 256
"""Elements between two turns where they are counted rather than charged: Fetch does so, it is asked most."""


class Work:
    """The work of one connection, by `turns` of its client. Who has no client has turns of its own."""

    __slots__ = ("charged", "free", "has_turn", "turns")

    def __init__(self, turns: Turns | None = None) -> None:
        self.turns = Turns() if turns is None else turns
        self.charged = 0
        """All that was charged, in nanoseconds."""
        self.free = FREE
        """What is left of this for the request that is served."""
        self.has_turn = False
        """That request has waited, and goes on before those who wait now."""

    def is_over_with(self, cost: int) -> bool:
        """Charge a step; True if others are to have their turn before it: then `turn` charges it. A step that
        costs more than a turn is done in a turn of its own.
        """
        turns = self.turns
        left = turns.left
        if cost <= self.free:
            self.free -= cost
        elif (left < cost and left < turns.size) or (turns.waiting and not self.has_turn):
            return True
        turns.left = left - cost
        self.charged += cost
        return False

    def owes(self, cost: int) -> None:
        """Charge a step that is done, if only that shows what it costs: what comes next pays for it."""
        self.charged += cost
        self.turns.left -= cost

    async def before(self, cost: int) -> None:
        """Charge a step that is about to be done, and let others have their turn if this one is spent."""
        if self.is_over_with(cost):
            await self.turn(cost)

    async def turn(self, cost: int) -> None:
        """Let others have their turn, and charge a step of this cost to the next one."""
        await self.turns.wait(cost)
        self.has_turn = True
        self.owes(cost)

    async def settle(self) -> None:
        """Let others have their turn until nothing is owed: before a step that only afterwards shows what it
        costs.
        """
        if self.turns.left < 0:
            await self.turn(0)

    async def breath(self) -> None:
        """Let others have their turn after `BREATH` elements, which are charged here."""
        self.owes(BREATH * COUNTED)
        if self.turns.left <= 0 or (self.turns.waiting and not self.has_turn):
            await self.turn(0)
        else:
            await trio.lowlevel.checkpoint()

    async def each(self, make: Callable[[_T], _R], elements: Iterable[_T], cost: int = ELEMENT) -> list[_R]:
        """`make` of each element, which costs so much."""
        made = []
        for element in elements:
            await self.before(cost)
            made.append(make(element))
        return made
