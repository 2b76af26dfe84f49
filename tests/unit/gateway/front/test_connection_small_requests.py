"""The short ways of small requests: at once, and begun without a task; large ones go to the handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from trio.testing import wait_all_tasks_blocked

from gateway.common.handlers import MAX_AT_ONCE_BYTES, Request, Response
from gateway.front.limits import MIN_COUNTED_REQUEST_BYTES
from tests.unit.gateway.kafka_wire import (
    BEGIN,
    ECHO,
    Client,
    Fakes,
    Pending,
    Running,
    answer,
    produce_body,
    raw_body,
    request,
    run,
    running,
)
from wireproto.kafka.errors import MalformedRequest
from wireproto.kafka.headers import RequestHeader

COMMIT = 8
HEARTBEAT = 12
LARGE = bytes(MIN_COUNTED_REQUEST_BYTES)


class ShortWays(Fakes):
    """Two more APIs: one that begins when its request is small, and one that may be answered at once."""

    def __init__(self) -> None:
        super().__init__()
        self.at_once: list[bytes] = []

        def begin_small(request: Request, broker: Any) -> Pending:
            pending = Pending(request)
            self.ran.append(pending.body)
            self.pending.append(pending)
            return pending

        def at_once(
            header: RequestHeader, frame: memoryview, _address: Any, _access: Any, broker: Any
        ) -> Response:
            body = bytes(frame[header.body_offset :])
            if body == b"bad":
                raise MalformedRequest("bad")
            self.at_once.append(body)
            return answer(header.correlation_id, body) if body != b"ask the handler" else None

        @self.registry.api(
            key=COMMIT, name="Commit", min_version=2, max_version=2, decoder=produce_body,
            begin_small=begin_small,
        )  # fmt: skip
        async def commit(request: Request, broker: Any) -> Response:
            self.ran.append(b"handler")
            return answer(request.header.correlation_id, b"handler")

        @self.registry.api(
            key=HEARTBEAT, name="Heartbeat", min_version=0, max_version=0, decoder=raw_body, at_once=at_once
        )
        async def heartbeat(request: Request, broker: Any) -> Response:
            self.ran.append(b"handler")
            return answer(request.header.correlation_id, b"handler")


def serve(body: Callable[[Running, Client, ShortWays], Awaitable[None]]) -> None:
    async def main() -> None:
        fakes = ShortWays()
        async with running(fakes=fakes) as server, server.client() as client:
            await body(server, client, fakes)

    run(main)


def commit(correlation_id: int, body: bytes) -> bytes:
    return request(COMMIT, correlation_id, body, version=2)


def test_small_commits_begin_behind_each_other_and_are_answered_in_order() -> None:
    async def body(server: Running, client: Client, fakes: ShortWays) -> None:
        await client.send(commit(1, b"a"), request(BEGIN, 2, b"p"), commit(3, b"b"))
        await wait_all_tasks_blocked()
        assert fakes.ran == [b"a", b"p", b"b"]
        for pending in reversed(fakes.pending):
            pending.finish()
        assert [await client.frame() for _ in range(3)] == [answer(1, b"a"), answer(2, b"p"), answer(3, b"b")]

    serve(body)


def test_a_large_commit_has_its_turn_when_all_before_it_are_answered() -> None:
    async def body(server: Running, client: Client, fakes: ShortWays) -> None:
        await client.send(commit(1, b"a"), commit(2, LARGE), commit(3, b"b"))
        await wait_all_tasks_blocked()
        assert fakes.ran == [b"a"]
        fakes.pending[0].finish()
        assert [await client.frame() for _ in range(2)] == [answer(1, b"a"), answer(2, b"handler")]
        await wait_all_tasks_blocked()
        assert fakes.ran == [b"a", b"handler", b"b"]
        fakes.pending[1].finish()
        assert await client.frame() == answer(3, b"b")

    serve(body)


def test_commits_do_not_wait_at_the_gate_of_producers() -> None:
    async def body(server: Running, client: Client, fakes: ShortWays) -> None:
        server.server.context.produce_gate.close()
        await client.send(commit(1, b"a"))
        await wait_all_tasks_blocked()
        fakes.pending[0].finish()
        assert await client.frame() == answer(1, b"a")

    serve(body)


@pytest.mark.parametrize(
    ("content", "answered", "asked"),
    [
        (b"beat", b"beat", [b"beat"]),
        (b"ask the handler", b"handler", [b"ask the handler"]),
        (bytes(MAX_AT_ONCE_BYTES), b"handler", []),
    ],
)
def test_what_cannot_be_answered_at_once_is_the_handlers(
    content: bytes, answered: bytes, asked: list[bytes]
) -> None:
    async def body(server: Running, client: Client, fakes: ShortWays) -> None:
        await client.send(request(HEARTBEAT, 1, content), request(ECHO, 2, b"next"))
        assert [await client.frame() for _ in range(2)] == [answer(1, answered), answer(2, b"next")]
        assert fakes.at_once == asked
        stats = server.server.context.metrics.api(HEARTBEAT, "Heartbeat")
        assert (stats.requests, stats.response_bytes) == (1, 8 + len(answered))
        assert server.server.context.small_request_memory.used == 0

    serve(body)


def test_nothing_is_answered_before_what_began_before_it() -> None:
    async def body(server: Running, client: Client, fakes: ShortWays) -> None:
        await client.send(commit(1, b"a"), request(HEARTBEAT, 2, b"beat"))
        await wait_all_tasks_blocked()
        assert fakes.at_once == []
        fakes.pending[0].finish()
        assert [await client.frame() for _ in range(2)] == [answer(1, b"a"), answer(2, b"handler")]

    serve(body)


def test_bytes_that_are_no_request_close_the_connection_after_the_answers_before_them() -> None:
    async def body(server: Running, client: Client, fakes: ShortWays) -> None:
        await client.send(request(HEARTBEAT, 1, b"beat"), request(HEARTBEAT, 2, b"bad"))
        assert await client.frame() == answer(1, b"beat")
        assert await client.closed()

    serve(body)
