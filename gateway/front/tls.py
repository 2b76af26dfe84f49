"""TLS of one connection: between the socket's bytes and those that Kafka's frames are in.

Theory of operation. OpenSSL works on two buffers in memory: what came from the socket, and what is to go
there. So nothing here waits, and reading and writing stay what they are without TLS: `recv_into` and a send
that takes what the kernel takes. It costs half of what a stream that waits for itself does, as long as what
is written together is encrypted together (`SEALED_BYTES`): each write is a record with a cost of its own.

What is encrypted must be sent, in this order, before anything else is; so it is kept until the kernel has
taken it, and nothing is encrypted beyond it (`gateway.front.tls_output`).
"""

from __future__ import annotations

import socket
import ssl
from typing import Final

import trio

RECEIVED_BYTES: Final = 64 * 1024
"""Taken from the socket at once: four of the largest records."""

SEALED_BYTES: Final = 64 * 1024
"""Encrypted at once, in records of 16 KiB."""

MAX_HANDSHAKE_BYTES: Final = 32 * 1024
"""What a client may send before it is connected: a chain of certificates is some kilobytes."""

MAX_HELLO_BYTES: Final = 16 * 1024
"""Of a client's first message, as it announces it: at that word OpenSSL takes memory for up to 131 KB and a
third more, before any of it has come. Those of browsers, with keys for quantum computers, have 2 KB."""

HANDSHAKE_RECEIVED_BYTES: Final = 4 * 1024
"""Taken from the socket at once until then: what came and is not looked at yet is held besides."""

MAX_EMPTY_BYTES: Final = 64 * 1024
"""What a client may send that is TLS and has nothing in it, and what may wait to be said to it for that: new
keys, which both sides agree on now and then. Requests are in between."""

HANDSHAKES_AT_ONCE: Final = 8
"""Of all connections, in worker threads: each is a millisecond or two of processor time."""


class HandshakeFailed(Exception):
    """The client does not speak TLS as this listener does; the message says what is wrong."""


class TlsLink:
    """The TLS of a connection that was accepted. Not safe for use by two tasks at once."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._received = ssl.MemoryBIO()
        self._to_send = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._received, self._to_send, server_side=True)
        self._empty = 0
        """Bytes that were received since the last ones of the client's own."""
        self._has_ended = False
        """The client has said that this was all."""

    # the handshake -----------------------------------------------------------------------------------------

    async def shake_hands(self, sock: socket.socket, at_once: trio.CapacityLimiter) -> None:
        """Agree with the client; the caller bounds the time. Raises HandshakeFailed; OSError: it is gone."""
        taken, begun = 0, b""
        is_begun = False
        while True:
            try:
                await trio.to_thread.run_sync(self._object.do_handshake, limiter=at_once)
            except ssl.SSLWantReadError:
                if await self._send_all(sock) == _RETRY:
                    begun, is_begun = b"", False
            except ssl.SSLError as error:
                await self._send_all(sock)  # the alert says why
                raise HandshakeFailed(_said(error)) from None
            else:
                await self._send_all(sock)
                return
            if taken > MAX_HANDSHAKE_BYTES:
                raise HandshakeFailed(f"its handshake has more than {MAX_HANDSHAKE_BYTES} bytes")
            await trio.lowlevel.wait_readable(sock)
            try:
                data = sock.recv(HANDSHAKE_RECEIVED_BYTES)
            except BlockingIOError:
                continue
            if not data:
                raise ConnectionResetError("it left in the middle of the handshake")
            taken += len(data)  # the last of it may have requests after it
            if not is_begun:
                begun += data
                data, is_begun = begun, _is_begun(begun)
            if is_begun:
                self._received.write(data)

    def certificate_of_client(self) -> bytes | None:
        """What the client has shown, as DER, once the handshake is over; None: nothing. It is good."""
        return self._object.getpeercert(binary_form=True)

    async def _send_all(self, sock: socket.socket) -> bytes:
        """What is to be sent; the bytes of it where a server's hello has its random."""
        said = self._to_send.read()
        data = memoryview(said)
        while data:
            try:
                data = data[sock.send(data) :]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(sock)
        return said[_RANDOM]

    # reading -----------------------------------------------------------------------------------------------

    @property
    def has_some(self) -> bool:
        """Whether there is something to read before the socket is asked."""
        return self._object.pending() > 0 or self._received.pending > 0 or self._has_ended

    def recv_into(self, sock: socket.socket, buffer: memoryview) -> int:
        """As `socket.recv_into`: how many bytes of the client's are in the buffer now, 0 at the end. Raises
        BlockingIOError, there are none yet; OSError, the connection is broken, or the client sends what has
        nothing in it. It receives once: others have their turn before it does so again.
        """
        filled = self._read(buffer)
        if filled == 0:
            data = sock.recv(RECEIVED_BYTES)
            if not data:
                return 0  # whether the end was announced does not matter: frames have their sizes
            self._received.write(data)
            self._empty += len(data)
            filled = self._read(buffer)
        if filled > 0:
            self._empty = 0
        if self._empty > MAX_EMPTY_BYTES or self._to_send.pending > MAX_EMPTY_BYTES:
            raise ConnectionAbortedError(f"more than {MAX_EMPTY_BYTES} bytes of TLS with nothing in them")
        if filled == 0:
            raise BlockingIOError
        return max(0, filled)

    def _read(self, buffer: memoryview) -> int:
        """What was received already, as much as fits; -1: the client has said that this was all."""
        filled = 0
        while filled < len(buffer):
            try:
                count = self._object.read(len(buffer) - filled, buffer[filled:])
            except ssl.SSLWantReadError:
                break
            if not count:
                self._has_ended = True
                return filled or -1
            filled += int(count)
        return filled

    # writing -----------------------------------------------------------------------------------------------

    def seal(self, data: bytes) -> bytes:
        """These bytes, and whatever else is to be sent before them, encrypted. Raises OSError."""
        if data:
            self._object.write(data)
        return self._to_send.read()

    def say_end(self, sock: socket.socket) -> None:
        """Tell the client that this was all, as far as it can be told at once."""
        try:
            self._object.unwrap()
        except (ssl.SSLError, ValueError):
            pass  # it has not said so itself yet
        try:
            sock.send(self._to_send.read())
        except OSError:
            pass  # gone


