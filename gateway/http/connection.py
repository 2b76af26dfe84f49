"""HTTP/1.1 on one socket (h11): a request, its answer, and the next one.

Every wait has an end and every size a bound. A request with a body is refused, unless the server takes
records: then a POST has one, which is read when its route asks for it, up to what that allows.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, TypeAlias

import h11
import trio

from gateway.common.failures import ends_process
from gateway.front.door import HttpStream
from gateway.http.failures import PROBLEM_TYPE, Failure
from gateway.http.guard import SECURITY_HEADERS
from gateway.http.limits import (
    HEAD_SECONDS,
    KEPT_SECONDS,
    LINGER_BYTES,
    LINGER_SECONDS,
    MAX_REQUEST_HEAD_BYTES,
    MAX_REQUESTS,
    ROUTE_SECONDS,
    SEND_SECONDS,
)

RECEIVE_BYTES: Final = 8 * 1024
"""Bytes received at once."""

BODY_RECEIVE_BYTES: Final = 64 * 1024
"""Bytes of a body received at once."""

SEND_BYTES: Final = 64 * 1024
"""Bytes given to the socket at once, so that a slow reader's time counts for so many."""

STREAM_BUFFER_BYTES: Final = 64 * 1024
"""Bytes of a stream of events that wait in the kernel."""

Headers: TypeAlias = Sequence[tuple[str, str]]

Send: TypeAlias = Callable[[bytes], Awaitable[None]]
"""Sends some of a stream. Raises trio.TooSlowError, OSError, trio.BrokenResourceError."""

