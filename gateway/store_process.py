"""`dafka store`: one store as a process of its own.

Order of a start: data directory (lock, identity) -> the log's end is examined and the database opened -> the
node is bound -> towers -> "ready". A signal ends it: the commit at hand is finished, and the database closed.
"""

import logging
from collections.abc import Callable
from pathlib import Path

import trio

from gateway.health import Health, serve_health
from gateway.interpreter import set_up_interpreter
from gateway.listener_sockets import open_listeners
from gateway.listeners import join_host_port
from gateway.loop_watch import LoopWatch
from gateway.mesh_metrics import register_mesh_metrics
from gateway.metrics import Metrics
from gateway.process_metrics import register_nodes
from gateway.ready import say_store_ready
from gateway.settings import MeshStoreSettings
from gateway.signals import watch_signals
from gateway.store_metrics import register_store
from mesh.beacon import Beacon, beacon_host
from mesh.binding import bind_tcp, warn_if_open
from mesh.data_directory import DataDirectory, Kind
from mesh.store.committer import Fsync
from mesh.store.opening import is_damaged, open_store
from mesh.store.store import StoreSettings
from mesh.tower_link import TowerAddress
from mesh.zmq_trio import Context

SHORT_NAME_CHARACTERS = 8

logger = logging.getLogger(__name__)


def run(settings: MeshStoreSettings) -> int:
    """Serve until a signal; the exit code.

    Raises what has an `exit_code` and says what to do (DataDirectoryRefused, EndpointTaken, StoreFailed),
    possibly in an exception group.
    """
    directory = DataDirectory(settings.data, Kind.STORE)
    context = Context()
    try:
        _become_another_if_lost(settings, directory)
        process = StoreProcess(settings, directory, context)
        directory.mark_running(settings.fsync)
        set_up_interpreter()
        trio.run(process.main)
        directory.mark_stopped()
    finally:
        context.close()
        directory.close()
    return 0


def _become_another_if_lost(settings: MeshStoreSettings, directory: DataDirectory) -> None:
    """What acknowledged and may have lost something since must not count as the store that it was. Raises
    DataDirectoryRefused.
    """
    if directory.may_have_lost():
        why = "the machine was started anew, and the last run had not fsynced what it acknowledged"
    elif settings.accept_loss and is_damaged(database_path(settings.data)):
        why = "a part of its log is given up"
    else:
        return
    # Before anything is cut: a crash between both must not leave the old one with less than it acknowledged.
    directory.new_incarnation()
    logger.warning(
        "%s: %s: it is another store now, %s; let it count with 'dafka store admit'",
        settings.data,
        why,
        directory.incarnation,
    )


class StoreProcess:
    """One run of `dafka store`."""

    def __init__(self, settings: MeshStoreSettings, directory: DataDirectory, context: Context) -> None:
        self.settings = settings
        self.name = settings.name or directory.incarnation[:SHORT_NAME_CHARACTERS]
        self.metrics = Metrics(with_clients=False)
        self.health = Health()
        self.store = open_store(
            context,
            StoreSettings(
                database_path(settings.data),
                directory.incarnation,
                self.name,
                fsync=Fsync(settings.fsync),
                fsync_interval_seconds=settings.fsync_interval_ms / 1000,
                catch_up_bytes_per_second=settings.catch_up_bytes_per_second,
                scrub_bytes_per_second=settings.scrub_bytes_per_second,
                scrub_interval_seconds=settings.scrub_interval_seconds,
                native_bytes=settings.native_bytes,
                native_seconds=settings.native_seconds,
            ),
            accept_loss=settings.accept_loss,
        )
        self._context = context

    async def main(self) -> None:
        """Start everything, serve, stop in order."""
        LoopWatch().install(self.metrics)
        async with trio.open_nursery() as nursery:
            await nursery.start(watch_signals, self._stopper(nursery))
            if self.settings.metrics is not None:
                pages = await open_listeners([self.settings.metrics])
                await nursery.start(serve_health, pages, self.health, self.metrics)
            register_store(self.metrics, self.store)
            register_nodes(self.metrics, (self.store.node,))
            await nursery.start(self.store.run)
            beacon = self._bind()
            await nursery.start(beacon.run)
            self.health.ready()
            towers = [join_host_port(tower.host, tower.port_in) for tower in self.settings.tower]
            say_store_ready(self.name, self._where, towers)

    def _stopper(self, nursery: trio.Nursery) -> Callable[[], None]:
        def stop() -> None:
            self.health.not_ready("stopping")
            nursery.cancel_scope.cancel()

        return stop

    def _bind(self) -> Beacon:
        listen, node = self.settings.mesh_listen, self.store.node
        port = bind_tcp(node.publisher, *listen)
        self._where = join_host_port(listen.host, port)
        warn_if_open(listen.host, port)
        towers = [TowerAddress(*tower) for tower in self.settings.tower]
        host = beacon_host(listen.host, self.settings.mesh_advertise)
        beacon = Beacon(self._context, node, towers, host=host, port=port)
        register_mesh_metrics(self.metrics, beacon)
        return beacon


def database_path(data: Path) -> Path:
    """RocksDB's directory in a store's data directory."""
    return data / "db"
