"""`dafka gateway`: a gateway as a process of its own, on stores that are elsewhere.

Order of a start: data directory (lock, identity) -> the gateway's life (`dafka.processes.life`). It joins the
mesh through towers; once it has agreed on the cluster it refuses to run beside another gateway; operators are
answered from before the recovery on. With a catalog in etcd it waits until no other one serves, and takes its
place then (`gateway.cluster.alive`).

Its data directory has the catalog alone. At the very first start it waits for as many stores as it was told,
makes the cluster, and admits them; at later ones the catalog says which stores count, and recovery waits for
those it needs while what is recovered is served. It never guesses: a mesh whose stores have data and whose
catalog is empty is refused (architecture: catalog and stores must agree).
"""

import contextlib
import os
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import trio

from dafka.operators.accept_loss import LossRequestHandlers
from dafka.operators.backup import BackupRequestHandlers
from dafka.operators.catalog import CatalogRequestHandlers
from dafka.operators.gateways import GatewayRequestHandlers
from dafka.operators.native import NativeRequestHandlers
from dafka.operators.socket import serve_admin
from dafka.operators.stores import StoreRequestHandlers
from dafka.processes.catalogs import open_etcd, open_sqlite
from dafka.processes.gateway_metrics import register_gateway
from dafka.processes.interpreter import set_up_interpreter
from dafka.processes.last_life import last_life_in, note_life
from dafka.processes.life import Life
from dafka.processes.mesh_keys import keys_of
from dafka.processes.mesh_metrics import register_beacon, register_keys, register_nodes
from dafka.processes.shown_mesh import shown_peers, shown_towers
from dafka.settings import GatewaySettings
from dafka.version import VERSION
from gateway.broker import Broker
from gateway.catalog.interface import Catalog
from gateway.catalog.served.catalog import ServedCatalog
from gateway.cluster.alive import LEASE_SECONDS, Alive
from gateway.cluster.features import Features
from gateway.cluster.first_start import FirstStart
from gateway.cluster.gateways import SharedGateways
from gateway.cluster.lineage import lives_that_go_on
from gateway.cluster.other_gateways import AnotherGateway, OtherGateways
from gateway.cluster.seen_deaths import SeenDeaths
from gateway.cluster.slot_leadership import SlotLeadership
from gateway.cluster.stores import Stores
from gateway.front.listener_sockets import ListenError, ListenerSocket
from gateway.http.view import Surroundings
from gateway.leadership.records import Address, BadRecord
from mesh.beacon import Beacon
from mesh.data_directory import DataDirectory, Kind
from mesh.joining import join_mesh
from mesh.keys.roles import Role
from mesh.links import Context
from mesh.node import Routes
from mesh.presence import StorePresence
from mesh.routing import gateway_routes

GIVE_SECONDS = 1.0
"""How long an end waits for the catalog to let another gateway take its place at once."""


SERVED = "unix:"
"""How `catalog` begins where the process that has started this one serves it, before the socket's path."""

AGAIN_SECONDS = 0.5
"""Between two looks whether another gateway still serves."""


def run(settings: GatewaySettings, kind: "type[GatewayProcess] | None" = None) -> int:
    """Serve until a signal, or do what another `kind` of process does; the exit code. Raises as
    `dafka.processes.life.Life`.
    """
    keys = keys_of(settings, Role.GATEWAY)
    directory = DataDirectory(settings.data, Kind.GATEWAY)
    context = Context(keys)
    try:
        process = (kind or GatewayProcess)(settings, directory, context)
        set_up_interpreter()
        trio.run(process.run)
    finally:
        context.close()
        directory.close()
    return 0


