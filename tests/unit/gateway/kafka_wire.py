"""A gateway server on a free port, with APIs of the test's own, and clients that speak raw bytes to it."""

from __future__ import annotations

import ssl
import struct
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import trio
from trio.abc import Clock

from gateway.api import api_versions
from gateway.audit.audit import Audit
from gateway.cluster.features import Features
from gateway.common.handlers import Registry, Request, Response
from gateway.common.metrics import Metrics
from gateway.front.limits import Limits
from gateway.front.listener_sockets import open_listeners
from gateway.front.listeners import Listener, parse_listener
from gateway.front.principal_rules import PrincipalRules
from gateway.front.server import Server
from gateway.quotas.client_quotas import ClientQuotas
from gateway.quotas.connection_rates import ConnectionRates
from gateway.quotas.places import Places
from gateway.security.access import Access, Unrestricted
from gateway.security.principal import Principal
from gateway.security.sasl_session import SaslSession
from tests.unit.gateway.catalog.memory import MemoryCatalog
from wireproto.kafka.api_keys import is_flexible

ECHO = 3
"""The key of an API that answers with the body it was sent (Metadata's key: version 0 has a plain header)."""

PARK = 19
"""The key of an API that waits for the test, or for the gateway to stop, then answers with the body."""

HANG_SECONDS = 60
"""Real time after which a test counts as hung. No test comes near it."""

BEGIN = 0
"""The key of a two-phase API (Produce's): the test decides when it is answered."""


def request(
    key: int, correlation_id: int, body: bytes = b"", *, version: int = 0, client: str = "t"
) -> bytes:
    """A framed request with the header that its version has."""
    name = client.encode()
    tags = b"\0" if is_flexible(key, version) else b""
    frame = struct.pack(">hhih", key, version, correlation_id, len(name)) + name + tags + body
    return struct.pack(">i", len(frame)) + frame


def answer(correlation_id: int, body: bytes = b"") -> bytes:
    """A framed answer with a header v0."""
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


class ProduceBody(NamedTuple):
    """What the connection needs of a Produce request, and the bytes of the test."""

    content: bytes
    timeout_ms: int = 60_000
    elements: int = 1


def raw_body(_version: int, frame: memoryview, offset: int) -> memoryview:
    """A decoder for APIs that take the body as it is."""
    return frame[offset:]


def produce_body(_version: int, frame: memoryview, offset: int) -> ProduceBody:
    return ProduceBody(bytes(frame[offset:]))


class Pending:
    """A pending answer that the test completes."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.body = request.body.content
        self.ready = False
        self.error: Exception | None = None
        self.silent = False
        self._call: Callable[[], None] | None = None

    def when_ready(self, call: Callable[[], None]) -> None:
        self._call = call

    def forget(self) -> None:
        self._call = None

    def finish(self) -> None:
        self.ready = True
        if self._call is not None:
            self._call()

    def response(self) -> Response:
        if self.error is not None:
            raise self.error
        return None if self.silent else answer(self.request.header.correlation_id, self.body)


class Fakes:
    """A registry with the three APIs above and what was asked of them, in the order in which it ran."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.ran: list[bytes] = []
        self.pending: list[Pending] = []
        self.release = trio.Event()
        api_versions.register(self.registry)

        @self.registry.api(key=ECHO, name="Echo", min_version=0, max_version=0, decoder=raw_body)
        async def echo(request: Request, broker: Any) -> Response:
            self.ran.append(bytes(request.body))
            return answer(request.header.correlation_id, bytes(request.body))

        @self.registry.api(key=PARK, name="Park", min_version=0, max_version=0, decoder=raw_body)
        async def park(request: Request, broker: Any) -> Response:
            self.ran.append(bytes(request.body))
            async with trio.open_nursery() as nursery:
                for event in (self.release, request.shutting_down):
                    nursery.start_soon(_cancel_when, event, nursery.cancel_scope)
            return answer(request.header.correlation_id, bytes(request.body))

        @self.registry.api(
            key=BEGIN, name="Begin", min_version=0, max_version=0, decoder=produce_body, begin=True
        )
        async def begin(request: Request, broker: Any) -> Pending:
            pending = Pending(request)
            self.ran.append(pending.body)
            self.pending.append(pending)
            return pending


async def _cancel_when(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


def run(main: Callable[[], Awaitable[None]], clock: Clock | None = None) -> None:
    """As `trio.run`, but gives up after HANG_SECONDS of real time: a test that waits for ever has failed."""

    async def watched() -> None:
        token = trio.lowlevel.current_trio_token()
        with trio.CancelScope() as scope:
            timer = threading.Timer(HANG_SECONDS, token.run_sync_soon, [scope.cancel])
            timer.daemon = True
            timer.start()
            try:
                await main()
            finally:
                timer.cancel()
        assert not scope.cancelled_caught, f"still waiting after {HANG_SECONDS} s"

    trio.run(watched, clock=clock)


class Client:
    """A raw client."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._received = bytearray()

    async def send(self, *frames: bytes) -> None:
        await self.stream.send_all(b"".join(frames))

    async def read(self, size: int) -> bytes:
        """Exactly `size` bytes; what there is if the gateway closed before."""
        while len(self._received) < size:
            try:
                chunk = await self.stream.receive_some(1 << 20)
            except trio.BrokenResourceError:
                chunk = b""
            if not chunk:
                break
            self._received += chunk
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken

    async def frame(self) -> bytes:
        """The next answer with its size field, b"" if the gateway closed."""
        size = await self.read(4)
        return size + await self.read(int.from_bytes(size, "big")) if size else b""

    async def closed(self) -> bool:
        """Waits until the gateway closes; True if nothing more came from it."""
        return await self.read(1) == b""


class Running:
    """A server that runs, and its address."""

    def __init__(self, server: Server, address: tuple[str, int], fakes: Fakes) -> None:
        self.server = server
        self.address = address
        self.fakes = fakes

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        stream = await trio.open_tcp_stream(*self.address)
        async with stream:
            yield Client(stream)


@asynccontextmanager
async def running(
    limits: Limits | None = None,
    listen: str = "127.0.0.1:0",
    fakes: Fakes | None = None,
    begin_session: Callable[[Listener], SaslSession | None] = lambda _listener: None,
    tls_of: Callable[[Listener], ssl.SSLContext | None] = lambda _listener: None,
    principal_rules: PrincipalRules | None = None,
    grant: Callable[[Principal, str], Access] = lambda principal, _address: Unrestricted(principal),
    audit: Audit | None = None,
    quotas: ClientQuotas | None = None,
    connection_rates: ConnectionRates | None = None,
    places: Places | None = None,
) -> AsyncIterator[Running]:
    """A server for the length of the block, then shut down in order."""
    fakes = fakes or Fakes()
    broker = SimpleNamespace(
        features=Features(MemoryCatalog(), 1),  # what ApiVersions tells
        context=SimpleNamespace(now_ms=lambda: round(trio.current_time() * 1000)),
    )
    server = Server(
        registry=fakes.registry, broker=cast(Any, broker), metrics=Metrics(with_process=False), limits=limits,
        hurry=lambda _client: fakes.release.set(), begin_session=begin_session, tls_of=tls_of,
        principal_rules=principal_rules, grant=grant, audit=audit,
        quotas=quotas, connection_rates=connection_rates, places=places,
    )  # fmt: skip
    sockets = await open_listeners([parse_listener(listen)])
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve, sockets)
        yield Running(server, sockets[0].socket.getsockname()[:2], fakes)
        server.shut_down()
