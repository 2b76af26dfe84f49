"""HTTP/1.1 to one server, one request after the other on a connection that is kept.

Written over h11 itself: a client with a pool costs several times the processor time of etcd's own work, and a
watch that is cancelled has to leave nothing behind.

A request that fails before the connection is there was never sent; one that fails later may have been.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Final

import h11
import trio

CONNECT_SECONDS: Final = 1.0
"""Longest wait for a connection. A server of the same site answers within milliseconds."""

CHUNK_BYTES: Final = 64 * 1024
"""Bytes that are received at once."""

_FAILURES: Final = (
    OSError,
    trio.BrokenResourceError,
    trio.ClosedResourceError,
    h11.ProtocolError,
    ssl.SSLError,
)


class NotConnected(Exception):
    """There is no connection, so nothing was sent; the text says why."""


class Broken(Exception):
    """The connection broke, or what came is no HTTP; the text says how."""


class Connection:
    """To `host` and `port`, encrypted by what `context` says when it connects. One task uses it at a time; if
    that is cancelled, it is closed.
    """

    def __init__(self, host: str, port: int, context: Callable[[], ssl.SSLContext | None]) -> None:
        self._host = host
        self._port = port
        self._context = context
        self._stream: trio.abc.Stream | None = None
        self._http = h11.Connection(h11.CLIENT)

    async def begin(self, path: str, headers: list[tuple[str, str]], content: bytes) -> int:
        """Send a request; the status of its answer, whose content is next. Raises NotConnected, Broken."""
        stream = self._stream
        try:
            if stream is None:
                stream = self._stream = await self._connect()
            request = h11.Request(
                method="POST",
                target=path,
                headers=[("Host", self._host), ("Content-Length", str(len(content))), *headers],
            )
            data = self._http.send(request) or b""
            data += self._http.send(h11.Data(content)) or b""
            data += self._http.send(h11.EndOfMessage()) or b""
            await stream.send_all(data)
            while not isinstance(event := await self._event(stream), h11.Response):
                if isinstance(event, h11.ConnectionClosed):
                    raise Broken("the connection was closed before an answer")
        except NotConnected:
            raise
        except _FAILURES as error:
            self.drop()
            raise Broken(_reason(error)) from None
        except BaseException:
            self.drop()
            raise
        return int(event.status_code)

    async def more(self) -> bytes | None:
        """The next piece of the answer's content, None behind the last. Raises Broken."""
        stream = self._stream
        if stream is None:
            raise Broken("the connection is closed")
        try:
            event = await self._event(stream)
        except _FAILURES as error:
            self.drop()
            raise Broken(_reason(error)) from None
        except BaseException:
            self.drop()
            raise
        if isinstance(event, h11.Data):
            return bytes(event.data)
        if isinstance(event, h11.EndOfMessage) and self._http.our_state is h11.DONE is self._http.their_state:
            self._http.start_next_cycle()
        else:
            self.drop()
        return None

    async def _event(self, stream: trio.abc.Stream) -> h11.Event:
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(bytes(await stream.receive_some(CHUNK_BYTES)))
            elif isinstance(event, h11.Event) and not isinstance(event, h11.InformationalResponse):
                return event
            elif event is h11.PAUSED:
                raise Broken("more came than was asked for")

    async def _connect(self) -> trio.abc.Stream:
        self._http = h11.Connection(h11.CLIENT)
        try:
            with trio.fail_after(CONNECT_SECONDS):
                stream: trio.abc.Stream = await trio.open_tcp_stream(self._host, self._port)
                context = self._context()
                if context is not None:
                    secured = trio.SSLStream(
                        stream, context, server_hostname=self._host, https_compatible=True
                    )
                    try:
                        await secured.do_handshake()
                    except BaseException:
                        _close(stream)
                        raise
                    stream = secured
        except trio.TooSlowError:
            raise NotConnected(f"no connection within {CONNECT_SECONDS:g} s") from None
        except _FAILURES as error:
            raise NotConnected(_reason(error)) from None
        return stream

    def drop(self) -> None:
        """Close it at once; the next request makes another one."""
        stream, self._stream = self._stream, None
        if stream is not None:
            _close(stream)


def _close(stream: trio.abc.Stream) -> None:
    """Without a goodbye, and without waiting for anything."""
    while isinstance(stream, trio.SSLStream):
        stream = stream.transport_stream
    assert isinstance(stream, trio.SocketStream)
    stream.socket.close()


def _reason(error: BaseException) -> str:
    """What failed, for people: of several attempts to connect the first cause."""
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, BaseExceptionGroup):
        return _reason(error.exceptions[0])
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, h11.ProtocolError):
        return "what it answers is no HTTP, or it has closed the connection: does it encrypt?"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
