"""Requests: which answers are taken for a pending one, and how much of them is kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from mesh.requests import RANGE_REPEAT_SECONDS, REPEAT_FIRST_SECONDS, Requests
from mesh.routing import requests_routes
from tests.unit.mesh.fake_node import FakeNode
from wireproto.dafka.additions import (
    ANY_STORE,
    STATUS_DONE,
    AddressStatus,
    Answer,
    Digest,
    Digested,
    End,
    Found,
    GetRows,
    Listed,
    ListSegments,
    Lookup,
    Ping,
    Pong,
    Request,
    Rows,
)
from wireproto.dafka.messages import DirectRecord, Fetch

STORE = "5" * 32
OTHER = "6" * 32
ADDRESS = "A" * 32
STATUS = AddressStatus(ADDRESS, STATUS_DONE, 7)

ASKED: dict[str, Callable[[str], Any]] = {
    "OPEN": lambda requester: Request(b"O", STORE, requester, ()),
    "SEAL": lambda requester: Request(b"S", STORE, requester, (STATUS.pack(),)),
    "CLOSE": lambda requester: Request(b"C", STORE, requester, (STATUS.pack(),)),
    "DELETE": lambda requester: Request(b"X", STORE, requester, (STATUS.pack(),)),
    "PING": lambda requester: Ping(STORE, requester),
    "PING to any": lambda requester: Ping(ANY_STORE, requester),
    "LOOKUP": lambda requester: Lookup(STORE, requester, ADDRESS, 0, 5, 9),
    "ROWS": lambda requester: GetRows(STORE, requester, ADDRESS, 0, 5),
    "DIGEST": lambda requester: Digest(STORE, requester, ADDRESS, 0, 5),
    "LIST": lambda requester: ListSegments(STORE, requester, "", 5),
    "FETCH": lambda requester: Fetch(ADDRESS, requester, "orders", 0, 5, STORE, 100),
}


def answers(requester: str, store: str) -> dict[str, Any]:
    """One of each type."""
    return {
        "OPEN": Answer(b"o", requester, store, (STATUS,)),
        "SEAL": Answer(b"s", requester, store, (STATUS,)),
        "CLOSE": Answer(b"c", requester, store, (STATUS,)),
        "DELETE": Answer(b"x", requester, store, (STATUS,)),
        "PING": Pong(requester, store, "cluster", "name"),
        "LOOKUP": Found(requester, store, STATUS),
        "ROWS": Rows(requester, store, STATUS, b""),
        "DIGEST": Digested(requester, store, STATUS._replace(row=bytes(32))),
        "LIST": Listed(requester, store, ()),
        "FETCH": End(requester, store, STATUS),
    }


def run(body: Callable[[FakeNode, Requests], Awaitable[None]]) -> None:
    async def main() -> None:
        node = FakeNode()
        with trio.fail_after(60):
            requests = Requests(node.as_node)
            node.route(requests_routes(requests))
            await body(node, requests)

    trio.run(main, clock=MockClock(autojump_threshold=0))


async def answer_of(requests: Requests, asked: str) -> Any:
    make = ASKED[asked]
    store = make("R").store
    if asked == "FETCH":
        return (await requests.ask_range(store, make))[1]
    return await requests.ask(store, make)


@pytest.mark.parametrize("asked", ASKED)
def test_only_the_answer_that_was_asked_for_is_taken(asked: str) -> None:
    """Whoever is on the mesh can guess a request's id."""
    right_kind = asked.removesuffix(" to any")
    right_store = OTHER if asked == "PING to any" else STORE

    async def body(node: FakeNode, requests: Requests) -> None:
        unclaimed: list[Answer] = []
        requests.unclaimed = unclaimed.append
        found: list[Any] = []

        async def ask() -> None:
            found.append(await answer_of(requests, asked))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            requester = node.sent[0].requester
            wrong = [
                answer
                for store in (OTHER, STORE)
                for kind, answer in answers(requester, store).items()
                if kind != right_kind or (store == OTHER and asked != "PING to any")
            ]
            node.hears(*wrong)
            await wait_all_tasks_blocked()
            assert found == []
            assert requests.refused_answers == len(wrong)
            right = answers(requester, right_store)[right_kind]
            node.hears(right)
        assert found == [right]
        assert unclaimed == []

    run(body)


