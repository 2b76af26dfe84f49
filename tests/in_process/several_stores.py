"""A gateway and several real stores in one trio loop, linked over TCP, for tests that stop and start them.

The gateway is the one of the processes (`dafka.processes.life`), reached by Kafka's protocol; only the tower
is left out: links are made as the stores come and go. Rounds of the presence are quicker than in real life.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from dafka.processes import life as life_module
from dafka.processes.life import Life
from dafka.settings import GatewaySettings
from gateway.broker import Broker
from gateway.catalog import keys
from gateway.catalog.sqlite import SqliteCatalog
from gateway.cluster.identity import UNNAMED, cluster_entry
from gateway.cluster.rebuild import read_back
from gateway.cluster.stores import Stores, first_entries
from gateway.front.listeners import ListenerSpec
from gateway.log.partition import Partition, PartitionState
from gateway.log.segment import Segment
from mesh.links import Context
from mesh.presence import StorePresence
from mesh.store.committer import Fsync
from mesh.store.store import Store, StoreSettings
from tests.in_process.in_process import RawClient, produce_request
from wireproto.records.builder import build_batch

CLUSTER_ID = "cluster"
ROUND_SECONDS, LIVE_SECONDS = 0.05, 0.3


def incarnation(number: int) -> str:
    return f"{number}" * 32


class Gateway(Life):
    """`dafka.processes.gateway` without a tower."""

    settings: GatewaySettings

    def __init__(self, cluster: Cluster, settings: GatewaySettings) -> None:
        self.cluster = cluster
        super().__init__(settings, cluster.context, lambda: SqliteCatalog(settings.data / "catalog.sqlite"))
        self.presence = StorePresence(self.node, self.requests)
        self.stores = Stores(self.catalog, self.presence)
        self.broker: Broker
        self.recovered = trio.Event()

    async def _join(self, nursery: trio.Nursery) -> None:
        self.cluster.link(self.node)
        nursery.start_soon(self.presence.run)

    async def _agree_on_cluster(self) -> tuple[str, Stores]:
        if self.settings.rebuild_catalog:
            await self.presence.wait_for(
                lambda presence: len(presence.live_stores) == len(self.cluster.stores)
            )
            found = await read_back(self.reader, sorted(self.presence.live_stores))
            await self.catalog.transact([UNNAMED], found)
        if self.catalog.get(keys.CLUSTER) is None:
            stores = [(incarnation(n), f"store-{n}") for n in range(self.cluster.count)]
            features = self.features.of_new_cluster(rebuilt=False)
            cluster = cluster_entry(CLUSTER_ID, features)
            await self.catalog.transact([UNNAMED], first_entries(stores) | cluster)
            self.stores.load()
        return CLUSTER_ID, self.stores

    def _register_metrics(self, broker: Broker) -> None:
        self.broker = broker

    async def _recover(self, broker: Broker, nursery: trio.Nursery) -> None:
        await super()._recover(broker, nursery)
        self.recovered.set()

    def partition(self, index: int = 0, topic: str = "orders") -> Partition:
        found = self.broker.topics.get(topic)
        assert found is not None
        return found.partitions[index]

    async def until_live(self, *numbers: int) -> None:
        """Wait until exactly these stores are there."""
        wanted = {incarnation(number) for number in numbers}
        with trio.fail_after(20):
            await self.presence.wait_for(lambda presence: presence.live_stores == wanted)

    async def until_replaced(self, number: int) -> None:
        for _ in range(2000):
            if self.catalog.get(keys.replacing_key(incarnation(number))) is None:
                return
            await trio.sleep(0.01)
        raise AssertionError(self.broker.replacement.progress)

    async def until_told(self) -> None:
        """Wait until every member has all of every closed segment, and knows its end."""
        for _ in range(2000):
            if not self.catalog.range(keys.CLOSING):
                return
            await trio.sleep(0.01)
        raise AssertionError(self.broker.context.closer.untold())

    async def until_told_but(self, away: int) -> None:
        """As `until_told`, without one store."""
        for _ in range(2000):
            if set(self.broker.context.closer.untold()) <= {incarnation(away)}:
                return
            await trio.sleep(0.01)
        raise AssertionError(self.broker.context.closer.untold())

    async def until_ready(self, *indexes: int) -> None:
        for _ in range(2000):
            if all(self.partition(index).state is PartitionState.READY for index in indexes):
                return
            await trio.sleep(0.01)
        raise AssertionError([self.partition(index).reason for index in indexes])


class KeptIdentity:
    """What a data directory keeps of one store, over its starts."""

    def __init__(self, number: int) -> None:
        self.incarnation = incarnation(number)
        self.is_new = True

    def check_may_change(self, cause: str) -> None: ...

    def become(self, incarnation: str) -> None:
        self.incarnation = incarnation


class Cluster:
    """The stores, and the gateway if there is one."""

    def __init__(self, path: Path, nursery: trio.Nursery, count: int, fsync: Fsync = Fsync.NEVER) -> None:
        self.path, self.count, self.fsync = path, count, fsync
        self.context = Context()
        self.stores: dict[int, Store] = {}
        self.identities: dict[int, KeptIdentity] = {}
        self._nursery = nursery
        self._scopes: dict[int, tuple[trio.CancelScope, trio.Event]] = {}
        self._endpoints: dict[Any, str] = {}
        """Node -> where its publisher is."""

    # links ------------------------------------------------------------------------------------------------

    def link(self, node: Any) -> None:
        """Connect a node with all others, both ways."""
        endpoint = node.publisher.bind("tcp://127.0.0.1:*")
        for other, its in self._endpoints.items():
            other.connect(endpoint)
            node.connect(its)
        self._endpoints[node] = endpoint

    def unlink(self, node: Any) -> None:
        endpoint = self._endpoints.pop(node)
        for other in self._endpoints:
            other.disconnect(endpoint)

    # stores -----------------------------------------------------------------------------------------------

    async def start(self, *numbers: int) -> None:
        for number in numbers or range(self.count):
            identity = self.identities.setdefault(number, KeptIdentity(number))
            settings = StoreSettings(
                self.path / f"store-{number}", identity.incarnation, f"store-{number}", fsync=self.fsync
            )
            store = self.stores[number] = Store(self.context, settings, identity)
            identity.is_new = False
            await self._nursery.start(self._run, number, store)
            self.link(store.node)

    async def _run(
        self, number: int, store: Store, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        scope, over = trio.CancelScope(), trio.Event()
        self._scopes[number] = scope, over
        with scope:
            await store.run(task_status=task_status)
        over.set()

    async def stop(self, *numbers: int) -> None:
        for number in numbers or tuple(self.stores):
            store = self.stores.pop(number)
            scope, over = self._scopes.pop(number)
            scope.cancel()
            await over.wait()
            self.unlink(store.node)

    @asynccontextmanager
    async def another(self, store: Store) -> AsyncIterator[Store]:
        """A store that is none of ours runs while the block does."""
        async with trio.open_nursery() as nursery:
            await nursery.start(store.run)
            self.link(store.node)
            yield store
            nursery.cancel_scope.cancel()
        self.unlink(store.node)

    # the gateway ------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def gateway(
        self, monkeypatch: pytest.MonkeyPatch, *, data: str = "gateway", **settings: Any
    ) -> AsyncIterator[tuple[Gateway, RawClient]]:
        """(the gateway, a client of it) while the block runs; it ends as if it were killed."""
        ready = trio.Event()
        ports: list[int] = []

        def say_ready(sockets: Any) -> None:
            ports.append(sockets[0].socket.getsockname()[1])
            ready.set()

        monkeypatch.setattr(life_module, "say_ready", say_ready)
        monkeypatch.setattr(life_module, "watch_signals", _no_signals)
        directory = self.path / data
        directory.mkdir(exist_ok=True)
        listen = (ListenerSpec("PLAINTEXT", "127.0.0.1", 0),)
        settings = {"delete_delay_ms": 0} | settings
        gateway = Gateway(self, GatewaySettings(listen=listen, data=directory, **settings))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(gateway.run)
            with trio.fail_after(30):
                await ready.wait()
            async with await RawClient.connect(ports[0]) as client:
                yield gateway, client
            nursery.cancel_scope.cancel()
        await gateway.catalog.aclose()
        self.unlink(gateway.node)

    # what is kept -----------------------------------------------------------------------------------------

    async def contents(self, gateway: Gateway, index: int = 0, topic: str = "orders") -> list[bytes]:
        """The batches of a partition as every member has them, each member's whole log compared."""
        partition = gateway.partition(index, topic)
        # Before anything is awaited: what is open now is closed, or noted as announced, at any moment.
        last = {opened.segment.address: opened.writer.committed for opened in partition.chain.open_segments()}
        found: dict[str, list[bytes]] = {}
        for segment in partition.chain.segments():
            for member in segment.members:
                log = found.setdefault(member, [])
                log += await self._of_segment(gateway, segment, member, last.get(segment.address))
        logs = list(found.values())
        assert all(log == logs[0] for log in logs), {m: len(log) for m, log in found.items()}
        return logs[0] if logs else []

    @staticmethod
    async def _of_segment(
        gateway: Gateway, segment: Segment, member: str, committed: int | None
    ) -> list[bytes]:
        last = segment.last_sequence if committed is None else committed
        assert last is not None
        contents: list[bytes] = []
        while len(contents) <= last:
            contents += await gateway.reader.read(
                (member,), segment.address, "orders", len(contents), last + 1 - len(contents), 1 << 20
            )
        return contents


