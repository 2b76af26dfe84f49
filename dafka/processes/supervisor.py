"""`dafka standalone --gateways N`: several gateways, stores and a tower of one machine, as processes of their
own; this one starts them, keeps them running, and owns the catalog.

The catalog is a SQLite file, which this process serves to the gateways through a Unix socket
(`gateway.catalog.served`). If several processes wrote one file, one that is stopped would hold the lock of
all; and a gateway that dies loses its lease with its connection, so that the others take over at once.

::

    DIR/catalog/      the catalog: as a gateway's data directory, which 'dafka gateway --data' can serve alone
    DIR/gateway-N/    what a gateway keeps for itself, and where operators ask it
    DIR/store-N/      a store

Order of a start: the catalog -> the tower, whose ports are free ones -> everything else at once -> "ready"
when all serve. Of a stop: gateways, stores, tower, catalog. A process that ends is started again, on the same
ports; if one ends before all have served, all end. If this process is killed the others end by themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import trio

from dafka.processes.catalogs import open_sqlite
from dafka.processes.child import Child
from dafka.processes.doors import Doors
from dafka.processes.interpreter import set_up_interpreter
from dafka.processes.parent import Process
from dafka.processes.ready import PortFile, say_cluster_ready
from dafka.processes.signals import watch_signals
from dafka.settings import GatewaySettings, MeshStoreSettings, Settings, TowerSettings
from gateway.catalog.served.server import CatalogServer
from gateway.catalog.sqlite import SqliteCatalog
from gateway.front.listeners import ListenerSpec, split_host_port
from mesh.data_directory import DataDirectory, DataDirectoryRefused, Kind
from mesh.protocol.endpoints import TowerAddress

CATALOG_SOCKET: Final = "catalog.sock"

GATEWAYS_STOP_SECONDS: Final = 17.0
"""Longer than a gateway takes to give away what it leads, and to answer what is in flight."""

STORES_STOP_SECONDS: Final = 30.0
"""Longer than a store takes to finish a commit and close its database."""

TOWER_IS_READY: Final = "Tower is ready on "
STORE_IS_READY: Final = "The store "
LISTENS_ON: Final = "Kafka is ready on "
CLIENTS_USE: Final = "  check:   dafka doctor "
"""How the lines begin that say so (`dafka.processes.ready`)."""

logger = logging.getLogger(__name__)

Made = TypeVar("Made")


def run(settings: Settings, ends_with: Process | None) -> int:
    """Serve until a signal; the exit code. Raises what has an `exit_code` and says what to do, possibly in an
    exception group.
    """
    Doors(settings)  # what is wrong with its files is said before anything is started
    refuse_other_data(settings.data)
    directory = DataDirectory(settings.data / "catalog", Kind.GATEWAY)
    try:
        catalog = open_sqlite(directory.path, rebuild=False)
        set_up_interpreter()
        trio.run(Supervisor(settings, catalog, ends_with).main)
    finally:
        directory.close()
    return 0


def refuse_other_data(path: Path) -> None:
    """Raises DataDirectoryRefused: it has the data of one process, or what is not Dafka's."""
    names = {entry.name for entry in path.iterdir()} - {"lost+found"} if path.is_dir() else set()
    if names & {"gateway", "store"}:
        raise DataDirectoryRefused(
            path,
            "it has the data of one process (dafka standalone without --gateways)",
            "Start that one, or give --data another directory",
        )
    if names and "catalog" not in names:
        raise DataDirectoryRefused(
            path,
            f"it has other files ({', '.join(sorted(names)[:3])}), so it is not Dafka's",
            "Give --data an empty directory",
        )


