"""Groups whose next records retention has taken away: some are looked at in each round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.log.partition import PartitionState
from gateway.peers.heard import UNKNOWN

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.groups.served import Group
    from gateway.http.turns import Turns
    from gateway.log.partition import Partition

OFFSETS_A_ROUND: Final = 10_000
"""Offsets that a round looks at, and the rest of a group's: 5 ms."""

OFFSETS_A_BREATH: Final = 128
"""Offsets between two looks at the clock: 0.1 ms."""

MAX_NAMED: Final = 100
"""Groups that are told of."""


class LostOffsets:
    """`partitions` says of a group in how many partitions its offset is below the log's start."""

    def __init__(self, broker: Broker) -> None:
        self.partitions: dict[str, int] = {}
        self._broker = broker
        self._left: list[str] = []

    def forget(self) -> None:
        """Nobody looks."""
        self.partitions, self._left = {}, []

    async def look(self, turns: Turns) -> None:
        """Look at the next groups. The caller works."""
        groups = self._broker.groups.groups
        for gone in self.partitions.keys() - groups.keys():
            del self.partitions[gone]
        if not self._left:
            self._left = list(groups)
        looked = 0
        while self._left and looked < OFFSETS_A_ROUND:
            group = groups.get(self._left.pop())
            if group is None:
                continue
            lost = await self._count(group, turns)
            looked += 1 + group.offsets.count
            if not lost:
                self.partitions.pop(group.group_id, None)
            elif group.group_id in self.partitions or len(self.partitions) < MAX_NAMED:
                self.partitions[group.group_id] = lost

    async def _count(self, group: Group, turns: Turns) -> int:
        lost = done = 0
        for name, offsets in list(group.offsets.topics()):
            topic = self._broker.topics.get(name)
            if topic is None:
                continue
            for index, committed in list(offsets.items()):
                if index < len(topic.partitions):
                    lost += committed.offset < self._start(topic.partitions[index])
                done += 1
                if not done % OFFSETS_A_BREATH:
                    await turns.breathe()
        await turns.breathe()
        return lost

    def _start(self, partition: Partition) -> int:
        """Where its log begins; -1 where only its leader knows, and has not said so."""
        if partition.state is not PartitionState.ELSEWHERE:
            return partition.log_start_offset
        heard = self._broker.log_ends.of(partition)
        return UNKNOWN if heard is None else heard.start
