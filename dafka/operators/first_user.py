"""`dafka init`: the first user of a cluster, put into its catalog while nobody uses that (KIP-900's problem:
where everybody has to say who he is, nobody can come in to make the first user).

The catalog may be a new one, which no cluster has yet: a first start keeps what is in it. In one that has a
cluster it is a transaction behind the last one of the last life, and the next start ends that life after it
(`gateway.cluster.lineage`), so no store refutes it; the stores hear of the user then.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from dafka.commands.exits import CommandFailed
from dafka.processes.catalogs import open_etcd, open_sqlite
from gateway.catalog import keys
from gateway.catalog.interface import Compare, CompareFailed
from gateway.cluster.identity import cluster_in
from gateway.cluster.scram_users import MAX_USERS, Refusal, bad_name, pack
from gateway.security.scram import SALT_BYTES, Hash, credential_of
from mesh.data_directory import DataDirectory, DataDirectoryRefused, Kind

if TYPE_CHECKING:
    from dafka.settings import CatalogSettings
    from gateway.catalog.interface import Catalog

GATEWAY: Final = "gateway"
STANDALONE: Final = "standalone"
GATEWAYS: Final = "gateways"

PLACES: Final = {STANDALONE: "gateway", GATEWAYS: "catalog", GATEWAY: "."}
"""Where the catalog is in a data directory, by what is started on it: `dafka standalone`, the same with
--gateways, `dafka gateway`."""


def kind_of(path: Path) -> str | None:
    """What has been started on a data directory; None: nothing yet. Raises DataDirectoryRefused: what lies
    there is not Dafka's, or a store's.
    """
    names = {entry.name for entry in path.iterdir()} - {"lost+found"} if path.is_dir() else set()
    if "identity.json" in names:
        return GATEWAY
    if "catalog" in names:
        return GATEWAYS
    if names & {"gateway", "store"}:
        return STANDALONE
    if names:
        raise DataDirectoryRefused(
            path,
            f"it has other files ({', '.join(sorted(names)[:3])}), so it is not Dafka's",
            "Give --data the directory of a gateway or of a standalone, or an empty one",
        )
    return None


class UserExists(CommandFailed):
    """There is such a user already."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there is a user {name} already: 'dafka users create {name} --replace' gives him another "
            "password"
        )


class NotTheFirst(CommandFailed):
    """There are other users, and only the first one was to be made: one who was deleted stays deleted."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there are users already, so {name} is not made: 'dafka users create {name}' makes him"
        )


def add_user(
    path: Path, kind: str, name: str, password: str, iterations: int, *, only_first: bool = False
) -> Path:
    """Make a user in the catalog of a data directory; where that is. With `only_first` none where there are
    users.

    Raises UserExists; NotTheFirst; CommandFailed: nobody can have this name, or there are too many users;
    DataDirectoryRefused: a process uses the directory.
    """
    credentials = _packed(name, password, iterations)
    directory = path / PLACES[kind]
    if kind != GATEWAY:
        path.mkdir(parents=True, exist_ok=True)
    with DataDirectory(directory, Kind.GATEWAY):
        catalog = open_sqlite(directory, rebuild=False)

        async def add() -> CommandFailed | None:
            try:
                return await _add(catalog, name, credentials, only_first)
            finally:
                await catalog.aclose()

        if refusal := trio.run(add):
            raise refusal
    return directory


def add_user_in_etcd(
    settings: CatalogSettings, name: str, password: str, iterations: int, *, only_first: bool = False
) -> str:
    """As `add_user`, in an etcd, whose gateways may run: they take it at once.

    Raises CatalogLost, UserExists, NotTheFirst, CommandFailed, OSError.
    """
    credentials = _packed(name, password, iterations)
    catalog = open_etcd(settings, rebuild=False)

    async def add() -> CommandFailed | None:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(catalog.run)
                refusal = await _add(catalog, name, credentials, only_first)
                nursery.cancel_scope.cancel()
        finally:
            await catalog.aclose()
        return refusal

    if refusal := trio.run(add):
        raise refusal
    return catalog.where


def _packed(name: str, password: str, iterations: int) -> bytes:
    """What the catalog is to have of the user, for all mechanisms."""
    if refusal := bad_name(name):
        raise CommandFailed(f"{name!r}: {refusal.value}")
    return pack(
        {kind: credential_of(kind, password, secrets.token_bytes(SALT_BYTES), iterations) for kind in Hash}
    )


async def _add(catalog: Catalog, name: str, credentials: bytes, only_first: bool) -> CommandFailed | None:
    """Why the user is not made; None: he is."""
    cluster_in(catalog)  # refused, if a newer version has written it
    key, users = keys.scram_key(name), catalog.range(keys.SCRAM)
    if only_first and users:
        return NotTheFirst(name) if catalog.get(key) is None else UserExists(name)
    if len(users) >= MAX_USERS:
        return CommandFailed(Refusal.TOO_MANY_USERS.value)
    try:
        await catalog.transact([Compare(key, 0)], {key: credentials})
    except CompareFailed:
        return UserExists(name)
    return None
