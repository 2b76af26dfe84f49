"""Going on without stores that are lost for good (`dafka store accept-loss --gone`), in the gateway.

A partition whose open segment has lost so many members that n-w+1 will never answer again waits for ever:
what the lost ones acknowledged, and the others do not have, may have been promised to somebody. An operator
who knows that they will not come back accepts that. Then the members that are left decide, all of them.

Rule: what is given up is said before, segment by segment, from what the catalog and the stores that are left
say; and exactly that is done, or nothing: if the stores say something else meanwhile, it is asked again.
"""

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import trio

from gateway.log.partition import Partition, PartitionState
from gateway.log.segment import Segment
from wireproto.records.errors import InvalidBatch
from wireproto.records.row import Row

if TYPE_CHECKING:
    from gateway.cluster.cluster import Cluster

ANSWER_SECONDS = 5.0
"""How long a store that is left may take to say what it has of a segment."""

ASKED_AT_ONCE = 16
"""Segments that the stores are asked about at the same time."""

SERVING_SECONDS = 15.0
"""How long the partitions may take to serve again before the operator is told that they do not yet."""

LOOK_SECONDS = 0.05
"""How often they are looked at meanwhile."""


@dataclass(frozen=True)
class Loss:
    """One segment. `kept_to` is the last offset that the stores which are left have, -1 for none of it;
    `shown_to` the last one that this gateway has shown, -1 if it does not know.
    """

    topic: str
    partition: int
    segment: str
    start: int
    kept_to: int
    shown_to: int
    left: tuple[str, ...]
    unanswered: tuple[str, ...]
    """Members that were not given up, and do not answer."""


@dataclass(frozen=True)
class Unreadable:
    """A closed segment of which no member is left: its offsets answer an error until one is back."""

    topic: str
    partition: int
    segment: str
    first: int
    last: int


@dataclass(frozen=True)
class Plan:
    """What giving up some stores means."""

    losses: Sequence[Loss]
    unreadable: Sequence[Unreadable]

    @property
    def token(self) -> str:
        """Names exactly this plan."""
        return hashlib.sha256(json.dumps(self.as_json).encode()).hexdigest()[:32]

    @property
    def as_json(self) -> dict[str, Any]:
        return {
            "losses": [asdict(loss) for loss in self.losses],
            "unreadable": [asdict(segment) for segment in self.unreadable],
        }


class GivingUp:
    """Says what would be given up with some stores, and gives it up."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._context = cluster.context
        self._stores = cluster.stores

    async def plan(self, gone: Collection[str]) -> Plan:
        """What is given up with the stores `gone` (incarnations). Nothing is changed."""
        losses: list[Loss] = []
        limit = trio.CapacityLimiter(ASKED_AT_ONCE)
        async with trio.open_nursery() as nursery:
            for partition in self._waiting():
                for segment in partition.chain.left_open():
                    if _is_stuck(segment, gone):
                        nursery.start_soon(self._look, partition, segment, gone, losses, limit)
        losses.sort(key=lambda loss: (loss.topic, loss.partition, loss.start))
        return Plan(losses, self._unreadable(gone))

    def _waiting(self) -> list[Partition]:
        return sorted(self._cluster.recovery.waiting, key=lambda one: (one.topic.name, one.index))

    async def _look(
        self,
        partition: Partition,
        segment: Segment,
        gone: Collection[str],
        losses: list[Loss],
        limit: trio.CapacityLimiter,
    ) -> None:
        """Ask the members that are left how far they have it."""
        names = self._stores.name
        left = [member for member in segment.members if member not in gone]
        unanswered: list[str] = []
        kept_to = segment.start_offset - 1
        for member in left:
            row = b""
            async with limit:
                with trio.move_on_after(ANSWER_SECONDS) as waited:
                    row = await self._last_row(member, segment.address)
            if waited.cancelled_caught:
                unanswered.append(member)
            elif row:
                kept_to = max(kept_to, Row.unpack(row).last_offset)
        losses.append(
            Loss(
                partition.topic.name,
                partition.index,
                segment.address,
                segment.start_offset,
                kept_to,
                partition.high_watermark - 1,
                tuple(map(names, left)),
                tuple(map(names, unanswered)),
            )
        )

    async def _last_row(self, member: str, address: str) -> bytes:
        """The row at a store's durable head, b"" if it has nothing."""
        found = await self._context.reader.segment(member, address)
        if found is None or found[1].sequence < 0:
            return b""
        try:
            Row.unpack(found[1].row)
        except InvalidBatch:
            return b""
        return found[1].row

    def _unreadable(self, gone: Collection[str]) -> list[Unreadable]:
        return [
            Unreadable(
                topic.name, partition.index, segment.address, segment.start_offset, segment.end_offset - 1
            )
            for topic in self._cluster.topics.all()
            for partition in topic.partitions
            for segment in partition.chain.closed
            if segment.end_offset is not None and set(segment.members) <= set(gone)
        ]

    def named(self, plan: Plan) -> list[Partition]:
        """The partitions of which the plan gives something up, as far as they still wait."""
        named = {(loss.topic, loss.partition) for loss in plan.losses}
        return [one for one in self._waiting() if (one.topic.name, one.index) in named]

    async def accept(self, gone: Collection[str], plan: Plan) -> list[Partition]:
        """Give up what the plan names; the partitions, which serve again or will soon."""
        partitions = self.named(plan)
        self._cluster.recovery.give_up(partitions, gone)
        with trio.move_on_after(SERVING_SECONDS):
            # Nobody is told when a partition serves.
            while any(one.state is PartitionState.RECOVERING for one in partitions):  # noqa: ASYNC110
                await trio.sleep(LOOK_SECONDS)
        return partitions


def _is_stuck(segment: Segment, gone: Collection[str]) -> bool:
    """Whether fewer than n-w+1 of its members are left."""
    left = sum(member not in gone for member in segment.members)
    return left < len(segment.members) - segment.w + 1
