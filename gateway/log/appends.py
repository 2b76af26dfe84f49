"""What a Produce waits for: its appends' durability, told by the partitions' progress.

The wait is on the path of every synchronous producer, so it has no cancel scope of its own: `Timeouts` looks
at all waiting completions a few times a second and lets go those whose time is over.
"""

import trio

from gateway.connection_wait import Waiter
from wireproto.kafka.errors import ErrorCode

TIMEOUT_CHECK_SECONDS = 0.05
"""How late a timeout may be noticed."""


class Timeouts:
    """The completions that wait now, and the task that ends their wait in time."""

    def __init__(self) -> None:
        self._waiting: set[Completion] = set()
        self._work = Waiter()

    def add(self, completion: "Completion") -> None:
        self._waiting.add(completion)
        self._work.wake()

    def remove(self, completion: "Completion") -> None:
        self._waiting.discard(completion)

    async def run(self) -> None:
        """Watch the deadlines, for ever."""
        while True:
            if not self._waiting:
                await self._work.wait()
            await trio.sleep(TIMEOUT_CHECK_SECONDS)
            now = trio.current_time()
            for completion in [entry for entry in self._waiting if entry.deadline <= now]:
                completion.expire()


class Completion:
    """One Produce request's appends that are not durable yet. It waits until `deadline` (trio's clock)."""

    __slots__ = ("_expired", "_waiter", "deadline", "waiting")

    def __init__(self, deadline: float) -> None:
        self.waiting = 0
        self.deadline = deadline
        self._expired = False
        self._waiter: Waiter | None = None  # most are done before anybody waits, when requests are pipelined

    def one_done(self) -> None:
        self.waiting -= 1
        if self.waiting == 0 and self._waiter is not None:
            self._waiter.wake()

    def expire(self) -> None:
        """The time is over."""
        self._expired = True
        if self._waiter is not None:
            self._waiter.wake()

    async def wait(self, timeouts: Timeouts) -> None:
        """Return when nothing is waited for any more, or at the deadline (noticed a little late)."""
        # One whose time ran out behind others does not wait for the next look: they would add up.
        if not self.waiting or self.deadline + TIMEOUT_CHECK_SECONDS <= trio.current_time():
            return
        waiter = self._waiter = Waiter()
        timeouts.add(self)
        try:
            while self.waiting and not self._expired:
                await waiter.wait()
        finally:
            timeouts.remove(self)


class Append:
    """One batch that was appended (or found to be a duplicate) and the durability it waits for."""

    __slots__ = (
        "base_offset",
        "completion",
        "done",
        "error",
        "last_offset",
        "log_append_time_ms",
        "log_start_offset",
        "message",
    )

    def __init__(self, base_offset: int, last_offset: int, log_start_offset: int) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.log_start_offset = log_start_offset
        self.log_append_time_ms = -1
        self.done = False
        self.error = ErrorCode.NONE
        self.message: str | None = None
        self.completion: Completion | None = None

    def wait_with(self, completion: Completion) -> None:
        """Count this append among those that `completion` waits for, unless it is done."""
        if not self.done:
            self.completion = completion
            completion.waiting += 1

    def finish(self, error: ErrorCode = ErrorCode.NONE, message: str | None = None) -> None:
        """It is as durable as was asked for, or never will be."""
        self.done = True
        self.error = error
        self.message = message
        if self.completion is not None:
            self.completion.one_done()
