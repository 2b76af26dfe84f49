"""`dafka standalone`: a store and a gateway in one process and one trio loop, linked over `inproc://`.

The same nodes and the same code as in processes of their own; frames cross the link.

Order of a start: data directories (lock, identity) -> the store is opened, then the catalog -> the store runs
-> the rest of the gateway's life (`dafka.processes.life`), which joins the mesh by confirming the link both
ways. The store stops last.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from dafka.operators.backup import BackupRequestHandlers
from dafka.operators.catalog import CatalogRequestHandlers
from dafka.operators.native import NativeRequestHandlers
from dafka.operators.socket import NO_MESH, serve_admin
from dafka.processes.catalogs import counts_on_stores, open_sqlite
from dafka.processes.ephemeral import temporary_data
from dafka.processes.gateway_metrics import register_gateway
from dafka.processes.interpreter import set_up_interpreter
from dafka.processes.life import Life
from dafka.processes.mesh_keys import keys_of
from dafka.processes.mesh_metrics import register_keys, register_nodes
from dafka.processes.parent import STARTED_BY, Process
from dafka.processes.ready import PortFile, advertised
from dafka.processes.shown_mesh import shown_store
from dafka.processes.store_metrics import register_store
from dafka.settings import Settings
from gateway.broker import Broker
from gateway.catalog import keys
from gateway.catalog.sqlite import SqliteCatalog
from gateway.cluster.identity import UNNAMED, cluster_entry, cluster_in, rebuild_catalog
from gateway.cluster.store_lives import OnlyStoreLife
from gateway.cluster.stores import Stores, first_entries
from gateway.front.listener_sockets import ListenError, ListenerSocket
from gateway.http.view import Surroundings
from mesh.binding import bind_tcp
from mesh.data_directory import DataDirectory, DataDirectoryRefused, Kind
from mesh.keys.roles import Role
from mesh.links import Context
from mesh.store.committer import Fsync
from mesh.store.opening import open_store
from mesh.store.store import Store, StoreSettings
from wireproto.dafka import ids
from wireproto.dafka.additions import ANY_STORE, Ping
from wireproto.dafka.messages import directed_prefix

if TYPE_CHECKING:
    from dafka.chaos.faults import Faults

logger = logging.getLogger(__name__)

GREETING_SECONDS = 10.0
"""Longest wait for the own store to answer over the link: it is in this process, so more means a bug."""


@dataclass
class Directories:
    """The two data directories below the one that the user named."""

    gateway: DataDirectory
    store: DataDirectory
    path: Path

    def close(self) -> None:
        self.gateway.close()
        self.store.close()


def run(settings: Settings) -> int:
    """Serve until a signal stops it; the exit code.

    Raises what has an `exit_code` and says what to do (DataDirectoryRefused, ListenError, StoreFailed,
    CatalogFailed), possibly in an exception group.
    """
    if settings.port_file is not None:
        settings.port_file.unlink(missing_ok=True)  # whoever waits for it must not read of an earlier run
    ends_with = None if settings.ends_with is None else Process(settings.ends_with)
    serve = _run
    if settings.gateways:
        from dafka.processes import supervisor  # only who has several loads it

        serve = supervisor.run
    if not settings.ephemeral:
        return serve(settings, ends_with)
    with temporary_data() as data:
        return serve(replace(settings, data=data), ends_with or STARTED_BY)


def _run(settings: Settings, ends_with: Process | None) -> int:
    keys = keys_of(settings, Role.STORE)
    directories = open_directories(settings.data)
    context = Context(keys)
    try:
        process = Standalone(settings, directories, context, ends_with)
        set_up_interpreter()
        trio.run(process.main)
    finally:
        context.close()
        directories.close()
    return 0


def open_directories(path: Path) -> Directories:
    """Lock and identify the data directories, made at the first start. Raises DataDirectoryRefused."""
    _refuse_foreign(path)
    gateway = DataDirectory(path / "gateway", Kind.GATEWAY)
    try:
        store = DataDirectory(path / "store", Kind.STORE)
    except BaseException:
        gateway.close()
        raise
    return Directories(gateway, store, path)


def _refuse_foreign(path: Path) -> None:
    """A directory with other people's files and none of ours is not ours. Raises DataDirectoryRefused."""
    if not path.is_dir():
        return
    names = {entry.name for entry in path.iterdir()} - {"lost+found"}
    if "catalog" in names:
        raise DataDirectoryRefused(
            path,
            "it has the data of several gateways",
            "Start it with --gateways, or give --data another directory",
        )
    if names and not names & {"gateway", "store"}:
        raise DataDirectoryRefused(
            path,
            f"it has other files ({', '.join(sorted(names)[:3])}), so it is not Dafka's",
            "Give --data an empty directory",
        )


