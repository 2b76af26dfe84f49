"""Native Dafka programs in Python: `dafka.Producer` and `dafka.Consumer`, on the mesh without a Kafka client.

Theory of operation: each is a node of the mesh for as long as its `async with` block runs, under trio. Its
tasks live in a nursery of the block; what is raised in the block leaves it as it is, in no group.
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypedDict, Unpack

import trio

from dafka.commands.configuration import ConfigurationError, load
from dafka.commands.mesh_options import NATIVE_OPTIONS, ON_THE_MESH
from dafka.commands.parsing import parse_subject
from dafka.processes.mesh_keys import keys_of
from dafka.settings import NativeSettings
from mesh.joining import join_mesh
from mesh.keys.directory import KeysRefused
from mesh.keys.roles import Role
from mesh.links import Context
from mesh.native.consumer import NativeConsumer
from mesh.native.producer import NativeProducer
from mesh.protocol.native_writer import MAX_ACKNOWLEDGING_STORES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from mesh.beacon import Beacon
    from mesh.protocol.native_order import Delivery

POLL_SECONDS: Final = 0.05
"""How often it is looked whether a tower is there."""

WARN_SECONDS: Final = 10.0
"""How often it is said that a producer waits because nothing is acknowledged."""

SETTLE_SECONDS: Final = 1.0
"""Pause between the first link to a tower and the first record: consumers that are there hear it then."""

SETTLE_LONGEST_SECONDS: Final = 3.0
"""How long a tower is waited for before the first record all the same: stores get it later."""

LINGER_SECONDS: Final = 0.2
"""Pause between the last acknowledgement and the end: what is on its way to consumers arrives."""

logger = logging.getLogger(__name__)


MAX_RECORD_BYTES: Final = 16 * 1024 * 1024
"""Of a native record: a link has to carry it at once."""

CALLS_BETWEEN_CHECKPOINTS: Final = 64
"""What is here already is given, and what has room is published, without a wait: other tasks have their turn
after so many."""

OUTSIDE: Final = "a producer is used in its block: async with dafka.Producer(...) as producer"


class NotAcknowledged(Exception):
    """Records that may be lost; the text says which, why, and what to do."""

    exit_code = 2
    """Of a command that ends by it."""


class MeshOptions(TypedDict, total=False):
    """How a program comes onto the mesh: the options of `dafka produce`, as text. What is not given is read
    from the same variables of the environment (`DAFKA_TOWER` and so on).
    """

    tower: str | Sequence[str]
    """HOST[:IN:OUT] of the tower, or of several that stand in for each other; else this machine's."""
    mesh_keys: str | Path
    """The directory with the program's key, where the mesh has keys."""
    mesh_listen: str
    """HOST[:PORT[-PORT]] where the others reach it; else any port of 127.0.0.1."""
    mesh_advertise: str
    """The host that the others are told, if that is another one."""
    insecure_mesh: bool
    """Other machines may reach it although there are no keys."""


def settings_of(mesh: MeshOptions) -> NativeSettings:
    """Raises ValueError for what cannot be; TypeError for what is no option."""
    flags = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in mesh.items()
        if name in ON_THE_MESH
    }
    if unknown := mesh.keys() - flags.keys():
        raise TypeError(f"{min(unknown)!r} is no option of the mesh: {', '.join(ON_THE_MESH)} are")
    if "tower" in mesh:
        tower = mesh["tower"]
        flags["tower"] = (tower,) if isinstance(tower, str) else tuple(tower)
    try:
        return load(NativeSettings, NATIVE_OPTIONS, flags)
    except ConfigurationError as error:
        raise ValueError(str(error)) from None


class _Member:
    """A node of the mesh while the block runs."""

    def __init__(self, subject: str, settings: NativeSettings | None, mesh: MeshOptions) -> None:
        self._subject = parse_subject(subject)
        self._settings = settings_of(mesh) if settings is None else settings
        self._open: AbstractAsyncContextManager[None] | None = None
        self._calls = 0
        self.has_ended = False
        """Its block is over: nothing more can be done with it."""

    async def _give_way(self) -> None:
        """What needs no wait lets other tasks run all the same, now and then."""
        self._calls += 1
        if self._calls % CALLS_BETWEEN_CHECKPOINTS == 0:
            await trio.lowlevel.checkpoint()

    def _member(self) -> AbstractAsyncContextManager[None]:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        """Raises EndpointTaken, MeshExposed, KeysRefused; RuntimeError for a second time."""
        if self._open is not None:
            raise RuntimeError("it was on the mesh already: make another one")
        self._open = self._member()
        await self._open.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._open is not None
        self.has_ended = True
        await self._open.__aexit__(kind, error, trace)