class Supervisor:
    """One run."""

    def __init__(self, settings: Settings, catalog: SqliteCatalog, ends_with: Process | None) -> None:
        self._settings = settings
        self._catalog = catalog
        self._ends_with = ends_with
        self._stopping = trio.Event()
        stores = max(settings.stores or settings.gateways, _stores_in(settings.data))
        self._tower = Child("tower", self._tower_settings, TOWER_IS_READY)
        self._stores = [
            Child(f"store-{number}", self._of_store(number), STORE_IS_READY)
            for number in range(1, stores + 1)
        ]
        self._gateways = [
            Child(f"gateway-{number}", self._of_gateway(number, stores), CLIENTS_USE)
            for number in range(1, settings.gateways + 1)
        ]

    async def main(self) -> None:
        """Start everything, serve, stop in order."""
        async with trio.open_nursery() as outer:
            outer.start_soon(self._catalog.run)
            async with trio.open_nursery() as nursery:
                await nursery.start(watch_signals, self._stopping.set)
                if self._ends_with is not None:
                    nursery.start_soon(self._ends_with.watch, self._stopping.set)
                server = CatalogServer(self._catalog)
                await nursery.start(server.serve, self._socket)
                nursery.start_soon(self._serve, nursery)
                try:
                    await self._stopping.wait()
                finally:
                    with trio.CancelScope(shield=True):
                        await self._stop()
                nursery.cancel_scope.cancel()
            outer.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await self._catalog.aclose()

    async def _serve(self, nursery: trio.Nursery) -> None:
        await nursery.start(self._tower.run)
        await self._tower.ready.wait()
        for child in (*self._stores, *self._gateways):
            await nursery.start(child.run)
        for child in (*self._stores, *self._gateways):
            await child.ready.wait()
        addresses = [child.told(CLIENTS_USE)[0] for child in self._gateways]
        with PortFile(self._settings.port_file) as port_file:
            port_file.write(",".join(addresses))
            say_cluster_ready(addresses, [child.name for child in (self._tower, *self._stores)])
            await trio.sleep_forever()

    async def _stop(self) -> None:
        for children, seconds in (
            (self._gateways, GATEWAYS_STOP_SECONDS),
            (self._stores, STORES_STOP_SECONDS),
            ([self._tower], GATEWAYS_STOP_SECONDS),
        ):
            async with trio.open_nursery() as nursery:
                for child in children:
                    nursery.start_soon(child.stop, seconds)

    # what each of them is started with --------------------------------------------------------------------

    @property
    def _socket(self) -> Path:
        return (self._settings.data / "catalog" / CATALOG_SOCKET).absolute()

    def _tower_settings(self) -> TowerSettings:
        made = _common(TowerSettings, self._settings, listen="127.0.0.1", port_in=0, port_out=0, metrics=None)
        if self._tower.said:
            address = self._tower_address()
            made = replace(made, port_in=address.port_in, port_out=address.port_out)
        return made

    def _tower_address(self) -> TowerAddress:
        host, port_in, port_out = self._tower.told(TOWER_IS_READY)[0].split(":")
        return TowerAddress(host, int(port_in), int(port_out))

    def _of_store(self, number: int) -> Callable[[], MeshStoreSettings]:
        def made() -> MeshStoreSettings:
            return _common(
                MeshStoreSettings,
                self._settings,
                data=(self._settings.data / f"store-{number}").absolute(),
                name=f"store-{number}",
                tower=(self._tower_address(),),
                mesh_listen=MeshStoreSettings().mesh_listen,
                metrics=_shifted(self._settings.metrics, self._settings.gateways + number - 1),
            )

        return made

    def _of_gateway(self, number: int, stores: int) -> Callable[[], GatewaySettings]:
        def made() -> GatewaySettings:
            settings, where = self._settings, self._gateways[number - 1].told(LISTENS_ON)
            return _common(
                GatewaySettings,
                settings,
                data=(settings.data / f"gateway-{number}").absolute(),
                catalog=f"unix:{self._socket}",
                gateway_id=number,
                stores=stores,
                tower=(self._tower_address(),),
                mesh_listen=GatewaySettings().mesh_listen,
                listen=tuple(_bound(settings.listen, number - 1, where)),
                http=_shifted(settings.http, number - 1),
                metrics=_shifted(settings.metrics, number - 1),
                topics=settings.topics if number == 1 else (),
            )

        return made


def _common(kind: Callable[..., Made], settings: Settings, **own: Any) -> Made:
    """Settings of another kind of process: those that both have, and its own."""
    names = {one.name for one in fields(kind)} & {one.name for one in fields(settings)}  # type: ignore[arg-type]
    return kind(**{name: getattr(settings, name) for name in names} | own)


def _stores_in(data: Path) -> int:
    """The stores that were there before: none of them is left out."""
    numbers = [path.name.removeprefix("store-") for path in data.glob("store-*")]
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


def _shifted(spec: ListenerSpec | None, by: int) -> ListenerSpec | None:
    """The same, so many ports further; any free one stays that."""
    if spec is None or not spec.port:
        return spec
    told = spec.advertised_port + by if spec.advertised_port else spec.advertised_port
    return replace(spec, port=spec.port + by, advertised_port=told)


def _bound(listen: Iterable[ListenerSpec], by: int, where: Sequence[str]) -> Iterable[ListenerSpec]:
    """The listeners of one gateway; one that has served gets its ports again."""
    ports = [split_host_port(one)[1] for one in where]
    for number, spec in enumerate(listen):
        shifted = _shifted(spec, by)
        assert shifted is not None
        is_told = not shifted.port and number < len(ports)
        yield replace(shifted, port=ports[number]) if is_told else shifted
