"""Retention: now and then, what is too old or too much of each partition is dropped.

The decisions are in `gateway.log.retention_rules`, the dropping is `gateway.log.log_start`'s. Here is the
task that looks at all partitions every `log.retention.check.interval.ms`, with the configs as they are then.

An idle partition would keep its open segment for ever, since only an append rolls it: one that is older than
`segment.ms`, or of which everything has expired, is closed here, and looked at again a moment later.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

import trio

from gateway.log.partition import Partition, PartitionState
from gateway.log.retention_rules import SegmentFacts, count_breached, counts_within_disks
from gateway.log.segment import UNKNOWN
from gateway.log.segment_sizes import count_sizes

if TYPE_CHECKING:
    from gateway.log.context import LogContext
    from gateway.log.neighbours import LogTopics
    from gateway.log.topic import Topic

FIRST_CHECK_SECONDS = 30.0
"""The first check comes so long after a start, if not the interval is shorter; as Kafka's
(`LogManager.InitialTaskDelayMs`)."""

SECOND_LOOK_SECONDS = 0.5
"""After segments were closed because they are old: by then they can be dropped, if they are to be."""

PARTITIONS_A_TURN = 100
"""Partitions looked at before other tasks run."""

logger = logging.getLogger(__name__)


class Retention:
    """The task of one gateway."""

    def __init__(self, context: "LogContext", topics: "LogTopics", check_interval_ms: int) -> None:
        self.checks = 0
        self._context = context
        self._topics = topics
        self._interval = check_interval_ms / 1000

    async def run(self) -> None:
        """Check for ever."""
        await trio.sleep(min(FIRST_CHECK_SECONDS, self._interval))
        while True:
            await self.check()
            await trio.sleep(self._interval)

    async def check(self) -> None:
        """Look at everything once, and drop what is to go."""
        closed = await self._check(self._topics.all())
        if closed:
            await trio.sleep(SECOND_LOOK_SECONDS)
            await self._check(closed)
        self.checks += 1

    async def _check(self, topics: "Iterable[Topic]") -> "dict[Topic, None]":
        """One look at these topics; gives those of which an open segment is being closed."""
        closing: dict[Topic, None] = {}
        looked = 0
        for topic in topics:
            starts: dict[Partition, int] = {}
            for partition in topic.partitions:
                looked += 1
                if not looked % PARTITIONS_A_TURN:
                    await trio.lowlevel.checkpoint()
                if partition.state is not PartitionState.READY or partition.deleted:
                    continue
                await count_sizes(self._context, partition)
                start, is_over = self._look(partition)
                if is_over and _close_open_segment(self._context, partition):
                    closing[topic] = None
                if _begins_below(partition, start):
                    starts[partition] = start
            for partition, start in self._over_disk_share(topic).items():
                starts[partition] = max(start, starts.get(partition, 0))
            await self._context.log_starts.move(starts)
        return closing

    def _look(self, partition: Partition) -> tuple[int, bool]:
        """Where the log is to start, and whether its open segment is to be closed."""
        settings, now_ms = partition.topic.settings, self._context.now_ms()
        start, opened = partition.log_start_offset, partition.chain.current
        is_over = opened is not None and now_ms - opened.segment.opened_ms >= settings.max_segment_ms
        if settings.cleanup_delete:
            facts = _facts(partition)
            count = count_breached(
                facts,
                now_ms,
                retention_ms=settings.retention_ms,
                retention_bytes=settings.retention_bytes,
            )
            is_over = is_over or (opened is not None and count == len(facts))
            closed = min(count, len(partition.chain.closed))
            if closed:
                start = max(start, facts[closed - 1].end_offset)
        return start, is_over

    def _over_disk_share(self, topic: "Topic") -> dict[Partition, int]:
        """New log starts of partitions of a topic that has more than its share of some store's disk."""
        percent = topic.settings.retention_disk_percent
        if percent < 0 or not topic.settings.cleanup_delete:
            return {}
        disks = self._context.stores.disks()
        allowed = {store: size * percent // 100 for store, size in disks.items()}
        open_bytes: dict[str, int] = defaultdict(int)
        for partition in topic.partitions:
            for opened in partition.chain.open_segments():
                for member in opened.segment.members:
                    open_bytes[member] += opened.bytes
        logs = {p: _closed_facts(p) for p in topic.partitions if p.state is PartitionState.READY}
        counts = counts_within_disks(
            logs, {store: room - open_bytes[store] for store, room in allowed.items()}
        )
        return {p: logs[p][count - 1].end_offset for p, count in counts.items() if count}


def _closed_facts(partition: Partition) -> list[SegmentFacts]:
    return [
        SegmentFacts(
            segment.end_offset or 0, max(0, segment.size), segment.largest_timestamp, segment.members
        )
        for segment in partition.chain.closed
    ]


def _facts(partition: Partition) -> list[SegmentFacts]:
    """All segments, the open ones with what is known of them now."""
    facts = _closed_facts(partition)
    for opened in partition.chain.open_segments():
        newest = opened.max_timestamp if opened.max_timestamp != UNKNOWN else opened.segment.opened_ms
        facts.append(SegmentFacts(partition.next_offset, opened.bytes, newest, opened.segment.members))
    return facts


def _begins_below(partition: Partition, start: int) -> bool:
    """Whether something lies below `start` that can go."""
    if start > partition.log_start_offset:
        return True
    closed = partition.chain.closed
    return bool(closed) and (closed[0].end_offset or 0) <= start


def _close_open_segment(context: "LogContext", partition: Partition) -> bool:
    """Have the open segment closed, if all of it is durable; whether that is so."""
    if partition.chain.current is None or partition.high_watermark < partition.next_offset:
        return False
    context.opener.end(partition)
    return True
