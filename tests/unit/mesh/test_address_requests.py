"""Lists of addresses for each member: how many requests they become, and that one member holds up nobody."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio
from trio.testing import MockClock

from mesh.address_requests import LIST_ENTRIES, MAX_LIST_BYTES, RETRY_SECONDS, AddressRequests
from mesh.requests import Requests
from mesh.routing import requests_routes
from tests.unit.mesh.fake_node import FakeNode
from wireproto.dafka.additions import STATUS_DONE, AddressStatus, Answer, Request

HERE, AWAY = "5" * 32, "6" * 32


class Mesh:
    """Stores that answer, but for those in `away`. `asked`: (store, addresses) of each request."""

    def __init__(self) -> None:
        self.node = FakeNode()
        requests = Requests(self.node.as_node)
        self.node.route(requests_routes(requests))
        self.closes = AddressRequests(requests, b"C")
        self.away = {AWAY}
        self.asked: list[tuple[str, list[str]]] = []
        self.answered: list[tuple[str, str]] = []
        self.node.on_sent = self._sent

    def _sent(self, request: Request) -> None:
        addresses = [AddressStatus.unpack(entry[:LONGEST_ENTRY]).address for entry in request.entries]
        self.asked.append((request.store, addresses))
        if request.store not in self.away:
            statuses = tuple(AddressStatus(address, STATUS_DONE, 3) for address in addresses)
            self.node.hears(Answer(b"c", request.requester, request.store, statuses))

    def ask(self, store: str, *numbers: int) -> None:
        for number in numbers:
            self.closes.ask(store, address(number), entry(number), self.take)

    def take(self, store: str, status: AddressStatus) -> None:
        self.answered.append((store, status.address))


def address(number: int) -> str:
    return f"{number:032X}"


def entry(number: int) -> bytes:
    return AddressStatus(address(number), STATUS_DONE, 3).pack()


LONGEST_ENTRY = len(entry(0))


def run(body: Callable[[Mesh], Awaitable[None]]) -> None:
    async def main() -> None:
        mesh = Mesh()
        with trio.fail_after(600):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(mesh.closes.run)
                await body(mesh)
                nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_what_comes_together_is_one_request_for_each_member() -> None:
    async def body(mesh: Mesh) -> None:
        mesh.away = set()
        mesh.ask(HERE, 1, 2, 3)
        mesh.ask(AWAY, 1)
        await trio.sleep(0.01)
        assert sorted(mesh.asked) == [(HERE, [address(n) for n in (1, 2, 3)]), (AWAY, [address(1)])]
        assert len(mesh.answered) == 4
        assert mesh.closes.waiting() == {}

    run(body)


def test_long_lists_go_out_in_pieces_and_so_do_large_ones() -> None:
    async def body(mesh: Mesh) -> None:
        mesh.ask(HERE, *range(LIST_ENTRIES + 1))
        await trio.sleep(0.01)
        assert [len(addresses) for _, addresses in mesh.asked] == [LIST_ENTRIES, 1]
        mesh.asked.clear()
        for number in range(3):
            large = entry(number) + bytes(MAX_LIST_BYTES // 2 + 1)
            mesh.closes.ask(HERE, address(number), large, mesh.take)
        await trio.sleep(0.01)
        assert [len(addresses) for _, addresses in mesh.asked] == [1, 1, 1]

    run(body)


def test_a_member_that_is_away_costs_one_request_and_holds_up_nobody() -> None:
    async def body(mesh: Mesh) -> None:
        for number in range(10):
            mesh.ask(AWAY, number)
            mesh.ask(HERE, number)
            await trio.sleep(1)
        assert [store for store, _ in mesh.answered] == [HERE] * 10
        assert {tuple(addresses) for store, addresses in mesh.asked if store == AWAY} == {(address(0),)}
        assert mesh.closes.waiting() == {AWAY: 10}
        mesh.away = set()
        await trio.sleep(5)
        assert [addresses for store, addresses in mesh.asked if store == AWAY][-1] == [
            address(number) for number in range(1, 10)
        ]
        assert mesh.closes.waiting() == {}

    run(body)


def test_what_nobody_wants_any_more_is_not_asked() -> None:
    async def body(mesh: Mesh) -> None:
        mesh.ask(AWAY, 1, 2)
        await trio.sleep(1)
        mesh.ask(AWAY, 3)
        mesh.closes.drop(address(1))
        mesh.closes.drop(address(2))
        mesh.asked.clear()
        await trio.sleep(1)
        assert {tuple(addresses) for _, addresses in mesh.asked} == {(address(3),)}
        mesh.closes.drop(address(3))
        mesh.asked.clear()
        await trio.sleep(100)
        assert mesh.asked == []
        assert mesh.answered == []

    run(body)


def test_what_a_member_could_not_do_is_asked_again_after_a_pause() -> None:
    async def body(mesh: Mesh) -> None:
        for number in (1, 2):
            mesh.closes.ask_later(HERE, address(number), entry(number), mesh.take)
        assert mesh.closes.waiting() == {HERE: 2}
        await trio.sleep(RETRY_SECONDS - 0.1)
        assert mesh.asked == []
        await trio.sleep(0.2)
        assert mesh.asked == [(HERE, [address(1), address(2)])]

    run(body)


def test_one_answer_can_be_waited_for_and_given_up() -> None:
    async def body(mesh: Mesh) -> None:
        status = await mesh.closes.answer(HERE, address(1), entry(1))
        assert status == AddressStatus(address(1), STATUS_DONE, 3)
        with trio.move_on_after(5):
            await mesh.closes.answer(AWAY, address(1), entry(1))
        assert mesh.closes.waiting() == {}

    run(body)


def test_an_answer_that_is_handled_while_it_ends_asks_nothing_more() -> None:
    """A task that was woken by it goes on in the same turn as the cancellation."""

    async def main() -> None:
        mesh = Mesh()

        def take(_store: str, status: AddressStatus) -> None:
            mesh.take(_store, status)
            mesh.ask(AWAY, 2)
            mesh.closes.ask_later(AWAY, address(3), entry(3), mesh.take)

        mesh.away = {HERE, AWAY}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(mesh.closes.run)
            mesh.closes.ask(HERE, address(1), entry(1), take)
            await trio.sleep(1)
            (request,) = {message for message in mesh.node.sent if isinstance(message, Request)}
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
            take(HERE, AddressStatus(address(1), STATUS_DONE, 3))
        assert request.store == HERE
        assert mesh.closes.waiting() == {HERE: 1, AWAY: 2}

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_who_gives_up_does_not_take_the_question_from_who_asks_the_same() -> None:
    async def body(mesh: Mesh) -> None:
        found: list[AddressStatus] = []

        async def ask(scope: trio.CancelScope) -> None:
            with scope:
                found.append(await mesh.closes.answer(AWAY, address(1), entry(1)))

        first = trio.CancelScope()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, first)
            await trio.sleep(1)
            nursery.start_soon(ask, trio.CancelScope())
            await trio.sleep(1)
            first.cancel()
            await trio.sleep(1)
            mesh.away = set()
        assert found == [AddressStatus(address(1), STATUS_DONE, 3)]

    run(body)
