"""`dafka store`: one store as a process of its own.

Order of a start: data directory (lock, identity; another identity if it has lost something) -> the log's end
is examined and the database opened -> signals and health -> the store runs -> its node is bound, and towers
hear of it -> "ready". A signal ends it: the commit at hand is finished, and the database closed.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import trio

from dafka.processes.doors import Doors
from dafka.processes.freed_memory import give_back_freed_memory
from dafka.processes.garbage import look_for_garbage
from dafka.processes.health import Health, serve_health
from dafka.processes.interpreter import set_up_interpreter
from dafka.processes.loop_watch import LoopWatch
from dafka.processes.mesh_keys import keys_of, store_name
from dafka.processes.mesh_metrics import register_beacon, register_keys, register_nodes
from dafka.processes.ready import say_store_ready
from dafka.processes.signals import watch_signals
from dafka.processes.store_metrics import register_store
from dafka.settings import MeshStoreSettings
from gateway.common.metrics import Metrics
from gateway.front.listener_sockets import open_listeners
from gateway.front.listeners import join_host_port
from mesh.beacon import Beacon
from mesh.data_directory import DataDirectory, Kind
from mesh.joining import join_mesh
from mesh.keys.roles import Role
from mesh.links import Context
from mesh.store.committer import Fsync
from mesh.store.opening import is_damaged, open_store
from mesh.store.store import StoreSettings

logger = logging.getLogger(__name__)


def run(settings: MeshStoreSettings) -> int:
    """Serve until a signal; the exit code.

    Raises what has an `exit_code` and says what to do (DataDirectoryRefused, EndpointTaken, KeysRefused,
    StoreFailed), possibly in an exception group.
    """
    keys = keys_of(settings, Role.STORE)
    settings = replace(settings, name=store_name(settings.name, keys))
    directory = DataDirectory(settings.data, Kind.STORE)
    context = Context(keys)
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
        self.metrics = Metrics(with_clients=False)
        self._doors = Doors(settings)
        self.health = Health(self._lacks)
        self.store = open_store(
            context,
            StoreSettings(
                database_path(settings.data),
                directory.incarnation,
                settings.name or "",
                fsync=Fsync(settings.fsync),
                fsync_interval_seconds=settings.fsync_interval_ms / 1000,
                catch_up_bytes_per_second=settings.catch_up_bytes_per_second,
                scrub_bytes_per_second=settings.scrub_bytes_per_second,
                scrub_interval_seconds=settings.scrub_interval_seconds,
                native_bytes=settings.native_bytes,
                native_seconds=settings.native_seconds,
            ),
            directory,
            accept_loss=settings.accept_loss,
        )
        self.name = self.store.settings.name
        self._context = context

    async def main(self) -> None:
        """Start everything, serve, stop in order."""
        LoopWatch().install(self.metrics)
        async with trio.open_nursery() as nursery:
            await nursery.start(watch_signals, self._stopper(nursery), self._doors.read_again)
            self._doors.register(self.metrics)
            nursery.start_soon(self._doors.run)
            nursery.start_soon(self._context.run)
            nursery.start_soon(give_back_freed_memory)
            nursery.start_soon(look_for_garbage)
            if self.settings.metrics is not None:
                pages = await open_listeners([self.settings.metrics], "--metrics")
                await nursery.start(serve_health, pages, self.health, self.metrics, self._doors.metrics)
            register_store(self.metrics, self.store)
            register_nodes(self.metrics, (self.store.node,))
            register_keys(self.metrics, self._context)
            await nursery.start(self.store.run)
            beacon = self._join()
            await nursery.start(beacon.run)
            self.health.ready()
            towers = [join_host_port(tower.host, tower.port_in) for tower in self.settings.tower]
            where = join_host_port(self.settings.mesh_listen.host, beacon.port)
            say_store_ready(self.name, where, towers)

    def _lacks(self) -> str | None:
        """A store that serves and still fetches what it missed: whoever restarts stores one after the other
        should wait for it.
        """
        addresses = self.store.catch_up.lacking
        return f"fetching what it missed, of {addresses} addresses" if addresses else None

    def _stopper(self, nursery: trio.Nursery) -> Callable[[], None]:
        def stop() -> None:
            self.health.not_ready("stopping")
            nursery.cancel_scope.cancel()

        return stop

    def _join(self) -> Beacon:
        settings = self.settings
        beacon = join_mesh(
            self._context,
            self.store.node,
            settings.mesh_listen,
            settings.tower,
            settings.mesh_advertise,
            insecure=settings.insecure_mesh,
        )
        register_beacon(self.metrics, beacon)
        return beacon


def database_path(data: Path) -> Path:
    """RocksDB's directory in a store's data directory."""
    return data / "db"
