"""The server as a whole: limits on connections, accept errors, and stopping in order."""

from __future__ import annotations

import errno
import logging
import os
import resource
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.common.failures import DiskFailed
from gateway.common.metrics import Metrics
from gateway.common.open_files import raise_file_limit
from gateway.front.limits import SHUTDOWN_GRACE_SECONDS, Limits
from gateway.front.listener_sockets import ListenerSocket, open_listeners
from gateway.front.listeners import parse_listener
from gateway.front.server import Server, connections_allowed_by_files
from tests.unit.gateway.kafka_wire import (
    BEGIN,
    ECHO,
    PARK,
    Client,
    Fakes,
    Running,
    answer,
    request,
    run,
    running,
)


def serve(
    body: Callable[[Running, Client], Awaitable[None]],
    limits: Limits | None = None,
    clock: MockClock | None = None,
) -> None:
    async def main() -> None:
        async with running(limits) as server, server.client() as client:
            await body(server, client)

    run(main, clock=clock)


async def refused(server: Running) -> bool:
    """Whether nobody accepts at the server's address any more."""
    try:
        stream = await trio.open_tcp_stream(*server.address)
    except OSError:
        return True
    await stream.aclose()
    return False


def test_stopping_answers_what_is_in_flight_and_accepts_nothing_new() -> None:
    async def body(server: Running, client: Client) -> None:
        async with server.client() as parked, server.client() as idle, server.client() as half:
            await client.send(request(BEGIN, 1, b"p"))
            await parked.send(request(PARK, 2, b"q"), request(ECHO, 3, b"behind it"))
            await half.send(request(ECHO, 4, b"half")[:-1])
            await wait_all_tasks_blocked()
            server.server.shut_down()
            await wait_all_tasks_blocked()
            assert await refused(server)
            assert await idle.closed()
            assert await half.closed()
            # Parked requests answer at once; what was received with them is answered as well.
            assert await parked.frame() == answer(2, b"q")
            assert await parked.frame() == answer(3, b"behind it")
            assert await parked.closed()
            assert len(server.server.connections) == 1
            server.fakes.pending[0].finish()
            assert await client.frame() == answer(1, b"p")
            assert await client.closed()
            await wait_all_tasks_blocked()
            assert not server.server.connections

    serve(body)


def test_who_is_suspended_answers_nobody_and_goes_on_afterwards() -> None:
    async def body(server: Running, client: Client) -> None:
        await client.send(request(ECHO, 1))
        assert await client.frame() == answer(1)
        server.server.suspend()
        assert await client.closed(), "its connection is closed"
        async with server.client() as late:
            assert await late.closed(), "so are those that come"
        assert server.server.metrics.connections_refused == {("suspended",): 1}
        server.server.resume()
        async with server.client() as again:
            await again.send(request(ECHO, 2))
            assert await again.frame() == answer(2)

    serve(body)


def test_nothing_is_received_once_the_gateway_stops() -> None:
    async def body(server: Running, client: Client) -> None:
        await client.send(request(BEGIN, 1, b"before"))
        await wait_all_tasks_blocked()
        server.server.shut_down()
        await wait_all_tasks_blocked()
        await client.send(request(BEGIN, 2, b"after"))
        await wait_all_tasks_blocked()
        assert server.fakes.ran == [b"before"]
        server.fakes.pending[0].finish()
        assert await client.frame() == answer(1, b"before")
        assert await client.closed()

    serve(body)


def test_what_waits_in_the_kernel_when_the_gateway_stops_is_not_begun() -> None:
    async def body(server: Running, client: Client) -> None:
        await client.send(request(PARK, 1, b"parked"))
        await wait_all_tasks_blocked()
        await client.send(request(ECHO, 2, b"too late"))
        server.server.shut_down()
        assert await client.frame() == answer(1, b"parked")
        assert await client.closed()
        assert server.fakes.ran == [b"parked"]

    serve(body)


