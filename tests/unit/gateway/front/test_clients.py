"""Places and memory for each client: the greedy have to do with themselves."""

from __future__ import annotations

import logging
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.common.clients import LOOPBACK, NOBODY, client_of, network_of
from gateway.common.costs import ELEMENT, REQUEST
from gateway.common.handlers import Request, Response
from gateway.common.shared_budget import SharedBudget
from gateway.common.turns import TURN
from gateway.front import clients
from gateway.front.clients import Client, Clients
from gateway.front.limits import CHECK_SECONDS, KNOWN_SECONDS, MAX_KNOWN_CLIENTS, STARVED_SECONDS, Limits
from tests.unit.gateway import kafka_wire
from tests.unit.gateway.kafka_wire import (
    BEGIN,
    ECHO,
    Fakes,
    Running,
    answer,
    raw_body,
    request,
    run,
    running,
)

KIB = 1024

NAMES = 9
"""The key of an API that works off names without end."""


@pytest.mark.parametrize(
    ("hosts", "client"),
    [
        (("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"), LOOPBACK),
        (("10.1.2.3", "::ffff:10.1.2.3"), "10.1.2.3"),
        (("2001:db8:1:2::1", "2001:db8:1:2:ffff::9"), "2001:db8:1:2::/64"),
        (("2001:db8:1:3::1",), "2001:db8:1:3::/64"),
        (("fe80::1%eth0",), "fe80::/64"),
        (("no address",), "no address"),
    ],
)
def test_who_is_one_client(hosts: tuple[str, ...], client: str) -> None:
    assert {client_of(host) for host in hosts} == {client}


@pytest.mark.parametrize(
    ("client", "network"),
    [
        ("2001:db8:1:2::/64", "2001:db8:1::/48"),
        ("2001:db8:1:3::/64", "2001:db8:1::/48"),
        ("10.1.2.3", "10.1.2.3"),
        (LOOPBACK, LOOPBACK),
        (NOBODY, NOBODY),
        ("no/address", "no/address"),
    ],
)
def test_of_which_network_a_client_is(client: str, network: str) -> None:
    assert network_of(client) == network


def test_the_clients_of_one_network_leave_places_for_others_and_have_turns_together() -> None:
    clients = some_clients(max_connections=1000, max_client_connections=500)
    assert admit_many(clients, "2001:db8:1:1::1") == (500, "client")
    assert admit_many(clients, "2001:db8:1:2::1") == (250, "client")
    assert clients.admit("2001:db8:1:3::1", 0) == "client"
    first, second = admitted(clients, "2001:db8:2:1::1"), admitted(clients, "2001:db8:2:2::1")
    assert first is not second
    assert first.turns is second.turns
    assert admitted(clients, "10.0.0.1").turns is not admitted(clients, "10.0.0.2").turns


def test_a_network_whose_connections_have_ended_is_forgotten() -> None:
    clients = some_clients(max_connections=10)
    some = [admitted(clients, f"2001:db8:1:{number}::1") for number in range(3)]
    for client in some:
        clients.leave(client, 0)
    assert not clients._networks


def some_clients(**limits: int) -> Clients:
    budget = SharedBudget(1000)
    return Clients(
        cast(
            Any,
            SimpleNamespace(
                limits=Limits(**limits),
                request_memory=budget,
                small_request_memory=budget,
                decoded_memory=budget,
                produced_memory=budget,
                response_memory=budget,
            ),
        )
    )


def admitted(clients: Clients, host: str, now: float = 0.0) -> Client:
    client = clients.admit(host, now)
    assert isinstance(client, Client)
    return client


def admit_many(clients: Clients, host: str, now: float = 0.0) -> tuple[int, str]:
    """How many connections of a host there are places for, and why not for more."""
    for many in range(100_000):
        if isinstance(client := clients.admit(host, now), str):
            return many, client
    raise AssertionError("there is no end")


def test_one_client_has_half_of_the_places_and_fewer_where_there_are_fewer() -> None:
    for most, half in ((1000, 500), (200, 100), (3, 1), (1, 1)):
        clients = some_clients(max_connections=1000, max_client_connections=500)
        clients.allow(most)
        assert admit_many(clients, "10.0.0.1") == (half, "client" if half < most else "all")


def test_a_place_is_free_again_when_its_connection_ends() -> None:
    clients = some_clients(max_connections=10, max_client_connections=2)
    first = admitted(clients, "10.0.0.1")
    assert admitted(clients, "10.0.0.1") is first
    assert clients.admit("10.0.0.1", 0) == "client"
    clients.leave(first, 1)
    assert admitted(clients, "10.0.0.1") is first
    clients.leave(first, 2)
    clients.leave(first, 2)
    assert admitted(clients, "10.0.0.1") is not first


