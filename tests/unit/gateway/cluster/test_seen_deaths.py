"""Gateways whose process is gone lose their places before their leases are over; others do not."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.catalog import keys
from gateway.catalog.fenced import FencedCatalog
from gateway.catalog.interface import Catalog
from gateway.cluster.alive import LEASE_SECONDS, Alive, LeaseLost
from gateway.cluster.seen_deaths import AGAIN_SECONDS, SeenDeaths, refuses_connections
from gateway.leadership.records import unpack_alive
from mesh.protocol.endpoints import Endpoint
from tests.unit.gateway.catalog.memory import MemoryCatalog

LIVES = {number: f"{number:016X}" for number in range(1, 6)}
SOON = 0.1


def endpoint_of(number: int) -> Endpoint:
    return Endpoint("127.0.0.1", 7000 + number)


class Gateway:
    """One of them. `finds` are the others whose ports refuse connections to it."""

    def __init__(self, catalog: Catalog, number: int) -> None:
        self.catalog = FencedCatalog(catalog)
        self.alive = Alive(self.catalog, number, LIVES[number], clock=trio.current_time)
        self.deaths = SeenDeaths(self.catalog, self.alive, number, self._is_gone)
        self.finds: set[int] = set()
        self.asked: list[Endpoint] = []
        self.has_ended = False
        self.scope = trio.CancelScope()

    async def _is_gone(self, endpoint: Endpoint) -> bool:
        self.asked.append(endpoint)
        await trio.lowlevel.checkpoint()
        return endpoint.port - 7000 in self.finds

    async def run(self) -> None:
        try:
            with self.scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self.alive.run)
                    nursery.start_soon(self.deaths.run)
                    await self.alive.take()
        except* LeaseLost:
            self.has_ended = True

    def loses(self, *numbers: int) -> None:
        """The links to these go down, and nobody listens there."""
        self.finds.update(numbers)
        for number in numbers:
            self.deaths.on_link(LIVES[number] + "F" * 16, endpoint_of(number), live=False)


Body = Callable[[MemoryCatalog, dict[int, Gateway]], Awaitable[None]]


def run(count: int, body: Body) -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(catalog.run)
            gateways = {number: Gateway(catalog, number) for number in range(1, count + 1)}
            for gateway in gateways.values():
                nursery.start_soon(gateway.run)
            await wait_all_tasks_blocked()
            await body(catalog, gateways)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


def living(catalog: Catalog) -> dict[int, str]:
    found = {
        keys.gateway_in(entry.key): unpack_alive(entry.value).life for entry in catalog.range(keys.ALIVE)
    }
    return {number: life for number, life in found.items() if number is not None}


def living_numbers(catalog: Catalog) -> list[str]:
    return [entry.key.removeprefix(keys.ALIVE) for entry in catalog.range(keys.ALIVE)]


def missed(catalog: Catalog) -> list[str]:
    return [entry.key.removeprefix(keys.MISSED) for entry in catalog.range(keys.MISSED)]


def test_one_that_both_others_miss_loses_its_place_long_before_its_lease_is_over() -> None:
    async def body(catalog: MemoryCatalog, gateways: dict[int, Gateway]) -> None:
        gateways[3].scope.cancel()
        gateways[1].loses(3)
        await trio.sleep(SOON)
        assert (missed(catalog), sorted(living(catalog))) == (["3/1"], [1, 2, 3])
        gateways[2].loses(3)
        await trio.sleep(SOON)
        assert sorted(living(catalog)) == [1, 2]
        await trio.sleep(AGAIN_SECONDS)
        assert missed(catalog) == [], "nobody is missed who is not alive"

    run(3, body)


def test_the_link_alone_says_nothing() -> None:
    async def body(catalog: MemoryCatalog, gateways: dict[int, Gateway]) -> None:
        for number in (1, 2):
            gateways[number].loses(3)
            gateways[number].finds.clear()
        await trio.sleep(3 * LEASE_SECONDS)
        assert sorted(living(catalog)) == [1, 2, 3]
        assert missed(catalog) == []
        assert len(gateways[1].asked) >= 3 * LEASE_SECONDS / AGAIN_SECONDS, "it is asked again"
        for number in (1, 2):
            gateways[number].finds.add(3)
        await trio.sleep(AGAIN_SECONDS + SOON)
        assert sorted(living(catalog)) == [1, 2]
        assert gateways[3].has_ended, "whoever it was that was wrong"

    run(3, body)


def test_who_is_reached_again_is_missed_no_more() -> None:
    async def body(catalog: MemoryCatalog, gateways: dict[int, Gateway]) -> None:
        gateways[1].loses(3)
        await trio.sleep(SOON)
        assert missed(catalog) == ["3/1"]
        gateways[1].deaths.on_link(LIVES[3] + "F" * 16, endpoint_of(3), live=True)
        await trio.sleep(SOON)
        assert missed(catalog) == []
        gateways[2].loses(3)
        await trio.sleep(SOON)
        assert sorted(living(catalog)) == [1, 2, 3]

    run(3, body)


def test_of_two_gateways_none_takes_the_other_ones_place() -> None:
    async def body(catalog: MemoryCatalog, gateways: dict[int, Gateway]) -> None:
        gateways[1].loses(2)
        gateways[2].loses(1)
        await trio.sleep(2 * LEASE_SECONDS)
        assert sorted(living(catalog)) == [1, 2]

    run(2, body)


def test_one_that_ends_a_connection_while_its_link_says_nothing_is_looked_at() -> None:
    async def body(catalog: MemoryCatalog, gateways: dict[int, Gateway]) -> None:
        for number in (1, 2):
            deaths = gateways[number].deaths
            deaths.on_closed(LIVES[3])
            await trio.sleep(SOON)
            assert gateways[number].asked == [], "where it is on the mesh is not known"
            deaths.on_link(LIVES[3] + "F" * 16, endpoint_of(3), live=True)
            gateways[number].finds.add(3)
            deaths.on_closed(LIVES[3])
        await trio.sleep(SOON)
        assert sorted(living(catalog)) == [1, 2]
        await trio.sleep(AGAIN_SECONDS)
        assert missed(catalog) == []
        asked = list(gateways[1].asked)
        await trio.sleep(3 * AGAIN_SECONDS)
        assert gateways[1].asked == asked

    run(3, body)


def test_one_that_ends_a_connection_and_is_there_is_looked_at_once() -> None:
    async def body(catalog: MemoryCatalog, gateways: dict[int, Gateway]) -> None:
        deaths = gateways[1].deaths
        deaths.on_link(LIVES[3] + "F" * 16, endpoint_of(3), live=True)
        deaths.on_closed(LIVES[3])
        await trio.sleep(5 * AGAIN_SECONDS)
        assert gateways[1].asked == [endpoint_of(3)]
        assert (missed(catalog), sorted(living(catalog))) == ([], [1, 2, 3])

    run(3, body)


def test_one_that_refuses_for_a_while_although_its_link_is_up_is_missed_so_long() -> None:
    async def body(catalog: MemoryCatalog, gateways: dict[int, Gateway]) -> None:
        deaths = gateways[1].deaths
        deaths.on_link(LIVES[3] + "F" * 16, endpoint_of(3), live=True)
        gateways[1].finds.add(3)
        deaths.on_closed(LIVES[3])
        await trio.sleep(SOON)
        assert missed(catalog) == ["3/1"]
        gateways[1].finds.clear()
        await trio.sleep(AGAIN_SECONDS + SOON)
        assert missed(catalog) == []
        assert sorted(living(catalog)) == [1, 2, 3]

    run(3, body)


def test_nodes_that_are_no_gateways_are_not_asked() -> None:
    async def body(catalog: MemoryCatalog, gateways: dict[int, Gateway]) -> None:
        for number in range(5000):
            gateways[1].deaths.on_link(f"{number:032X}", endpoint_of(3), live=False)
        await trio.sleep(SOON)
        assert gateways[1].asked == []
        gateways[1].loses(3)
        await trio.sleep(SOON)
        assert missed(catalog) == ["3/1"]

    run(3, body)


def test_what_nobody_can_read_says_nothing() -> None:
    async def body(catalog: MemoryCatalog, gateways: dict[int, Gateway]) -> None:
        junk = {keys.missed_key(3, 2): b"junk", f"{keys.MISSED}x": b"", keys.alive_key(5): b"{}"}
        await catalog.transact([], junk)
        gateways[1].loses(3)
        await trio.sleep(SOON)
        assert sorted(living_numbers(catalog)) == ["1", "2", "3", "5"]
        gateways[2].loses(3)
        await trio.sleep(SOON)
        assert sorted(living_numbers(catalog)) == ["1", "2", "5"]

    run(3, body)


def test_what_one_misses_goes_with_its_lease() -> None:
    async def body(catalog: MemoryCatalog, gateways: dict[int, Gateway]) -> None:
        gateways[1].loses(3)
        await trio.sleep(SOON)
        gateways[1].scope.cancel()
        await trio.sleep(LEASE_SECONDS + SOON)
        assert missed(catalog) == []

    run(3, body)


@pytest.mark.parametrize("listens", [True, False], ids=["a process", "none"])
def test_a_port_is_asked_whether_somebody_is_there(listens: bool) -> None:
    async def main() -> bool:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            if listens:
                listener.listen()
            return await refuses_connections(Endpoint(*listener.getsockname()))

    assert trio.run(main) is not listens


def test_a_machine_that_says_nothing_refuses_nothing() -> None:
    async def main() -> bool:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            address = listener.getsockname()
            full = [socket.socket() for _ in range(4)]
            for each in full:
                each.setblocking(False)
                each.connect_ex(address)
            try:
                return await refuses_connections(Endpoint(*address))
            finally:
                for each in full:
                    each.close()

    assert trio.run(main) is False
