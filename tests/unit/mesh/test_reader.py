"""What a reader makes of stores that are silent, that refuse, or that answer something else than they were
asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from mesh import reader as reader_module
from mesh.reader import NotServed, Reader
from mesh.requests import Requests
from mesh.routing import requests_routes
from tests.unit.mesh.fake_node import FakeNode
from wireproto.dafka.additions import (
    STATUS_ANSWER_FULL,
    STATUS_DONE,
    STATUS_NOT_HERE,
    STATUS_STORAGE_ERROR,
    AddressStatus,
    Announcement,
    Answer,
    Beginning,
    GetRows,
    Request,
    Rows,
    Verified,
    Verify,
)

ONE, TWO = "1" * 32, "2" * 32
ADDRESS = "A" * 32


def run(body: Callable[[FakeNode, Reader], Awaitable[None]]) -> None:
    async def main() -> None:
        node = FakeNode()
        requests = Requests(node.as_node)
        node.route(requests_routes(requests))
        await body(node, Reader(requests))

    trio.run(main, clock=MockClock(autojump_threshold=0))


def statuses(node: FakeNode, by_store: dict[str, int]) -> None:
    """Each store answers ROWS with its status; one that is not named is silent."""

    def answer(message: GetRows) -> None:
        if message.store in by_store:
            status = AddressStatus(ADDRESS, by_store[message.store], -1)
            node.hears(Rows(message.requester, message.store, status, b""))

    node.on_sent = answer


@pytest.mark.parametrize(
    ("by_store", "silent", "storage_error"),
    [
        ({}, (ONE, TWO), False),
        ({ONE: STATUS_NOT_HERE}, (TWO,), False),
        ({TWO: STATUS_STORAGE_ERROR}, (ONE,), True),
        ({ONE: STATUS_NOT_HERE, TWO: STATUS_NOT_HERE}, (), False),
        ({ONE: STATUS_NOT_HERE, TWO: STATUS_STORAGE_ERROR}, (), True),
    ],
)
def test_who_is_silent_is_told_from_who_has_it_not(
    by_store: dict[str, int], silent: tuple[str, ...], storage_error: bool
) -> None:
    async def body(node: FakeNode, reader: Reader) -> None:
        statuses(node, by_store)
        with pytest.raises(NotServed) as raised:
            await reader.rows([ONE, TWO], ADDRESS, 0, 3)
        assert (raised.value.silent, raised.value.storage_error) == (silent, storage_error)
        for store in silent:
            assert f"store {store} did not answer" in str(raised.value)

    run(body)


def verified(message: Verify) -> list[Verified]:
    return [Verified(STATUS_DONE, int(log), "L", 0) for log, _ in message.entries]


def entries(count: int) -> list[tuple[str, str]]:
    return [(str(number), "") for number in range(count)]


def test_many_logs_are_asked_for_in_pieces_and_told_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "VERIFY_COUNT", 3)

    async def body(node: FakeNode, reader: Reader) -> None:
        node.on_sent = lambda message: node.hears(_rows(message, Verified.pack_all(verified(message))))
        found = await reader.verify(ONE, entries(8))
        assert [one.epoch for one in found] == list(range(8))
        assert [len(message.entries) for message in node.sent] == [3, 3, 2]
        assert await reader.verify(ONE, []) == []

    run(body)


def _rows(message: Verify, content: bytes) -> Rows:
    return Rows(message.requester, message.store, AddressStatus(message.store, STATUS_DONE, -1), content)


def test_an_answer_that_is_none_is_asked_again_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    def nonsense(message: Verify) -> Iterator[bytes]:
        right = verified(message)
        yield b""
        yield b"\xff" * 9
        yield Verified.pack_all(right[1:])
        yield Verified.pack_all([*right, right[0]])
        yield Verified.pack_all(right)

    async def body(node: FakeNode, reader: Reader) -> None:
        answers: list[Iterator[bytes]] = []

        def answer(message: Any) -> None:
            if not answers:
                answers.append(nonsense(message))
            node.hears(_rows(message, next(answers[0])))

        node.on_sent = answer
        found = await reader.verify(ONE, entries(2))
        assert [one.epoch for one in found] == [0, 1]
        assert len(node.sent) == 5

    run(body)
    assert caplog.text.count("asked again") == 1


BEGUN = Beginning(Announcement(ADDRESS, "orders", "C", "L", 0, 0, (ONE, TWO), 1, b"{}"), b"rows")


def test_beginnings_asked_for_together_are_one_request_and_full_answers_are_asked_again() -> None:
    sent: list[list[str]] = []

    async def body(node: FakeNode, reader: Reader) -> None:
        def answer(message: Request) -> None:
            asked = [AddressStatus.unpack(entry) for entry in message.entries]
            sent.append([status.address for status in asked])
            first, *others = asked
            statuses = [AddressStatus(first.address, STATUS_DONE, first.sequence, BEGUN.pack())]
            statuses += [AddressStatus(other.address, STATUS_ANSWER_FULL, -1) for other in others]
            node.hears(Answer(b"b", message.requester, message.store, tuple(statuses)))

        node.on_sent = answer
        found: dict[str, Beginning] = {}

        async def ask(address: str) -> None:
            found[address] = await reader.beginning([ONE, TWO], address, 3)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(reader.run)
            async with trio.open_nursery() as asking:
                for address in ("A1", "A2", "A3"):
                    asking.start_soon(ask, address)
            nursery.cancel_scope.cancel()
        assert found == dict.fromkeys(("A1", "A2", "A3"), BEGUN)

    run(body)
    assert [len(addresses) for addresses in sent] == [3, 2, 1]


def test_a_beginning_that_cannot_be_read_is_asked_of_the_next_member() -> None:
    contents = {ONE: b"?", TWO: BEGUN.pack()}

    async def body(node: FakeNode, reader: Reader) -> None:
        def answer(message: Request) -> None:
            status = AddressStatus(ADDRESS, STATUS_DONE, 3, contents[message.store])
            node.hears(Answer(b"b", message.requester, message.store, (status,)))

        node.on_sent = answer
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reader.run)
            assert await reader.beginning([ONE, TWO], ADDRESS, 3) == BEGUN
            contents[TWO] = b""
            with pytest.raises(NotServed, match="cannot be read"):
                await reader.beginning([ONE, TWO], ADDRESS, 3)
            nursery.cancel_scope.cancel()

    run(body)
