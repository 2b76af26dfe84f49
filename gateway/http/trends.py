"""How a group's lag goes: one sum a second for each group that somebody looks at."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final

from gateway.http.rounds import Rounds
from gateway.log.partition import PartitionState

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.groups.served import Group
    from gateway.http.turns import Turns
    from gateway.log.partition import Partition

MAX_POINTS: Final = 60
"""Points of a trend: a minute."""

MAX_GROUPS: Final = 64
"""Groups that have one; beyond it the one that was looked at least lately goes."""

LOOKED_SECONDS: Final = 120.0
"""Seconds that trends go on after somebody looked at a group."""

OFFSETS_A_BREATH: Final = 128
"""Offsets between two looks at the clock: 0.1 ms."""


class Trends(Rounds):
    """All of one gateway."""

    def __init__(self, broker: Broker, turns: Turns) -> None:
        super().__init__(turns, LOOKED_SECONDS)
        self._broker = broker
        self._points: OrderedDict[str, deque[tuple[int, int]]] = OrderedDict()

    def of(self, group_id: str) -> list[tuple[int, int]]:
        """(ms since 1970, lag) once a second, oldest first; from now on there will be more."""
        self.looked()
        points = self._points.get(group_id)
        if points is None:
            points = self._points[group_id] = deque(maxlen=MAX_POINTS)
            if len(self._points) > MAX_GROUPS:
                self._points.popitem(last=False)
        self._points.move_to_end(group_id)
        return list(points)

    def forget(self) -> None:
        """See `Rounds`."""
        self._points.clear()

    async def round(self) -> None:
        """See `Rounds`."""
        async with self.turns.working():
            for group_id, points in list(self._points.items()):
                group = self._broker.groups.groups.get(group_id)
                lag = None if group is None else await lag_of(self._broker, group, self.turns)
                if lag is not None:
                    points.append((self._broker.context.now_ms(), lag))


async def lag_of(broker: Broker, group: Group, turns: Turns) -> int | None:
    """A group's whole lag, None if it has committed nothing that is there, or where nobody knows at present
    where one of its partitions ends. The caller works.
    """
    lag: int | None = None
    all_known = True
    done = 0
    for name, offsets in list(group.offsets.topics()):
        topic = broker.topics.get(name)
        if topic is None:
            continue
        for index, offset in list(offsets.items()):
            if index < len(topic.partitions):
                end = _end(broker, topic.partitions[index])
                if end is None:
                    all_known = False  # the others are looked at, so that they are asked for together
                else:
                    lag = (lag or 0) + max(0, end - offset.offset)
            done += 1
            if not done % OFFSETS_A_BREATH:
                await turns.breathe()
    return lag if all_known else None


def _end(broker: Broker, partition: Partition) -> int | None:
    if partition.state is PartitionState.ELSEWHERE:
        heard = broker.log_ends.of(partition)
        return None if heard is None else heard.end
    return None if partition.state is PartitionState.RECOVERING else partition.high_watermark