def test_the_last_places_are_for_those_that_were_there_before_and_for_this_machine() -> None:
    clients = some_clients(max_connections=1000, max_client_connections=500)
    was_here = admitted(clients, "10.0.0.1", 0)
    stays = admitted(clients, "10.0.0.2", 0)
    just_came = admitted(clients, "10.0.0.3", KNOWN_SECONDS)
    clients.leave(was_here, KNOWN_SECONDS)
    now = KNOWN_SECONDS + 1
    clients.leave(just_came, now)
    strangers = [admit_many(clients, f"10.1.0.{number}", now) for number in range(4)]
    assert strangers == [(500, "client"), (399, "reserved"), (0, "reserved"), (0, "reserved")]
    assert clients.admit("10.0.0.3", now) == "reserved"
    assert admit_many(clients, "10.0.0.1", now) == (90, "reserved")
    assert clients.admit("10.0.0.2", now) == "reserved"
    assert admit_many(clients, "127.0.0.1", now) == (10, "all")
    assert stays.connections == 1


def test_only_so_many_are_remembered() -> None:
    clients = some_clients(max_connections=10)
    for number in range(MAX_KNOWN_CLIENTS + 5):
        clients.leave(admitted(clients, f"10.0.{number // 256}.{number % 256}", 0), KNOWN_SECONDS)
    assert len(clients._known) == MAX_KNOWN_CLIENTS


