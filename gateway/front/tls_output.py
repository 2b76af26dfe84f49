"""The bytes to a client over TLS: encrypted as the kernel takes them, many at once."""

from __future__ import annotations

import socket

from gateway.common.costs import SENT_KIB
from gateway.common.handlers import Buffer
from gateway.common.turns import Turns
from gateway.front.output import Output
from gateway.front.tls import SEALED_BYTES, TlsLink


class TlsOutput(Output):
    """See `Output`. `unsent` counts what was put, until it is sent; also while it is encrypted."""

    __slots__ = ("_link", "_sealed", "_sealed_size")

    def __init__(self, sock: socket.socket, turns: Turns, link: TlsLink) -> None:
        super().__init__(sock, turns)
        self._link = link
        self._sealed = memoryview(b"")
        """Encrypted, and not sent yet."""
        self._sealed_size = 0
        """What of `unsent` is in it."""

    def try_send(self) -> None:
        """See `Output.try_send`."""
        try:
            while self._sealed or self._buffers:
                if not self._sealed:
                    data = self._take(SEALED_BYTES)
                    self._sealed, self._sealed_size = memoryview(self._link.seal(data)), len(data)
                self._sealed = self._sealed[self._socket.send(self._sealed) :]
                if self._sealed:
                    self.full = True
                    return
                self._is_sent(self._sealed_size)
                self._sealed_size = 0
            self.full = False
        except BlockingIOError:
            self.full = True
        except OSError as error:
            self._fail(error)
            self._sealed = memoryview(b"")

    @property
    def is_cut(self) -> bool:
        """See `Output.is_cut`: of a record."""
        return bool(self._sealed)

    def _is_sent(self, size: int) -> None:
        """The kernel has all that these bytes have become."""
        self.unsent -= size
        self.drained += size
        self._turns.left -= (size >> 10) * SENT_KIB

    def _take(self, size: int) -> bytes:
        """So many bytes of what was put, at most, taken out."""
        taken: list[Buffer] = []
        left, buffers = size, self._buffers
        while buffers and left:
            first = buffers[0]
            if len(first) > left:
                taken.append(memoryview(first)[:left])
                buffers[0] = memoryview(first)[left:]
                break
            taken.append(buffers.popleft())
            left -= len(first)
        return b"".join(taken)