class GatewayProcess(Life):
    """One run of `dafka gateway`."""

    settings: GatewaySettings

    def __init__(self, settings: GatewaySettings, directory: DataDirectory, context: Context) -> None:
        self.directory = directory
        super().__init__(settings, context, self._open_catalog)
        self.presence = StorePresence(self.node, self.requests)
        self.others = OtherGateways(self.node, self.requests)
        self.alive: Alive | None = None
        """Where the catalog is one that other processes can reach."""
        if settings.catalog != "sqlite":
            last_life = last_life_in(directory.path)
            self.features = Features(self.catalog, settings.gateway_id, VERSION)
            self.alive = Alive(
                self.catalog,
                settings.gateway_id,
                self.requests.prefix,
                last_life,
                check=self.features.read,
            )
        self._deaths: SeenDeaths | None = None
        self.stores: Stores
        """As the catalog has them when this process serves: others may have changed it while it waited."""
        self.beacon: Beacon

    def _open_catalog(self) -> Catalog:
        if self.settings.catalog.startswith(SERVED):
            return ServedCatalog(Path(self.settings.catalog.removeprefix(SERVED)))
        if self.settings.catalog != "sqlite":
            return open_etcd(self.settings, rebuild=self.settings.rebuild_catalog)
        return open_sqlite(self.directory.path, rebuild=self.settings.rebuild_catalog)

    async def _take_place(self, nursery: trio.Nursery) -> None:
        if self.alive is not None:
            self.alive.on_suspended(lambda _suspended: self._answer())
            nursery.start_soon(self.alive.run)
            self.health.not_ready("standby: it waits until no other gateway serves")
            await self.alive.take()
            note_life(self.directory.path, self.requests.prefix)
            self.health.not_ready("starting")
        self.stores = Stores(self.catalog, self.presence)

    def _lacks(self) -> str | None:
        if self.alive is None:
            return None
        if self.alive.is_suspended:
            return "suspended: the catalog is away for longer than this gateway's lease"
        if not self.remembering.compared.is_set():
            return "too few stores have said whether the catalog is the newest: it leads nothing before"
        return None

    async def _hand_over(self, broker: Broker) -> None:
        gateways, leading = broker.gateways, broker.leading
        if self.alive is None or leading is None or not isinstance(gateways, SharedGateways):
            return
        if gateways.somebody_else_stays:
            await self.alive.leave()
            await leading.leave()

    async def _give_place(self) -> None:
        if self.alive is not None:
            with trio.move_on_after(GIVE_SECONDS), contextlib.suppress(trio.ClosedResourceError):
                await self.alive.release()

    def _leadership(self) -> SlotLeadership | None:
        if self.alive is None:
            return None
        return SlotLeadership(self.catalog, self.settings.gateway_id, self.requests.prefix)

    async def _tell_address(self, broker: Broker, sockets: Sequence[ListenerSocket]) -> None:
        if isinstance(broker.gateways, SharedGateways):
            # Who listens on every address is reached by the machine's name, for all that is known here.
            host = socket.gethostname()
            listeners = {one.listener.name: Address(*one.listener.advertised(host)) for one in sockets}
            try:
                await broker.gateways.tell(listeners, host, VERSION)
            except BadRecord as error:
                raise ListenError(f"other gateways cannot be told where this one listens: {error}") from None

    def _routes(self) -> Routes:
        return gateway_routes(self.requests, self.producer, self.subjects, self.others.on_ping)

    async def _join(self, nursery: trio.Nursery) -> None:
        settings = self.settings
        self.beacon = join_mesh(
            self.context,
            self.node,
            settings.mesh_listen,
            settings.tower,
            settings.mesh_advertise,
            # It begins with this life's name, by which other gateways know whose node it is.
            node_id=self.requests.new_id(),
            insecure=settings.insecure_mesh,
        )
        if self.alive is not None:
            self._deaths = SeenDeaths(self.catalog, self.alive, settings.gateway_id)
            self.beacon.on_links(self._deaths.on_link)
            nursery.start_soon(self._deaths.run)
        await nursery.start(self.beacon.run)
        nursery.start_soon(self.presence.run)
        register_beacon(self.metrics, self.beacon)

    async def _agree_on_cluster(self) -> tuple[str, Stores]:
        start = FirstStart(self.settings, self.catalog, self.stores, self.reader, self.features)
        cluster_id = await start.cluster_id()
        self.directory.set_cluster_id(cluster_id)
        if self.alive is not None:
            await self.features.register(self.requests.prefix, socket.gethostname(), self.settings.rack)
        await self._refuse_others(cluster_id)
        name = f"{socket.gethostname()}, process {os.getpid()}, life {self.requests.prefix}"
        self.others.serve(cluster_id, name)
        return cluster_id, self.stores

    async def _refuse_others(self, cluster_id: str) -> None:
        """Raises AnotherGateway: one serves this cluster from another catalog. One that was replaced just now
        has some seconds to find out.
        """
        deadline = trio.current_time() + (0 if self.alive is None else LEASE_SECONDS)
        while True:
            try:
                await self.others.refuse(cluster_id, self._is_ours)
            except AnotherGateway:
                if trio.current_time() >= deadline:
                    raise
                await trio.sleep(AGAIN_SECONDS)
            else:
                return

    def _is_ours(self, name: str) -> bool:
        """Whether the gateway of this name shares this one's catalog."""
        if self.alive is None:
            return False
        try:
            return name.rpartition(" ")[2] in lives_that_go_on(self.catalog)
        except BadRecord:
            return True  # whoever reads who leads what says so

    def _surroundings(self) -> Surroundings:
        return replace(
            super()._surroundings(),
            is_suspended=lambda: self.alive is not None and self.alive.is_suspended,
            towers=lambda: shown_towers(self.beacon),
            peers=lambda: shown_peers(self.beacon),
        )

    def _register_metrics(self, broker: Broker) -> None:
        register_gateway(self.metrics, broker)
        register_nodes(self.metrics, (self.node,))
        register_keys(self.metrics, self.context)

    async def _recover(self, broker: Broker, nursery: trio.Nursery) -> None:
        """As in every life; operators are answered before, since they may have to mend what it waits for."""
        handlers = {
            **StoreRequestHandlers(self.stores, broker, self.beacon).handlers,
            **LossRequestHandlers(self.stores, broker).handlers,
            **GatewayRequestHandlers(broker).handlers,
            **NativeRequestHandlers(broker).handlers,
            **CatalogRequestHandlers(self.catalog).handlers,
            **BackupRequestHandlers(broker).handlers,
        }
        if self._deaths is not None and broker.peers is not None:
            broker.peers.on_closed(self._deaths.on_closed)
        await nursery.start(serve_admin, self.directory.path, handlers)
        await super()._recover(broker, nursery)
