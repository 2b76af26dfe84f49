"""One gateway life of the simulated cluster: the real log, opener, closer, recovery, deletion and reader.

What is simulated: the link (`SimNode`), the catalog's disk, and the clients, which call the partitions as the
API's handlers do. A crash ends all tasks at once. A life that was only taken for dead (`zombie`) goes on
answering its clients beside the next life, until it notices or ends.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import trio

from dafka.settings import Settings
from gateway.broker import Broker
from gateway.catalog.fenced import Deposed, FencedCatalog
from gateway.catalog.interface import CatalogFailed
from gateway.cluster.remembering import COMPARED_SECONDS, Remembering, end_lives
from gateway.cluster.slot_leadership import SlotLeadership
from gateway.cluster.stores import Stores
from gateway.log.context import LogContext
from gateway.log.partition import Partition
from mesh.data_directory import DataDirectoryRefused
from mesh.native.subjects import NativeSubjects
from mesh.node import Node
from mesh.presence import StorePresence
from mesh.producer import Producer
from mesh.reader import Reader
from mesh.requests import Requests
from mesh.routing import gateway_routes
from tests.sim.asking import SimPeers
from tests.sim.clients import Consumer
from tests.sim.committed import CommittedReads
from tests.sim.fetch_sessions import SessionConsumer
from tests.sim.late_coordination import LateMarkers, LateVerifier
from tests.sim.loop import NodeClock
from tests.sim.network import SimNode
from tests.sim.plan import GATEWAY, gateway_name

if TYPE_CHECKING:
    from gateway.cluster.alive import Alive
    from gateway.groups.served import Group
    from gateway.transactions.verifier import Verifier
    from tests.sim.cluster import World
    from tests.sim.plan import Plan

CLUSTER_ID = "simulated"


class SimContext(LogContext):
    """The wall clock is the world's, with this life's own error."""

    wall_offset_ms = 0
    world: World

    def now_ms(self) -> int:  # type: ignore[override]  # static in the real one
        return 1_700_000_000_000 + int(self.world.loop.now * 1000) + self.wall_offset_ms


class Life:
    """One process of the gateway."""

    def __init__(self, world: World, number: int, gateway: int = 0) -> None:
        """`gateway` is its id where there are several, else 0."""
        self.world = world
        self.number = number
        self.gateway = gateway
        self.serving = False
        self.zombie = False
        self.over = False
        self.broker: Broker
        self.nursery: trio.Nursery
        self.producer: Producer
        self.context: SimContext
        self.leadership: SlotLeadership | None = None
        self.life_name = ""
        name = gateway_name(gateway) if gateway else GATEWAY
        self.node = SimNode(world.network, name, NodeClock(world.loop, 0.0, 1.0))
        self.catalog = FencedCatalog(world.open_catalog())
        self.has_place = False
        """Whether the catalog has had its key, where gateways have leases (`tests.sim.leases`)."""
        self.alive: Alive | None = None

        self._scope = trio.CancelScope()
        self.beside = trio.CancelScope()
        """Of what the world does for this life."""

    async def run(self) -> None:
        """Serve until killed."""
        with self._scope:
            try:
                await self._serve()
            except* (CatalogFailed, Deposed):
                self.world.reached["gateway ended by its catalog"] += 1
                self.kill()
                self.world.life_ended(self)
            except* DataDirectoryRefused:
                self.kill()
                self.world.catalog_refused(self)
            except* Exception:
                # A killed process runs no further; here its tasks unwind, and may trip over each other.
                if not self.over:
                    raise

    async def _serve(self) -> None:
        if self.world.plan.remembers:
            await end_lives(self.catalog)
        node = cast("Node", self.node)
        requests = Requests(node)
        self.producer = Producer(node, requests)
        presence = StorePresence(node, requests)
        self.stores = Stores(self.catalog, presence)
        remembering = Remembering(self.catalog, requests, CLUSTER_ID)
        if self.gateway:
            self.leadership = SlotLeadership(self.catalog, self.gateway, requests.prefix)
            self.life_name = requests.prefix
            await self.world.take_place(self)
        self.context = self._context(requests, self.stores, remembering)
        subjects = NativeSubjects(node, requests)
        self.broker = Broker(
            self.context,
            self.stores,
            settings_of(self.world.plan),
            lambda: None,
            subjects=subjects if self.world.plan.natives or self.world.plan.publishes else None,
        )
        node.route(gateway_routes(requests, self.producer, subjects))
        self.node.on_drained(self.broker.completions.settle)
        async with trio.open_nursery() as nursery:
            self.nursery = nursery
            self.adjust_topics()
            nursery.start_soon(self.producer.run)
            nursery.start_soon(self.context.reader.run)
            nursery.start_soon(presence.run)
            nursery.start_soon(self.broker.run)
            self.serving = True  # a client may come at any time: what is not recovered says so
            for partition in self.partitions():
                self.world.history.watch(self, partition)
            nursery.start_soon(Consumer(self).run)
            if self.world.plan.transactions or self.world.plan.applications:
                nursery.start_soon(CommittedReads(self).run)
            if self.world.plan.groups:
                self._watch_deletions()
            if self.world.plan.groups or self.world.plan.applications:
                nursery.start_soon(self.broker.groups.run)
            if self.world.plan.applications:
                self._coordinate()
                nursery.start_soon(self.broker.transactions.run)
            for number in range(self.world.plan.sessions):
                nursery.start_soon(SessionConsumer(self, number).run)
            if self.world.plan.remembers:
                nursery.start_soon(remembering.run)
                with trio.move_on_after(COMPARED_SECONDS):
                    await remembering.wait_compared()
            if self.broker.leading is not None:
                await self.broker.leading.wait_looked()
            await self.broker.recover()
            await trio.sleep_forever()

    def _context(self, requests: Requests, stores: Stores, remembering: Remembering) -> SimContext:
        world = self.world
        context = SimContext(
            self.catalog,
            self.producer,
            Reader(requests),
            cluster_id=CLUSTER_ID,
            stores=stores,
            tail_cache_bytes=world.plan.tail_cache_bytes,
            copies=remembering if world.plan.remembers else None,
            leadership=self.leadership,
        )
        context.world = world
        context.wall_offset_ms = world.random.randint(-5000, 5000)
        return context

    def _coordinate(self) -> None:
        """What coordinators ask and tell is late at times."""
        broker, coordinator = self.broker, self.broker.transactions
        if self.gateway:
            peers: Any = SimPeers(self)
            routes = broker.verifier._routes
            assert routes is not None
            broker.marker_routes._peers = routes._peers = peers
        broker.verifier = cast("Verifier", LateVerifier(self, broker.verifier))
        coordinator.markers._target = LateMarkers(self, coordinator.markers._target)

    @property
    def answers(self) -> bool:
        """Whether it answers clients."""
        return self.serving and not self.over and not (self.alive is not None and self.alive.is_suspended)

    def adjust_topics(self) -> None:
        """Segments smaller than the config allows, so that a short schedule has many."""
        for topic in self.broker.topics.all():
            topic.settings = replace(topic.settings, segment_bytes=self.world.plan.segment_bytes)

    def partitions(self) -> list[Partition]:
        return [partition for topic in self.broker.topics.all() for partition in topic.partitions]

    def partition(self, name: str, index: int) -> Partition | None:
        topic = self.broker.topics.get(name)
        return None if topic is None else topic.partitions[index]

    def kill(self) -> None:
        """The process is gone, now."""
        if not self.over:
            self.over = True
            if self.serving:
                self._count()
            self.serving = False
            self.node.leave()
            self._scope.cancel()
            self.beside.cancel()

    def _watch_deletions(self) -> None:
        """Groups of which nothing is left begin anew, too."""
        groups, delete = self.broker.groups, self.broker.groups.delete

        async def watched(group: Group) -> None:
            self.world.commits.begins_anew(group.group_id)
            await delete(group)

        groups.delete = watched  # type: ignore[method-assign]

    def _count(self) -> None:
        reached, broker = self.world.reached, self.broker
        reached["segments copied for recovery, closing or replacement"] += self.context.copier.copied
        reached["compactions"] += broker.compaction.runs
        reached["compactions given up"] += broker.compaction.failures
        reached["records removed by compaction"] += broker.compaction.records_removed
        reached["segments dropped by retention or DeleteRecords"] += broker.log_starts.segments_removed


def settings_of(plan: Plan) -> Settings:
    """The gateway's in a schedule."""
    return Settings(
        group_initial_rebalance_delay_ms=0,
        group_min_session_timeout_ms=1,
        retention_check_interval_ms=int(plan.retention_seconds * 1000),
        compaction_backoff_ms=int(plan.compaction_seconds * 1000),
        delete_delay_ms=plan.delete_delay_ms,
    )


def state_of(partition: Partition) -> dict[str, Any]:
    """For messages."""
    return {
        "state": partition.state.value,
        "reason": partition.reason,
        "high watermark": partition.high_watermark,
        "next offset": partition.next_offset,
        "chain": [
            (s.address, s.start_offset, s.end_offset, s.last_sequence) for s in partition.chain.segments()
        ],
    }
