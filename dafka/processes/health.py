"""`/metrics` and `/health` over HTTP, for Prometheus, Docker, Kubernetes and people.

    GET /metrics        Prometheus' text format
    GET /health         200 when ready to serve, 503 before, while stopping, and while a store fetches what it
                        missed; a JSON object says which
    GET /health/live    200 as long as the process answers at all
    GET /health/ready   as /health

As little of HTTP/1.1 as that needs (RFC 9112): a GET or HEAD without a body, one request per connection.
Whatever else comes is answered with an error and closed. Every wait has a deadline and every size a bound,
since these ports are left open to more than they should be; metrics may need a token, health needs none, and
both may be over TLS (`gateway.front.door`); health is answered however many scrape slowly
(`gateway.common.visitors`), and metrics take no more of the loop than a little at a time
(`dafka.processes.scrapes`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from http import HTTPStatus
from typing import TypeAlias

import trio

from dafka.processes.scrapes import Scrapes
from dafka.version import VERSION
from gateway.common.access_token import CHALLENGE
from gateway.common.metrics import Metrics
from gateway.common.visitors import Visitors
from gateway.front.door import Door, HttpStream
from gateway.front.listener_sockets import ListenerSocket

MAX_HEAD_BYTES = 8 * 1024
"""Bytes of a request's first line and headers; nginx and Apache allow 8 KiB for one header."""

REQUEST_SECONDS = 5.0
"""Seconds for the whole request to arrive."""

ANSWER_SECONDS = 10.0
"""Seconds for the client to read the answer; Prometheus gives up a scrape after 10 s."""

METRICS = "/metrics"
"""What a token is needed for, where there is one: whoever looks after a process asks for its health without
it.
"""

_NO_TOKEN = (
    b"a token is needed: send it as 'Authorization: Bearer TOKEN', or as the password of any user name; it "
    b"is in the file of --metrics-token-file\n"
)

_TEXT = "text/plain; charset=utf-8"

Page: TypeAlias = tuple[HTTPStatus, str, bytes]
"""Status, content type, body."""

Pages: TypeAlias = dict[str, Callable[[], Awaitable[Page]]]
"""Pages by path."""

logger = logging.getLogger(__name__)


class Health:
    """Whether the process is ready, and why not.

    Args:
        lacks: what it lacks at the moment, once it has begun to serve; None: nothing.
    """

    def __init__(self, lacks: Callable[[], str | None] = lambda: None) -> None:
        self._because: str | None = "starting"
        self._lacks = lacks

    def ready(self) -> None:
        self._because = None

    def not_ready(self, why: str) -> None:
        self._because = why

    @property
    def not_ready_because(self) -> str | None:
        return self._because or self._lacks()

    @property
    def is_ready(self) -> bool:
        return self.not_ready_because is None


def register_process(metrics: Metrics, health: Health) -> None:
    """Show Prometheus whether the process is ready, and which version it is."""
    metrics.gauge("dafka_ready", "Whether the process is ready to serve: 1 or 0.", lambda: health.is_ready)
    version = {(VERSION,): 1.0}
    metrics.gauge("dafka_build_info", "1; the version is in the label.", lambda: version, ("version",))


async def serve_health(
    sockets: Sequence[ListenerSocket],
    health: Health,
    metrics: Metrics,
    door: Door | None = None,
    *,
    task_status: trio.TaskStatus[list[trio.SocketListener]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answers on these listening sockets until it is cancelled, and closes them.

    It should go on while the gateway stops: only then can others see that it is not ready.
    """
    # Here, and not with the first scrape: it takes 20 ms. Who serves no metrics does without.
    from prometheus_client import CONTENT_TYPE_LATEST

    register_process(metrics, health)
    scrapes, visitors, door = Scrapes(metrics), Visitors(), door or Door("--metrics")

    async def shown() -> Page:
        return HTTPStatus.OK, CONTENT_TYPE_LATEST, await scrapes.text()

    async def ready() -> Page:
        return _readiness(health)

    async def live() -> Page:
        return HTTPStatus.OK, "application/json", b'{"live": true}\n'

    pages: Pages = {METRICS: shown, "/health": ready, "/health/ready": ready, "/health/live": live}

    async def answer(stream: trio.SocketStream) -> None:
        async with stream:
            try:
                host = stream.socket.getpeername()[0]
                with visitors.visit(host):
                    opened = await door.open(stream)
                    if opened is not None:
                        async with opened:
                            await _answer(opened, pages, partial(door.lets_in, host=host))
            except (OSError, trio.BrokenResourceError, trio.TooSlowError):
                pass  # the client left, or is too slow to matter
            except Exception:  # logged; the next scrape may work
                logger.exception("a page could not be made")

    listeners = [trio.SocketListener(trio.socket.from_stdlib_socket(entry.socket)) for entry in sockets]
    await trio.serve_listeners(answer, listeners, task_status=task_status)


async def _answer(stream: HttpStream, pages: Pages, lets_in: Callable[[bytes], bool]) -> None:
    with trio.fail_after(REQUEST_SECONDS):
        head = await _read_head(stream)
    method, _, rest = head.partition(b"\r\n")[0].partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0].decode("latin-1")
    if not head:
        status, kind, body = HTTPStatus.BAD_REQUEST, _TEXT, b"not a request, or too long\n"
    elif method not in {b"GET", b"HEAD"}:
        status, kind, body = HTTPStatus.METHOD_NOT_ALLOWED, _TEXT, b"only GET\n"
    elif path not in pages:
        status, kind, body = HTTPStatus.NOT_FOUND, _TEXT, f"try {', '.join(pages)}\n".encode()
    elif path == METRICS and not lets_in(_authorization(head)):
        status, kind, body = HTTPStatus.UNAUTHORIZED, _TEXT, _NO_TOKEN
    else:
        status, kind, body = await pages[path]()
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "Connection: close",
        *(["Allow: GET, HEAD"] if status is HTTPStatus.METHOD_NOT_ALLOWED else []),
        *([": ".join(header) for header in CHALLENGE] if status is HTTPStatus.UNAUTHORIZED else []),
        "\r\n",
    ]
    with trio.fail_after(ANSWER_SECONDS):
        await stream.send_all("\r\n".join(lines).encode("latin-1"))
        if method != b"HEAD":
            await stream.send_all(body)  # as it is: many may read the same large text slowly
        await stream.send_eof()


def _authorization(head: bytes) -> bytes:
    """The value of that header; b"" without one."""
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"authorization":
            return value
    return b""


async def _read_head(stream: HttpStream) -> bytes:
    """The request up to the empty line; b"" when the client closes before it, or it is too long."""
    head = b""
    while b"\r\n\r\n" not in head:
        chunk = await stream.receive_some(MAX_HEAD_BYTES + 1 - len(head))
        head += chunk
        if not chunk or len(head) > MAX_HEAD_BYTES:
            return b""
    return head


def _readiness(health: Health) -> Page:
    state = {"live": True, "ready": health.is_ready}
    if health.is_ready:
        return HTTPStatus.OK, "application/json", json.dumps(state).encode() + b"\n"
    body = json.dumps({**state, "because": health.not_ready_because}).encode() + b"\n"
    return HTTPStatus.SERVICE_UNAVAILABLE, "application/json", body
