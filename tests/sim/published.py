"""Native readers of the simulated cluster, of topics whose values are published: processes that read from the
beginning, die without a word, and begin anew.

What a reader is given must be what is in the log for good at that offset: never what is not shown to Kafka's
consumers, or no longer true; every offset in order, and of a transaction nothing unless it was committed.
Once all is healed it has everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast
from unittest.mock import patch

import trio

from mesh.native import consumer as native_consumer
from mesh.native.consumer import NativeConsumer
from mesh.protocol.published_address import published_address
from tests.sim.loop import BrokenPromise, NodeClock, clock_here
from tests.sim.network import SimNode
from wireproto.dafka.messages import Fetch

if TYPE_CHECKING:
    from mesh.protocol.native_order import Delivery
    from tests.sim.clients import PartitionName
    from tests.sim.cluster import World

LIVES = (0.5, 2.0, 6.0)
"""Seconds, one of which a process lives, about, while there are faults."""


ASKED = 100_000
"""Records that a FETCH asks for, as C's do: more than there are."""


class ReaderNode(SimNode):
    """A native reader's."""

    def send(self, message: Any) -> None:
        """Ask for what is there, and for what is not yet."""
        super().send(message._replace(count=ASKED) if isinstance(message, Fetch) else message)


class PublishedReaders:
    """Those of one schedule."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._partitions: dict[str, PartitionName] = {}
        """By their addresses."""
        self._reached: dict[int, dict[str, int]] = {}
        """Reader -> address -> the offset that comes next."""

    def begin(self) -> None:
        """Start the processes."""
        world = self._world
        for topic_id, name in world.topic_names.items():
            if name.startswith("topic-"):
                for index in range(world.plan.partitions):
                    self._partitions[published_address(bytes.fromhex(topic_id), index)] = name, index
        for number in range(world.plan.publishes):
            world.nursery.start_soon(self._live, number, f"topic-{number % world.plan.topics}.values")

    async def _live(self, number: int, subject: str) -> None:
        world = self._world
        while True:
            life = trio.CancelScope()
            if world.working:
                seconds = world.random.choice(LIVES) * world.random.uniform(0.5, 1.5)
                world.loop.after(seconds, life.cancel)
            with life:
                await self._process(number, subject)
            world.reached["native readers killed"] += 1
            await trio.sleep(world.random.uniform(0.05, 0.3))

    async def _process(self, number: int, subject: str) -> None:
        world = self._world
        clock = NodeClock(world.loop, world.random.uniform(0, 1e6), world.random.uniform(0.6, 1.6))
        clock_here.set(clock)
        node = ReaderNode(world.network, f"native reader {number}", clock)
        self._reached[number] = {}
        try:
            with (
                patch.object(native_consumer, "Node", lambda _context: node),
                patch("mesh.native.consumer.uuid4", world.next_uuid),
            ):
                consumer = NativeConsumer(cast("Any", None), subject, from_beginning=True)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(consumer.run)
                while True:
                    self._given(number, await consumer.receive())
        finally:
            node.leave()

    # what is seen ------------------------------------------------------------------------------------------

    def _given(self, number: int, record: Delivery) -> None:
        world, reached = self._world, self._reached[number]
        partition = self._partitions.get(record.address)
        if partition is None:
            raise BrokenPromise(f"a native reader was given {record}, which no topic has")
        following, offset = reached.get(record.address, 0), record.sequence
        if offset != following and not following < offset <= world.highest_start(partition):
            raise BrokenPromise(f"{offset} of {partition} was given, and {following} comes next")
        reached[record.address] = offset + 1
        self._judge(partition, offset, record.content)
        world.reached["records given to native readers"] += 1

    def _judge(self, partition: PartitionName, offset: int, content: bytes) -> None:
        """Raises BrokenPromise."""
        ledger = self._world.history.ledger(partition)
        known = ledger.records.get(offset)
        if known is None:
            raise BrokenPromise(f"{offset} of {partition} was given, and is shown to nobody: {content!r}")
        value = (known.value or b"") if ledger.counts(offset) else b""
        if content != value and (content or not ledger.compacted):
            raise BrokenPromise(f"{offset} of {partition} was given as {content!r}, and is {value!r}")
        if not content and value:
            self._world.reached["records given as empty that a compaction has removed"] += 1
        if known.value and not value:
            self._world.reached["records given as empty that were aborted"] += 1

    def missing(self) -> str:
        """What a reader has not been given yet; "" if that is nothing."""
        world = self._world
        for number, reached in self._reached.items():
            for life in world.current_lives():
                for log in life.partitions():
                    address = published_address(log.topic.id, log.index)
                    wanted = log.topic.name == f"topic-{number % world.plan.topics}" and not log.deleted
                    there = log.available and log.log_start_offset < log.last_stable_offset
                    if wanted and there and reached.get(address, 0) < log.last_stable_offset:
                        return (
                            f"native reader {number} has {address} before {reached.get(address, 0)}, and "
                            f"{log} is stable before {log.last_stable_offset}"
                        )
        return ""
