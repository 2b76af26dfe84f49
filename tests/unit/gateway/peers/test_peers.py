"""Other gateways as the catalog has them: found, asked over a real front, and forgotten."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.cluster.gateways import Living
from gateway.leadership.records import Address, GatewayRecord
from gateway.peers.failures import PeerGone, PeerUnreachable
from gateway.peers.opening import Opening, PeerSecurity
from gateway.peers.peers import Peers
from tests.unit.gateway.kafka_wire import Fakes, Running, running
from tests.unit.gateway.kafka_wire import run as run_watched
from tests.unit.gateway.peers.answers import ends_answer, ends_question, framed, versions_of
from tests.unit.gateway.peers.other_side import Listener

A, B = "A" * 16, "B" * 16
PATIENCE = 30.0


class FakeGateways(SimpleNamespace):
    """As much of `SharedGateways` as is asked."""

    def __init__(self) -> None:
        super().__init__(living={}, own_listeners=("INSIDE", "OUTSIDE"), release="1.2")
        self.changed: list[Callable[[], None]] = []

    def on_changed(self, tell: Callable[[], None]) -> None:
        self.changed.append(tell)

    def now(self, **living: tuple[str, Address]) -> None:
        """These live, by g and their ids; each says where its listener INSIDE is."""
        self.living = {
            int(name[1:]): Living(life, leaving=False, record=record_of(address))
            for name, (life, address) in living.items()
        }
        for tell in self.changed:
            tell()


def record_of(address: Address) -> GatewayRecord:
    return GatewayRecord("", "", {"INSIDE": address}, {}, "1")


async def _unused() -> bytes:
    raise AssertionError("nobody says who he is here")


PLAIN = Opening(1, PeerSecurity(), _unused).open


def run(
    body: Callable[[FakeGateways, Peers], Awaitable[None]],
    open_address: Callable[[Address], Awaitable[trio.abc.Stream]] | None = None,
) -> None:
    async def open_stream(listener: str, address: Address) -> trio.abc.Stream:
        assert listener == "INSIDE"
        return await (PLAIN(listener, address) if open_address is None else open_address(address))

    async def main() -> None:
        gateways = FakeGateways()
        peers = Peers(cast("Any", gateways), 1, "", open_stream)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peers.run)
            await wait_all_tasks_blocked()
            await body(gateways, peers)
            nursery.cancel_scope.cancel()

    run_watched(main)


def at(server: Running) -> Address:
    return Address(*server.address)


def fakes_with_ends(offset: int) -> Fakes:
    """A gateway that says so of every log's end."""
    fakes = Fakes()

    @fakes.registry.api(key=2, name="ListOffsets", min_version=1, max_version=7)
    async def list_offsets(request: Any, _broker: Any) -> bytes:
        asked = {
            one.name: {each.partition_index: offset for each in one.partitions} for one in request.body.topics
        }
        fakes.ran.append(request.header.client_id.encode())
        return framed(ends_answer(**asked), request.header.api_version, request.header.correlation_id)

    return fakes


def offset_in(found: Any) -> int:
    offset: int = found.topics[0].partitions[0].offset
    return offset


def test_each_is_asked_where_it_listens_over_one_connection() -> None:
    async def body(gateways: FakeGateways, peers: Peers) -> None:
        async with (
            running(fakes=fakes_with_ends(20)) as second,
            running(fakes=fakes_with_ends(30)) as third,
        ):
            gateways.now(g2=(A, at(second)), g3=(B, at(third)))
            for _ in range(2):
                for number, end in ((2, 20), (3, 30)):
                    answer = await peers.ask(number, ends_question(orders=[0]), PATIENCE)
                    assert offset_in(answer) == end
            assert second.fakes.ran == [b"gateway-1"] * 2
            assert len(second.server.connections) == len(third.server.connections) == 1

    run(body)


def test_who_is_not_alive_or_is_this_one_is_not_asked() -> None:
    async def body(gateways: FakeGateways, peers: Peers) -> None:
        gateways.now(g1=(A, Address("127.0.0.1", 1)))
        for number in (1, 2):
            with pytest.raises(PeerGone):
                await peers.ask(number, ends_question(orders=[0]), PATIENCE)

    run(body)


def test_who_waits_for_one_that_ceases_to_live_is_told_at_once() -> None:
    is_asked, fakes = trio.Event(), Fakes()

    @fakes.registry.api(key=2, name="ListOffsets", min_version=1, max_version=7)
    async def never(request: Any, _broker: Any) -> None:
        is_asked.set()
        await request.shutting_down.wait()

    async def body(gateways: FakeGateways, peers: Peers) -> None:
        async def forget() -> None:
            await is_asked.wait()
            gateways.now()

        async with running(fakes=fakes) as server, trio.open_nursery() as nursery:
            gateways.now(g2=(A, at(server)))
            nursery.start_soon(forget)
            with pytest.raises(PeerGone, match="gateway 2 does not live any more"):
                await peers.ask(2, ends_question(orders=[0]), PATIENCE)

    run(body)


def test_another_life_of_it_is_asked_anew_where_that_one_listens() -> None:
    async def body(gateways: FakeGateways, peers: Peers) -> None:
        async with running(fakes=fakes_with_ends(1)) as first, running(fakes=fakes_with_ends(2)) as second:
            gateways.now(g2=(A, at(first)))
            assert offset_in(await peers.ask(2, ends_question(orders=[0]), PATIENCE)) == 1
            gateways.now(g2=(A, at(second)))
            assert offset_in(await peers.ask(2, ends_question(orders=[0]), PATIENCE)) == 1, "the same life"
            gateways.now(g2=(B, at(second)))
            assert offset_in(await peers.ask(2, ends_question(orders=[0]), PATIENCE)) == 2

    run(body)


def test_the_end_of_a_connection_is_told_with_the_life_that_it_was_to() -> None:
    listener = Listener()

    async def body(gateways: FakeGateways, peers: Peers) -> None:
        told: list[str] = []
        peers.on_closed(told.append)
        gateways.now(g2=(A, Address("b.example", 9092)))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hang_up)
            with pytest.raises(PeerUnreachable):
                await peers.ask(2, ends_question(orders=[0]), PATIENCE)
        await wait_all_tasks_blocked()
        assert told == [A]
        assert listener.opened == [Address("b.example", 9092)]

    async def hang_up() -> None:
        other = await listener.accept()
        header, _ = await other.request()
        await other.answer(header, versions_of({2: (1, 9)}))
        await other.request()
        await other.stream.aclose()

    run(body, listener.open)


def test_nothing_is_asked_before_it_runs() -> None:
    async def main() -> None:
        gateways = FakeGateways()
        peers = Peers(cast("Any", gateways), 1, "", PLAIN)
        gateways.now(g2=(A, Address("127.0.0.1", 1)))
        with pytest.raises(PeerGone, match="asks nobody yet"):
            await peers.ask(2, ends_question(orders=[0]), PATIENCE)

    trio.run(main)
