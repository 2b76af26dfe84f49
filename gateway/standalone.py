"""`dafka standalone`: a store and a gateway in one process and one trio loop, linked over `inproc://`.

The same nodes and the same code as in processes of their own; frames cross the link. The only module of
`gateway`, with the command line, that starts a store.

Order of a start: data directories (lock, identity) -> store -> catalog -> link confirmed both ways ->
recovery of all partitions -> listeners -> "ready". Order of a stop: listeners, answers in flight, gateway,
store.
"""

import logging
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

import trio

from gateway.api.registry import load_apis
from gateway.broker import Broker
from gateway.catalog.sqlite import SqliteCatalog, set_aside
from gateway.health import Health, serve_health
from gateway.listener_sockets import ListenerSocket, open_listeners
from gateway.listeners import join_host_port
from gateway.log import catalog_keys as keys
from gateway.log.context import LogContext
from gateway.log.rebuild import logs_of, raise_epochs, rebuilt_entries
from gateway.metrics import Metrics
from gateway.ready import say_ready
from gateway.server import Server
from gateway.settings import Settings
from gateway.signals import watch_signals
from gateway.standalone_metrics import register_metrics
from mesh.binding import bind_tcp
from mesh.data_directory import DataDirectory, DataDirectoryRefused, Kind
from mesh.node import Node
from mesh.producer import Producer
from mesh.reader import Reader
from mesh.requests import Requests
from mesh.store.committer import Fsync
from mesh.store.opening import open_store
from mesh.store.store import Store, StoreSettings
from mesh.zmq_trio import Context
from wireproto.dafka.additions import ANY_STORE, Ping

FIRST_STORE_ID = 1000
SWITCH_INTERVAL_SECONDS = 0.0005
"""How long the committer's thread waits for the interpreter while the loop is busy: in every fsync's path."""

ENTRIES_AT_ONCE = 1000
"""Entries of a rebuilt catalog in one transaction."""

GREETING_SECONDS = 10.0
"""Longest wait for the own store to answer over the link: it is in this process, so more means a bug."""

logger = logging.getLogger(__name__)


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
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    directories = open_directories(settings.data)
    context = Context()
    try:
        trio.run(Standalone(settings, directories, context).main)
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
    if names and not names & {"gateway", "store"}:
        raise DataDirectoryRefused(
            path,
            f"it has other files ({', '.join(sorted(names)[:3])}), so it is not Dafka's",
            "Give --data an empty directory",
        )