@pytest.fixture
def each_address_is_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients are told apart by the loopback address that they come from."""
    monkeypatch.setattr(clients, "client_of", str)


@asynccontextmanager
async def client_at(server: Running, host: str) -> AsyncIterator[kafka_wire.Client]:
    stream = await trio.open_tcp_stream(*server.address, local_address=host)
    async with stream:
        yield kafka_wire.Client(stream)


def serve(body: Callable[[Running], Awaitable[None]], limits: Limits, clock: MockClock | None = None) -> None:
    async def main() -> None:
        async with running(limits) as server:
            await body(server)

    run(main, clock=clock)


@pytest.mark.usefixtures("each_address_is_a_client")
def test_a_client_with_too_many_connections_is_refused_and_others_are_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body(server: Running) -> None:
        async with client_at(server, "127.0.0.2") as first, client_at(server, "127.0.0.2") as second:
            await second.send(request(ECHO, 1))
            assert await second.frame() == answer(1)
            async with client_at(server, "127.0.0.2") as third:
                assert await third.closed()
            async with client_at(server, "127.0.0.1") as other:
                await other.send(request(ECHO, 2))
                assert await other.frame() == answer(2)
            await first.send(request(ECHO, 3))
            assert await first.frame() == answer(3)
        assert server.server.metrics.connections_refused == {("client",): 1}

    with caplog.at_level(logging.WARNING):
        serve(body, Limits(max_client_connections=2))
    assert "refused a connection of 127.0.0.2: of 2, its client, or the network" in caplog.text


@pytest.mark.usefixtures("each_address_is_a_client")
def test_many_busy_connections_of_one_client_keep_another_waiting_for_some_of_their_turns() -> None:
    names, fakes, waited = 0, Fakes(), []

    @fakes.registry.api(key=NAMES, name="Names", min_version=0, max_version=0, decoder=raw_body)
    async def without_end(request: Request, broker: Any) -> Response:
        nonlocal names
        while not request.shutting_down.is_set():
            await request.work.before(ELEMENT)
            names += 1
        return b""

    async def body(server: Running) -> None:
        async with AsyncExitStack() as stack:
            for number in range(100):
                greedy = await stack.enter_async_context(client_at(server, "127.0.0.2"))
                await greedy.send(request(NAMES, number))
            async with client_at(server, "127.0.0.1") as victim:
                for number in range(20):
                    before = names
                    await victim.send(request(ECHO, number))
                    assert await victim.frame() == answer(number)
                    waited.append((names - before) * ELEMENT)
            server.server.shut_down()

    async def main() -> None:
        async with running(fakes=fakes) as server:
            await body(server)

    run(main)
    assert max(waited) <= 16 * TURN  # it is sent, received, answered and read in passes of two turns at most


@pytest.mark.usefixtures("each_address_is_a_client")
def test_many_small_requests_of_one_client_keep_another_waiting_for_some_of_them() -> None:
    served, waited = 0, []
    fakes = Fakes()

    @fakes.registry.api(key=NAMES, name="Names", min_version=0, max_version=0, decoder=raw_body)
    async def count(request: Request, broker: Any) -> Response:
        nonlocal served
        served += 1
        return None

    async def body(server: Running) -> None:
        async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
            requests = b"".join(request(NAMES, number) for number in range(1_000))
            greedy = [await stack.enter_async_context(client_at(server, "127.0.0.2")) for _ in range(200)]
            async with client_at(server, "127.0.0.1") as victim:
                for one in greedy:
                    nursery.start_soon(one.send, requests)
                for number in range(20):
                    before = served
                    await victim.send(request(ECHO, number))
                    assert await victim.frame() == answer(number)
                    waited.append(served - before)
            nursery.cancel_scope.cancel()

    async def main() -> None:
        async with running(fakes=fakes) as server:
            await body(server)

    run(main)
    assert served >= 1_000
    assert max(waited) <= 8 * 2 * TURN // REQUEST


HALF_SENT = struct.pack(">i", 100 * KIB) + bytes(20)


async def send_halves(server: Running, nursery: trio.Nursery, host: str, many: int) -> None:
    """So many connections that have each sent the beginning of a large request."""

    async def one(task_status: trio.TaskStatus[None]) -> None:
        async with client_at(server, host) as client:
            await client.send(HALF_SENT)
            task_status.started()
            await trio.sleep_forever()

    for _ in range(many):
        await nursery.start(one)
    await wait_all_tasks_blocked()


@pytest.mark.usefixtures("each_address_is_a_client")
def test_half_sent_requests_of_one_client_make_no_other_wait() -> None:
    """The time stands still: nobody is closed to make room."""
    clock = MockClock()

    async def body(server: Running) -> None:
        memory = server.server.context.request_memory
        async with trio.open_nursery() as nursery:
            await send_halves(server, nursery, "127.0.0.2", 40)
            assert memory.waiting == 40 - 15
            async with client_at(server, "127.0.0.1") as honest:
                for number in range(20):
                    await honest.send(request(BEGIN, number, bytes(40 * KIB)))
                    await wait_all_tasks_blocked()
                    server.fakes.pending[-1].finish()
                    assert await honest.frame() == answer(number, bytes(40 * KIB))
            nursery.cancel_scope.cancel()

    serve(body, Limits(request_memory_bytes=2000 * KIB, max_request_bytes=200 * KIB), clock)


@pytest.mark.usefixtures("each_address_is_a_client")
def test_who_waits_for_its_own_client_is_served_once_enough_of_that_is_closed() -> None:
    clock = MockClock()

    async def body(server: Running) -> None:
        memory = server.server.context.request_memory
        async with trio.open_nursery() as nursery:
            async with client_at(server, "127.0.0.1") as other:
                await other.send(HALF_SENT)
                await send_halves(server, nursery, "127.0.0.2", 20)
                async with client_at(server, "127.0.0.2") as honest:
                    await honest.send(request(BEGIN, 1, bytes(40 * KIB)))
                    await wait_all_tasks_blocked()
                    assert not server.fakes.ran
                    for _ in range(int((STARVED_SECONDS + 2) / CHECK_SECONDS)):
                        clock.jump(CHECK_SECONDS)
                        await wait_all_tasks_blocked()
                    assert server.fakes.ran == [bytes(40 * KIB)]
                    server.fakes.pending[-1].finish()
                    assert await honest.frame() == answer(1, bytes(40 * KIB))
                    assert memory.waiting == 0
                closed = server.server.metrics.connections_closed
                assert 0 < closed["memory",] <= 10
                hosts = {
                    connection.client_address.partition(":")[0] for connection in server.server.connections
                }
                assert hosts == {"127.0.0.1", "127.0.0.2"}
            nursery.cancel_scope.cancel()

    serve(body, Limits(request_memory_bytes=2000 * KIB, max_request_bytes=200 * KIB), clock)


@pytest.mark.usefixtures("each_address_is_a_client")
def test_who_holds_a_little_and_wants_much_waits_for_the_greedy() -> None:
    """There is room for it, but not beside so much that another client has not sent to the end."""
    clock = MockClock()

    async def body(server: Running) -> None:
        async with trio.open_nursery() as nursery:
            await send_halves(server, nursery, "127.0.0.2", 20)
            async with client_at(server, "127.0.0.1") as honest, client_at(server, "127.0.0.1") as beside:
                await beside.send(request(BEGIN, 1, bytes(20 * KIB)))
                await wait_all_tasks_blocked()
                nursery.start_soon(honest.send, request(BEGIN, 2, bytes(390 * KIB)))
                await wait_all_tasks_blocked()
                assert len(server.fakes.ran) == 1
                for _ in range(int((STARVED_SECONDS + 2) / CHECK_SECONDS)):
                    clock.jump(CHECK_SECONDS)
                    await wait_all_tasks_blocked()
                assert len(server.fakes.ran) == 2
                for pending in server.fakes.pending:
                    pending.finish()
                assert await beside.frame() == answer(1, bytes(20 * KIB))
                assert await honest.frame() == answer(2, bytes(390 * KIB))
            nursery.cancel_scope.cancel()

    serve(body, Limits(request_memory_bytes=2000 * KIB, max_request_bytes=400 * KIB), clock)
