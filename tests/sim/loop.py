"""The simulated world's time: a clock for trio that is also the scheduler of everything that is not a task.

Theory of operation: the real gateway and stores run as tasks of one trio loop. When all of them wait, trio
asks its clock how long to sleep until the next deadline. This clock does not sleep: it lets the world's
events (messages that arrive, fsyncs that end, faults) happen, one after the other in the order of their
times, until one of them makes a task runnable or the deadline is reached. So a second of the world costs what
happens in it, and the same seed gives the same schedule.
"""

import heapq
import math
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import trio
from trio._core import _run as trio_internals

MAX_STEPS = 1_000_000
"""Events in one schedule: far above what one needs, so that an endless loop ends with a message."""


TICK_SECONDS = 1e-9
"""How far the clock goes on each time that somebody looks at it."""

MAX_LOOKS = 1_000_000
"""Looks at the clock without an event between them: nothing but a loop without a wait looks so often."""


class BrokenPromise(AssertionError):
    """The schedule found a defect."""


class Loop(trio.abc.Clock):
    """Virtual seconds since the world began, and what is to happen when."""

    def __init__(self) -> None:
        self.now = 0.0
        self.steps = 0
        self.failure: Exception | None = None
        self.over = trio.Event()
        self.after_step: Callable[[], None] = lambda: None
        """Called behind each event: what must always hold is checked here."""
        self._queue: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0
        self._poked = False
        self._looks = 0

    def after(self, delay: float, call: Callable[..., None], *args: Any) -> None:
        """Have `call(*args)` happen `delay` seconds from now."""
        self._count += 1
        heapq.heappush(self._queue, (self.now + delay, self._count, call, args))

    def poke(self) -> None:
        """Something was written to a real socket: trio has to look."""
        self._poked = True

    def end(self, failure: Exception | None = None) -> None:
        """The schedule is over, well or with a failure; the first one counts."""
        if not self.over.is_set():
            self.failure = failure
            self.over.set()

    # trio's side ------------------------------------------------------------------------------------------

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        # As a real clock, it never stands still while tasks run: one that waits for a rounding error of a
        # second gets there.
        self.now += TICK_SECONDS
        self._looks += 1
        if self._looks > MAX_LOOKS:
            raise BrokenPromise("tasks run and run, and wait for nothing")
        return self.now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Nothing is runnable: let the world go on until something is. There is never any real sleep."""
        runnable = trio_internals.GLOBAL_RUN_CONTEXT.runner.runq
        while not self.over.is_set():
            when = self._queue[0][0] if self._queue else math.inf
            if deadline <= when:
                break
            try:
                self._step()
            except Exception as failure:  # noqa: BLE001  it belongs to who runs the schedule, not to trio
                self.end(failure)
            if runnable or self._poked:
                self._poked = False
                return 0
        if deadline < math.inf:
            self.now = max(self.now, deadline)
        elif not self.over.is_set():
            self.end(BrokenPromise("nothing is left to happen"))
        return 0

    def _step(self) -> None:
        when, _, call, args = heapq.heappop(self._queue)
        self.now = max(self.now, when)
        self.steps += 1
        self._looks = 0
        if self.steps > MAX_STEPS:
            raise BrokenPromise(f"{MAX_STEPS} events, and no end")
        call(*args)
        self.after_step()


class NodeClock:
    """What one node's clock shows: another beginning, and another speed."""

    def __init__(self, loop: Loop, offset: float, rate: float) -> None:
        self._loop = loop
        self._offset = offset
        self._rate = rate

    def now(self) -> float:
        return self._offset + self._loop.now * self._rate


clock_here: ContextVar[NodeClock] = ContextVar("clock_here")
"""The clock of the node whose code is running: its tasks inherit it, its handlers are called under it."""


class UnevenTrio:
    """In the place of the module `trio` in a shell: each node reads its own clock."""

    def __getattr__(self, name: str) -> Any:
        return getattr(trio, name)

    @staticmethod
    def current_time() -> float:
        return clock_here.get().now()


def make_deterministic(seed: int) -> None:
    """Have trio run the tasks of one turn in an order that only the seed decides (as pytest-trio does it)."""
    vars(trio_internals)["_ALLOW_DETERMINISTIC_SCHEDULING"] = True
    trio_internals._r.seed(seed)
