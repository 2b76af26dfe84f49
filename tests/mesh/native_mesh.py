"""Native producers and consumers with real stores in one process, linked over `inproc://`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from mesh.links import Context
from mesh.native.consumer import NativeConsumer
from mesh.native.producer import NativeProducer
from mesh.node import Node
from mesh.store.store import Store, StoreSettings

PATIENCE_SECONDS = 30


class NativeMesh:
    """`join` links a node with everybody who joined before, both ways."""

    def __init__(self, context: Context, nursery: trio.Nursery, path: Path) -> None:
        self.context = context
        self.nursery = nursery
        self.path = path
        self._nodes: list[tuple[Node, str]] = []
        self._joined = 0

    def join(self, node: Node) -> None:
        endpoint = node.publisher.bind(f"inproc://node-{self._joined}")
        self._joined += 1
        for other, other_endpoint in self._nodes:
            node.connect(other_endpoint)
            other.connect(endpoint)
        self._nodes.append((node, endpoint))

    def leave(self, node: Node) -> None:
        self._nodes = [entry for entry in self._nodes if entry[0] is not node]

    async def store(self, name: str, **settings: Any) -> Store:
        store = Store(self.context, StoreSettings(self.path / name, name, **settings))
        await self.nursery.start(store.run)
        self.join(store.node)
        return store

    async def producer(self, subject: str = "t", stores: int = 1) -> NativeProducer:
        producer = NativeProducer(self.context, subject, stores)
        await self.nursery.start(producer.run)
        self.join(producer.node)
        return producer

    async def consumer(self, subject: str = "t", *, from_beginning: bool = True) -> NativeConsumer:
        consumer = NativeConsumer(self.context, subject, from_beginning=from_beginning)
        await self.nursery.start(consumer.run)
        self.join(consumer.node)
        return consumer


@asynccontextmanager
async def native_mesh(path: Path) -> AsyncIterator[NativeMesh]:
    context = Context()
    try:
        async with trio.open_nursery() as nursery:
            yield NativeMesh(context, nursery, path)
            nursery.cancel_scope.cancel()
    finally:
        context.close()


def run(path: Path, test: Callable[[NativeMesh], Any]) -> None:
    async def main() -> None:
        with trio.fail_after(PATIENCE_SECONDS):
            async with native_mesh(path) as mesh:
                await test(mesh)

    trio.run(main)


def contents(count: int, word: str = "record") -> list[bytes]:
    return [f"{word} {number}".encode() for number in range(count)]


async def until(condition: Callable[[], Any]) -> None:
    while not condition():  # noqa: ASYNC110  nothing tells
        await trio.sleep(0.01)


async def produce(producer: NativeProducer, records: Sequence[bytes]) -> None:
    """Publish, and wait until enough stores have all of it."""
    for record in records:
        await producer.produce(record)
    await producer.drained()


async def receive(consumer: NativeConsumer, count: int) -> dict[str, list[bytes]]:
    """So many records, by address."""
    found: dict[str, list[bytes]] = {}
    for _ in range(count):
        delivery = await consumer.receive()
        of_address = found.setdefault(delivery.address, [])
        assert delivery.sequence == len(of_address), "from the beginning, in order, each once"
        of_address.append(delivery.content)
    return found
