"""Connections that are too many for their address, or come too fast; on a clock that only the test moves."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.front import server as server_module
from gateway.quotas.connection_rates import ConnectionRates
from gateway.quotas.entities import IP, Entity
from gateway.quotas.places import PlaceLimits, Places
from tests.unit.gateway.kafka_wire import ECHO, Client, Running, answer, request, run, running

RATE: dict[Entity, dict[str, float]] = {frozenset({(IP, "127.0.0.1")}): {"connection_creation_rate": 1.0}}
"""Ten at once, then one a second."""


class Scene:
    def __init__(
        self,
        server: Running,
        rates: ConnectionRates,
        places: Places,
        clock: MockClock,
        streams: AsyncExitStack,
    ) -> None:
        self.server = server
        self.rates = rates
        self.places = places
        self._clock = clock
        self._streams = streams

    async def connect(self) -> Client:
        stream = await trio.open_tcp_stream(*self.server.address)
        client = Client(await self._streams.enter_async_context(stream))
        await wait_all_tasks_blocked()
        return client

    async def passes(self, seconds: float) -> None:
        await wait_all_tasks_blocked()
        self._clock.jump(seconds)
        await wait_all_tasks_blocked()

    def refused(self) -> dict[str, float]:
        return {reason: count for (reason,), count in self.server.server.metrics.connections_refused.items()}


def serve(body: Callable[[Scene], Awaitable[None]]) -> None:
    clock = MockClock()

    async def main() -> None:
        rates = ConnectionRates(lambda: round(trio.current_time() * 1_000))
        places = Places()
        async with running(connection_rates=rates, places=places) as server, AsyncExitStack() as streams:
            await body(Scene(server, rates, places, clock, streams))

    run(main, clock)


async def is_served(client: Client) -> bool:
    await client.send(request(ECHO, 1))
    return await client.frame() == answer(1)


def test_who_connects_too_fast_is_not_read_and_hung_up_on_later() -> None:
    async def body(scene: Scene) -> None:
        scene.rates.set(lambda: RATE, is_on=True)
        for _ in range(10):
            assert await is_served(await scene.connect())
        late = await scene.connect()
        await late.send(request(ECHO, 1))
        await scene.passes(0.9)
        assert not has_ended(late)
        await scene.passes(0.2)
        assert await late.closed()
        assert scene.refused() == {"rate": 1}
        assert len(scene.server.server.connections) == 10

    serve(body)


def has_ended(client: Client) -> bool:
    """Whether the gateway has closed the connection."""
    sock = socket.socket(fileno=os.dup(client.stream.socket.fileno()))
    with sock:
        sock.setblocking(False)
        try:
            return sock.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False


def test_so_many_wait_for_their_end_and_others_are_hung_up_on_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_module, "MAX_HELD_BACK", 2)

    async def body(scene: Scene) -> None:
        scene.rates.set(lambda: RATE, is_on=True)
        for _ in range(10):
            await scene.connect()
        held = [await scene.connect() for _ in range(2)]
        assert await (await scene.connect()).closed()
        await scene.passes(1)
        assert [await one.closed() for one in held] == [True, True]
        assert scene.refused() == {"rate": 3}

    serve(body)


def test_a_gateway_that_stops_does_not_wait_for_them() -> None:
    async def body(scene: Scene) -> None:
        scene.rates.set(lambda: RATE, is_on=True)
        last = [await scene.connect() for _ in range(11)][-1]
        scene.server.server.shut_down()
        assert await last.closed()

    serve(body)


def test_an_address_has_so_many() -> None:
    async def body(scene: Scene) -> None:
        scene.places.limits = PlaceLimits(of_address=1)
        first = await scene.connect()
        assert await is_served(first)
        assert await (await scene.connect()).closed()
        scene.places.limits = PlaceLimits(of_address=1, of_some={"127.0.0.1": 2})
        assert await is_served(await scene.connect())
        assert await (await scene.connect()).closed()
        await first.stream.aclose()
        await wait_all_tasks_blocked()
        assert await is_served(await scene.connect())
        assert scene.refused() == {"ip": 2}

    serve(body)


def test_all_have_so_many() -> None:
    async def body(scene: Scene) -> None:
        scene.places.limits = PlaceLimits(all=1)
        assert await is_served(await scene.connect())
        assert await (await scene.connect()).closed()
        assert scene.refused() == {"all": 1}

    serve(body)


def test_where_connections_are_made_too_fast_the_next_one_waits() -> None:
    async def body(scene: Scene) -> None:
        scene.places.limits = PlaceLimits(per_second=1)
        for _ in range(11):
            assert await is_served(await scene.connect())
        late = await scene.connect()
        await late.send(request(ECHO, 1))
        await scene.passes(0.9)
        assert len(scene.server.server.connections) == 11
        await scene.passes(0.2)
        assert await late.frame() == answer(1)

    serve(body)
