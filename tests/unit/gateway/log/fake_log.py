"""A gateway's log over stores that exist only as the acknowledgements which a test sends.

The log is the real one (`LogContext`, `Opener`, `Partition`, `mesh.producer`); replaced are the node, whose
frames go nowhere, and the stores, which confirm each announcement and give back what was published.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import trio
from trio.testing import wait_all_tasks_blocked

from gateway.catalog.fenced import FencedCatalog
from gateway.cluster.gateways import OneGateway
from gateway.cluster.producer_id_owners import ProducerIdOwners
from gateway.cluster.scram_users import ScramUsers
from gateway.cluster.stores import Stores
from gateway.common.handlers import Request
from gateway.common.settings import LogSettings
from gateway.configs.effective import effective_topic_configs
from gateway.fetch.sessions import FetchSessions
from gateway.front.registry import load_apis
from gateway.log.appends import Completions
from gateway.log.context import LogContext
from gateway.log.idempotence.state import ProducerState
from gateway.log.partition import Partition
from gateway.log.topic import Topic
from gateway.produce.coming import Coming
from mesh.producer import Producer
from mesh.protocol.writer import Writer
from tests.entries import address_of
from tests.unit.gateway.catalog.memory import MemoryCatalog
from wireproto.dafka.additions import STATUS_DONE, AddressStatus, Announcement, OpenEntry
from wireproto.dafka.messages import Ack
from wireproto.kafka.fetch import FetchPartition, FetchRequest, FetchTopic
from wireproto.kafka.headers import RequestHeader
from wireproto.kafka.produce import ProducePartition, ProduceRequest, ProduceTopic
from wireproto.records.builder import build_batch

STORE = "store-1"
NOW_MS = 1_700_000_000_000
TOPIC_ID = bytes(range(16))

REGISTRY = load_apis()


class FakeNode:
    """Takes what is sent, and hands over what a test says has come."""

    def __init__(self) -> None:
        self.publisher = self

    def subscribe(self, topic: bytes) -> None: ...

    def send(self, frames: Any) -> None: ...


class FakeRequests:
    """Stores that do at once what they are asked to. `opened` are the announcements that they confirmed."""

    def __init__(self) -> None:
        self.prefix = "0123456789ABCDEF"
        self.unclaimed: Any = None
        self.heard: set[str] = set()
        self.vouched: dict[str, bytes] | None = None
        self.opened: list[Announcement] = []
        self._count = 0

    def new_id(self) -> str:
        self._count += 1
        return f"{self.prefix}{self._count:016X}"

    async def ask(self, _store: str, make: Any) -> Any:
        message = make(self.new_id())
        await trio.lowlevel.checkpoint()
        if message.id == b"O":
            announced = [OpenEntry.unpack(entry).announcement for entry in message.entries]
            self.opened += announced
            addresses = [announcement.address for announcement in announced]
        else:
            addresses = [address_of(message.id, entry) for entry in message.entries]
        return SimpleNamespace(statuses=[AddressStatus(a, STATUS_DONE, -1) for a in addresses])


class KeepingProducer(Producer):
    """Keeps what was appended, as stores would."""

    def __init__(self, node: Any, requests: Any) -> None:
        super().__init__(node, requests)
        self.kept: dict[str, list[bytes]] = {}

    def append(self, writer: Writer, content: bytes | bytearray | memoryview) -> int:
        self.kept.setdefault(writer.address, []).append(bytes(content))
        return super().append(writer, content)


class FakeReader:
    """Reads what `KeepingProducer` kept. A test may put other functions in place of these."""

    def __init__(self, producer: KeepingProducer) -> None:
        self._producer = producer
        self.reads = 0

    async def read(
        self, _members: Sequence[str], address: str, _subject: str, first: int, count: int, byte_cap: int
    ) -> list[bytes]:
        self.reads += 1
        await trio.lowlevel.checkpoint()
        found: list[bytes] = []
        for content in self._producer.kept[address][first : first + count]:
            if found and sum(map(len, found)) + len(content) > byte_cap:
                break
            found.append(content)
        return found


class FakeLog:
    """One topic's log. `broker` is what handlers of Produce and Fetch need of the gateway's; `catalog` takes
    what the gateway's own (`context.catalog`) would refuse.
    """

    def __init__(
        self, *, partitions: int = 1, stores: tuple[str, ...] = (STORE,), tail_cache_bytes: int = 1 << 20,
        configs: dict[str, str] | None = None, requests: FakeRequests | None = None,
        catalog: MemoryCatalog | None = None,
    ) -> None:  # fmt: skip
        self.node = FakeNode()
        self.requests = requests or FakeRequests()
        self.producer = KeepingProducer(self.node, self.requests)
        self.reader = FakeReader(self.producer)
        catalog = self.catalog = catalog or MemoryCatalog()
        self.stores = Stores.always(catalog, stores)
        self.context = LogContext(
            FencedCatalog(catalog),
            self.producer,
            cast(Any, self.reader),
            cluster_id="cluster",
            stores=self.stores,
            tail_cache_bytes=tail_cache_bytes,
        )
        self.now_ms = NOW_MS
        self.context.now_ms = lambda: self.now_ms  # type: ignore[method-assign]
        configs = configs or {}
        settings = effective_topic_configs(configs)
        self.topic = Topic("orders", TOPIC_ID, configs, settings, replication_factor=len(stores))
        self.topic.partitions = [Partition(self.context, self.topic, index) for index in range(partitions)]
        for partition in self.topic.partitions:
            partition.begin_serving(ProducerState())
        self.partition = self.topic.partitions[0]
        topics = SimpleNamespace(get={self.topic.name: self.topic}.get, by_id={self.topic.id: self.topic}.get)
        self.broker: Any = SimpleNamespace(
            topics=topics,
            context=self.context,
            stores=self.stores,
            gateways=OneGateway(1),
            gateway_orders=None,
            completions=Completions(),
            parked=set(),
            settings=LogSettings(),
            deliver=lambda: None,
            fetch_sessions=FetchSessions(),
            verifier=None,
            coming=Coming(),
            producer_id_owners=ProducerIdOwners(catalog, ScramUsers(catalog)),
        )

    def acknowledge(
        self, partition: Partition | None = None, *, upto: int | None = None, store: str = STORE
    ) -> None:
        """`store` has the partition's open segment up to the sequence `upto` (default: all of it)."""
        current = (partition or self.partition).chain.current
        assert current is not None
        sequence = current.writer.next_sequence - 1 if upto is None else upto
        self.producer.on_ack(Ack(current.writer.address, store, self.topic.name, sequence))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The workers run, for the length of the block."""
        async with trio.open_nursery() as nursery:
            for worker in (
                self.producer.run,
                self.context.opener.run,
                self.context.closer.run,
                self.broker.completions.run,
                self.context.wake_ups.run,
            ):
                nursery.start_soon(worker)
            yield
            nursery.cancel_scope.cancel()

    async def write(self, *batches: bytes, partition: Partition | None = None) -> None:
        """Append batches and acknowledge them; within `running`."""
        partition = partition or self.partition
        for content in batches:
            view = memoryview(bytearray(content))
            partition.append(header_of(view), view, -1, self.now_ms)
        await wait_all_tasks_blocked()
        self.acknowledge(partition)


def produce_request(
    batches: dict[int, bytes], *, acks: int = -1, timeout_ms: int = 1000, version: int = 9,
    topic: str | None = "orders", topic_id: bytes | None = None, frame_bytes: int = 0,
) -> Request:  # fmt: skip
    """A decoded Produce whose frame holds its batches one after the other, and `frame_bytes` at least."""
    frame = memoryview(bytearray(b"".join(batches.values()).ljust(frame_bytes, b"\0")))
    partitions, position = [], 0
    for index, content in batches.items():
        partitions.append(ProducePartition(index, frame[position : position + len(content)]))
        position += len(content)
    body = ProduceRequest(None, acks, timeout_ms, [ProduceTopic(topic, topic_id, partitions)])
    return make_request(0, version, body, frame)


def fetch_request(
    *asks: tuple[int, int, int], max_bytes: int = 1 << 20, min_bytes: int = 1, max_wait_ms: int = 0
) -> Request:
    """A decoded Fetch of topic "orders"."""
    partitions = [FetchPartition(index, -1, offset, -1, -1, limit) for index, offset, limit in asks]
    topics = [FetchTopic("orders", None, partitions)]
    body = FetchRequest(-1, max_wait_ms, min_bytes, max_bytes, 0, 0, -1, topics)
    return make_request(1, 12, body, memoryview(b""))


def make_request(key: int, version: int, body: Any, frame: memoryview) -> Request:
    header = RequestHeader(key, version, 1, "test", 0, True)
    return Request(
        header, body, frame, ("localhost", 9092), "client", trio.Event(), arrived=trio.current_time()
    )


def header_of(view: memoryview) -> Any:
    from wireproto.records.batch import read_header

    return read_header(view)


def batch(
    *values: bytes, pid: int = -1, epoch: int = 0, sequence: int = 0, timestamp: int = NOW_MS, codec: int = 0
) -> bytes:
    """A batch of records; idempotent with a `pid`."""
    records: list[Any] = [(None, value, [], timestamp) for value in values or (b"value",)]
    if pid < 0:
        return build_batch(records, codec=codec)
    return build_batch(records, codec=codec, producer_id=pid, producer_epoch=epoch, base_sequence=sequence)
