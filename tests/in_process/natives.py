"""Native producers and consumers inside the test's own process, linked to the store of a standalone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

import trio

from dafka.processes.standalone import Standalone
from mesh.native.consumer import NativeConsumer
from mesh.native.producer import NativeProducer
from mesh.node import Node

_numbers = count()


@asynccontextmanager
async def native_producer(server: Standalone, subject: str) -> AsyncIterator[NativeProducer]:
    """One that the store hears, and that hears the store, while the block runs; the gateway has no link to
    it.
    """
    producer = NativeProducer(server.context, subject)
    _link(server, producer.node)
    async with trio.open_nursery() as nursery:
        await nursery.start(producer.run)
        yield producer
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def native_consumer(server: Standalone, subject: str) -> AsyncIterator[NativeConsumer]:
    """One that reads from the beginning, as `native_producer`."""
    consumer = NativeConsumer(server.context, subject, from_beginning=True)
    _link(server, consumer.node)
    async with trio.open_nursery() as nursery:
        await nursery.start(consumer.run)
        yield consumer
        nursery.cancel_scope.cancel()


def _link(server: Standalone, native: Node) -> None:
    number = next(_numbers)
    store = server.store.node
    native.connect(store.publisher.bind(f"inproc://store-of-natives-{number}"))
    store.connect(native.publisher.bind(f"inproc://native-{number}"))
