"""Opens a gateway's catalog: in its data directory, or in an etcd."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from gateway.catalog import keys
from gateway.catalog.interface import CatalogLost
from gateway.catalog.sqlite import SqliteCatalog
from gateway.catalog.sqlite_files import set_aside
from gateway.cluster.identity import cluster_in
from mesh.data_directory import DataDirectoryRefused
from mesh.private_files import warn_if_readable

if TYPE_CHECKING:
    from dafka.settings import CatalogSettings
    from gateway.catalog.etcd.catalog import EtcdCatalog
    from gateway.catalog.etcd.client import Credentials

CATALOG_FILE = "catalog.sqlite"
"""The catalog, in a gateway's data directory."""

OF_PROCESSES = (keys.ALIVE, keys.DRAINING, keys.LEAVING, keys.MISSED, keys.STANDBYS, keys.GATEWAYS)
"""How keys begin that are there before there is a catalog, or after it is gone."""

RESTORING_FILE = f"{CATALOG_FILE}.restoring"
"""The catalog of a cluster that is being restored from a backup, until all of it is there."""

MAX_PASSWORD_BYTES = 4096
"""More than any password: a larger file is not one."""

logger = logging.getLogger(__name__)


def open_sqlite(directory: Path, *, rebuild: bool) -> SqliteCatalog:
    """The catalog in a gateway's data directory; to `rebuild` it, an empty one in its place.

    Raises DataDirectoryRefused, OSError.
    """
    path = directory / CATALOG_FILE
    if (directory / RESTORING_FILE).exists():
        raise DataDirectoryRefused(
            directory,
            "a backup is being restored there, and is not all there yet",
            "Repeat 'dafka restore' with the same options: it goes on where it was",
        )
    if rebuild:
        aside = set_aside(path)
        if aside is not None:
            logger.warning("--rebuild-catalog: the catalog was set aside as %s", aside)
    return SqliteCatalog(path)


def counts_on_stores(directory: Path) -> bool:
    """Whether there is a catalog in a gateway's data directory that a cluster has. `dafka init` makes one
    that none has yet. Raises DataDirectoryRefused.
    """
    if not (directory / CATALOG_FILE).exists():
        return False
    catalog = SqliteCatalog(directory / CATALOG_FILE)
    try:
        return cluster_in(catalog) is not None
    finally:
        with ThreadPoolExecutor(1) as other:  # this one may run a loop already
            other.submit(trio.run, catalog.aclose).result()


def open_etcd(settings: CatalogSettings, *, rebuild: bool, make: bool = True) -> EtcdCatalog:
    """The catalog in the etcd that the settings name, a new one where there is none, if it is to be made; to
    `rebuild` it there must be none.

    Raises CatalogLost: etcd cannot be reached, or refuses, or there is a catalog to be rebuilt, or none that
    is not to be made; OSError: a file of the settings cannot be read.
    """
    from gateway.catalog.etcd.address import EtcdAddress  # only who has one loads it
    from gateway.catalog.etcd.catalog import EtcdCatalog

    address = EtcdAddress.parse(settings.catalog)
    catalog = trio.run(partial(EtcdCatalog.open, address, _credentials(settings), make=make))
    if rebuild and any(not one.key.startswith(OF_PROCESSES) for one in catalog.range("")):
        raise CatalogLost(
            f"the catalog {catalog.where} is not empty (an import or a rebuild that did not come to its end"
            " leaves something, too), and nothing in it is thrown away: make the new one"
            " below another prefix (--catalog with another /PREFIX at its end), and give that one from then"
            " on"
        )
    return catalog


def _credentials(settings: CatalogSettings) -> Credentials:
    from gateway.catalog.etcd.client import Credentials

    password = ""
    if settings.catalog_password_file is not None:
        warn_if_readable(settings.catalog_password_file, "the password in it")
        with settings.catalog_password_file.open() as file:
            password = file.read(MAX_PASSWORD_BYTES).rstrip("\r\n")
    return Credentials(
        settings.catalog_ca, settings.catalog_cert, settings.catalog_key, settings.catalog_user, password
    )
