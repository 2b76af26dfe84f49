"""`dafka restore`: a gateway, or a standalone, that makes a new cluster, writes a backup into its stores, and
ends.

It begins as every gateway does at its first start, so the cluster, its lineage and its stores are new; but
its catalog has another name until all is there, and it serves nothing.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import trio

from dafka.backup.manifest import Manifest
from dafka.backup.plan import PlannedPartition
from dafka.backup.restoring import Restoring
from dafka.backup.target import Target
from dafka.processes.catalogs import CATALOG_FILE, RESTORING_FILE
from dafka.processes.gateway import GatewayProcess
from dafka.processes.interpreter import set_up_interpreter
from dafka.processes.mesh_keys import keys_of
from dafka.settings import GatewaySettings, Settings
from gateway.broker import Broker
from gateway.catalog.sqlite import SqliteCatalog
from mesh.data_directory import (
    DataDirectory,
    DataDirectoryRefused,
    Kind,
    replace_file,
    sync_directory,
)
from mesh.keys.roles import Role
from mesh.links import Context

NOTE_FILE = "restore.json"
"""What is being restored there, by which life."""

RUN_IDS = 1 << 40
"""Addresses and requests that one run numbers: the next one begins above them."""


@dataclass(frozen=True)
class Work:
    """What is restored, from where. `before_ms` is what was asked for."""

    target: Target
    manifest: Manifest
    planned: Sequence[PlannedPartition]
    before_ms: int | None
    say: Callable[[str], None]


@dataclass(frozen=True)
class Note:
    """What `NOTE_FILE` has: all runs of one restore have one life, and each its own numbers."""

    backup: str
    before_ms: int | None
    life: str
    run: int


def begin(path: Path, work: Work) -> Note:
    """Note that a run begins in a gateway's directory. Raises DataDirectoryRefused: it has a catalog, or
    another backup was begun there.
    """
    if (path / CATALOG_FILE).exists():
        raise DataDirectoryRefused(path, "it has a catalog already", "Give --data an empty directory")
    note = Note(work.manifest.id, work.before_ms, uuid.uuid4().hex[:16].upper(), 0)
    if (path / NOTE_FILE).exists():
        found = Note(**json.loads((path / NOTE_FILE).read_text()))
        if (found.backup, found.before_ms) != (note.backup, note.before_ms):
            raise DataDirectoryRefused(
                path,
                f"backup {found.backup} is being restored there, and this is {note.backup}, or another time",
                "Repeat the restore that was begun, or give --data an empty directory, and empty stores",
            )
        note = Note(found.backup, found.before_ms, found.life, found.run + 1)
    elif (path / RESTORING_FILE).exists():
        raise DataDirectoryRefused(
            path, f"{NOTE_FILE} is missing", "Give --data an empty directory, and empty stores"
        )
    replace_file(path / NOTE_FILE, json.dumps(vars(note)).encode())
    return note


def finish(path: Path) -> None:
    """All is there: the catalog gets its name."""
    (path / RESTORING_FILE).replace(path / CATALOG_FILE)
    sync_directory(path)
    (path / NOTE_FILE).unlink()


class _Restore:
    """What both kinds of process do instead of serving."""

    work: Work
    whole = False

    async def _write(self, broker: Broker) -> None:
        broker.load_ends()
        work = self.work
        await Restoring(
            broker.context, work.target, work.manifest, work.planned, work.say, work.before_ms
        ).run()
        self.whole = True


class GatewayRestore(_Restore, GatewayProcess):
    """One run of `dafka restore` with stores that are processes of their own."""

    def __init__(
        self, settings: GatewaySettings, directory: DataDirectory, context: Context, work: Work, note: Note
    ) -> None:
        self.work, self.life_name = work, note.life
        super().__init__(settings, directory, context)
        self.requests.skip_to(note.run * RUN_IDS)

    def _open_catalog(self) -> SqliteCatalog:
        return SqliteCatalog(self.directory.path / RESTORING_FILE)

    async def _recover(self, broker: Broker, nursery: trio.Nursery) -> None:  # noqa: ARG002
        """Nothing is recovered: only written."""
        await self._write(broker)

    async def _create_topics(self, broker: Broker) -> None:
        """None: nothing is served."""

    async def _serve(self, broker: Broker) -> None:
        """Nothing: it is over."""


def restore_mesh(settings: GatewaySettings, work: Work) -> bool:
    """Restore into stores that run; whether it was done (not, if it was interrupted). Raises CannotRestore,
    TargetFailed, and as `dafka.processes.life.Life`.
    """
    keys = keys_of(settings, Role.GATEWAY)
    directory = DataDirectory(settings.data, Kind.GATEWAY)
    context = Context(keys)
    try:
        process = GatewayRestore(settings, directory, context, work, begin(directory.path, work))
        set_up_interpreter()
        trio.run(process.run)
        if process.whole:
            finish(directory.path)
    finally:
        context.close()
        directory.close()
    return process.whole


def restore_standalone(settings: Settings, work: Work) -> bool:
    """As `restore_mesh`, into a directory for `dafka standalone`."""
    from dafka.processes.standalone import Directories, Standalone, open_directories

    class StandaloneRestore(_Restore, Standalone):
        """One run of `dafka restore` without other processes."""

        def __init__(self, directories: Directories, context: Context, note: Note) -> None:
            self.work, self.life_name = work, note.life
            super().__init__(settings, directories, context)
            self.requests.skip_to(note.run * RUN_IDS)

        def _open_catalog(self) -> SqliteCatalog:
            return SqliteCatalog(self.directories.gateway.path / RESTORING_FILE)

        async def _recover(self, broker: Broker, nursery: trio.Nursery) -> None:  # noqa: ARG002
            await self._write(broker)

        async def _create_topics(self, broker: Broker) -> None:
            """None: nothing is served."""

        async def _serve(self, broker: Broker) -> None:
            """Nothing: it is over."""

    directories = open_directories(settings.data)
    context = Context()
    try:
        note = begin(directories.gateway.path, work)
        process = StandaloneRestore(directories, context, note)
        set_up_interpreter()
        trio.run(process.main)
        if process.whole:
            finish(directories.gateway.path)
    finally:
        context.close()
        directories.close()
    return process.whole
