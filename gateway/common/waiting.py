"""Two small tools with which a connection's reader and writer wait for each other cheaply.

trio's own events and parking lots are built for many waiters; on a path that runs for each request their
bookkeeping costs as much as the request. Here there is always exactly one waiter.
"""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar, cast

import trio

T = TypeVar("T")


class Waiter:
    """Where one task waits until another one says that something has changed.

    No flag is kept: the waiting task checks its condition, waits, and checks again.
    """

    __slots__ = ("_task",)

    def __init__(self) -> None:
        self._task: trio.lowlevel.Task | None = None

    def wake(self) -> None:
        """Lets the waiting task go on, if there is one. Never blocks."""
        task = self._task
        if task is not None:
            self._task = None
            trio.lowlevel.reschedule(task)

    async def wait(self) -> None:
        """Waits for the next `wake`."""
        self._task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._abort)

    def _abort(self, _: object) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED


@types.coroutine
def call_before_blocking(
    awaitable: Awaitable[T], before_blocking: Callable[[], object]
) -> Generator[Any, Any, T]:
    """`await awaitable`, but call `before_blocking` if and when it first gives up control.

    With it several answers that are ready leave in one system call, and still none of them waits for a
    request that is parked. The same as `await` otherwise: what the awaitable yields to the event loop is
    passed on, as are the results and exceptions that come back.

    `before_blocking` must not block and must not raise: the awaitable has already arranged to be woken, and
    could not be told that nobody waits any more.
    """
    inner: Generator[Any, Any, T] = awaitable.__await__()
    try:
        trap = inner.send(None)
    except StopIteration as done:
        return cast(T, done.value)
    before_blocking()
    resume: Callable[[Any], Any]
    while True:
        try:
            value = yield trap
        except BaseException as error:  # noqa: BLE001 - passed on to where it belongs, Cancelled among them
            resume, argument = inner.throw, error
        else:
            resume, argument = inner.send, value
        try:
            trap = resume(argument)
        except StopIteration as done:
            return cast(T, done.value)
