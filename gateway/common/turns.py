"""Turns of clients: how much is done for one client in one pass of the event loop.

The loop runs everybody who can run, one after the other, and then begins again. If a connection could do as
much as it likes in one such pass, or as each of a thousand connections could, everybody else would wait for
all of it. So all connections of one client share one account: `TURN` nanoseconds of work, as charged. Once it
is spent, those who want more wait in the order in which they came. In each pass the first one that waits
renews the account and goes on, together with as many others as may find something left: whoever does not,
waits again in its old place. What a client owes, as some work shows only afterwards what it costs, is taken
off its next turns. Whoever wants less than nothing (to begin a request, while not too much is owed) goes
before those who want more.

Nobody holds a turn: whoever waits for something else (stores, memory, its client) leaves the rest to others.
A client that is alone goes on with the next pass. While others ask for anything, a pass is to be short: what
is done in one for all who want more than their turns is `SHARED_TURN`, and it is divided among them.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Final

import trio

from gateway.common.costs import COLD_READ

TURN: Final = 8_000_000
"""Nanoseconds of a turn, as charged. With two milliseconds producers lost a
tenth: answers leave, and stores are given what was appended, at its end."""

SHARED_TURN: Final = TURN // 8
"""Nanoseconds of the turns of all clients that wait for one, in one pass of the loop, while others are
served as well: what an answer of theirs takes is some passes."""

LEAST_TURN: Final = TURN // 64
"""A turn is no shorter, however many clients want one: less would be all overhead."""

REMEMBERED_TURNS: Final = 64
"""Turns of a client after which it counts as alone, if nobody else has asked for anything meanwhile."""

MOST_OWED: Final = 8 * TURN
"""Nanoseconds: more than this is forgiven when a turn begins."""

MOST_CALLED: Final = 64
"""Connections of one client that are called in one pass of the loop, once its turns have sufficed for as
many."""


class Attendance:
    """Who is served in one gateway: by it a client knows whether it is alone."""

    __slots__ = ("changes", "latest", "waiting")

    def __init__(self) -> None:
        self.latest: Turns | None = None
        """Whose request, or turn that it had to wait for, began last."""
        self.changes = 0
        """How often that became another client's."""
        self.waiting = 0
        """Clients that wait for a turn."""


class Turns:
    """The account of one client, in nanoseconds. Its connections charge it. `attendance` is that of its
    gateway; without one the client is alone.
    """

    __slots__ = (
        "_calls",
        "_changes",
        "_first",
        "_in_vain",
        "_modest",
        "_served",
        "_shared",
        "attendance",
        "cold_read",
        "left",
        "size",
        "waiting",
    )

    def __init__(self, attendance: Attendance | None = None) -> None:
        self.attendance = Attendance() if attendance is None else attendance
        self.cold_read = COLD_READ
        """What the last range that was read for it from a store turned out to cost, in nanoseconds."""
        self.size = TURN
        """Of the turn that it has."""
        self.left = TURN
        """What is left of this turn; below zero if more was charged."""
        self.waiting: dict[trio.lowlevel.Task, bool] = {}
        """Who waits for a turn, in order; False: it has been called and will run."""
        self._modest: dict[trio.lowlevel.Task, int] = {}
        """Those of them that sleep and want less than nothing, and what."""
        self._first: trio.lowlevel.Task | None = None
        """Who renews the account with its next step: somebody does as long as anybody waits."""
        self._calls = 1
        self._served = 0
        self._in_vain = False
        self._changes = self.attendance.changes + 1  # that it comes itself is the first one
        """What `attendance` said when the turn began."""
        self._shared = 0
        """For so many turns it does not count as alone."""

    def attend(self) -> None:
        """It is served."""
        attendance = self.attendance
        if attendance.latest is not self:
            attendance.latest = self
            attendance.changes += 1

    async def wait(self, least: int) -> None:
        """Wait for a turn of which so much is left, or a whole one if that is less. Always a checkpoint."""
        await self._place(trio.lowlevel.current_task(), least)
        await trio.lowlevel.checkpoint_if_cancelled()  # a place is not left half way

    async def _place(self, task: trio.lowlevel.Task, least: int) -> None:
        if self._first is None:
            self._first = task
            self.attendance.waiting += 1
            await self._pass(task)
        else:
            await self._sleep(task, least)
        owed = None
        while True:
            if task is self._first:
                if owed is None:
                    owed = min(least, self.size) - max(self.left, -MOST_OWED)
                self._renew()
                owed -= self.size
                # It does not wait for what others use up meanwhile who ask for little: it would for ever.
                if owed <= 0 or self._suffices(least):
                    del self.waiting[task]
                    self._hand_on()
                    return
                self._call_modest()
                await self._pass(task)
            elif self._suffices(least):
                del self.waiting[task]
                self._served += least >= 0
                return
            else:
                self._in_vain |= least >= 0
                await self._sleep(task, least)

    async def _pass(self, task: trio.lowlevel.Task) -> None:
        self.waiting[task] = False
        await trio.lowlevel.cancel_shielded_checkpoint()  # everybody else has one step

    async def _sleep(self, task: trio.lowlevel.Task, least: int) -> None:
        self.waiting[task] = True
        if least < 0:
            self._modest[task] = least
        await trio.lowlevel.wait_task_rescheduled(partial(self._forget, task))

    def _suffices(self, least: int) -> bool:
        return self.left >= min(least, self.size)

    def _renew(self) -> None:
        """Begin the next turn: what the last one was overdrawn is taken off it."""
        self._calls = max(1, self._served) if self._in_vain else min(2 * self._calls, MOST_CALLED)
        self._served, self._in_vain = 1, False
        self.size = self._next_size()
        self.left = min(self.size, max(self.left, -MOST_OWED) + self.size)

    def _hand_on(self) -> None:
        """The first one goes on: call the next first one, and those who may find something left."""
        self._call_modest()
        asleep = (task for task, sleeps in self.waiting.items() if sleeps and task not in self._modest)
        called = list(islice(asleep, self._calls))
        self._first = next(iter(called or self._modest or self.waiting), None)
        if self._first is None:
            self.attendance.waiting -= 1
        elif not called and self.waiting[self._first]:
            called = [self._first]
        for task in called:
            self._wake(task)

    def _call_modest(self) -> None:
        """Call some of those who want less than nothing, if there is as much."""
        fed = (task for task, least in self._modest.items() if self._suffices(least))
        for task in list(islice(fed, MOST_CALLED)):
            self._wake(task)

    def _wake(self, task: trio.lowlevel.Task) -> None:
        self.waiting[task] = False
        self._modest.pop(task, None)
        trio.lowlevel.reschedule(task)

    def _next_size(self) -> int:
        self.attend()
        changes = self.attendance.changes
        self._shared = REMEMBERED_TURNS if changes != self._changes else max(0, self._shared - 1)
        self._changes = changes
        return max(LEAST_TURN, SHARED_TURN // self.attendance.waiting) if self._shared else TURN

    def _forget(self, task: trio.lowlevel.Task, _: object) -> trio.lowlevel.Abort:
        # Only of who sleeps: who has been called will run, whatever happens.
        del self.waiting[task]
        self._modest.pop(task, None)
        return trio.lowlevel.Abort.SUCCEEDED
