"""Which sockets can be read from, a few of them in each pass of the loop.

The loop wakes everybody whose socket has something, in one pass. Of thousands of clients that end at once, or
that speak at once, each is a step of some ten microseconds, and everybody else waits for all of them: 0.1 s.
So only some sockets are watched by the loop itself, which is the quickest way. All others are in an epoll of
our own, which is one more thing that the loop watches: `AT_ONCE` are taken from it in a pass, and it is asked
again in the next one. Where there is no epoll (macOS) the loop watches all.
"""

from __future__ import annotations

import math
import select
import socket
from typing import Final

import trio

WATCHED_BY_LOOP: Final = 16
"""Sockets that the loop watches itself: those of a server that is hardly used, or the first ones of many."""

AT_ONCE: Final = 8
"""Others that are found to be readable in one pass of the loop."""


class Readiness:
    """Waits for sockets to have something to read. `run` watches those that the loop does not."""

    def __init__(self) -> None:
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        self._watched_by_loop = 0
        self._known: set[int] = set()
        """File descriptors that the epoll has."""
        self._waiting: dict[int, trio.lowlevel.Task] = {}

    async def wait(self, sock: socket.socket) -> None:
        """Return when `sock` has something to read, its end included, or when it is woken.

        Raises OSError. One task at a time for each socket.
        """
        if self._epoll is None or self._watched_by_loop < WATCHED_BY_LOOP:
            self._watched_by_loop += 1
            try:
                await trio.lowlevel.wait_readable(sock)
            except trio.ClosedResourceError:
                pass  # woken
            finally:
                self._watched_by_loop -= 1
            return
        number = sock.fileno()
        self._ask_once(self._epoll, number)
        self._waiting[number] = trio.lowlevel.current_task()

        def forget(_: object) -> trio.lowlevel.Abort:
            del self._waiting[number]  # what the epoll still says of it wakes nobody
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(forget)

    def wake(self, sock: socket.socket) -> None:
        """Have `wait` return though there may be nothing to read."""
        trio.lowlevel.notify_closing(sock)
        self._call(sock.fileno())

    def forget(self, sock: socket.socket) -> None:
        """Before the socket is closed. Nobody waits for it any more."""
        number = sock.fileno()
        if self._epoll is not None and number in self._known:
            self._known.discard(number)
            self._epoll.unregister(number)

    async def run(self) -> None:
        """Watch until cancelled; nobody may wait afterwards."""
        if self._epoll is None:
            await trio.sleep(math.inf)
            return
        try:
            while True:
                await trio.lowlevel.wait_readable(self._epoll.fileno())
                for number, _ in self._epoll.poll(0, AT_ONCE):
                    self._call(number)
        finally:
            self._epoll.close()
            self._epoll = None

    def _ask_once(self, epoll: select.epoll, number: int) -> None:
        events = select.EPOLLIN | select.EPOLLONESHOT
        if number in self._known:
            epoll.modify(number, events)
        else:
            epoll.register(number, events)
            self._known.add(number)

    def _call(self, number: int) -> None:
        if (task := self._waiting.pop(number, None)) is not None:
            trio.lowlevel.reschedule(task)