async def _no_signals(*_calls: Any, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    task_status.started()


@asynccontextmanager
async def cluster(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    stores: int = 3,
    start: Sequence[int] | None = None,
    fsync: Fsync = Fsync.NEVER,
) -> AsyncIterator[Cluster]:
    """Stores that run, while the block does."""
    for module in ("mesh.presence", "mesh.protocol.presence"):
        monkeypatch.setattr(f"{module}.ROUND_SECONDS", ROUND_SECONDS)
        monkeypatch.setattr(f"{module}.LIVE_SECONDS", LIVE_SECONDS)
    async with trio.open_nursery() as nursery:
        made = Cluster(path, nursery, stores, fsync)
        try:
            await made.start(*(range(stores) if start is None else start))
            yield made
        finally:
            with trio.CancelScope(shield=True):
                await made.stop()
            made.context.close()
        nursery.cancel_scope.cancel()


_values = itertools.count()


def batch(value: bytes = b"", *, producer: tuple[int, int, int] | None = None) -> bytes:
    """One record; idempotent with (producer id, epoch, sequence)."""
    records: list[Any] = [(None, value or b"value %d" % next(_values), [], 1_700_000_000_000)]
    if producer is None:
        return bytes(build_batch(records))
    producer_id, epoch, sequence = producer
    return bytes(build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence))


