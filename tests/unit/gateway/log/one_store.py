"""Gateway lives over one store, in one task tree and without sockets.

Real: the store's database, its ingest and what it answers to reads; the gateway's log, its recovery, and both
its sides of the mesh. Replaced is the link between them: a message arrives when the test says `settle`, and
what the store is made `deaf` to is never answered.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import trio
from trio.testing import wait_all_tasks_blocked

from gateway.catalog.fenced import FencedCatalog
from gateway.cluster.slot_leadership import SlotLeadership
from gateway.cluster.stores import Stores
from gateway.configs.effective import effective_topic_configs
from gateway.leadership.slots import slot_of
from gateway.log.context import LogContext
from gateway.log.partition import Partition
from gateway.log.recovery.recovery import Recovery
from gateway.log.topic import Topic
from mesh.producer import Producer
from mesh.protocol.ingest import Ingest
from mesh.reader import Reader
from mesh.store.db import Database
from mesh.store.server import Server
from tests.unit.gateway.catalog.memory import MemoryCatalog
from tests.unit.gateway.log.fake_log import NOW_MS, TOPIC_ID, batch, header_of
from wireproto.dafka import ids
from wireproto.dafka.additions import Answer, GetRows, ListSegments, Lookup, Recall, Request, Verify
from wireproto.dafka.messages import Ack, Fetch, Head, Record, decode

STORE = "5" * 32

_lives = itertools.count(1)


class OneStore:
    """The store. `deaf`: types of messages, or ids of list requests, that it does not hear."""

    def __init__(self, path: Path) -> None:
        self.database = Database(path)
        self.deaf: set[type | bytes] = set()
        self.hears_more = trio.Event()
        self.heard: list[Any] = []
        self.open()

    def open(self) -> None:
        """As after a start of the process: nothing is in memory."""
        self.ingest = Ingest(STORE, self.database, self.database.cluster_id())
        self.server = Server(cast(Any, _Node()), STORE, self.ingest, self.database)

    def hear_all(self) -> None:
        """Deaf no more."""
        self.deaf = set()
        self.hears_more.set()
        self.hears_more = trio.Event()

    def hears(self, message: Any) -> bool:
        return type(message) not in self.deaf and getattr(message, "id", None) not in self.deaf

    def take(self, message: Any) -> list[Any]:
        """What the store says to a message."""
        self.heard.append(message)
        if isinstance(message, Record):
            self.ingest.on_record(message, 0.0)
        elif isinstance(message, Head):
            self.ingest.on_head(message, 0.0)
        elif isinstance(message, Request) and message.id != ids.BEGINNINGS:
            self.ingest.on_request(message)
        else:
            handlers: dict[type, Callable[[Any], list[Any]]] = {
                Fetch: self.server._fetch,
                GetRows: self.server._rows,
                ListSegments: self.server._list,
                Lookup: self.server._lookup,
                Recall: self.server._recall,
                Verify: self.server._verify,
                Request: self.server._beginnings,
            }
            answers = handlers[type(message)](message)
            return [decode([bytes(frame) for frame in frames]) for frames in answers]
        effects: list[Any] = list(self.ingest.take_effects(0.0))
        while (commit := self.ingest.take_commit()) is not None:
            self.database.write(commit)
            effects += self.ingest.committed(commit)
        return effects


class _Node:
    """Takes what is published, and hands over what comes back."""

    def __init__(self) -> None:
        self.handlers: dict[type, Any] = {}
        self.published: deque[Any] = deque()
        self.publisher = self

    def subscribe(self, topic: bytes) -> None: ...

    def send(self, message: Any) -> None:
        self.published.append(
            decode([bytes(frame) for frame in message]) if type(message) is list else message
        )


class _Requests:
    """Asks the store directly; without an answer it waits for ever, as the real one."""

    def __init__(self, store: OneStore) -> None:
        self.prefix = f"{next(_lives):016X}"
        self.unclaimed: Any = None
        self.heard: set[str] = set()
        self.vouched: dict[str, bytes] | None = None
        self._store = store
        self._count = itertools.count(1)

    def new_id(self) -> str:
        return f"{self.prefix}{next(self._count):016X}"

    async def _answers(self, make: Any) -> list[Any]:
        message = make(self.new_id())
        await trio.lowlevel.checkpoint()
        while not self._store.hears(message):
            await self._store.hears_more.wait()
        return self._store.take(message)

    async def ask(self, _store: str, make: Any) -> Any:
        return (await self._answers(make))[-1]

    async def ask_range(self, _store: str, make: Any) -> Any:
        *records, end = await self._answers(make)
        return records, end


class Life:
    """One gateway life, with one topic."""

    def __init__(
        self,
        store: OneStore,
        catalog: MemoryCatalog,
        *,
        partitions: int = 1,
        accept_loss: bool = False,
        configs: dict[str, str] | None = None,
        gateway: int = 0,
    ) -> None:
        """With `gateway` it is this one of several, and leads what the catalog's table gives that."""
        self.store, self.catalog, self.node = store, catalog, _Node()
        requests = cast(Any, _Requests(store))
        self.leadership = SlotLeadership(catalog, gateway, requests.prefix) if gateway else None
        self.stores = Stores.always(catalog, [STORE])
        self.context = LogContext(
            FencedCatalog(catalog),
            Producer(cast(Any, self.node), requests),
            Reader(requests),
            cluster_id="cluster",
            stores=self.stores,
            tail_cache_bytes=1 << 20,
            leadership=self.leadership,
        )
        producer = self.context.producer
        self.node.handlers = {Ack: producer.on_ack, Fetch: producer.on_fetch}
        self.context.now_ms = lambda: NOW_MS  # type: ignore[method-assign]
        self.recovery = Recovery(self.context, accept_loss=accept_loss)
        configs = configs or {}
        self.topic = Topic("orders", TOPIC_ID, configs, effective_topic_configs(configs))
        self.topic.partitions = [Partition(self.context, self.topic, index) for index in range(partitions)]
        self.partition = self.topic.partitions[0]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Life]:
        """The workers run, and the partitions were recovered once, for the length of the block."""
        async with trio.open_nursery() as nursery:
            for worker in (
                self.context.producer.run,
                self.context.reader.run,
                self.context.opener.run,
                self.context.closer.run,
                self.recovery.run,
            ):
                nursery.start_soon(worker)
            await self.lead()
            self.context.closer.load()
            await self.recovery.recover(self.topic.partitions)
            yield self
            nursery.cancel_scope.cancel()

    async def lead(self) -> None:
        """Take the slots that the table gives this gateway, whichever of its lives had them."""
        if (leadership := self.leadership) is None:
            return
        leadership.read()
        leaders = enumerate(leadership.table.slots)
        own = [slot for slot, leader in leaders if leader and leader.gateway == leadership.gateway]
        await leadership.take(own, self.context.epoch_counter)
        gained = leadership.read().gained
        for partition in self.topic.partitions:
            if slot_of(TOPIC_ID, partition.index) in gained:
                epoch = leadership.epoch(TOPIC_ID, partition.index)
                self.context.epoch_counter.given(epoch)
                partition.gained(epoch)

    async def settle(self) -> None:
        """Deliver all that is on its way."""
        await wait_all_tasks_blocked()
        while self.node.published:
            message = self.node.published.popleft()
            if self.store.hears(message):
                for effect in self.store.take(message):
                    if isinstance(effect, Answer):  # SEALED, to a writer that was cut off
                        self.context.producer.requests.unclaimed(effect)
                    else:
                        self.node.handlers[type(effect)](effect)
            await wait_all_tasks_blocked()

    async def write(self, records: int = 1, partition: Partition | None = None) -> None:
        """Append batches of one record; they are durable afterwards, unless the store is deaf."""
        for _ in range(records):
            view = memoryview(bytearray(batch(b"value")))
            (partition or self.partition).append(header_of(view), view, -1, NOW_MS)
        await self.settle()


async def copy_of(catalog: MemoryCatalog) -> MemoryCatalog:
    """A backup."""
    copy = MemoryCatalog()
    await copy.transact([], {entry.key: entry.value for entry in catalog.range("")})
    return copy
