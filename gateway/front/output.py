"""The answers of one connection that are ready: kept in order and written scatter-gather.

An answer is bytes, or a list of buffers of which some are records as they lie in a cache or came from a
store. They are given to the kernel as they are, several answers in one `sendmsg`; nothing is joined or
copied.
"""

from __future__ import annotations

import math
import os
import socket
from collections import deque
from itertools import islice

import trio

from gateway.common.costs import SENT_KIB
from gateway.common.handlers import Buffer, Response
from gateway.common.turns import Turns

IOV_MAX = os.sysconf("SC_IOV_MAX") if "SC_IOV_MAX" in os.sysconf_names else 1024
"""Buffers that one `sendmsg` takes: 1,024 on Linux and macOS."""


class Output:
    """Ready answers and the socket they go to.

    `unsent` counts their bytes. `error` is set once the socket has failed; what is put after that is dropped.
    `full`: the kernel took less than there was, so to ask again before the socket is writable is in vain.
    `waiting_since` (trio's clock, infinite when not waiting), `drain_began` and `drained` tell how long the
    client has not been reading, and how fast it reads. What is sent is charged to the client's `turns`: the
    kernel copies it while everybody else waits. An answer that is begun waits for none itself.
    """

    __slots__ = (
        "_buffers",
        "_socket",
        "_turns",
        "drain_began",
        "drained",
        "draining",
        "error",
        "full",
        "unsent",
        "waiting_since",
    )

    def __init__(self, sock: socket.socket, turns: Turns) -> None:
        self._socket = sock
        self._turns = turns
        self._buffers: deque[Buffer] = deque()
        self.unsent = 0
        self.error: OSError | None = None
        self.draining = False
        self.full = False
        self.waiting_since = math.inf
        self.drain_began = math.inf
        self.drained = 0

    def belong_to(self, turns: Turns) -> None:
        """What is sent from now on is charged there."""
        self._turns = turns

    def put(self, response: Response) -> int:
        """Adds an answer after those that are here; its size in bytes."""
        if response is None:
            return 0
        if isinstance(response, list):
            size = sum(map(len, response))
            # An empty buffer would be sent without progress, for ever.
            self._buffers.extend(filter(len, response))
        else:
            size = len(response)
            self._buffers.append(response)
        self.unsent += size
        return size

    def try_send(self) -> None:
        """Writes what the kernel takes now. Never blocks and never raises; see `unsent` and `error`.

        Only while nobody is in `drain`.
        """
        buffers = self._buffers
        try:
            while buffers:
                count = len(buffers)
                if count == 1:
                    sent = self._socket.send(buffers[0])
                else:
                    sent = self._socket.sendmsg(list(islice(buffers, IOV_MAX)))
                self._remove(sent)
                if count <= IOV_MAX:  # all that there was: what is left does not fit
                    self.full = self.unsent > 0
                    return
        except BlockingIOError:
            self.full = True
        except OSError as error:
            self._fail(error)

    @property
    def is_cut(self) -> bool:
        """Whether what was sent last ends in the middle of something that has to be whole."""
        return False

    async def drain(self) -> None:
        """Writes everything, also what is put meanwhile. Raises OSError when the client is gone."""
        self.draining = True
        self.drain_began = trio.current_time()
        self.drained = 0
        try:
            if not self.full:
                self.try_send()
            while self.unsent:
                self.waiting_since = trio.current_time()
                try:
                    await trio.lowlevel.wait_writable(self._socket)
                except trio.ClosedResourceError:
                    pass  # woken so that the reader stops: see `Connection.stop_reading`
                self.waiting_since = math.inf
                self.try_send()
        finally:
            self.draining = False
            self.waiting_since = math.inf
        if self.error is not None:
            raise self.error

    def _fail(self, error: OSError) -> None:
        """The client is gone."""
        self.error = error
        self._buffers.clear()
        self.unsent = 0

    def _remove(self, sent: int) -> None:
        buffers = self._buffers
        self.unsent -= sent
        self.drained += sent
        self._turns.left -= (sent >> 10) * SENT_KIB
        while sent:
            size = len(buffers[0])
            if sent < size:
                buffers[0] = memoryview(buffers[0])[sent:]
                return
            del buffers[0]
            sent -= size