async def produce(
    client: RawClient, content: bytes, *, partition: int = 0, topic: str = "orders", **options: Any
) -> tuple[int, int]:
    """(error code, base offset) of one batch."""
    from kafka.protocol.producer import ProduceResponse

    request = produce_request(content, topic=topic, partition=partition, **options)
    answer = await client.ask(request, ProduceResponse)
    answered = answer.responses[0].partition_responses[0]
    return answered.error_code, answered.base_offset


async def produce_until_taken(client: RawClient, content: bytes, **options: Any) -> int:
    """As a client that retries what it may; the base offset."""
    retriable = {6, 7, 19, 20}
    with trio.fail_after(30):
        while True:
            code, offset = await produce(client, content, **options)
            if code == 0:
                return offset
            assert code in retriable, code
            await trio.sleep(0.02)


Body = Callable[[Cluster], Awaitable[None]]
"""What a test does with stores."""

WithStores = Callable[..., None]
"""The fixture `stores`: runs a body; its options are those of `cluster`."""


async def caught_up(made: Cluster, gateway: Gateway) -> None:
    """Wait until every store has the whole of the open segment."""
    current = gateway.partition().chain.current
    assert current is not None
    address, head = current.segment.address, current.writer.next_sequence - 1
    heads: list[int | None] = []
    for _ in range(6000):
        states = [store.ingest.known(address) for store in made.stores.values()]
        heads = [None if state is None else state.head for state in states]
        if heads == [head] * len(heads):
            return
        await trio.sleep(0.01)
    raise AssertionError(heads)
