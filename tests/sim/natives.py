"""Native producers of the simulated cluster, whose subject a topic has: processes that publish, die without a
word, and come back under another address.

Each record names its address and its sequence. What a log has of an address must be its records, each once,
in their order, all in one partition; and once all is healed everything that a store keeps of it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import patch

import trio

from gateway.native.batches import ADDRESS_HEADER, SEQUENCE_HEADER
from mesh.native import producer as native_producer
from mesh.native.producer import NativeProducer
from mesh.protocol.address_state import Phase
from mesh.protocol.native_keeping import NativeKeeping, Trim
from mesh.protocol.native_resends import OURS
from tests.sim.invariants import MOST_ADDRESSES
from tests.sim.loop import BrokenPromise, NodeClock, clock_here
from tests.sim.network import SimNode
from tests.sim.plan import NATIVE_TOPIC
from wireproto.records.iteration import iter_records

if TYPE_CHECKING:
    from tests.sim.clients import PartitionName
    from tests.sim.cluster import World
    from wireproto.dafka.additions import TakenUp
    from wireproto.dafka.messages import Record

SUBJECT = NATIVE_TOPIC
"""The same name: then the topic's own segments are published under it, too."""

NATIVE_PARTITIONS = 2

MOST_RECORDS = 40
"""Of one process: then it waits to be killed."""


def dropping_at_once(reached: Counter[str]) -> tuple[AbstractContextManager[object], ...]:
    """Stores drop native records as soon as they are told that topics have them, and each by itself."""
    trimmed = NativeKeeping.trimmed

    def counting(self: NativeKeeping, trim: Trim) -> bytes:
        reached["native records dropped"] += 1
        return trimmed(self, trim)

    return (
        patch("gateway.native.taken.TELL_SECONDS", 0.1),
        patch("mesh.store.native.KEEP_SECONDS", 0.1),
        patch.object(NativeKeeping, "_is_ended", lambda *_: True),
        patch.object(NativeKeeping, "trimmed", counting),
    )


class Natives:
    """Those of one schedule."""

    def __init__(self, world: World) -> None:
        self._world = world
        world.network.on_taken_up = self._on_taken_up
        self.published: defaultdict[str, dict[int, bytes]] = defaultdict(dict)
        """address -> sequence -> content."""
        self._next: defaultdict[str, int] = defaultdict(int)
        """address -> the sequence that comes next into its log."""
        self._partitions: dict[str, PartitionName] = {}

    def begin(self) -> None:
        """Start the processes."""
        for number in range(self._world.plan.natives):
            self._world.nursery.start_soon(self._live, number)

    async def _live(self, number: int) -> None:
        world = self._world
        while world.working:
            life = trio.CancelScope()
            world.loop.after(
                world.random.choice((0.3, 1.5, 4.0)) * world.random.uniform(0.5, 1.5), life.cancel
            )
            with life:
                await self._process(number)
            world.reached["native producers killed"] += 1
            await trio.sleep(world.random.uniform(0.05, 0.3))

    async def _process(self, number: int) -> None:
        world = self._world
        clock = NodeClock(world.loop, world.random.uniform(0, 1e6), world.random.uniform(0.6, 1.6))
        clock_here.set(clock)
        node = SimNode(world.network, f"native {number}", clock)
        try:
            with (
                patch.object(native_producer, "Node", lambda _context: node),
                patch("mesh.protocol.native_resends.uuid4", world.next_uuid),
            ):
                producer = NativeProducer(cast("Any", None), SUBJECT)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(producer.run)
                for _ in range(MOST_RECORDS):
                    await producer.produce(
                        b"<%s %d>" % (producer.address.encode(), producer.writer.next_sequence)
                    )
                    await trio.sleep(world.plan.pace * world.random.choice((0.0, 0.0, 0.5, 1.0)))
                    if not world.working:
                        break
                await trio.sleep_forever()
        finally:
            node.leave()

    @staticmethod
    def is_of_one(record: Record) -> bool:
        """Whether a native producer publishes it."""
        return record.subject == SUBJECT and record.address.startswith(OURS)

    # what is seen ------------------------------------------------------------------------------------------

    def on_published(self, record: Record) -> None:
        """A producer published a record."""
        known = self.published[record.address].setdefault(record.sequence, bytes(record.content))
        if known != bytes(record.content):
            raise BrokenPromise(f"native {record.address} used sequence {record.sequence} for two records")

    def _on_taken_up(self, told: TakenUp) -> None:
        """A gateway tells stores what they may drop."""
        for _, address, following in told.addresses:
            if following > self._next[address]:
                raise BrokenPromise(
                    f"stores may drop native {address} before {following}, and {self._next[address]} comes "
                    "next into the log"
                )

    def logged(self, partition: PartitionName, content: bytes) -> None:
        """A batch is in the log for good; each is told once, in the order of the log or not."""
        if partition[0] != NATIVE_TOPIC:
            return
        for record in iter_records(content):
            headers = dict(record.headers)
            address, sequence = (headers[name] or b"" for name in (ADDRESS_HEADER, SEQUENCE_HEADER))
            self._came(partition, address.decode(), int(sequence), bytes(record.value or b""))

    def _came(self, partition: PartitionName, address: str, sequence: int, content: bytes) -> None:
        published = self.published[address].get(sequence)
        if published != content:
            raise BrokenPromise(f"{content!r} came as {sequence} of native {address}, which is {published!r}")
        if self._partitions.setdefault(address, partition) != partition:
            raise BrokenPromise(f"native {address} came into {partition} and {self._partitions[address]}")
        if sequence != self._next[address]:
            raise BrokenPromise(f"{sequence} of native {address} came, and {self._next[address]} is next")
        self._next[address] = sequence + 1
        self._world.reached["native records in a log"] += 1

    def missing(self) -> str:
        """What a store keeps and no log has yet; "" if that is nothing."""
        if not self._world.plan.natives:
            return ""
        for member in self._world.members:
            database = member.database()
            for address in database.addresses("", MOST_ADDRESSES):
                state = database.load(address)
                if state is not None and state.phase is Phase.NATIVE and state.head >= self._next[address]:
                    return (
                        f"{member.name} has native {address} up to {state.head}, and the log before "
                        f"{self._next[address]}"
                    )
        return ""
