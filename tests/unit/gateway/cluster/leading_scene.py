"""Gateways on one catalog, each with its own view of a topic and with one store, which a test speaks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast
from unittest.mock import patch

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from dafka.settings import Settings
from gateway.broker import Broker
from gateway.catalog import keys
from gateway.catalog.fenced import FencedCatalog
from gateway.catalog.interface import Compare
from gateway.cluster.gateways import SharedGateways
from gateway.cluster.leading import GIVE_SECONDS
from gateway.cluster.slot_leadership import SlotLeadership
from gateway.cluster.stores import Stores
from gateway.leadership.records import AliveRecord, pack_alive
from gateway.log.appends import Append
from gateway.log.context import LogContext
from gateway.log.partition import Partition
from gateway.log.recovery.recovery import Recovery
from gateway.log.topic import Topic
from tests.unit.gateway.catalog.memory import MemoryCatalog
from tests.unit.gateway.log.fake_log import (
    NOW_MS,
    STORE,
    FakeNode,
    FakeReader,
    FakeRequests,
    KeepingProducer,
)
from wireproto.dafka.messages import Ack
from wireproto.records.batch import read_header

PARTITIONS = 6


class One:
    """A gateway in one life. `came` and `went` are the partitions that it was told of."""

    def __init__(self, catalog: MemoryCatalog, number: int, life: str) -> None:
        self.number, self.life = number, life * 16
        self.catalog = FencedCatalog(catalog)
        node, requests = FakeNode(), FakeRequests()
        requests.prefix = self.life
        producer = self.producer = KeepingProducer(node, requests)
        stores = Stores.always(catalog, [STORE])
        self.leadership = SlotLeadership(self.catalog, number, self.life)
        context = LogContext(
            self.catalog,
            producer,
            cast("Any", FakeReader(producer)),
            cluster_id="cluster",
            stores=stores,
            tail_cache_bytes=1 << 20,
            leadership=self.leadership,
        )
        self.broker = Broker(context, stores, Settings(), lambda: None)
        assert self.broker.leading is not None
        assert isinstance(self.broker.gateways, SharedGateways)
        self.gateways = self.broker.gateways
        self.leading = self.broker.leading
        self.came: list[int] = []
        self.went: list[int] = []
        self.leading.on_moved(self._note)

    def _note(self, came: list[Any], went: list[Any]) -> None:
        self.came += [one.index for one in came]
        self.went += [one.index for one in went]

    @property
    def topic(self) -> Topic:
        topic = self.broker.topics.get("orders")
        assert topic is not None
        return topic

    def append(self, partition: Partition, batch: bytes, acks: int = -1) -> Append:
        view = memoryview(bytearray(batch))
        return partition.append(read_header(view), view, acks, NOW_MS)

    def acknowledge(self, partition: Partition) -> None:
        """The store has all of its open segment."""
        current = partition.chain.current
        assert current is not None
        sequence = current.writer.next_sequence - 1
        self.producer.on_ack(Ack(current.writer.address, STORE, "orders", sequence))

    @property
    def led(self) -> set[int]:
        return {one.index for one in self.topic.partitions if self.broker.context.leads(one)}


class Cluster:
    """Gateways over one catalog."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.catalog = MemoryCatalog()
        self._nursery = nursery

    async def start(self, number: int, life: str, *, begun: bool = True) -> One:
        """It is alive, and follows and leads from now on; unless it has `begun` it has not heard from stores
        yet.
        """
        if begun:
            await self.catalog.transact([], {keys.LIVES + life * 16: b""})
        key = keys.alive_key(number)
        revision = await self.catalog.transact([], {key: pack_alive(AliveRecord(life * 16))})
        one = One(self.catalog, number, life)
        one.catalog.hold(Compare(key, revision))
        self._nursery.start_soon(one.broker.following.run)
        self._nursery.start_soon(one.leading.run)
        for worker in (one.producer, one.broker.context.opener, one.broker.context.closer):
            self._nursery.start_soon(worker.run)
        await one.leading.wait_looked()
        return one

    async def stops(self, one: One) -> None:
        """It was told to, and says so."""
        value = pack_alive(AliveRecord(one.life, leaving=True))
        await self.catalog.transact([], {keys.leaving_key(one.number): value})

    async def dies(self, one: One) -> None:
        await self.catalog.transact([], {}, [keys.alive_key(one.number)])
        await self.settle()

    async def settle(self) -> None:
        await wait_all_tasks_blocked()
        await trio.sleep((PARTITIONS + 1) * GIVE_SECONDS)
        await wait_all_tasks_blocked()


def run(body: Callable[[Cluster], Awaitable[None]]) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await body(Cluster(nursery))
            nursery.cancel_scope.cancel()

    # Nothing is recovered here: a test that wants some of it to wait says so.
    with patch.object(Recovery, "is_behind", False):
        trio.run(main, clock=MockClock(autojump_threshold=0))