def test_the_last_answers_arrive_though_the_client_goes_on_sending() -> None:
    async def body(server: Running, client: Client) -> None:
        large = bytes(range(256)) * 20_000
        await client.send(request(PARK, 1, large))
        await wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            # The gateway will not take these any more; a reset because of them would cost the answer.
            nursery.start_soon(client.send, *(request(ECHO, 2, large) for _ in range(4)))
            await wait_all_tasks_blocked()
            server.server.shut_down()
            await wait_all_tasks_blocked()
            assert await client.frame() == answer(1, large)
            assert await client.closed()
        assert server.fakes.ran == [large]

    serve(body)


def test_what_is_not_answered_within_the_grace_period_is_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    clock = MockClock()

    async def body(server: Running, client: Client) -> None:
        await client.send(request(BEGIN, 1, b"p"))
        await wait_all_tasks_blocked()
        server.server.shut_down()
        await wait_all_tasks_blocked()
        clock.jump(SHUTDOWN_GRACE_SECONDS - 1)
        await wait_all_tasks_blocked()
        assert len(server.server.connections) == 1
        clock.jump(2)
        assert await client.closed()
        await wait_all_tasks_blocked()
        assert not server.server.connections
        assert server.server.context.request_memory.used == 0

    with caplog.at_level(logging.WARNING):
        serve(body, clock=clock)
    assert "not answered within the time for stopping" in caplog.text


def test_more_connections_than_allowed_are_closed_at_once_and_room_is_used_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body(server: Running, client: Client) -> None:
        async with server.client() as second:
            await second.send(request(ECHO, 1))
            assert await second.frame() == answer(1)
            async with server.client() as third:
                assert await third.closed()
            await client.send(request(ECHO, 2))
            assert await client.frame() == answer(2)
        await wait_all_tasks_blocked()
        async with server.client() as fourth:
            await fourth.send(request(ECHO, 3))
            assert await fourth.frame() == answer(3)
        metrics = server.server.metrics
        assert (metrics.connections_accepted, metrics.connections_refused) == (3, {("all",): 1})

    with caplog.at_level(logging.WARNING):
        serve(body, Limits(max_connections=2))
    assert "refused a connection of 127.0.0.1: of 2, there are as many as allowed" in caplog.text


@pytest.mark.parametrize(
    ("listen", "said"),
    [("0.0.0.0:0", True), ("127.0.0.1:0", False), ("0.0.0.0:0@kafka.example:9092", False)],
)
def test_a_wildcard_without_an_advertised_address_is_mentioned(
    listen: str, said: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with running(listen=listen):
            pass

    with caplog.at_level(logging.INFO):
        run(main)
    assert ("tells each client the one it connected to" in caplog.text) == said


def test_a_failed_disk_is_raised_as_it_is() -> None:
    """The command line turns it into an exit code: it must not have to search groups within groups."""

    async def main() -> None:
        fakes = Fakes()
        server = Server(registry=fakes.registry, broker=cast(Any, None), metrics=Metrics(with_process=False))
        sockets = await open_listeners([parse_listener("127.0.0.1:0")])
        failures: list[DiskFailed] = []

        async def serve_until_it_fails() -> None:
            try:
                await server.serve(sockets)
            except DiskFailed as failure:
                failures.append(failure)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_until_it_fails)
            async with await trio.open_tcp_stream(*sockets[0].socket.getsockname()) as stream:
                client = Client(stream)
                await client.send(request(BEGIN, 1), request(BEGIN, 2))
                await wait_all_tasks_blocked()
                fakes.pending[0].error = DiskFailed("the disk of /data failed")
                fakes.pending[0].finish()
                assert await client.closed()  # and nothing is answered any more
        assert [str(failure) for failure in failures] == ["the disk of /data failed"]

    run(main)


class FailingSocket:
    """A listening socket whose accept fails with these errors first."""

    def __init__(self, entry: ListenerSocket, errors: list[int]) -> None:
        self._socket = entry.socket
        self.errors = errors

    def accept(self) -> Any:
        if self.errors:
            number = self.errors.pop(0)
            raise OSError(number, os.strerror(number))
        return self._socket.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)


