"""What a Produce waits for: its appends' durability, told by the partitions' progress.

The answer of a synchronous producer leaves as soon as its record is durable, so no task is woken for it:
`Completions.settle` calls whoever waits, from within the mesh's receive loop, once all acknowledgements that
are there have been counted (`mesh.node.Node.on_drained`). One whose partition failed, or whose time is over,
is found by `run`, which looks every `CHECK_SECONDS`.
"""

from collections.abc import Callable

import trio

from gateway.common.waiting import Waiter
from mesh.protocol.writer import Writer
from wireproto.kafka.errors import ErrorCode

CHECK_SECONDS = 0.05
"""How late a timeout, or a failed partition, may be noticed."""


class Completions:
    """The requests of all connections that wait for durability."""

    def __init__(self) -> None:
        self._waiting: set[Completion] = set()
        self._done: list[Completion] = []
        self._work = Waiter()

    def add(self, completion: "Completion") -> None:
        if not self._waiting:  # else somebody watches the deadlines already
            self._work.wake()
        self._waiting.add(completion)

    def remove(self, completion: "Completion") -> None:
        self._waiting.discard(completion)

    def done(self, completion: "Completion") -> None:
        """It waits no longer: `settle` calls back."""
        self._waiting.discard(completion)
        self._done.append(completion)

    def settle(self) -> None:
        """Call those whose wait is over. May be called from within itself."""
        while self._done:
            done, self._done = self._done, []
            for completion in done:
                completion.call_back()

    async def run(self) -> None:
        """Watch the deadlines, for ever."""
        while True:
            await trio.sleep(CHECK_SECONDS)
            now = trio.current_time()
            for completion in [entry for entry in self._waiting if entry.deadline <= now]:
                completion.expire()
            self.settle()
            if not self._waiting:
                await self._work.wait()


class Completion:
    """One Produce request's appends that are not durable yet. It waits until `deadline` (trio's clock)."""

    __slots__ = ("_call", "_completions", "_expired", "deadline", "waiting")

    def __init__(self, completions: Completions, deadline: float) -> None:
        self.waiting = 0
        self.deadline = deadline
        self._completions = completions
        self._expired = False
        self._call: Callable[[], None] | None = None  # most are durable before anybody asks, without fsync

    @property
    def over(self) -> bool:
        """Nothing is waited for any more, or the time is over (noticed a little late)."""
        return self._expired or not self.waiting

    def when_over(self, call: Callable[[], None]) -> None:
        """Have `call` called once, soon after it is `over` (it is not yet). It must not block or raise."""
        self._call = call
        self._completions.add(self)

    def forget(self) -> None:
        """Nobody is interested any more."""
        self._call = None
        self._completions.remove(self)

    def call_back(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()

    def one_done(self) -> None:
        self.waiting -= 1
        if not self.waiting and self._call is not None:
            self._completions.done(self)

    def expire(self) -> None:
        """The time is over."""
        self._expired = True
        self._completions.done(self)


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
        "writer",
    )

    def __init__(
        self, base_offset: int, last_offset: int, log_start_offset: int, writer: Writer | None
    ) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.log_start_offset = log_start_offset
        self.log_append_time_ms = -1
        self.done = False
        self.error = ErrorCode.NONE
        self.message: str | None = None
        self.completion: Completion | None = None
        self.writer = writer
        """Whose window it waits in; a duplicate's original in this or an earlier one."""

    def stamped(self, timestamp: int) -> None:
        """Answer this as the time when the log has appended it, ms."""
        self.log_append_time_ms = timestamp

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
