"""A Produce that has to wait before it has begun: what went before leaves, what follows keeps its place, and
nothing stays behind when the connection ends meanwhile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.common.handlers import Request
from gateway.front.limits import Limits
from tests.unit.gateway.kafka_wire import (
    BEGIN,
    ECHO,
    Client,
    Fakes,
    Pending,
    Running,
    answer,
    produce_body,
    request,
    run,
    running,
)

WAITS = 1
"""The key of a Produce that waits before it begins: for the log's room, or for work beside the loop."""

KIB = 1024


class Waiting(Fakes):
    """`steps` are what each request of the API waits for, one after the other."""

    def __init__(self, *, for_room: bool = False) -> None:
        super().__init__()
        self.steps = [trio.Event(), trio.Event()]
        self.cancelled = 0

        @self.registry.api(
            key=WAITS, name="Waits", min_version=0, max_version=0, decoder=produce_body, begin=True
        )
        async def begin(request: Request, broker: Any) -> Pending:
            self.ran.append(b"waits: " + request.body.content)
            try:
                for step in self.steps:
                    if not step.is_set():
                        await (request.wait_for_room if for_room else request.wait)(step.wait)
            except trio.Cancelled:
                self.cancelled += 1
                raise
            pending = Pending(request)
            self.ran.append(pending.body)
            self.pending.append(pending)
            return pending


def serve(
    fakes: Waiting, body: Callable[[Running, Client], Awaitable[None]], limits: Limits | None = None
) -> None:
    async def main() -> None:
        async with running(limits, fakes=fakes) as server, server.client() as client:
            await body(server, client)

    run(main)


def held(server: Running) -> list[int]:
    """Bytes of every budget that are taken."""
    context = server.server.context
    return [
        budget.used
        for budget in (
            context.request_memory,
            context.small_request_memory,
            context.decoded_memory,
            context.produced_memory,
            context.room_memory,
            context.response_memory,
        )
    ]


def test_answers_that_are_ready_leave_before_it_waits() -> None:
    fakes = Waiting()

    async def body(server: Running, client: Client) -> None:
        await client.send(request(ECHO, 1, b"a"), request(ECHO, 2, b"b"), request(WAITS, 3, b"c"))
        assert [await client.frame() for _ in range(2)] == [answer(1, b"a"), answer(2, b"b")]
        await wait_all_tasks_blocked()
        assert fakes.ran == [b"a", b"b", b"waits: c"]

    serve(fakes, body)


def test_answers_that_become_durable_while_it_waits_leave_at_once() -> None:
    fakes = Waiting()

    async def body(server: Running, client: Client) -> None:
        await client.send(request(BEGIN, 1, b"a"), request(WAITS, 2, b"b"))
        await wait_all_tasks_blocked()
        fakes.pending[0].finish()
        assert await client.frame() == answer(1, b"a")
        assert fakes.ran == [b"a", b"waits: b"]

    serve(fakes, body)


def test_what_follows_begins_after_it_and_is_answered_after_it() -> None:
    fakes = Waiting()

    async def body(server: Running, client: Client) -> None:
        await client.send(request(WAITS, 1, b"a"), request(BEGIN, 2, b"b"), request(ECHO, 3, b"c"))
        async with server.client() as other:
            for step in fakes.steps:
                await wait_all_tasks_blocked()
                assert fakes.ran == [b"waits: a"], "it begins once, and nothing overtakes it"
                step.set()
            await wait_all_tasks_blocked()
            assert fakes.ran == [b"waits: a", b"a", b"b"]
            await other.send(request(ECHO, 9, b"others"))
            assert await other.frame() == answer(9, b"others")
        for pending in reversed(fakes.pending):
            pending.finish()
        expected = [answer(1, b"a"), answer(2, b"b"), answer(3, b"c")]
        assert [await client.frame() for _ in range(3)] == expected

    serve(fakes, body)


@pytest.mark.parametrize("size", [10, 40 * KIB])
@pytest.mark.parametrize("for_room", [False, True])
def test_a_connection_that_is_closed_while_it_waits_holds_nothing_any_more(for_room: bool, size: int) -> None:
    fakes = Waiting(for_room=for_room)

    async def body(server: Running, client: Client) -> None:
        async with server.client() as other:
            await other.send(request(BEGIN, 1, b"a"), request(WAITS, 2, bytes(size)))
            await wait_all_tasks_blocked()
            assert sum(held(server)) > size
            assert (server.server.context.room_memory.used > size) is for_room
            (connection,) = (one for one in server.server.connections if one.memory.in_flight)
            connection.close("a test")
            assert await other.closed()
        await wait_all_tasks_blocked()
        assert held(server) == [0] * 6
        assert (fakes.cancelled, len(fakes.pending)) == (1, 1)
        fakes.pending[0].finish()  # the log calls back: nobody is there
        for step in fakes.steps:
            step.set()
        await client.send(request(WAITS, 3, b"alive"))
        await wait_all_tasks_blocked()
        fakes.pending[1].finish()
        assert await client.frame() == answer(3, b"alive")

    serve(fakes, body)


def test_a_client_that_goes_away_while_it_waits_is_let_go_when_it_has_begun() -> None:
    fakes = Waiting(for_room=True)

    async def body(server: Running, _client: Client) -> None:
        async with server.client() as other:
            await other.send(request(WAITS, 1, b"a"))
            await wait_all_tasks_blocked()
        for step in fakes.steps:
            step.set()
        await wait_all_tasks_blocked()
        fakes.pending[0].finish()
        await wait_all_tasks_blocked()
        assert held(server) == [0] * 6
        assert len(server.server.connections) == 1
        assert server.server.metrics.connections_closed == {("client",): 1}

    serve(fakes, body)


def test_who_finds_no_room_is_closed_after_the_answers_before_it() -> None:
    fakes = Waiting(for_room=True)

    async def body(server: Running, client: Client) -> None:
        async with server.client() as other:
            await client.send(request(WAITS, 1, bytes(100)))
            await wait_all_tasks_blocked()
            await other.send(request(BEGIN, 1, b"a"), request(ECHO, 2, b"b"), request(WAITS, 3, bytes(100)))
            await wait_all_tasks_blocked()
            fakes.pending[0].finish()
            assert [await other.frame() for _ in range(2)] == [answer(1, b"a"), answer(2, b"b")]
            assert await other.closed()
        assert server.server.metrics.connections_closed == {("memory",): 1}
        for step in fakes.steps:
            step.set()
        await wait_all_tasks_blocked()
        fakes.pending[1].finish()
        assert await client.frame() == answer(1, bytes(100))
        assert held(server) == [0] * 6

    serve(fakes, body, Limits(room_memory_bytes=150))
