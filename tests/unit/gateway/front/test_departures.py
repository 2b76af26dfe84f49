"""Clients that go away while their requests wait: nothing of them stays for longer than it must."""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.common.handlers import Request, Response
from gateway.front.departures import DEPARTURES_A_TURN
from gateway.front.limits import CHECK_SECONDS, LEFT_SECONDS, Limits
from tests.unit.gateway.kafka_wire import (
    BEGIN,
    ECHO,
    Client,
    Fakes,
    Running,
    answer,
    raw_body,
    request,
    run,
    running,
)

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="an end is seen at the next read")

LONG = 20
"""The key of an API that is parked until its client has gone."""


class Parking(Fakes):
    """`parked` requests wait; `gave_up` counts those whose clients had gone."""

    def __init__(self) -> None:
        super().__init__()
        self.parked = self.gave_up = 0

        @self.registry.api(key=LONG, name="Long", min_version=0, max_version=0, decoder=raw_body)
        async def long(request: Request, broker: Any) -> Response:
            given_up = trio.Event()
            self.parked += 1
            request.park(given_up.set)
            await given_up.wait()
            self.parked -= 1
            self.gave_up += 1
            return answer(request.header.correlation_id, b"early")


def serve(
    body: Callable[[Running, Parking], Awaitable[None]],
    clock: MockClock | None = None,
    limits: Limits | None = None,
) -> None:
    fakes = Parking()

    async def main() -> None:
        async with running(limits, fakes=fakes) as server:
            await body(server, fakes)

    run(main, clock=clock)


async def until(condition: Callable[[], bool]) -> None:
    """Let others run until the condition holds; the clock does not move."""
    while not condition():
        await trio.lowlevel.checkpoint()


def began(fakes: Parking, many: int) -> bool:
    return len(fakes.pending) == many


def reset(client: Client) -> None:
    """Leave without a word."""
    client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.stream.socket.close()


@pytest.mark.parametrize("followed", [b"", request(ECHO, 2, b"after it"), b"\0\0\0\x10half of one"])
@pytest.mark.parametrize("leave", ["close", "reset"])
def test_a_parked_request_is_given_up_when_its_client_goes(leave: str, followed: bytes) -> None:
    async def body(server: Running, fakes: Parking) -> None:
        async with server.client() as client:
            await client.send(request(LONG, 1, bytes(2000)))
            await until(lambda: fakes.parked == 1)
            if followed:
                await client.send(followed)
            if leave == "reset":
                reset(client)
        await until(lambda: not server.server.connections)
        assert (fakes.parked, fakes.gave_up) == (0, 1)
        assert server.server.context.small_request_memory.used == 0
        assert server.server.context.decoded_memory.used == 0
        assert server.server.metrics.connections_closed == {("client",): 1}

    serve(body)


def test_thousands_that_ask_and_leave_hold_no_places() -> None:
    many = 5 * DEPARTURES_A_TURN

    async def body(server: Running, fakes: Parking) -> None:
        clients = [Client(await trio.open_tcp_stream(*server.address)) for _ in range(many)]
        for client in clients:
            await client.send(request(LONG, 1))
        await until(lambda: fakes.parked == many)
        for client in clients:
            await client.stream.aclose()
        await until(lambda: not server.server.connections)
        assert fakes.gave_up == many

    serve(body, limits=Limits(max_connections=many))


def test_who_closes_only_the_sending_side_is_answered_early_and_then_closed() -> None:
    async def body(server: Running, fakes: Parking) -> None:
        async with server.client() as client:
            await client.send(request(LONG, 1), request(ECHO, 2, b"e"), request(LONG, 3))
            await client.stream.send_eof()
            assert await client.frame() == answer(1, b"early")
            assert await client.frame() == answer(2, b"e")
            assert await client.frame() == answer(3, b"early")
            assert await client.closed()

    serve(body)


def test_what_waits_for_stores_is_forgotten_a_little_later() -> None:
    clock = MockClock()

    async def body(server: Running, fakes: Parking) -> None:
        async with server.client() as client, server.client() as other:
            await client.send(request(BEGIN, 1, bytes(500)), request(ECHO, 2))
            await other.send(request(BEGIN, 3, b"stays"))
            await until(lambda: len(fakes.pending) == 2)
            await client.stream.aclose()
            await wait_all_tasks_blocked()
            assert len(server.server.connections) == 2
            for _ in range(int((LEFT_SECONDS + 2) / CHECK_SECONDS)):
                clock.jump(CHECK_SECONDS)
                await wait_all_tasks_blocked()
            assert len(server.server.connections) == 1
            assert fakes.ran == [bytes(500), b"stays"]
            fakes.pending[0].finish()  # the log calls back: nobody is there
            fakes.pending[1].finish()
            assert await other.frame() == answer(3, b"stays")
        assert server.server.metrics.connections_closed == {("client",): 1}

    serve(body, clock)


def test_what_a_producer_sent_before_it_left_is_taken_to_the_end() -> None:
    """It wants no answers and has gone, in order: as long as its requests are taken, it keeps its place."""
    clock = MockClock()
    many = 20

    async def body(server: Running, fakes: Parking) -> None:
        gate = server.server.context.produce_gate
        gate.close()
        async with server.client() as client:
            await client.send(*(request(BEGIN, n, b"%d" % n) for n in range(many)))
        for expected in range(1, many + 1):
            clock.jump(LEFT_SECONDS - CHECK_SECONDS)
            await wait_all_tasks_blocked()
            gate.open()
            await until(partial(began, fakes, expected))
            gate.close()
            fakes.pending[-1].silent = True
            fakes.pending[-1].finish()
            await wait_all_tasks_blocked()
        await until(lambda: not server.server.connections)
        assert fakes.ran == [b"%d" % n for n in range(many)]

    # A request at a time: each waits at the gate.
    serve(body, clock, Limits(max_in_flight_requests=1))
