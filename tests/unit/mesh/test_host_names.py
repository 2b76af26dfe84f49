"""Host names of nodes: looked up beside everything else, again after a while, and within bounds."""

import socket
from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from mesh.host_names import (
    FAILED_AGAIN_SECONDS,
    LOOKUP_AGAIN_SECONDS,
    MAX_LOOKUPS_AT_ONCE,
    MAX_NAMES,
    HostNames,
    preferred,
)
from mesh.protocol.endpoints import Endpoint


class Server:
    """A name server: `addresses` by name; no answer for what is not in it, none at all while it is dead."""

    def __init__(self, **addresses: str) -> None:
        self.addresses = addresses
        self.asked: list[str] = []
        self.dead = False

    async def __call__(self, name: str) -> str:
        self.asked.append(name)
        if self.dead:
            await trio.sleep_forever()
        if name not in self.addresses:
            raise OSError("no such host")
        return self.addresses[name]


def run(server: Server, test: Callable[[HostNames], Awaitable[None]]) -> None:
    async def main() -> None:
        names = HostNames(lookup=server)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(names.run)
            await test(names)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


async def address(names: HostNames, host: str) -> str | None:
    """What is known of this name once the look-up is over that asking for it may have begun."""
    names.address(Endpoint(host, 80), trio.current_time())
    await wait_all_tasks_blocked()
    found = names.address(Endpoint(host, 80), trio.current_time())
    return None if found is None else str(found)


def test_an_address_needs_no_look_up() -> None:
    server = Server()

    async def test(names: HostNames) -> None:
        assert await address(names, "10.0.0.1") == "tcp://10.0.0.1:80"
        assert await address(names, "::1") == "tcp://[::1]:80"

    run(server, test)
    assert server.asked == []


def test_a_name_is_looked_up_once_in_a_while() -> None:
    server = Server(store="10.0.0.1")

    async def test(names: HostNames) -> None:
        assert await address(names, "store") == "tcp://10.0.0.1:80"
        await trio.sleep(LOOKUP_AGAIN_SECONDS - 1)
        assert await address(names, "store") == "tcp://10.0.0.1:80"
        assert server.asked == ["store"]
        server.addresses["store"] = "::ffff:10.0.0.2"
        await trio.sleep(1)
        assert await address(names, "store") == "tcp://10.0.0.2:80"
        del server.addresses["store"]
        await trio.sleep(LOOKUP_AGAIN_SECONDS)
        assert await address(names, "store") == "tcp://10.0.0.2:80", "as it was"
        assert server.asked == ["store"] * 3

    run(server, test)


def test_a_name_without_address_is_asked_for_again_soon(caplog: pytest.LogCaptureFixture) -> None:
    server = Server(everywhere="0.0.0.0")

    async def test(names: HostNames) -> None:
        for host in ("store", "everywhere"):
            assert await address(names, host) is None
            await trio.sleep(FAILED_AGAIN_SECONDS)
            assert await address(names, host) is None
            server.addresses[host] = "10.0.0.1"
            await trio.sleep(FAILED_AGAIN_SECONDS)
            assert await address(names, host) == "tcp://10.0.0.1:80"

    run(server, test)
    assert [record.message.split()[3] for record in caplog.records] == ["store,", "everywhere,"]


def test_a_dead_name_server_is_asked_for_few_names_at_once() -> None:
    server = Server()
    server.dead = True

    async def test(names: HostNames) -> None:
        for number in range(10_000):
            assert names.address(Endpoint(f"store-{number}", 80), 0.0) is None
            if number % 100 == 0:
                await wait_all_tasks_blocked()
        assert len(set(server.asked)) == len(server.asked) == MAX_LOOKUPS_AT_ONCE

    run(server, test)


@pytest.mark.parametrize("order", [1, -1])
def test_one_address_of_several(order: int) -> None:
    """Whoever binds a name and whoever connects to it must mean the same."""
    both = [*socket.getaddrinfo("127.0.0.1", None), (socket.AF_INET6, 1, 6, "", ("::1", 0, 0, 0))]
    assert preferred(both[::order]) == "127.0.0.1"
    assert preferred(both[-1:]) == "::1"


def test_names_are_bounded() -> None:
    server = Server(**{f"store-{number}": "10.0.0.1" for number in range(MAX_NAMES + 1)})

    async def test(names: HostNames) -> None:
        for number in range(MAX_NAMES + 1):
            assert await address(names, f"store-{number}") is not None
        assert await address(names, f"store-{MAX_NAMES}") is not None
        assert len(server.asked) == MAX_NAMES + 1
        await address(names, "store-0")
        assert len(server.asked) == MAX_NAMES + 2

    run(server, test)