class _OnlyStore:
    """The identity of a store that nobody else can take the place of: it stays who it is, or nothing starts.

    Before there is a catalog nothing was acknowledged, and it may become another one: a first start may have
    been killed before the database knew who it was.
    """

    def __init__(self, directories: Directories) -> None:
        self._directories = directories

    @property
    def incarnation(self) -> str:
        return self._directories.store.incarnation

    @property
    def is_new(self) -> bool:
        return self._directories.store.is_new

    def check_may_change(self, cause: str) -> None:
        """Raises DataDirectoryRefused where there is a catalog."""
        if counts_on_stores(self._directories.gateway.path):
            raise DataDirectoryRefused(
                self._directories.path,
                f"the store in it is not the one that the catalog counts on: {cause}",
                "Mount the disk that belongs to store/db, or put store/ back as it was",
            )

    def become(self, incarnation: str) -> None:
        self._directories.store.become(incarnation)


class Standalone(Life):
    """One run of `dafka standalone`."""

    settings: Settings

    def __init__(
        self, settings: Settings, directories: Directories, context: Context, ends_with: Process | None = None
    ) -> None:
        self.directories = directories
        self._ends_with = ends_with
        self._background: trio.Nursery
        self.store = self._open_store(settings, context)
        super().__init__(settings, context, self._open_catalog)
        self._faults = None if settings.chaos is None else self._with_faults()

    def _with_faults(self) -> Faults:
        """Faults on order, which everything that is asked from now on meets."""
        from dafka.chaos.apis import with_faults  # few ask for it
        from dafka.chaos.faults import Faults

        faults = Faults()
        self._registry = with_faults(self._registry, faults)
        return faults

    def _open_catalog(self) -> SqliteCatalog:
        """The catalog, empty if it is to be rebuilt. Raises DataDirectoryRefused."""
        rebuild = self.settings.rebuild_catalog
        if rebuild and not self.store.ingest.cluster_id:
            raise DataDirectoryRefused(
                self.directories.path,
                "there is nothing in the store that a catalog could be rebuilt from",
                "Start without --rebuild-catalog",
            )
        return open_sqlite(self.directories.gateway.path, rebuild=rebuild)

    def _open_store(self, settings: Settings, context: Context) -> Store:
        return open_store(
            context,
            StoreSettings(
                self.directories.path / "store" / "db",
                self.directories.store.incarnation,
                fsync=Fsync(settings.fsync),
                fsync_interval_seconds=settings.fsync_interval_ms / 1000,
            ),
            _OnlyStore(self.directories),
            accept_loss=settings.accept_loss,
        )

    async def main(self) -> None:
        """Start everything, serve, stop in order."""
        async with trio.open_nursery() as outer:
            await outer.start(self.store.run)
            if self._ends_with is not None:
                outer.start_soon(self._ends_with.watch, self._stop)
            with PortFile(self.settings.port_file) as self._port_file:
                await self.run()
            outer.cancel_scope.cancel()

    def _say_ready(self, sockets: Sequence[ListenerSocket]) -> None:
        self._port_file.write(advertised(sockets))
        super()._say_ready(sockets)

    async def _join(self, nursery: trio.Nursery) -> None:
        """Connect gateway and store, and confirm the link both ways before anything is published."""
        self._background = nursery
        name = uuid.uuid4().hex
        for node, peer in ((self.store.node, self.node), (self.node, self.store.node)):
            peer.connect(node.publisher.bind(f"inproc://{name}-{id(node)}"))
        if (listen := self.settings.mesh_listen) is not None:
            has_keys, insecure = self.context.keys is not None, self.settings.insecure_mesh
            bind_tcp(self.store.node.publisher, listen, has_keys=has_keys, insecure=insecure)
        with trio.fail_after(GREETING_SECONDS):
            await self.node.publisher.wait_subscribed(directed_prefix(ids.PING, ANY_STORE))
            pong = await self.requests.ask(ANY_STORE, lambda requester: Ping(ANY_STORE, requester))
            self.disk_bytes: int = pong.disk_bytes

    async def _agree_on_cluster(self) -> tuple[str, Stores]:
        cluster_id = await self._cluster_id()
        life = OnlyStoreLife(self.catalog, self.directories.store.incarnation, self.store.starts)
        if not self.settings.accept_loss:
            life.check(self.directories.path)
        await life.keep()
        self._background.start_soon(life.run)
        stores = Stores.always(self.catalog, [self.directories.store.incarnation])
        stores.own_disk_bytes = self.disk_bytes or None
        return cluster_id, stores

    async def _cluster_id(self) -> str:
        """The cluster's id, of a new cluster at the first start. Raises DataDirectoryRefused if the halves
        differ.
        """
        incarnation = self.directories.store.incarnation
        store_cluster = self.store.ingest.cluster_id
        path = self.directories.path
        known = cluster_in(self.catalog)
        if known is None:
            if store_cluster and not self.settings.rebuild_catalog:
                raise DataDirectoryRefused(
                    path,
                    "the store holds data, and the catalog that says what it is is empty or lost",
                    "restore the directory gateway/, or start once with --rebuild-catalog",
                )
            cluster_id = store_cluster or uuid.uuid4().hex
            if store_cluster:
                accept_loss = self.settings.accept_loss
                check = self.features.check
                await rebuild_catalog(
                    self.catalog, self.reader, [incarnation], check, accept_loss=accept_loss
                )
            # What was read back knows the store, if it could be read.
            there = {keys.unpack(store.value)["incarnation"] for store in self.catalog.range(keys.STORES)}
            first = {} if incarnation in there else first_entries([(incarnation, "standalone")])
            features = self.features.of_new_cluster(rebuilt=bool(store_cluster))
            await self.catalog.transact([UNNAMED], cluster_entry(cluster_id, features) | first)
            return cluster_id
        admitted = {keys.unpack(store.value)["incarnation"] for store in self.catalog.range(keys.STORES)}
        if incarnation not in admitted or (store_cluster and store_cluster != known):
            raise DataDirectoryRefused(
                path,
                "gateway/ and store/ do not belong together: the catalog knows another store",
                "put back the store/ directory that was here, or start with an empty data directory",
            )
        return known

    async def _recover(self, broker: Broker, nursery: trio.Nursery) -> None:
        """As in every life; a backup, or an export of the catalog, may be asked for while it runs. Orders to
        fail are taken from before clients come.
        """
        handlers = {
            **NO_MESH,
            **CatalogRequestHandlers(self.catalog).handlers,
            **BackupRequestHandlers(broker).handlers,
            **NativeRequestHandlers(broker).handlers,
        }
        try:
            await nursery.start(serve_admin, self.directories.gateway.path, handlers)
        except OSError as error:  # the path is too long for a socket, or the file system has none
            logger.warning("nobody can ask for a backup while this runs: no socket there: %s", error)
        await super()._recover(broker, nursery)
        path, faults = self.settings.chaos, self._faults
        if path is not None and faults is not None:
            from dafka.operators.chaos import ChaosRequestHandlers

            chaos = ChaosRequestHandlers(faults, self._registry, broker, self._disconnect).handlers
            try:
                await nursery.start(serve_admin, path.parent, chaos, path.name)
            except OSError as error:
                raise ListenError(f"cannot listen on {path}: {error}") from error
            logger.warning("--chaos: whoever may write %s can make clients fail", path)

    def _disconnect(self) -> int:
        """Close the connections of all clients; how many."""
        connections = list(self._server.connections) if self._server is not None else []
        for connection in connections:
            connection.close("shutdown")
        return len(connections)

    def _surroundings(self) -> Surroundings:
        return replace(super()._surroundings(), role="standalone", own_store=lambda: shown_store(self.store))

    def _register_metrics(self, broker: Broker) -> None:
        register_gateway(self.metrics, broker)
        register_store(self.metrics, self.store)
        register_nodes(self.metrics, (self.node, self.store.node))
        register_keys(self.metrics, self.context)
