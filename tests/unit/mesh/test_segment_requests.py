"""What is made of the answers of stores to OPEN, SEAL, CLOSE and DELETE."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from mesh.address_requests import LIST_ENTRIES
from mesh.native.subjects import NativeSubjects
from mesh.producer import Producer
from mesh.protocol.recovery import Seal
from mesh.requests import REPEAT_LAST_SECONDS, Requests
from mesh.routing import gateway_routes
from tests.entries import address_of
from tests.unit.mesh.fake_node import FakeNode
from tests.unit.mesh.producer_asks import closed, opened, sealed
from wireproto.dafka.additions import (
    STATUS_DONE,
    STATUS_SEALED,
    STATUS_STORAGE_ERROR,
    AddressStatus,
    Announcement,
    Answer,
    DeleteEntry,
    Request,
)

STORE = "5" * 32
ADDRESSES = [f"{number:032X}" for number in range(1, 4)]
STRANGERS = {"E" * 32: STATUS_DONE, "F" * 32: STATUS_SEALED}
"""Addresses that nobody asks about, and what the store says of them."""


class Store:
    """Answers each request. `omits`: how many answers leave an address out; it adds what it was not asked."""

    def __init__(self, node: FakeNode) -> None:
        self.node = node
        self.omits: dict[str, float] = {}
        self.statuses: dict[str, int] = {}
        self.asked: list[list[str]] = []
        """The addresses in each request."""
        node.on_sent = self.answer

    def answer(self, request: Request) -> None:
        addresses = [address_of(request.id, entry) for entry in request.entries]
        self.asked.append(addresses)
        statuses = [AddressStatus(name, status, 99) for name, status in STRANGERS.items()]
        for address in addresses:
            if self.omits.get(address, 0) > 0:
                self.omits[address] -= 1
            else:
                status = AddressStatus(address, self.statuses.get(address, STATUS_DONE), 7)
                statuses += [status, status._replace(status=STATUS_DONE)]
        self.node.hears(Answer(request.id.lower(), request.requester, STORE, tuple(statuses)))


def run(body: Callable[[Producer, Store], Awaitable[None]]) -> None:
    async def main() -> None:
        node = FakeNode()
        store = Store(node)
        producer = Producer(node.as_node, Requests(node.as_node))
        subjects = NativeSubjects(node.as_node, producer.requests)
        node.route(gateway_routes(producer.requests, producer, subjects))
        with trio.fail_after(600):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(producer.run)
                await body(producer, store)
                nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


def announcements() -> list[Announcement]:
    return [
        Announcement(address, "orders", "cluster", "log/0", 3, 0, (STORE,), 1, b"{}") for address in ADDRESSES
    ]


async def use(producer: Producer, letter: str) -> Any:
    """What is made of the answers of one store, for `ADDRESSES`."""
    if letter == "O":
        return await opened(producer, announcements())
    if letter == "S":
        seals = [Seal(address, [STORE], 1) for address in ADDRESSES]
        await sealed(producer, seals)
        return [seal.end()[0] if seal.decidable else seal.refused for seal in seals]
    if letter == "C":
        return await closed(producer, STORE, [(address, 7) for address in ADDRESSES])
    return await producer.segments.delete(STORE, [DeleteEntry(address) for address in ADDRESSES])


def done(*others: tuple[int, int]) -> list[AddressStatus]:
    """The statuses of `ADDRESSES`: DONE but for (place, status) in `others`."""
    return [AddressStatus(a, dict(others).get(place, STATUS_DONE), 7) for place, a in enumerate(ADDRESSES)]


GOOD: dict[str, Any] = {"O": {}, "S": [7, 7, 7], "C": done(), "X": done()}


@pytest.mark.parametrize("letter", GOOD)
def test_addresses_that_were_not_asked_for_are_ignored(letter: str) -> None:
    async def body(producer: Producer, store: Store) -> None:
        assert await use(producer, letter) == GOOD[letter]
        assert store.asked == [ADDRESSES]

    run(body)


@pytest.mark.parametrize("letter", GOOD)
def test_addresses_that_an_answer_leaves_out_are_asked_for_again(letter: str) -> None:
    async def body(producer: Producer, store: Store) -> None:
        store.omits = {ADDRESSES[0]: 1, ADDRESSES[2]: 2}
        found = await use(producer, letter)
        if letter in "CX":
            found.sort()
        assert found == GOOD[letter]
        assert store.asked == [ADDRESSES, [ADDRESSES[0], ADDRESSES[2]], [ADDRESSES[2]]]
        assert trio.current_time() == pytest.approx(2 * REPEAT_LAST_SECONDS)

    run(body)


@pytest.mark.parametrize("letter", GOOD)
def test_what_is_never_answered_for_is_asked_for_at_intervals_and_for_ever(letter: str) -> None:
    async def body(producer: Producer, store: Store) -> None:
        store.omits = {ADDRESSES[1]: math.inf}
        with trio.move_on_after(10.5 * REPEAT_LAST_SECONDS):
            await use(producer, letter)
            raise AssertionError("it has no answer for one address")
        assert store.asked == [ADDRESSES] + [ADDRESSES[1:2]] * 10

    run(body)


@pytest.mark.parametrize(
    ("letter", "expected"),
    [
        ("O", {ADDRESSES[1]: {STORE: STATUS_STORAGE_ERROR}}),
        ("S", [7, {STORE: STATUS_STORAGE_ERROR}, 7]),
        ("C", done((1, STATUS_STORAGE_ERROR))),
        ("X", done((1, STATUS_STORAGE_ERROR))),
    ],
)
def test_what_a_store_could_not_do_is_told(letter: str, expected: Any) -> None:
    """The first status of an address counts."""

    async def body(producer: Producer, store: Store) -> None:
        store.statuses = {ADDRESSES[1]: STATUS_STORAGE_ERROR}
        assert await use(producer, letter) == expected
        assert store.asked == [ADDRESSES], "whoever asked decides about asking again"

    run(body)


def test_long_lists_are_asked_in_pieces() -> None:
    async def body(producer: Producer, store: Store) -> None:
        addresses = [f"{number:032X}" for number in range(2 * LIST_ENTRIES + 1)]
        store.omits = {addresses[0]: 1}
        statuses = await producer.segments.delete(STORE, list(map(DeleteEntry, addresses)))
        assert sorted(status.address for status in statuses) == addresses
        assert [len(asked) for asked in store.asked] == [LIST_ENTRIES, 1, LIST_ENTRIES, 1]

    run(body)
