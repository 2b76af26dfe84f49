"""Real stores in one trio loop, linked to each other and to a gateway that a test plays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import trio

from mesh.links import Context
from mesh.node import Node
from mesh.requests import Requests
from mesh.routing import requests_routes
from mesh.store import keys
from mesh.store.db import Database
from mesh.store.store import Store, StoreSettings
from tests.entries import entry_of
from wireproto.dafka import ids
from wireproto.dafka.additions import AddressStatus, Announcement, Answer, Copy, OpenEntry, Ping, Request
from wireproto.dafka.messages import DirectRecordEncoder, Fetch, Head, RecordEncoder
from wireproto.records.batch import assign_offsets
from wireproto.records.builder import build_batch

PATIENCE_SECONDS = 170
"""For a whole test on a machine that does other things as well; a little less than pytest has for a test
that hangs (`faulthandler_timeout`)."""
EPOCH = 3


def batch(number: int, size: int = 100) -> bytes:
    """A batch that tells its number, as a writer of `EPOCH` would publish it."""
    content = bytearray(build_batch([(b"k", b"%d " % number * (size // 8 + 1), [], 1000 + number % 7)]))
    assign_offsets(content, number, EPOCH)
    return bytes(content)


OWN = (keys.FORMAT_KEY, keys.INCARNATIONS, keys.COMMIT, keys.STARTS)


def contents(path: Path) -> dict[bytes, bytes]:
    """Every key of a store that is stopped, but those that say who it is and how often it wrote."""
    database = Database(path)
    found: dict[bytes, bytes] = {}
    iterator = database._db.iter()
    iterator.seek_to_first()
    while iterator.valid():
        found[iterator.key()] = iterator.value()
        iterator.next()
    iterator.status()
    database.close()
    return {key: value for key, value in found.items() if key not in OWN}


async def until(condition: Callable[[], bool]) -> None:
    """Return when `condition` holds; nothing tells of what happens inside a store."""
    while not condition():  # noqa: ASYNC110
        await trio.sleep(0.002)


class Running:
    """One store that runs until `stop`."""

    def __init__(self, store: Store, endpoint: str, scope: trio.CancelScope, done: trio.Event) -> None:
        self.store = store
        self.endpoint = endpoint
        self._scope = scope
        self._done = done

    async def stop(self) -> None:
        self._scope.cancel()
        await self._done.wait()


class Stores:
    """The stores, all linked with all, and a gateway's node linked with each."""

    def __init__(self, folder: Path, nursery: trio.Nursery, transport: str = "inproc") -> None:
        self.folder = folder
        self.context = Context()
        self.gateway = Gateway(self.context)
        self.running: dict[str, Running] = {}
        self._nursery = nursery
        self._transport = transport
        self.gateway_endpoint = self.gateway.node.publisher.bind(self.any_endpoint())

    def any_endpoint(self) -> str:
        return "tcp://127.0.0.1:*" if self._transport == "tcp" else f"inproc://{uuid4().hex}"

    def path(self, incarnation: str) -> Path:
        return self.folder / incarnation

    async def start(self, *incarnations: str, greet: bool = True) -> None:
        for incarnation in incarnations:
            await self._start(incarnation)
            if greet:
                await self.gateway.greet(incarnation)

    async def _start(self, incarnation: str) -> None:
        store = Store(self.context, StoreSettings(self.path(incarnation), incarnation))
        endpoint = store.node.publisher.bind(self.any_endpoint())
        scope, done = trio.CancelScope(), trio.Event()

        async def run(*, task_status: trio.TaskStatus[None]) -> None:
            with scope:
                await store.run(task_status=task_status)
            done.set()

        await self._nursery.start(run)
        for peer in self.running.values():
            peer.store.node.connect(endpoint)
            store.node.connect(peer.endpoint)
        self.gateway.node.connect(endpoint)
        store.node.connect(self.gateway_endpoint)
        self.running[incarnation] = Running(store, endpoint, scope, done)

    def __getitem__(self, incarnation: str) -> Store:
        return self.running[incarnation].store

    async def stop(self, *incarnations: str) -> None:
        for incarnation in incarnations:
            gone = self.running.pop(incarnation)
            for node in (self.gateway.node, *(peer.store.node for peer in self.running.values())):
                node.disconnect(gone.endpoint)
            await gone.stop()

    async def contents(self, incarnation: str) -> dict[bytes, bytes]:
        """Every key of a store, which is stopped for it."""
        if incarnation in self.running:
            await self.stop(incarnation)
        return contents(self.path(incarnation))

    def all_have(self, incarnations: Sequence[str], address: str, last: int) -> bool:
        return all(self.head(incarnation, address) >= last for incarnation in incarnations)

    def head(self, incarnation: str, address: str) -> int:
        state = self[incarnation].ingest.known(address)
        return -1 if state is None else state.head


