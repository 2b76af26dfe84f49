"""Which clients have gone while nobody reads from their sockets.

A connection reads nothing while a request of it waits: a parked Fetch, a JoinGroup, a Produce that finds no
room. What the client sends meanwhile stays in the kernel, and so would its end. So every socket is watched
for its end besides: an edge-triggered epoll that asks for EPOLLRDHUP alone is quiet while requests come, and
costs a connection two system calls in its life and a request none. Where there is no epoll (macOS) an end is
seen when the connection reads again.
"""

from __future__ import annotations

import math
import select
import socket
from collections.abc import Callable

import trio

DEPARTURES_A_TURN = 8
"""Clients that are noticed to have gone before others have their turn: thousands may go at once."""


class Departures:
    """Calls back once a client has closed its sending side, or reset the connection. `run` watches."""

    def __init__(self) -> None:
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        self._calls: dict[int, Callable[[], None]] = {}

    def watch(self, sock: socket.socket, call: Callable[[], None]) -> None:
        """Have `call` called, perhaps more than once, when the client of `sock` has gone. It must not block.

        Raises OSError.
        """
        if self._epoll is not None:
            self._epoll.register(sock, select.EPOLLRDHUP | select.EPOLLET)
            self._calls[sock.fileno()] = call

    def forget(self, sock: socket.socket) -> None:
        """Before the socket is closed."""
        if self._epoll is not None and self._calls.pop(sock.fileno(), None) is not None:
            self._epoll.unregister(sock)

    async def run(self) -> None:
        """Watch until cancelled; nothing may be watched afterwards."""
        if self._epoll is None:
            await trio.sleep(math.inf)
            return
        try:
            while True:
                await trio.lowlevel.wait_readable(self._epoll.fileno())
                for number, _ in self._epoll.poll(0, DEPARTURES_A_TURN):
                    if (call := self._calls.get(number)) is not None:
                        call()
        finally:
            self._calls.clear()
            self._epoll.close()
            self._epoll = None
