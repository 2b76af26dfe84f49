"""Watches the event loop: the longest stretch of processor time between two points where others have a
turn."""

from __future__ import annotations

from time import thread_time
from typing import TYPE_CHECKING, Any

import trio

if TYPE_CHECKING:
    from types import FrameType


class StepWatch(trio.abc.Instrument):
    """`longest` is the longest step of a task since `forget`, and `total` what all steps took, in seconds of
    the loop's own processor time: what other threads and processes take does not count. `where` says whose
    step the longest one was. Steps of the task that made the watch are not looked at.
    """

    def __init__(self) -> None:
        self.longest = self.total = 0.0
        self.where = ""
        self._began = 0.0
        self._own = trio.lowlevel.current_task()

    def forget(self) -> None:
        self.longest = self.total = 0.0
        self.where = ""

    def before_task_step(self, _task: trio.lowlevel.Task) -> None:
        self._began = thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._own:
            return
        took = thread_time() - self._began
        self.total += took
        if took > self.longest:
            self.longest, self.where = took, _place(task)


def _place(task: trio.lowlevel.Task) -> str:
    """Where the task waits now: the innermost functions of ours."""
    names = []
    awaited: Any = task.coro
    while awaited is not None:
        frame: FrameType | None = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None and "/trio/" not in frame.f_code.co_filename:
            names.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return " > ".join(names[-3:]) or task.name