_HELLO_HEADER_BYTES: Final = 9
"""Of its record (RFC 8446, 5.1): kind, version, size; and of the message in it (4): kind, size."""
_HANDSHAKE: Final = b"\x16"
_CHANGE_OF_CIPHER: Final = b"\x14\x03\x03\0\x01\x01"
"""A record that means nothing any more: clients send one before a second hello (RFC 8446, D.4)."""
_RETRY: Final = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
"""The "random" of a server's hello that asks for another one of the client (RFC 8446, 4.1.3)."""
_RANDOM: Final = slice(11, 43)
"""Where it is in a server's hello, with its record around it."""
_CLIENT_HELLO: Final = 1


def _is_begun(data: bytes) -> bool:
    """Whether enough has come to see how long the client's first message will be. Raises HandshakeFailed: it
    is too long, or in pieces that nobody makes. What is no TLS is left to OpenSSL, which knows what it is.
    """
    if _CHANGE_OF_CIPHER.startswith(data[: len(_CHANGE_OF_CIPHER)]):
        data = data[len(_CHANGE_OF_CIPHER) :]
        if data[:1] == _CHANGE_OF_CIPHER[:1]:
            raise HandshakeFailed("it changes its cipher more than once before it says hello")
    if data[:1] not in {_HANDSHAKE, b""}:
        return True
    if len(data) < _HELLO_HEADER_BYTES:
        return False
    if int.from_bytes(data[3:5], "big") < 4:
        raise HandshakeFailed("its first record is too short to begin a handshake")
    size = int.from_bytes(data[6:9], "big")
    if data[5] == _CLIENT_HELLO and size > MAX_HELLO_BYTES:
        raise HandshakeFailed(f"its first message has {size} bytes: {MAX_HELLO_BYTES} may be")
    return True


def _said(error: ssl.SSLError) -> str:
    """What OpenSSL calls it; a client that speaks no TLS, by name."""
    reason = error.reason or str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{reason}: {error.verify_message}"
    if reason in {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNEXPECTED_MESSAGE"}:
        return f"it does not speak TLS ({reason}): this listener is TLS, and security.protocol is another one"
    return reason
