"""`dafka catalog`: the catalog as a file, of a running gateway or of a directory that nobody uses."""

from pathlib import Path
from typing import Any

import trio

from dafka.operators.socket import SOCKET_NAME, NoGateway, OperatorRefused, ask
from dafka.processes.catalogs import CATALOG_FILE, open_etcd
from dafka.settings import CatalogSettings
from gateway.catalog.interface import Catalog
from gateway.catalog.snapshot import snapshot
from gateway.catalog.sqlite import SqliteCatalog
from gateway.cluster.exported import (
    Exported,
    NotAnExport,
    cluster_part,
    exported,
    imported_entries,
    lines_of,
    read_export,
)
from gateway.cluster.identity import UNNAMED, put_unnamed
from mesh.data_directory import IDENTITY_FILE, DataDirectory, DataDirectoryRefused, Kind, sync_directory

IMPORTING = f"{CATALOG_FILE}.importing"
"""The catalog that is being made, until it is whole."""

EVERYTHING = ("",)
"""What all keys begin with."""

DO_EXPORT = "catalog.export"


class CatalogRequestHandlers:
    """What a running gateway does for operators."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.handlers = {DO_EXPORT: self._export}

    async def _export(self, _request: dict[str, Any]) -> str:
        found = await snapshot(self._catalog, EVERYTHING)
        try:
            return await trio.to_thread.run_sync(lambda: "".join(lines_of(exported(found))))
        except NotAnExport as error:
            raise OperatorRefused(str(error)) from None


def gateway_directory(path: Path) -> Path:
    """The gateway's data directory, where that of a standalone may be named, too."""
    inside = path / "gateway"
    return inside if not (path / IDENTITY_FILE).exists() and (path / "store").is_dir() else path


def export_catalog(path: Path) -> str:
    """The lines of the catalog of a gateway that runs on this directory, or of what lies there.

    Raises DataDirectoryRefused, NotAnExport, OperatorRefused, OSError.
    """
    path = gateway_directory(path)
    if (path / SOCKET_NAME).exists():
        try:
            lines: str = ask(path, DO_EXPORT)
        except NoGateway:
            pass  # it was killed, and its socket lies there
        else:
            return lines
    if not (path / CATALOG_FILE).exists():
        raise DataDirectoryRefused(
            path, "there is no catalog", "Give --data the directory of a gateway, or of a standalone"
        )
    with DataDirectory(path, Kind.GATEWAY):
        catalog = SqliteCatalog(path / CATALOG_FILE)
        try:
            return "".join(lines_of(exported(trio.run(snapshot, catalog, EVERYTHING))))
        finally:
            trio.run(catalog.aclose)


def export_from_etcd(settings: CatalogSettings) -> str:
    """The lines of the catalog in an etcd, whether a gateway uses it or not.

    Raises CatalogLost, NotAnExport, OSError.
    """
    catalog = open_etcd(settings, rebuild=False, make=False)
    try:
        return "".join(lines_of(exported(trio.run(snapshot, catalog, EVERYTHING))))
    finally:
        trio.run(catalog.aclose)


def import_into_etcd(settings: CatalogSettings, text: str, *, older: bool) -> Exported:
    """Make a catalog in an etcd from an export. Raises CatalogLost: there is one; NotAnExport, OSError."""
    found = read_export(text.splitlines(keepends=True))
    catalog = open_etcd(settings, rebuild=True)

    async def write() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(catalog.run)
            await _write(catalog, found, older)
            nursery.cancel_scope.cancel()
        await catalog.aclose()

    trio.run(write)
    return found


def import_catalog(path: Path, text: str, *, older: bool) -> Exported:
    """Make the catalog of a new gateway's directory from an export.

    Raises DataDirectoryRefused, NotAnExport, OSError: nothing is there then that a gateway would take.
    """
    found = read_export(text.splitlines(keepends=True))
    path = gateway_directory(path)
    with DataDirectory(path, Kind.GATEWAY) as directory:
        if (path / CATALOG_FILE).exists():
            raise DataDirectoryRefused(
                path,
                "it has a catalog already",
                f"Move {CATALOG_FILE} and the files beside it that begin so away, or give --data an empty"
                " directory",
            )
        directory.set_cluster_id(found.cluster)
        for left in path.glob(f"{IMPORTING}*"):
            left.unlink()
        trio.run(_write_file, path / IMPORTING, found, older)
        (path / IMPORTING).replace(path / CATALOG_FILE)
        sync_directory(path)
    return found


async def _write_file(path: Path, found: Exported, older: bool) -> None:
    catalog = SqliteCatalog(path)
    try:
        await _write(catalog, found, older)
    finally:
        await catalog.aclose()


async def _write(catalog: Catalog, found: Exported, older: bool) -> None:
    await put_unnamed(catalog, imported_entries(found, older=older))
    await catalog.transact([UNNAMED], cluster_part(found))
