"""What a Produce waits for: its appends' durability, told by the partitions' progress."""

import trio

from wireproto.kafka.errors import ErrorCode


class Completion:
    """One Produce request's appends that are not durable yet. `event` is set when there is none left."""

    __slots__ = ("event", "waiting")

    def __init__(self) -> None:
        self.waiting = 0
        self.event = trio.Event()

    def one_done(self) -> None:
        self.waiting -= 1
        if self.waiting == 0:
            self.event.set()


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
