"""A mesh with keys in one loop: each of its processes is a context of its own, over TCP, by a real tower."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from mesh.beacon import Beacon
from mesh.joining import join_mesh
from mesh.keys import directory
from mesh.keys.certificate import Certificate
from mesh.keys.directory import OWN
from mesh.keys.keys import Keys
from mesh.keys.roles import Role
from mesh.links import Context
from mesh.native.consumer import NativeConsumer
from mesh.native.producer import NativeProducer
from mesh.node import Node
from mesh.protocol.endpoints import MeshListen, TowerAddress
from mesh.store.committer import Fsync
from mesh.store.store import Store, StoreSettings
from mesh.tower.tower import Tower
from mesh.zmq_trio import new_key_pair
from tests.mesh.stores import Gateway

PATIENCE_SECONDS = 40
LOCAL = MeshListen("127.0.0.1")


def certificate(name: str, role: Role, *subjects: str) -> Certificate:
    """A new key."""
    public, secret = new_key_pair()
    return Certificate(name, role, public, subjects, secret)


class Process:
    """One process of the mesh: its context, and what runs in it until `stop`."""

    def __init__(self, context: Context, scope: trio.CancelScope, over: trio.Event) -> None:
        self.context = context
        self._scope = scope
        self._over = over
        self.beacon: Beacon

    @property
    def keys(self) -> Keys:
        assert self.context.keys is not None
        return self.context.keys

    async def stop(self) -> None:
        self._scope.cancel()
        await self._over.wait()


class Asker(Process):
    """What asks stores, as gateways do; it may have any key."""

    gateway: Gateway


class KeyedMesh:
    """Makes processes; who has which key is in `directories`, one of each."""

    def __init__(self, path: Path, nursery: trio.Nursery) -> None:
        self.path = path
        self.nursery = nursery
        self.directories: dict[str, Path] = {}
        self.towers: list[TowerAddress] = []

    # keys -------------------------------------------------------------------------------------------------

    def issue(self, *certificates: Certificate) -> None:
        """A directory for each, and everybody's certificate in all of them."""
        for one in certificates:
            folder = self.path / f"{one.name}-{len(self.directories)}"
            directory.make(folder, one)
            for other in self.directories.values():
                directory.add(folder, directory.read_member(other / OWN))
            self.directories[one.public] = folder
            self.tell(one)

    def tell(self, one: Certificate) -> None:
        """Everybody knows this certificate."""
        for folder in self.directories.values():
            directory.add(folder, one)

    def withdraw(self, one: Certificate) -> None:
        """Nobody knows this certificate any more."""
        for folder in self.directories.values():
            directory.remove(folder, one.name, one.short_key)

    def folder(self, one: Certificate) -> Path:
        return self.directories[one.public]

    # processes --------------------------------------------------------------------------------------------

    async def _start(self, one: Certificate, kind: type[Process], run: Callable[..., Any]) -> Any:
        process = kind(Context(Keys(self.folder(one))), trio.CancelScope(), trio.Event())
        await self.nursery.start(self._run, process, run)
        return process

    async def _run(
        self, process: Process, run: Callable[..., Any], *, task_status: trio.TaskStatus[None]
    ) -> None:
        try:
            with process._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(process.context.run)
                    await run(process, nursery)
                    task_status.started()
                    await trio.sleep_forever()
        finally:
            process.context.close()
            process._over.set()

    async def tower(self, one: Certificate, address: TowerAddress | None = None) -> Process:
        async def run(process: Process, nursery: trio.Nursery) -> None:
            ports = (0, 0) if address is None else (address.port_in, address.port_out)
            process.tower = tower = Tower(process.context, "127.0.0.1", *ports)  # type: ignore[attr-defined]
            port_in, port_out = tower.bind()
            if address is None:
                self.towers.append(TowerAddress("127.0.0.1", port_in, port_out))
            await nursery.start(tower.run)

        process: Process = await self._start(one, Process, run)
        return process

    async def _join(self, process: Process, node: Node, nursery: trio.Nursery, node_id: str = "") -> None:
        process.beacon = join_mesh(process.context, node, LOCAL, self.towers, "", node_id)
        await nursery.start(process.beacon.run)

    async def store(self, one: Certificate, data: str = "", incarnation: str = "5" * 32) -> Any:
        async def run(process: Any, nursery: trio.Nursery) -> None:
            settings = StoreSettings(self.path / (data or one.name), incarnation, one.name, fsync=Fsync.NEVER)
            process.store = Store(process.context, settings)
            await nursery.start(process.store.run)
            await self._join(process, process.store.node, nursery)

        return await self._start(one, Process, run)

    async def asker(self, one: Certificate, life: str = "") -> Asker:
        async def run(process: Asker, nursery: trio.Nursery) -> None:
            process.gateway = Gateway(process.context, life)
            node = process.gateway.node
            await nursery.start(node.run)
            await self._join(process, node, nursery, process.gateway.requests.new_id())

        asker: Asker = await self._start(one, Asker, run)
        return asker

    async def node(self, one: Certificate) -> Any:
        """A node that says what a test has it say, and listens to nothing."""

        async def run(process: Any, nursery: trio.Nursery) -> None:
            process.node = Node(process.context)
            await nursery.start(process.node.run)
            await self._join(process, process.node, nursery)

        return await self._start(one, Process, run)

    async def producer(self, one: Certificate, subject: str) -> Any:
        async def run(process: Any, nursery: trio.Nursery) -> None:
            process.native = NativeProducer(process.context, subject)
            await nursery.start(process.native.run)
            await self._join(process, process.native.node, nursery)

        return await self._start(one, Process, run)

    async def reader(self, one: Certificate, subject: str) -> Any:
        async def run(process: Any, nursery: trio.Nursery) -> None:
            process.native = NativeConsumer(process.context, subject, from_beginning=True)
            await nursery.start(process.native.run)
            await self._join(process, process.native.node, nursery)

        return await self._start(one, Process, run)


@asynccontextmanager
async def keyed_mesh(path: Path) -> AsyncIterator[KeyedMesh]:
    async with trio.open_nursery() as nursery:
        yield KeyedMesh(path, nursery)
        nursery.cancel_scope.cancel()


def run(path: Path, test: Callable[[KeyedMesh], Any]) -> None:
    async def main() -> None:
        with trio.fail_after(PATIENCE_SECONDS):
            async with keyed_mesh(path) as keyed:
                await test(keyed)

    trio.run(main)


async def until(condition: Callable[[], Any]) -> None:
    while not condition():  # noqa: ASYNC110  nothing tells
        await trio.sleep(0.01)


async def look(processes: Sequence[Process]) -> None:
    """Have all of them read their keys now, and not only in a second."""
    for process in processes:
        await process.keys.look()