@pytest.mark.parametrize("asked", ["LOOKUP", "ROWS", "DIGEST", "FETCH"])
def test_an_answer_about_another_address_is_not_taken(asked: str) -> None:
    """It is counted, and the right one is waited for."""
    elsewhere = STATUS._replace(address="E" * 32)

    async def body(node: FakeNode, requests: Requests) -> None:
        found: list[Any] = []

        async def ask() -> None:
            found.append(await answer_of(requests, asked))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            requester = node.sent[0].requester
            right = answers(requester, STORE)[asked]
            wrong = {
                "LOOKUP": Found(requester, STORE, elsewhere),
                "ROWS": Rows(requester, STORE, elsewhere, b""),
                "DIGEST": Digested(requester, STORE, elsewhere._replace(row=bytes(32))),
                "FETCH": End(requester, STORE, elsewhere),
            }[asked]
            node.hears(wrong)
            await wait_all_tasks_blocked()
            assert (found, requests.refused_answers) == ([], 1)
            node.hears(right)
        assert found == [right]

    run(body)


def test_the_first_of_two_answers_is_taken() -> None:
    async def body(node: FakeNode, requests: Requests) -> None:
        def answer(message: Any) -> None:
            node.hears(*(Pong(message.requester, STORE, "cluster", name) for name in ("first", "second")))

        node.on_sent = answer
        assert (await answer_of(requests, "PING")).name == "first"

    run(body)


def test_a_request_is_repeated_with_the_same_id() -> None:
    async def body(node: FakeNode, requests: Requests) -> None:
        with trio.move_on_after(REPEAT_FIRST_SECONDS * 3.5):
            await answer_of(requests, "PING")
        assert len(node.sent) == 3
        assert len(set(node.sent)) == 1

    run(body)


def records(requester: str, *sequences: int, size: int = 10, store: str = STORE) -> list[DirectRecord]:
    return [
        DirectRecord(requester, store, ADDRESS, "orders", sequence, b"%d" % (sequence % 10) * size)
        for sequence in sequences
    ]


@pytest.mark.parametrize(
    ("first", "count", "byte_cap", "sent", "kept"),
    [
        (3, 4, 1000, range(3, 7), range(3, 7)),
        (3, 4, 1000, range(3, 100), range(3, 7)),
        (0, 100, 35, range(100), range(4)),
        (0, 100, 40, range(100), range(4)),
        (0, 100, 0, range(100), range(1)),
        (0, 0, 100, range(100), range(0)),
        (5, 10, 1000, [5, 5, 4, 6, 5, 6, 7], [5, 6, 7]),
        (5, 10, 1000, [5, 6, 8, 9, 2**63 - 1], [5, 6]),
        (5, 10, 1000, [6, 7, 8], []),
    ],
    ids=[
        "all",
        "more than the count",
        "more than the bytes",
        "as many bytes as the cap",
        "one at least",
        "none",
        "doubles",
        "a hole",
        "without the first",
    ],
)
def test_of_a_range_no_more_is_kept_than_was_asked_for(
    first: int, count: int, byte_cap: int, sent: list[int], kept: list[int]
) -> None:
    async def body(node: FakeNode, requests: Requests) -> None:
        def answer(message: Fetch) -> None:
            strangers = [
                *records(message.requester, first, store=OTHER),
                DirectRecord(message.requester, STORE, "B" * 32, "orders", first, b"another address"),
                *records(f"{requests.prefix}{9999:016X}", first),
            ]
            node.hears(*strangers, *records(message.requester, *sent))
            assert requests.refused_answers == len(strangers) + len(sent) - len(kept)
            node.hears(End(message.requester, STORE, STATUS))
            node.hears(*records(message.requester, *sent))

        node.on_sent = answer
        found, end = await requests.ask_range(
            STORE,
            lambda requester: Fetch(ADDRESS, requester, "orders", first, count, STORE, byte_cap),
        )
        assert found == records(node.sent[0].requester, *kept)
        assert end.last == STATUS

    run(body)


def test_a_range_whose_end_was_lost_goes_on_where_it_broke_off() -> None:
    async def body(node: FakeNode, requests: Requests) -> None:
        def answer(message: Fetch) -> None:
            if len(node.sent) == 1:
                node.hears(*records(message.requester, 0, 1, 3, 4))
            else:
                node.hears(*records(message.requester, *range(5)), End(message.requester, STORE, STATUS))

        node.on_sent = answer
        started = trio.current_time()
        found, _ = await requests.ask_range(STORE, ASKED["FETCH"])
        assert [record.sequence for record in found] == [0, 1, 2, 3, 4]
        assert trio.current_time() - started == pytest.approx(RANGE_REPEAT_SECONDS)

    run(body)


def test_records_for_a_request_of_another_kind_are_refused() -> None:
    async def body(node: FakeNode, requests: Requests) -> None:
        def answer(message: Ping) -> None:
            node.hears(*records(message.requester, 0), Pong(message.requester, STORE, "cluster", "name"))

        node.on_sent = answer
        await answer_of(requests, "PING")
        assert requests.refused_answers == 1

    run(body)
