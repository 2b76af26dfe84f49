"""Turns of clients: how much is done for one client in one pass of the event loop.

The loop runs everybody who can run, one after the other, and then begins again. If a connection could do as
much as it likes in one such pass, or as each of a thousand connections could, everybody else would wait for
all of it. So all connections of one client share one account: `TURN` nanoseconds of work, as charged. Once it
is spent, those who want more wait in the order in which they came. In each pass the first one that waits
renews the account and goes on, together with as many others as may find something left: whoever does not,
waits again in its old place.

Nobody holds a turn: whoever waits for something else (stores, memory, its client) leaves the rest to others.
A client that is alone goes on with the next pass. While others ask for anything, a pass is to be short: what
is done in one for all who want more than their turns is `SHARED_TURN`, and it is divided among them.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Final

import trio

TURN: Final = 8_000_000
"""Nanoseconds of a turn, as charged. With two milliseconds producers lost a
tenth: answers leave, and stores are given what was appended, at its end."""

SHARED_TURN: Final = TURN // 8
"""Nanoseconds of the turns of all clients that wait for one, in one pass of the loop, while others are
served as well: what an answer of theirs takes is some passes."""

LEAST_TURN: Final = TURN // 16
"""A turn is no shorter, however many clients want one: less would be all overhead."""

REMEMBERED_TURNS: Final = 64
"""Turns of a client after which it counts as alone, if nobody else has asked for anything meanwhile."""

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
        "_served",
        "_shared",
        "attendance",
        "left",
        "size",
        "waiting",
    )

    def __init__(self, attendance: Attendance | None = None) -> None:
        self.attendance = Attendance() if attendance is None else attendance
        self.size = TURN
        """Of the turn that it has."""
        self.left = TURN
        """What is left of this turn; below zero if more was charged."""
        self.waiting: dict[trio.lowlevel.Task, bool] = {}
        """Who waits for a turn, in order; False: it has been called and will run."""
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
        while True:
            if self._first is None:
                self.waiting[task] = False
                self._first = task
                self.attendance.waiting += 1
                await trio.lowlevel.cancel_shielded_checkpoint()  # everybody else has one step
            else:
                self.waiting[task] = True
                await trio.lowlevel.wait_task_rescheduled(partial(self._forget, task))
            if task is self._first:
                del self.waiting[task]
                self._renew()
                return
            if self.left >= min(least, self.size):
                del self.waiting[task]
                self._served += 1
                return
            self._in_vain = True

    def _renew(self) -> None:
        """Begin the next turn, and call those who are to run in the next pass of the loop."""
        self._calls = max(1, self._served) if self._in_vain else min(2 * self._calls, MOST_CALLED)
        self._served, self._in_vain = 1, False
        self.left = self.size = self._next_size()
        asleep = (task for task, sleeps in self.waiting.items() if sleeps)
        called = list(islice(asleep, self._calls))
        self._first = called[0] if called else None
        if self._first is None:
            self.attendance.waiting -= 1
        for task in called:
            self.waiting[task] = False
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
        return trio.lowlevel.Abort.SUCCEEDED