@pytest.mark.parametrize(
    ("number", "seconds"), [(errno.EMFILE, 1), (errno.ENFILE, 1), (errno.ENOBUFS, 1), (errno.ECONNABORTED, 0)]
)
def test_accept_errors_are_survived(number: int, seconds: float, caplog: pytest.LogCaptureFixture) -> None:
    clock = MockClock()

    async def main() -> None:
        fakes = Fakes()
        server = Server(registry=fakes.registry, broker=cast(Any, None), metrics=Metrics(with_process=False))
        (entry,) = await open_listeners([parse_listener("127.0.0.1:0")])
        failing = FailingSocket(entry, [number, number])
        async with trio.open_nursery() as nursery:
            await nursery.start(server.serve, [ListenerSocket(failing, entry.listener)])  # type: ignore[arg-type]
            async with await trio.open_tcp_stream(*entry.socket.getsockname()) as stream:
                client = Client(stream)
                await client.send(request(ECHO, 1))
                for _ in range(3):
                    await wait_all_tasks_blocked()
                    clock.jump(seconds)
                assert await client.frame() == answer(1)
                assert failing.errors == []
            server.shut_down()

    with caplog.at_level(logging.WARNING):
        run(main, clock=clock)
    assert ("cannot accept connections" in caplog.text) == (seconds > 0)


RUN_OUT_OF_FILES = """
import resource, socket, sys
import trio
from tests.unit.gateway.kafka_wire import ECHO, Client, answer, request, run, running

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

async def main():
    async with running() as server, server.client() as old:
        hogs = []
        try:
            while True:
                hogs.append(open("/dev/null"))
        except OSError:
            hogs.pop().close()
        late = socket.socket()  # the last descriptor: the server has none left for it
        late.connect(server.address)
        for i in range(20):
            await old.send(request(ECHO, i))
            assert await old.frame() == answer(i)
        for hog in hogs:
            hog.close()
        late.setblocking(False)
        async with trio.SocketStream(trio.socket.from_stdlib_socket(late)) as stream:
            client = Client(stream)
            await client.send(request(ECHO, 99))
            assert await client.frame() == answer(99)
    print("served")

run(main)
"""


def test_without_file_descriptors_old_clients_are_served_and_new_ones_once_there_are_some() -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN_OUT_OF_FILES], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "served\n", done.stderr
    assert "cannot accept connections: Too many open files" in done.stderr


def test_the_limit_on_files_is_raised_as_far_as_it_goes_and_leaves_room_for_others() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(100, before[0]), before[1]))
        limit = raise_file_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
        assert limit == before[1]
        assert connections_allowed_by_files() == limit - min(256, limit // 2)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


RAISED = """
import resource, sys

hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
from dafka.cli import main

sys.argv = ["dafka", "--version"]
try:
    main()
except SystemExit:
    print(resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard))
"""


def test_each_process_raises_the_limit_on_files() -> None:
    """Stores and towers as well: their links are files."""
    done = subprocess.run(
        [sys.executable, "-c", RAISED], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.splitlines()[-1] == "True", done.stderr


def test_a_server_that_is_cancelled_closes_everything() -> None:
    async def main() -> None:
        fakes = Fakes()
        server = Server(registry=fakes.registry, broker=cast(Any, None), metrics=Metrics(with_process=False))
        sockets = await open_listeners([parse_listener("127.0.0.1:0")])
        address = sockets[0].socket.getsockname()
        async with trio.open_nursery() as nursery:
            await nursery.start(server.serve, sockets)
            client = Client(await trio.open_tcp_stream(*address))
            await client.send(request(BEGIN, 1, b"p"))
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert await client.closed()
        assert not server.connections
        assert server.context.request_memory.used == 0
        with pytest.raises(OSError, match="connect"):
            await trio.open_tcp_stream(*address)
        await client.stream.aclose()

    run(main)