@asynccontextmanager
async def _linked(
    context: Context, node: NativeProducer | NativeConsumer, settings: NativeSettings
) -> AsyncIterator[tuple[trio.Nursery, Beacon]]:
    """On the mesh. What is raised in the block leaves it as it is."""
    failed: BaseException | None = None
    try:
        beacon = join_mesh(
            context,
            node.node,
            settings.mesh_listen,
            settings.tower,
            settings.mesh_advertise,
            insecure=settings.insecure_mesh,
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(context.run)
            await nursery.start(node.run)
            await nursery.start(beacon.run)
            try:
                yield nursery, beacon
            except (Exception, KeyboardInterrupt, SystemExit) as error:  # noqa: BLE001
                failed = error  # it is raised again, outside of the nursery
            nursery.cancel_scope.cancel()
    finally:
        node.close()
        if failed is not None:
            raise failed


class Producer(_Member):
    """Publishes records of one subject, under an address of its own.

        async with dafka.Producer("sensors") as producer:
            await producer.produce(b"21.5")

    At the end of the block it waits until all is acknowledged, and raises NotAcknowledged if that takes too
    long. Where the block raises, it does not wait.
    """

    def __init__(
        self,
        subject: str,
        *,
        stores: int = 1,
        wait_seconds: float = 30.0,
        settings: NativeSettings | None = None,
        **mesh: Unpack[MeshOptions],
    ) -> None:
        """stores: so many different ones must have a record before it counts as acknowledged; wait_seconds:
        how long the end of the block waits for that; settings: in place of `mesh`.

        Raises ValueError for what cannot be: a subject, a host, a number of stores.
        """
        super().__init__(subject, settings, mesh)
        if not 1 <= stores <= MAX_ACKNOWLEDGING_STORES:
            raise ValueError(f"{stores} stores: 1 to {MAX_ACKNOWLEDGING_STORES} can be waited for")
        if not wait_seconds >= 0:
            raise ValueError(f"wait_seconds={wait_seconds}: nobody can wait for so long")
        self._stores, self._wait_seconds = stores, wait_seconds
        self._node: NativeProducer | None = None
        self._beacon: Beacon | None = None
        """Until the first record: who is there before it is given time to connect."""

    @property
    def address(self) -> str:
        """Its name on the mesh, from the beginning of the block on: another one each time."""
        return self._begun.address

    @property
    def unacknowledged(self) -> int:
        """Records that fewer stores have than should."""
        return len(self._begun.writer)

    @property
    def _begun(self) -> NativeProducer:
        if self._node is None:
            raise RuntimeError(OUTSIDE)
        return self._node

    @property
    def _producing(self) -> NativeProducer:
        if self.has_ended:
            raise RuntimeError(OUTSIDE)
        return self._begun

    async def produce(self, content: bytes | bytearray | memoryview) -> int:
        """Publish a record; its sequence, from 0 on. Waits while 10,000 records, or 64 MiB of them, are
        unacknowledged; and before the first one up to three seconds, so that those who are there hear it.

        Raises TypeError for what is not bytes, ValueError beyond MAX_RECORD_BYTES, trio.ClosedResourceError
        where the block ends meanwhile.
        """
        node = self._producing
        if not isinstance(content, bytes | bytearray | memoryview):
            raise TypeError(f"a record is bytes, not {type(content).__name__}: encode it")
        content = bytes(content)  # what is sent again is the same
        if len(content) > MAX_RECORD_BYTES:
            raise ValueError(f"a record of {len(content)} bytes: {MAX_RECORD_BYTES} is the most")
        if self._beacon is not None:
            await _settle(self._beacon)
            self._beacon = None
        await self._give_way()
        return await node.produce(content)

    async def drained(self) -> None:
        """Return when everything that was produced is acknowledged."""
        await self._producing.drained()

    @asynccontextmanager
    async def _member(self) -> AsyncIterator[None]:
        settings, keys = self._settings, keys_of(self._settings, Role.PRODUCER)
        if keys is not None and not keys.own.may_publish(self._subject):
            raise KeysRefused(
                f"{keys.path} may not publish {self._subject!r}: its key has the subjects "
                f"{', '.join(keys.own.subjects)}. Make one with --subject {self._subject}: 'dafka keys init'"
            )
        with closing(Context(keys)) as context:
            node = self._node = NativeProducer(context, self._subject, self._stores)
            async with _linked(context, node, settings) as (nursery, beacon):
                nursery.start_soon(_complain, node)
                self._beacon = beacon
                yield
                node.takes_no_more()
                await self._end(node, beacon)

    async def _end(self, node: NativeProducer, beacon: Beacon) -> None:
        """Raises NotAcknowledged."""
        with trio.move_on_after(self._wait_seconds):
            await node.drained()
            await trio.sleep(LINGER_SECONDS)
            return
        if len(node.writer):
            raise NotAcknowledged(_what_is_missing(node, beacon, self._wait_seconds))


class Consumer(_Member):
    """Hears the records of one subject, of all its producers: each once, in the order of its address.

    async with dafka.Consumer("sensors", from_beginning=True) as records:
        async for record in records:
            print(record.address, record.sequence, record.content)
    """

    def __init__(
        self,
        subject: str,
        *,
        from_beginning: bool = False,
        settings: NativeSettings | None = None,
        **mesh: Unpack[MeshOptions],
    ) -> None:
        """from_beginning: what stores keep comes first; else what is published from now on; settings: in
        place of `mesh`. Raises ValueError for what cannot be.
        """
        super().__init__(subject, settings, mesh)
        self._from_beginning = from_beginning
        self._node: NativeConsumer | None = None

    @property
    def has_more(self) -> bool:
        """Whether a record is here already."""
        return bool(self._consuming.order.ready)

    @property
    def skipped(self) -> int:
        """Records that no store had any more."""
        return 0 if self._node is None else self._node.order.skipped

    @property
    def _consuming(self) -> NativeConsumer:
        if self._node is None or self.has_ended:
            raise RuntimeError("a consumer is used in its block: async with dafka.Consumer(...) as records")
        return self._node

    async def receive(self) -> Delivery:
        """The next record: `address`, `sequence`, `content`. One task at a time.

        Raises trio.ClosedResourceError where the block ends meanwhile.
        """
        node = self._consuming
        await self._give_way()
        return await node.receive()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delivery:
        return await self.receive()

    @asynccontextmanager
    async def _member(self) -> AsyncIterator[None]:
        with closing(Context(keys_of(self._settings, Role.READER))) as context:
            self._node = NativeConsumer(context, self._subject, from_beginning=self._from_beginning)
            async with _linked(context, self._node, self._settings):
                yield


async def _settle(beacon: Beacon) -> None:
    """Wait until whoever is on the mesh has had the time to connect."""
    for _ in range(int(SETTLE_LONGEST_SECONDS / POLL_SECONDS)):
        if any(tower.connected for tower in beacon.towers):
            await trio.sleep(SETTLE_SECONDS)
            return
        await trio.sleep(POLL_SECONDS)


async def _complain(producer: NativeProducer) -> None:
    acknowledged = -1
    while True:
        await trio.sleep(WARN_SECONDS)
        writer = producer.writer
        if len(writer) and writer.acknowledged == acknowledged:
            logger.warning("%d records wait: no store has acknowledged anything for a while", len(writer))
        acknowledged = writer.acknowledged


def _what_is_missing(producer: NativeProducer, beacon: Beacon, wait_seconds: float) -> str:
    writer = producer.writer
    linked = sum(peer.state == "connected" for peer in beacon.peers)
    stores = "a store" if writer.stores == 1 else f"{writer.stores} stores"
    return (
        f"{len(writer)} of {writer.next_sequence} records were not acknowledged by {stores} within "
        f"{wait_seconds:g} s (sequences {writer.acknowledged + 1} to {writer.next_sequence - 1} of address "
        f"{writer.address}): they may be kept or not. {linked} other nodes are linked: is 'dafka store' "
        "running with the same --tower?"
    )
