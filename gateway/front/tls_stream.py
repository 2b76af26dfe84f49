"""A stream of bytes over TLS, for servers of HTTP: what `TlsLink` is to Kafka's connections, with waits."""

from __future__ import annotations

import socket
from typing import Final

import trio

from gateway.front.tls import RECEIVED_BYTES, SEALED_BYTES, TlsLink

MOST_AT_ONCE: Final = RECEIVED_BYTES
"""Bytes received where nobody says how many."""


class TlsStream(trio.abc.HalfCloseableStream):
    """`sock` is a socket of the standard library's that does not block, and belongs to the stream. One task
    may send while another receives.
    """

    def __init__(self, sock: socket.socket, link: TlsLink) -> None:
        self._socket = sock
        self._link = link
        self._has_ended = False

    async def shake_hands(self, at_once: trio.CapacityLimiter) -> None:
        """Agree with the client; the caller bounds the time. Raises HandshakeFailed, OSError."""
        await self._link.shake_hands(self._socket, at_once)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Some of what the client sends, b"" at its end. Raises OSError."""
        await trio.lowlevel.checkpoint_if_cancelled()
        buffer = bytearray(max_bytes or MOST_AT_ONCE)
        while True:
            try:
                if self._has_ended:
                    count = self._socket.recv_into(buffer)  # for nobody: only to see how it ends
                else:
                    count = self._link.recv_into(self._socket, memoryview(buffer))
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self._socket)
            else:
                return bytes(buffer[:count])

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Raises OSError; and if it is cancelled the stream is of no use any more."""
        await trio.lowlevel.checkpoint_if_cancelled()
        left = memoryview(data)
        while left:
            await self._send(self._link.seal(bytes(left[:SEALED_BYTES])))
            left = left[SEALED_BYTES:]

    async def _send(self, sealed: bytes) -> None:
        left = memoryview(sealed)
        while left:
            try:
                left = left[self._socket.send(left) :]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._socket)

    async def wait_send_all_might_not_block(self) -> None:
        """See `trio.abc.SendStream`."""
        await trio.lowlevel.wait_writable(self._socket)

    async def send_eof(self) -> None:
        """Say that this was all; what the client still sends is not read any more, only taken."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if not self._has_ended:
            self._has_ended = True
            self._link.say_end(self._socket)
            self._socket.shutdown(socket.SHUT_WR)

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """As `socket.setsockopt`."""
        self._socket.setsockopt(level, option, value)

    async def aclose(self) -> None:
        """Close the socket, after telling the client as far as it can be told at once."""
        if self._socket.fileno() >= 0:
            if not self._has_ended:
                self._link.say_end(self._socket)
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()
        await trio.lowlevel.checkpoint()
