"""The shell: whom it PINGs and when, what it makes of PONGs, and who is hurried when a store is back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from mesh.presence import StorePresence
from mesh.protocol.presence import LIVE_SECONDS
from mesh.protocol.vouching import StoreLife
from mesh.requests import Requests
from mesh.routing import requests_routes
from tests.unit.mesh.fake_node import FakeNode
from wireproto.dafka.additions import ANY_STORE, STATUS_DONE, AddressStatus, Found, Lookup, Ping, Pong

STORE, OTHER = "5" * 32, "6" * 32
A, B = b"\1" * 8, b"\2" * 8


class Mesh:
    """A node whose PINGs are answered by the stores in `answering`."""

    def __init__(self) -> None:
        self.node = FakeNode()
        self.requests = Requests(self.node.as_node)
        self.node.route(requests_routes(self.requests))
        self.presence = StorePresence(self.node.as_node, self.requests)
        self.answering: set[str] = set()
        self.pings: list[tuple[float, str]] = []
        self.node.on_sent = self._sent

    def _sent(self, message: Any) -> None:
        if not isinstance(message, Ping):
            return
        self.pings.append((round(trio.current_time(), 3), message.store))
        for store in sorted(self.answering):
            if message.store in (ANY_STORE, store):
                self.node.hears(Pong(message.requester, store, "cluster", f"name of {store[0]}"))


def run(body: Callable[[Mesh], Awaitable[None]]) -> None:
    async def main() -> None:
        mesh = Mesh()
        with trio.fail_after(600):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(mesh.presence.run)
                await body(mesh)
                nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_everybody_is_asked_all_the_time_and_who_is_silent_by_name() -> None:
    async def body(mesh: Mesh) -> None:
        mesh.answering = {STORE}
        await trio.sleep(20)
        assert {name for _, name in mesh.pings} == {ANY_STORE}
        assert 0.9 < mesh.pings[-1][0] - mesh.pings[-2][0] < 1.1
        assert mesh.pings[1][0] - mesh.pings[0][0] < 0.2
        assert mesh.presence.live(STORE)
        assert not mesh.presence.live(OTHER)
        mesh.answering = set()
        await trio.sleep(10)
        assert not mesh.presence.live(STORE)
        assert [name for _, name in mesh.pings[-2:]] == [ANY_STORE, STORE]
        assert mesh.presence.name(STORE) == "name of 5"
        assert mesh.presence.name(OTHER) == OTHER

    run(body)


def test_whatever_a_store_says_counts() -> None:
    async def body(mesh: Mesh) -> None:
        mesh.answering = {STORE}
        await trio.sleep(5)
        mesh.answering = set()
        for _ in range(10):
            mesh.requests.heard.add(STORE)
            await trio.sleep(LIVE_SECONDS / 2)
            assert mesh.presence.live(STORE)

    run(body)


def test_waiting_for_stores() -> None:
    async def body(mesh: Mesh) -> None:
        waited: list[float] = []

        async def wait() -> None:
            await mesh.presence.wait_for(lambda presence: len(presence.live_stores) == 2)
            waited.append(trio.current_time())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            mesh.answering = {STORE}
            await trio.sleep(5)
            assert waited == []
            mesh.answering = {STORE, OTHER}
        assert len(waited) == 1
        assert waited[0] < 6.5

    run(body)


def test_what_a_store_did_not_answer_is_sent_at_once_when_it_is_back() -> None:
    async def body(mesh: Mesh) -> None:
        found: list[Any] = []

        async def ask() -> None:
            status = AddressStatus("A" * 32, STATUS_DONE, 3)
            found.append(
                await mesh.requests.ask(STORE, lambda requester: Lookup(STORE, requester, "A" * 32, 0, 0, 0))
            )
            assert found == [Found(found[0].requester, STORE, status)]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.sleep(100.1)
            sent = [message for message in mesh.node.sent if isinstance(message, Lookup)]
            before = len(sent)
            mesh.answering = {STORE}
            await mesh.presence.wait_for(lambda presence: presence.live(STORE))
            await wait_all_tasks_blocked()
            sent = [message for message in mesh.node.sent if isinstance(message, Lookup)]
            assert len(sent) == before + 1
            status = AddressStatus("A" * 32, STATUS_DONE, 3)
            mesh.node.hears(Found(sent[-1].requester, STORE, status))
        assert len(found) == 1

    run(body)


def test_a_pong_that_nobody_asked_for_says_nothing() -> None:
    """Neither that a store is there, nor that another start has taken its place."""

    async def body(mesh: Mesh) -> None:
        mesh.answering = {STORE}
        await trio.sleep(5)
        (asked,) = {message.requester for message in mesh.node.sent[-1:]}
        mesh.presence.vouching.remember(STORE, StoreLife(A, 10))
        never = f"{mesh.requests.prefix}{1 << 60:016X}"
        forged = Pong(never, STORE, "cluster", "forged", 0, 0, B, 1, A, 1 << 62)
        mesh.node.hears(forged, forged._replace(store=OTHER))
        assert mesh.presence.name(STORE) == "name of 5"
        assert OTHER not in mesh.presence.seen
        # That question was for all stores, and did not have the nonce.
        mesh.node.hears(forged._replace(requester=asked))
        assert mesh.presence.vouching.question(STORE) == A
        assert mesh.presence.name(STORE) == "name of 5"
        assert not mesh.presence.vouching.refused

    run(body)


def test_what_is_asked_is_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mesh.presence.MAX_ASKED", 10)

    async def body(mesh: Mesh) -> None:
        mesh.answering = {STORE}
        await trio.sleep(100)
        first = next(message.requester for message in mesh.node.sent if isinstance(message, Ping))
        mesh.node.hears(Pong(first, OTHER, "cluster", "late"))
        assert OTHER not in mesh.presence.seen
        assert mesh.presence.live(STORE)

    run(body)