class Standalone:
    """One run of `dafka standalone`."""

    def __init__(self, settings: Settings, directories: Directories, context: Context) -> None:
        self.settings = settings
        self.context = context
        self.directories = directories
        self.metrics = Metrics()
        self.health = Health()
        self.store = self._open_store(context)
        self.node = Node(context)
        self.requests = Requests(self.node)
        self.producer = Producer(self.node, self.requests)
        self.reader = Reader(self.requests)
        self.catalog = self._open_catalog(directories.path / "gateway" / "catalog.sqlite")

    def _open_catalog(self, path: Path) -> SqliteCatalog:
        """The catalog, empty if it is to be rebuilt. Raises DataDirectoryRefused."""
        if self.settings.rebuild_catalog:
            if not self.store.ingest.cluster_id:
                raise DataDirectoryRefused(
                    self.directories.path,
                    "there is nothing in the store that a catalog could be rebuilt from",
                    "Start without --rebuild-catalog",
                )
            aside = set_aside(path)
            if aside is not None:
                logger.warning("--rebuild-catalog: the catalog was set aside as %s", aside)
        return SqliteCatalog(path)

    def _open_store(self, context: Context) -> Store:
        settings = self.settings
        return open_store(
            context,
            StoreSettings(
                self.directories.path / "store" / "db",
                self.directories.store.incarnation,
                fsync=Fsync(settings.fsync),
                fsync_interval_seconds=settings.fsync_interval_ms / 1000,
            ),
            accept_loss=settings.accept_loss,
        )

    async def main(self) -> None:
        """Start everything, serve, stop in order."""
        async with trio.open_nursery() as outer:
            await outer.start(self.store.run)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.catalog.run)
                await nursery.start(self.node.run)
                nursery.start_soon(self.producer.run)
                await self._link()
                broker = await self._broker()
                self.node.on_drained(broker.completions.settle)
                nursery.start_soon(broker.run)
                await broker.recover()
                await self._create_topics(broker)
                await self._serve(broker)
                nursery.cancel_scope.cancel()
            await self.catalog.aclose()
            outer.cancel_scope.cancel()

    async def _link(self) -> None:
        """Connect gateway and store, and confirm the link both ways before anything is published."""
        name = uuid.uuid4().hex
        for node, peer in ((self.store.node, self.node), (self.node, self.store.node)):
            peer.connect(node.publisher.bind(f"inproc://{name}-{id(node)}"))
        if self.settings.mesh_listen is not None:
            port = bind_tcp(self.store.node.publisher, *self.settings.mesh_listen)
            where = join_host_port(self.settings.mesh_listen.host, port)
            logger.warning("the mesh listens on %s: whoever reaches it may write and delete", where)
        with trio.fail_after(GREETING_SECONDS):
            await self.node.publisher.wait_subscribed(b"P@" + ANY_STORE.encode())
            await self.requests.ask(ANY_STORE, lambda requester: Ping(ANY_STORE, requester))

    async def _broker(self) -> Broker:
        cluster_id = await self._agree_on_cluster()
        context = LogContext(
            self.catalog,
            self.producer,
            self.reader,
            cluster_id=cluster_id,
            stores=(self.directories.store.incarnation,),
            tail_cache_bytes=self.settings.tail_cache_bytes,
        )
        return Broker(context, self.settings, self.context.deliver)

    async def _agree_on_cluster(self) -> str:
        """The cluster's id, of a new cluster at the first start. Raises DataDirectoryRefused if the halves
        differ.
        """
        incarnation = self.directories.store.incarnation
        store_cluster = self.store.ingest.cluster_id
        entry = self.catalog.get(keys.CLUSTER)
        if entry is None:
            if store_cluster and not self.settings.rebuild_catalog:
                raise DataDirectoryRefused(
                    self.directories.path,
                    "the store holds data, and the catalog that says what it is is empty or lost",
                    "restore the directory gateway/, or start once with --rebuild-catalog",
                )
            cluster_id = store_cluster or uuid.uuid4().hex
            if store_cluster:
                await self._rebuild(incarnation)
            await self.catalog.transact([], self._first_entries(cluster_id, incarnation))
            return cluster_id
        cluster = keys.unpack(entry.value)
        known = {keys.unpack(store.value)["incarnation"] for store in self.catalog.range(keys.STORES)}
        if incarnation not in known or (store_cluster and store_cluster != cluster["id"]):
            raise DataDirectoryRefused(
                self.directories.path,
                "gateway/ and store/ do not belong together: the catalog knows another store",
                "put back the store/ directory that was here, or start with an empty data directory",
            )
        return str(cluster["id"])

    async def _rebuild(self, incarnation: str) -> None:
        """Read the catalog back from the store. The cluster's own key comes last: a crash starts it over."""
        rebuilt = rebuilt_entries(await self.reader.segments(incarnation))
        logs = logs_of(rebuilt)
        known = await self.reader.verify(incarnation, [(log, "") for log in logs])
        raise_epochs(rebuilt, {log: one.epoch for log, one in zip(logs, known, strict=True)})
        entries = list(rebuilt.items())
        for start in range(0, len(entries), ENTRIES_AT_ONCE):
            await self.catalog.transact([], dict(entries[start : start + ENTRIES_AT_ONCE]))
        logger.warning("the catalog was rebuilt from the store: %d entries", len(entries))

    @staticmethod
    def _first_entries(cluster_id: str, incarnation: str) -> dict[str, bytes]:
        return {
            keys.CLUSTER: keys.pack({"id": cluster_id, "format": keys.FORMAT}),
            f"{keys.STORES}{FIRST_STORE_ID}": keys.pack({"incarnation": incarnation, "name": "standalone"}),
        }

    async def _create_topics(self, broker: Broker) -> None:
        for name, partitions in self.settings.topics:
            if broker.topics.get(name) is None:
                await broker.create_topic(name, partitions, {}, 1)

    async def _serve(self, broker: Broker) -> None:
        server = Server(
            registry=load_apis(),
            broker=broker,
            metrics=self.metrics,
            produce_gate=broker.context.window_gate,
            hurry=broker.wake_parked,
        )
        register_metrics(self.metrics, broker, self.store, self.node)
        sockets = await open_listeners(self.settings.listen)
        async with trio.open_nursery() as nursery:
            if self.settings.metrics is not None:
                pages = await open_listeners([self.settings.metrics])
                await nursery.start(serve_health, pages, self.health, self.metrics)

            def stop() -> None:
                self.health.not_ready("stopping")
                server.shut_down()

            await nursery.start(watch_signals, stop)
            nursery.start_soon(self._wake_parked, server, broker)
            await nursery.start(self._serve_clients, server, sockets, nursery)
            self.health.ready()
            say_ready(sockets)

    @staticmethod
    async def _wake_parked(server: Server, broker: Broker) -> None:
        await server.context.shutting_down.wait()
        broker.wake_parked()

    @staticmethod
    async def _serve_clients(
        server: Server,
        sockets: list[ListenerSocket],
        nursery: trio.Nursery,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        await server.serve(sockets, task_status=task_status)
        nursery.cancel_scope.cancel()
