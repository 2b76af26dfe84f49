"""Native producers inside the test's own process, linked to the store of a standalone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

import trio

from dafka.processes.standalone import Standalone
from mesh.native.producer import NativeProducer

_numbers = count()


@asynccontextmanager
async def native_producer(server: Standalone, subject: str) -> AsyncIterator[NativeProducer]:
    """One that the store hears, and that hears the store, while the block runs; the gateway has no link to
    it.
    """
    producer = NativeProducer(server.context, subject)
    number = next(_numbers)
    store = server.store.node
    producer.node.connect(store.publisher.bind(f"inproc://store-of-natives-{number}"))
    store.connect(producer.node.publisher.bind(f"inproc://native-{number}"))
    async with trio.open_nursery() as nursery:
        await nursery.start(producer.run)
        yield producer
        nursery.cancel_scope.cancel()
