"""A look at all partitions and all groups of a gateway, again and again, for those who watch it.

What is shown of topics, groups and the health of partitions is a sum over tens of thousands of things. It is
made here, beside what the loop has to do: at most `SLICE_SECONDS` at a time, and so seldom that it takes no
more than a fiftieth of the loop. A scrape shows the last whole round; nothing is measured on the way of a
record.

Names come from clients, and each is a series for whoever scrapes: there are bounds (`MAX_TOPICS`,
`MAX_GROUP_TOPICS`, `MAX_GROUP_PARTITIONS`), and what does not fit is counted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from time import thread_time
from typing import Final, TypeAlias

import trio

from gateway.broker import Broker
from gateway.groups.lag import LagClock, Moment, PartitionLag, TopicLag, lag_elsewhere
from gateway.groups.records import NO_TOPIC_ID, CommittedOffset
from gateway.groups.served import Group
from gateway.log.partition import Partition, PartitionState
from gateway.log.segments_elsewhere import segment_at

SLICE_SECONDS: Final = 0.001
"""Work before others have their turn."""

LOOK_EVERY: Final = 32
"""Steps between two readings of the clock."""

ROUND_SECONDS: Final = 1.0
"""Pause between two rounds of a gateway of a few hundred partitions."""

REST: Final = 50
"""The pause is at least so many times as long as the work of the round was."""

LONGEST_REST_SECONDS: Final = 30.0
"""But not longer than this: what is shown is never much older."""

MAX_TOPICS: Final = 1_000
"""Topics that are shown by name: the first ones in the order of their names."""

MAX_GROUP_TOPICS: Final = 2_000
"""Pairs of a group and a topic that are shown by name; and groups with their members."""

MAX_GROUP_PARTITIONS: Final = 10_000
"""Partitions of groups that are shown one by one, where that was asked for."""

MAX_NAME: Final = 256
"""Characters of a group's name that is shown; Kafka's clients may send 32,767."""

logger = logging.getLogger(__name__)

GroupTopic: TypeAlias = tuple[str, str]
"""A group's id and a topic's name."""


@dataclass(slots=True)
class TopicFigures:
    """One topic. `in_records` and the bytes only grow; `log_bytes` is what its segments hold, each once."""

    in_records: int = 0
    in_bytes: int = 0
    out_bytes: int = 0
    log_bytes: int = 0


@dataclass(slots=True)
class Findings:
    """What one round found."""

    partition_count: int = 0
    offline: int = 0
    """Partitions that take no appends."""

    under_replicated: int = 0
    """Partitions some of whose stores are away."""

    under_min: int = 0
    """Partitions of which so many stores are away that acks=all is refused."""

    topics: dict[tuple[str], TopicFigures] = field(default_factory=dict)
    groups: dict[GroupTopic, TopicLag] = field(default_factory=dict)
    members: dict[tuple[str], float] = field(default_factory=dict)
    partitions: list[tuple[tuple[str, str, str], PartitionLag]] = field(default_factory=list)
    """Lag by group, topic and partition."""

    dropped: dict[tuple[str], float] = field(
        default_factory=lambda: {("topic",): 0, ("group",): 0, ("group_partition",): 0}
    )
    """How many had no room, by what they are."""


class Survey:
    """`run` goes round for ever; `found` is the last whole round's. `by_partition`: each one's lag, too."""

    def __init__(self, broker: Broker, *, by_partition: bool = False) -> None:
        self.found = Findings()
        self._broker = broker
        self.by_partition = by_partition
        self._clock = LagClock()

    async def run(self) -> None:
        while True:
            took = 0.0
            try:
                took = await self.look()
            except Exception:  # who only looks must not end what it looks at
                logger.exception(
                    "a look at partitions and groups failed; the metrics are those of the last one"
                )
            await trio.sleep(min(max(ROUND_SECONDS, REST * took), LONGEST_REST_SECONDS))

    async def look(self) -> float:
        """One round; the seconds of work that it was."""
        pace = _Pace()
        found = Findings()
        await self._look_at_topics(found, pace)
        await self._look_at_groups(found, pace)
        self.found = found
        return pace.worked()

    # partitions and topics ---------------------------------------------------------------------------------

    async def _look_at_topics(self, found: Findings, pace: _Pace) -> None:
        stores: dict[tuple[str, ...], int] = {}
        for topic in self._broker.topics.all():
            figures = TopicFigures(topic.appended_records, topic.appended_bytes, topic.fetched_bytes)
            for partition in topic.partitions:
                if pace.is_due():
                    await pace.rest()
                    stores.clear()
                figures.log_bytes += partition.chain.known_bytes()
                self._judge(partition, found, stores)
            if len(found.topics) < MAX_TOPICS:
                found.topics[topic.name,] = figures
            else:
                found.dropped["topic",] += 1

    def _judge(self, partition: Partition, found: Findings, stores: dict[tuple[str, ...], int]) -> None:
        """Count a partition that lacks something. `stores`: how many of these members are there."""
        if partition.deleted:
            return
        found.partition_count += 1
        if not self._broker.gateways.leads(partition):
            found.offline += self._broker.gateways.is_missed(partition)
            return  # its leader's process counts the rest
        found.offline += not partition.available
        members = partition.members
        live = stores.get(members)
        if live is None:
            live = stores[members] = sum(map(self._broker.stores.live, members))
        if live < max(len(members), partition.topic.replication_factor):
            found.under_replicated += 1
            newest = partition.chain.newest
            w = self._broker.context.w_for(partition, members) if newest is None else newest.w
            found.under_min += live < w

    # groups ------------------------------------------------------------------------------------------------

    async def _look_at_groups(self, found: Findings, pace: _Pace) -> None:
        self._clock.begin()
        for group in self._broker.groups.loaded():
            if len(group.group_id) > MAX_NAME or len(found.members) >= MAX_GROUP_TOPICS:
                found.dropped["group",] += 1
                continue
            found.members[group.group_id,] = len(group.machine.roster)
            for name, offsets in list(group.offsets.topics()):
                await self._look_at_offsets(group, name, offsets, found, pace)
            if pace.is_due():
                await pace.rest()
        self._clock.end()

    async def _look_at_offsets(
        self, group: Group, name: str, offsets: Mapping[int, CommittedOffset], found: Findings, pace: _Pace
    ) -> None:
        topic = self._broker.topics.get(name)
        if topic is None:
            return
        key = group.group_id, name
        if len(found.groups) >= MAX_GROUP_TOPICS:
            found.dropped["group",] += 1
            return
        lag = TopicLag()
        for index in list(offsets):
            if pace.is_due():
                await pace.rest()
            # No turn of others lies between reading what is committed and the log's end.
            offset = offsets.get(index)
            if offset is None or index >= len(topic.partitions):
                continue
            if offset.topic_id not in (NO_TOPIC_ID, topic.id):
                continue  # of an earlier topic of this name
            one = self._lag(topic.partitions[index], offset.offset)
            if one is None:
                lag.add_unknown(offset.offset)
                continue
            lag.add(one)
            if self.by_partition:
                self._keep(found, (*key, str(index)), one)
        if lag.partitions or lag.unknown:
            found.groups[key] = lag

    def _lag(self, partition: Partition, committed: int) -> PartitionLag | None:
        """None where nobody knows at present where the log ends."""
        moment = Moment(trio.current_time(), time.time())
        if partition.state is PartitionState.ELSEWHERE:
            heard = self._broker.log_ends.of(partition)
            if heard is None:
                return None
            segment = partial(segment_at, self._broker.context.catalog, partition)
            return lag_elsewhere(heard, committed, moment, segment)
        if partition.state is PartitionState.RECOVERING:
            return None
        return self._clock.lag(partition, committed, moment)

    @staticmethod
    def _keep(found: Findings, key: tuple[str, str, str], lag: PartitionLag) -> None:
        if len(found.partitions) < MAX_GROUP_PARTITIONS:
            found.partitions.append((key, lag))
        else:
            found.dropped["group_partition",] += 1


class _Pace:
    """Lets others have their turns, and counts the work in between: the processor's time, so that a busy
    machine makes nobody rest longer.
    """

    def __init__(self) -> None:
        self._steps = 0
        self._worked = 0.0
        self._began = thread_time()

    def is_due(self) -> bool:
        """Whether it is time for a `rest`, once for each step."""
        self._steps += 1
        return not self._steps % LOOK_EVERY and thread_time() - self._began > SLICE_SECONDS

    async def rest(self) -> None:
        self._worked += thread_time() - self._began
        await trio.lowlevel.checkpoint()
        self._began = thread_time()

    def worked(self) -> float:
        """Seconds of work so far."""
        return self._worked + thread_time() - self._began