class Gateway:
    """Its node: asks, publishes, and answers FETCHes from a window that the test fills."""

    def __init__(self, context: Context, life: str = "") -> None:
        self.node = Node(context)
        self.requests = Requests(self.node, life)
        self.window: dict[str, dict[int, bytes]] = {}
        """address -> sequence -> content, for FETCHes that are not directed."""
        self.fetches: list[Fetch] = []
        for letter in (ids.FETCH, ids.ACK):
            self.node.subscribe(letter + self.requests.prefix.encode())
        self.node.route({**requests_routes(self.requests), Fetch: self._on_fetch})

    async def greet(self, store: str) -> None:
        await self.requests.ask(store, lambda requester: Ping(store, requester))

    def announcement(
        self, members: Sequence[str], w: int = 1, *, log: str = "log/0", epoch: int = EPOCH
    ) -> Announcement:
        address = self.requests.new_id()
        return Announcement(address, "orders", "cluster", log, epoch, 0, tuple(members), w, b"details")

    async def ask(self, letter: bytes, store: str, *entries: bytes) -> tuple[AddressStatus, ...]:
        answer: Answer = await self.requests.ask(
            store, lambda requester: Request(letter, store, requester, entries)
        )
        return answer.statuses

    async def open(self, store: str, *segments: Announcement) -> list[int]:
        return [
            one.status
            for one in await self.ask(ids.OPEN, store, *(OpenEntry(one).pack() for one in segments))
        ]

    async def seal(self, store: str, address: str) -> AddressStatus:
        return (await self.ask(ids.SEAL, store, entry_of(ids.SEAL, address)))[0]

    async def close(self, store: str, address: str, end: int) -> AddressStatus:
        return (await self.ask(ids.CLOSE, store, entry_of(ids.CLOSE, address, end)))[0]

    async def copy(self, store: str, segment: Announcement, end: int, *sources: str) -> AddressStatus:
        return (await self.ask(ids.COPY, store, Copy(segment, end, sources).pack()))[0]

    def publish(self, segment: Announcement, first: int, last: int, size: int = 100) -> None:
        encoder = RecordEncoder(segment.address, segment.subject)
        for number in range(first, last + 1):
            self.node.publisher.send(encoder.frames(number, batch(number, size)))

    async def write(
        self, stores: Stores, segment: Announcement, first: int, last: int, size: int = 100
    ) -> None:
        """Publish, and wait until every member that runs has it."""
        encoder = RecordEncoder(segment.address, segment.subject)
        members = [member for member in segment.members if member in stores.running]
        for start in range(first, last + 1, 500):
            end = min(last, start + 499)
            for number in range(start, end + 1):
                self.node.publisher.send(encoder.frames(number, batch(number, size)))
            await until(partial(stores.all_have, members, segment.address, end))

    def head(self, segment: Announcement, last: int) -> None:
        self.node.send(Head(segment.address, segment.subject, last))

    def _on_fetch(self, fetch: Fetch) -> None:
        self.fetches.append(fetch)
        window = self.window.get(fetch.address, {})
        encoder = DirectRecordEncoder(fetch.requester, "", fetch.address, fetch.subject)
        for number in range(fetch.sequence, fetch.sequence + fetch.count):
            if number not in window:
                return
            self.node.publisher.send(encoder.frames(number, window[number]))


def run(folder: Path, scenario: Any, transport: str = "inproc") -> None:
    """Run `scenario(stores)` with a gateway and no store yet."""

    async def main() -> None:
        with trio.fail_after(PATIENCE_SECONDS):
            async with trio.open_nursery() as nursery:
                stores = Stores(folder, nursery, transport)
                try:
                    await nursery.start(stores.gateway.node.run)
                    await scenario(stores)
                    await stores.stop(*stores.running)
                    nursery.cancel_scope.cancel()
                finally:
                    nursery.cancel_scope.cancel()
        stores.context.close()

    trio.run(main)