ReadBody: TypeAlias = Callable[[int], Awaitable[bytes]]
"""Receives the body of a request, of so many bytes at most. Raises Failure: it is larger, or broken."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer; or with `stream` one that goes on until that returns."""

    status: HTTPStatus
    headers: Headers
    body: bytes = b""
    stream: Callable[[Send], Awaitable[None]] | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: `headers` by lower-case name, the last one of each. `read_body` is there for a POST."""

    method: bytes
    target: bytes
    headers: dict[bytes, bytes]
    read_body: ReadBody | None = None
    host: str = ""
    """The address that it came from."""


Respond: TypeAlias = Callable[[Asked], Awaitable[Answer]]
"""Answers a request. Raises Failure."""


class HttpConnection:
    """One client, at `host`. `run` serves it until it leaves, or has to. With `takes_bodies` a POST may have
    one.
    """

    def __init__(
        self, stream: HttpStream, respond: Respond, *, takes_bodies: bool = False, host: str = ""
    ) -> None:
        self._takes_bodies = takes_bodies
        self._host = host
        self._stream = stream
        self._respond = respond
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_REQUEST_HEAD_BYTES)

    async def run(self) -> None:
        """Serve. Raises OSError, trio.BrokenResourceError, trio.TooSlowError: the client left or is slow."""
        for _ in range(MAX_REQUESTS):
            try:
                asked = await self._receive()
            except h11.RemoteProtocolError as error:
                await self._refuse(_malformed(error))
                return
            if asked is None:
                return
            await self._serve(asked)
            if self._http.their_state is h11.SEND_BODY:
                await self._linger()
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    async def _receive(self) -> Asked | None:
        """The next request; None when there is none. Raises h11.RemoteProtocolError."""
        began = False
        with trio.move_on_after(KEPT_SECONDS) as waited:
            while True:
                event = self._http.next_event()
                if event is h11.NEED_DATA:
                    data = await self._stream.receive_some(RECEIVE_BYTES)
                    if data and not began:
                        began = True
                        waited.deadline = trio.current_time() + HEAD_SECONDS
                    self._http.receive_data(data)
                elif isinstance(event, h11.Request):
                    return await self._whole(event)
                else:
                    return None
        if began:
            await self._refuse(
                Failure(HTTPStatus.REQUEST_TIMEOUT, "too-slow", "the request came too slowly", "Try again.")
            )
        return None

    async def _whole(self, request: h11.Request) -> Asked:
        headers = dict(request.headers)
        if self._takes_bodies and request.method == b"POST":
            return Asked(request.method, request.target, headers, self._read_body, self._host)
        if b"transfer-encoding" in headers or headers.get(b"content-length", b"0").strip(b"0"):
            raise h11.RemoteProtocolError("a request with a body", error_status_hint=413)
        event = self._http.next_event()
        if not isinstance(event, h11.EndOfMessage):
            raise h11.RemoteProtocolError("a request with a body", error_status_hint=413)
        return Asked(request.method, request.target, headers, host=self._host)

    async def _read_body(self, most: int) -> bytes:
        """As `ReadBody`. That it comes in time is seen to by who waits for the route."""
        body = bytearray()
        if self._http.they_are_waiting_for_100_continue:
            go_on = self._http.send(h11.InformationalResponse(status_code=100, headers=[]))
            assert go_on is not None
            await self._give(go_on)
        try:
            while not isinstance(event := self._http.next_event(), h11.EndOfMessage):
                if event is h11.NEED_DATA:
                    self._http.receive_data(await self._stream.receive_some(BODY_RECEIVE_BYTES))
                elif isinstance(event, h11.Data):
                    body += event.data
                    if len(body) > most:
                        raise body_too_large(most)
        except h11.RemoteProtocolError as error:
            raise _malformed(error) from None
        return bytes(body)

    async def _linger(self) -> None:
        """Take what the client still sends of a body that nobody wants, for a moment: it would not see the
        answer if the connection were reset under it.
        """
        with trio.move_on_after(LINGER_SECONDS):
            await self._stream.send_eof()
            left = LINGER_BYTES
            while left > 0 and (data := await self._stream.receive_some(BODY_RECEIVE_BYTES)):
                left -= len(data)

    async def _serve(self, asked: Asked) -> None:
        try:
            with trio.move_on_after(ROUTE_SECONDS) as waited:
                answer = await self._respond(asked)
            if waited.cancelled_caught:
                raise Failure(
                    HTTPStatus.GATEWAY_TIMEOUT,
                    "too-long",
                    f"no answer could be made within {ROUTE_SECONDS:g} s",
                    "Ask for less, or try again when the gateway has less to do.",
                )
        except Failure as failure:
            answer = _of_failure(failure, asked.target)
        except Exception as error:
            if ends_process(error):
                raise
            logger.exception("a request to the status page failed unexpectedly: %r", asked.target[:200])
            answer = _of_failure(
                Failure(
                    HTTPStatus.INTERNAL_SERVER_ERROR, "failed", "this is a defect", "See the gateway's log."
                ),
                asked.target,
            )
        await self._send(answer, asked.method)

    async def _refuse(self, failure: Failure) -> None:
        """Answer what is no request, and end."""
        if self._http.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            answer = _of_failure(failure, b"")
            await self._send(
                Answer(answer.status, [*answer.headers, ("Connection", "close")], answer.body), b"GET"
            )

    async def _send(self, answer: Answer, method: bytes) -> None:
        headers = [*answer.headers, *SECURITY_HEADERS]
        if answer.stream is None:
            headers.append(("Content-Length", str(len(answer.body))))
        if answer.stream is not None or self._http.their_state is h11.SEND_BODY:
            headers.append(("Connection", "close"))
        response = h11.Response(status_code=answer.status.value, reason=answer.status.phrase, headers=headers)
        head = self._http.send(response)
        assert head is not None
        await self._give(head)
        if answer.stream is not None and method != b"HEAD":
            await self._stream_on(answer.stream)
        elif method != b"HEAD":
            self._http.send(h11.Data(answer.body))
            for start in range(0, len(answer.body), SEND_BYTES):
                await self._give(answer.body[start : start + SEND_BYTES])
        if self._http.our_state is h11.SEND_BODY and (end := self._http.send(h11.EndOfMessage())):
            await self._give(end)

    async def _stream_on(self, stream: Callable[[Send], Awaitable[None]]) -> None:
        """Send a stream until it ends or the client leaves, which somebody watches meanwhile."""

        async def send(data: bytes) -> None:
            made = self._http.send(h11.Data(data))
            assert made is not None
            await self._give(made)

        # A slow client is to be noticed, and not what the kernel takes in its place.
        self._stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, STREAM_BUFFER_BYTES)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._until_gone, nursery.cancel_scope)
            await stream(send)
            nursery.cancel_scope.cancel()

    async def _until_gone(self, scope: trio.CancelScope) -> None:
        """The client of a stream has nothing more to say: whatever comes, it is the end."""
        try:
            await self._stream.receive_some(RECEIVE_BYTES)
        except (OSError, trio.BrokenResourceError):
            pass  # as well
        scope.cancel()

    async def _give(self, data: bytes) -> None:
        with trio.fail_after(SEND_SECONDS):
            await self._stream.send_all(data)


def body_too_large(most: int) -> Failure:
    """A body of more bytes than are taken."""
    return Failure(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "too-large",
        f"the body has more than {most} bytes",
        "Send less at once; max.message.bytes of the topic is how much a batch may have.",
    )


def _malformed(error: h11.RemoteProtocolError) -> Failure:
    status = HTTPStatus(error.error_status_hint)
    if status is HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
        return Failure(
            status, "headers-too-long", "the headers are too long", "Send fewer, or shorter cookies."
        )
    return Failure(status, "bad-request", str(error), "Send a GET without a body, in HTTP/1.1.")


def _of_failure(failure: Failure, target: bytes) -> Answer:
    instance = target.partition(b"?")[0][:1024].decode("latin-1")
    headers = [("Content-Type", PROBLEM_TYPE), ("Cache-Control", "no-store"), *failure.headers]
    return Answer(failure.status, headers, failure.body(instance))
