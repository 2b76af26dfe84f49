"""The HTTP server of the status page: accepts, asks the guard, and hands to routes and files."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

import trio

from gateway.common.access_token import CHALLENGE
from gateway.common.failures import ends_process
from gateway.common.visitors import Visitors
from gateway.front.door import Door
from gateway.front.listener_sockets import ListenerSocket
from gateway.front.listeners import ListenerSpec, join_host_port
from gateway.http.connection import Answer, Asked, HttpConnection
from gateway.http.failures import Failure, wrong_method
from gateway.http.guard import Guard
from gateway.http.limits import MAX_HTTP_CONNECTIONS
from gateway.http.router import API, Ask, Router
from gateway.http.static import INDEX, StaticFile, load_files
from gateway.http.table import routes
from gateway.http.target import Target, parse_target
from gateway.http.texts import encoded
from gateway.http.view import View

POST: Final = b"POST"

METHODS: Final = frozenset((b"GET", b"HEAD"))

NO_STORE: Final = ("Cache-Control", "no-store")

logger = logging.getLogger(__name__)


OF_RECORDS: Final = ("/records", "/records/{offset}")
"""How the paths end of routes that read or append records."""


class HttpServer:
    """One listener's. `serve` until cancelled."""

    def __init__(self, spec: ListenerSpec, view: View, door: Door | None = None) -> None:
        self.addresses: tuple[str, ...] = ()
        """Where it answers, as HOST:PORT."""
        self.view = view
        self._door = door or Door("--http")
        self._guard = Guard(spec)
        self._router = Router(routes(data=view.data))
        self._methods = METHODS | {POST} if view.data else METHODS
        self._files = load_files()
        self._visitors = Visitors(MAX_HTTP_CONNECTIONS)

    async def serve(
        self,
        sockets: Sequence[ListenerSocket],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Answer on these listening sockets, and close them. Raises ProcessEnds when a route did."""
        self.addresses = tuple(join_host_port(*entry.socket.getsockname()[:2]) for entry in sockets)
        _mention_open_door(sockets, self._door, hidden=self.view.hide_values, data=self.view.data)
        listeners = [trio.SocketListener(trio.socket.from_stdlib_socket(entry.socket)) for entry in sockets]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.view.run)
            await nursery.start(trio.serve_listeners, self._client, listeners)
            task_status.started()

    async def _client(self, stream: trio.SocketStream) -> None:
        async with stream:
            try:
                host = stream.socket.getpeername()[0]
                with self._visitors.visit(host):
                    opened = await self._door.open(stream)
                    if opened is None:
                        return
                    async with opened:
                        takes = self.view.data
                        await HttpConnection(opened, self.respond, takes_bodies=takes, host=host).run()
            except* (OSError, trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
                pass  # the client left, or is too slow to matter
            except* Exception as group:
                if ends_process(group):
                    raise
                logger.exception("a connection to the status page failed unexpectedly")

    async def respond(self, asked: Asked) -> Answer:
        """The answer to one request. Raises Failure."""
        if asked.method not in self._methods:
            raise Failure(
                HTTPStatus.METHOD_NOT_ALLOWED,
                "method",
                "that is not done here" if self.view.data else "nothing here is changed",
                "Use GET or HEAD; POST appends records where the gateway runs with --http-data.",
                (("Allow", "GET, HEAD, POST" if self.view.data else "GET, HEAD"),),
            )
        target = parse_target(asked.target)
        is_api = target.parts[0] == API[0]
        self._guard.check(asked.headers, page=not is_api)
        if not self._door.lets_in(asked.headers.get(b"authorization", b""), asked.host):
            raise Failure(
                HTTPStatus.UNAUTHORIZED,
                "no-token",
                "a token is needed, and the request shows none, or another one",
                "Send it as 'Authorization: Bearer TOKEN', or as the password of any user name; it is in the "
                "file of --http-token-file.",
                CHALLENGE,
            )
        if asked.method == POST:
            self._guard.check_origin(asked.headers)
            if not is_api:
                raise wrong_method(["GET", "HEAD"])
        return await self._route(target, asked) if is_api else self._file(target, asked)

    async def _route(self, target: Target, asked: Asked) -> Answer:
        parts = target.parts[len(API) :] if target.parts[: len(API)] == API else ()
        route, places = self._router.find(parts, "POST" if asked.method == POST else "GET")
        if route.path.endswith(OF_RECORDS) and self.view.surroundings.is_suspended():
            raise Failure(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "not-ready",
                self.view.surroundings.not_ready_because() or "the gateway is suspended",
                "Ask another gateway, or try again in a moment.",
                (("Retry-After", "1"),),
            )
        ask = Ask(self.view, target, places, asked.headers, asked.read_body, asked.host)
        made = await route.handler(ask)
        if isinstance(made, Answer):
            return made
        async with self.view.turns.working():
            body = await encoded(made, self.view.turns)
        return Answer(HTTPStatus.OK, [("Content-Type", route.content_type), NO_STORE], body)

    def _file(self, target: Target, asked: Asked) -> Answer:
        name = "/".join(target.parts) or INDEX
        file = self._files.get(name)
        if file is None:
            raise Failure(
                HTTPStatus.NOT_FOUND,
                "unknown-path",
                "there is nothing at this path",
                "The status page is at /, its JSON below /api/v1.",
            )
        return _of_file(file, asked.headers)


def _of_file(file: StaticFile, headers: dict[bytes, bytes]) -> Answer:
    shown = [("ETag", file.etag), ("Cache-Control", "no-cache"), ("Vary", "Accept-Encoding")]
    known = headers.get(b"if-none-match", b"").decode("latin-1")
    if file.etag in {part.strip().removeprefix("W/") for part in known.split(",")}:
        return Answer(HTTPStatus.NOT_MODIFIED, shown)
    shown.append(("Content-Type", file.content_type))
    if file.compressed is not None and b"gzip" in headers.get(b"accept-encoding", b""):
        return Answer(HTTPStatus.OK, [*shown, ("Content-Encoding", "gzip")], file.compressed)
    return Answer(HTTPStatus.OK, shown, file.content)


def _mention_open_door(sockets: Sequence[ListenerSocket], door: Door, *, hidden: bool, data: bool) -> None:
    """Say where the page is, and what it means where others can reach it."""
    for entry in sockets:
        host, port = entry.socket.getsockname()[:2]
        where = join_host_port(host, port)
        logger.info("the status page is at %s://%s/", door.scheme, where)
        if host.startswith("127.") or host == "::1":
            continue
        if door.token is not None and door.scheme == "http":
            logger.warning(
                "the token of the status page on %s can be read on its way by whoever is in between: give "
                "--http-tls, or bind it to 127.0.0.1 and have a proxy with TLS in front of it",
                where,
            )
        elif door.token is None:
            logger.warning(
                "the status page on %s has no password: whoever reaches it sees %s%s. Give "
                "--http-token-file, bind it to 127.0.0.1, or have a proxy with a login in front of it",
                where,
                "topics and groups"
                if hidden
                else "topics, groups and records (--http-no-values hides these)",
                ", and appends records" if data else "",
            )
