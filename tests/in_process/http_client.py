"""An HTTP client of the status page, for tests in its process."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import h11
import trio

HOST = "127.0.0.1"


class Got(NamedTuple):
    """An answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


async def get(port: int, path: str, *, method: str = "GET", **headers: str) -> Got:
    """Ask on a connection of its own; names in `headers` have _ for -."""
    return await request(port, method, path, b"", **headers)


async def request(port: int, method: str, path: str, body: bytes, /, **headers: str) -> Got:
    """As `get`, with a body."""
    stream = await trio.open_tcp_stream(HOST, port)
    async with stream:
        http = h11.Connection(h11.CLIENT)
        await stream.send_all(_request(http, method, path, headers, body))
        response = await _next(http, stream)
        assert isinstance(response, h11.Response), response
        received = b""
        while isinstance(event := await _next(http, stream), h11.Data):
            received += bytes(event.data)
    shown = {name.decode(): value.decode() for name, value in response.headers}
    return Got(response.status_code, shown, received)


async def ask(port: int, path: str) -> Any:
    """The JSON of a route that answers."""
    got = await get(port, f"/api/v1/{path}")
    assert got.status == 200, got.body
    return got.json()


class Event(NamedTuple):
    """One server-sent event."""

    name: str
    data: Any
    id: str


class EventStream:
    """A stream of events that is read; `raw` is its socket."""

    def __init__(self, http: h11.Connection, stream: trio.SocketStream) -> None:
        self.raw = stream
        self._http = http
        self._text = b""

    async def block(self) -> bytes:
        """The next event or comment, as it was sent."""
        while b"\n\n" not in self._text:
            event = await _next(self._http, self.raw)
            assert isinstance(event, h11.Data), f"the stream has ended: {event}"
            self._text += bytes(event.data)
        block, _, self._text = self._text.partition(b"\n\n")
        return block

    async def next(self, name: str = "") -> Event:
        """The next event, of that name."""
        while True:
            block = await self.block()
            fields = dict(line.split(": ", 1) for line in block.decode().split("\n") if ": " in line)
            if "data" in fields and (not name or fields["event"] == name):
                return Event(fields["event"], json.loads(fields["data"]), fields.get("id", ""))


@asynccontextmanager
async def events(port: int, query: str, **headers: str) -> AsyncIterator[EventStream]:
    """A stream of events for the length of the block."""
    async with stream_of(port, f"/api/v1/events?{query}", **headers) as stream:
        yield stream


@asynccontextmanager
async def stream_of(port: int, path: str, **headers: str) -> AsyncIterator[EventStream]:
    """What this path streams, for the length of the block."""
    stream = await trio.open_tcp_stream(HOST, port)
    try:
        http = h11.Connection(h11.CLIENT)
        await stream.send_all(_request(http, "GET", path, headers))
        response = await _next(http, stream)
        assert isinstance(response, h11.Response), response
        assert response.status_code == 200, response
        yield EventStream(http, stream)
    finally:
        await trio.aclose_forcefully(stream)


def _request(
    http: h11.Connection, method: str, path: str, headers: dict[str, str], body: bytes = b""
) -> bytes:
    given = {"Host": "localhost"} | {name.replace("_", "-"): value for name, value in headers.items()}
    if body:
        given["Content-Length"] = str(len(body))
    head = http.send(h11.Request(method=method, target=path, headers=list(given.items())))
    assert head is not None
    sent = http.send(h11.Data(body)) if body else b""
    return head + (sent or b"") + (http.send(h11.EndOfMessage()) or b"")


async def _next(http: h11.Connection, stream: trio.SocketStream) -> Any:
    while (event := http.next_event()) is h11.NEED_DATA:
        http.receive_data(await stream.receive_some(1 << 16))
    return event
