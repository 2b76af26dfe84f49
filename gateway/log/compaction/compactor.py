"""The compaction of all logs with `cleanup.policy=compact`: one at a time, the dirtiest first.

Per-record work is Python in a worker thread. It shares the interpreter with the loop, so its rate is bounded
in bytes and in the share of time that it takes; producers and consumers wait for none of it.
"""

import logging
from typing import TYPE_CHECKING

import trio

from gateway.common.failures import ProcessEnds
from gateway.log.compaction.left_over import LeftOver
from gateway.log.compaction.output import Abandoned
from gateway.log.compaction.rules import Cleanable, CompactionLimits, cleanable
from gateway.log.compaction.run import CompactionRun
from gateway.log.partition import Partition, PartitionState
from gateway.log.segment_sizes import count_sizes

if TYPE_CHECKING:
    from gateway.log.context import LogContext
    from gateway.log.neighbours import LogTopics
    from gateway.log.topic import Topic

COMPACTION_BYTES_PER_SECOND = 16 * 1024 * 1024
"""Read and written anew, at most: a small part of what a disk and a core can do."""

REST_SHARE = 1.0
"""After each piece the compaction rests so many times as long as the thread worked: half a core at most."""

PUT_OFF_SECONDS = 60.0
"""A log whose compaction failed is left alone for so long."""

MIN_BACKOFF_MS = 10
"""Milliseconds of rest at least, whatever is set: to look at all logs without end would leave no time for
others."""

PARTITIONS_A_TURN = 100
"""Partitions looked at before other tasks run."""

logger = logging.getLogger(__name__)


class Compaction:
    """The task of one gateway, and what it has done since it began."""

    def __init__(self, context: "LogContext", topics: "LogTopics", backoff_ms: int) -> None:
        self.runs = 0
        self.failures = 0
        self.records_removed = 0
        self.bytes_removed = 0
        self.dirty_bytes = 0
        """The dirty bytes of all logs together, at the last look."""
        self.last_error = ""
        self._context = context
        self._topics = topics
        self._backoff_ms = backoff_ms
        self._backoff_changed = trio.Event()
        self._put_off: dict[Partition, float] = {}
        """Until when logs are left alone."""
        self._has_gained = False
        """There may be more that other lives have begun."""
        context.on_segments_gained(self._gained)

    async def run(self) -> None:
        """Compact for ever; have forgotten what earlier lives had begun."""
        await self._context.copies.wait_compared()
        left = LeftOver(self._context)
        while True:
            if self._has_gained:
                self._has_gained = False
                left.look_again()
            if not left.is_empty:
                await left.forget()
            if not await self.compact_one():
                with trio.move_on_after(max(MIN_BACKOFF_MS, self._backoff_ms) / 1000):
                    await self._backoff_changed.wait()
                self._backoff_changed = trio.Event()

    def _gained(self) -> None:
        self._has_gained = True
        self._backoff_changed.set()

    def set_backoff(self, backoff_ms: int) -> None:
        """Rest for so many milliseconds when no log needs any; a rest that lasts is over."""
        if backoff_ms != self._backoff_ms:
            self._backoff_ms = backoff_ms
            self._backoff_changed.set()

    async def compact_one(self) -> bool:
        """Compact the dirtiest log that is due; whether there was one."""
        found = await self._dirtiest()
        if found is None:
            return False
        await self._compact(found)
        return True

    async def _dirtiest(self) -> Partition | None:
        best: tuple[Partition, Cleanable] | None = None
        dirty_bytes = looked = 0
        now = trio.current_time()
        for topic in self._topics.all():
            if not topic.settings.cleanup_compact:
                continue
            for partition in topic.partitions:
                looked += 1
                if not looked % PARTITIONS_A_TURN:
                    await trio.lowlevel.checkpoint()
                plan = await self._look(topic, partition)
                dirty_bytes += plan.dirty_bytes
                if not plan.is_due(_limits(topic)) or self._put_off.get(partition, now) > now:
                    continue
                if best is None or plan.dirty_ratio > best[1].dirty_ratio:
                    best = partition, plan
        self.dirty_bytes = dirty_bytes
        return best[0] if best else None

    async def _look(self, topic: "Topic", partition: Partition) -> Cleanable:
        """What may be compacted of one log."""
        limits = _limits(topic)
        if partition.state is not PartitionState.READY or partition.deleted:
            return cleanable([], 0, limits)
        await count_sizes(self._context, partition)
        closer = self._context.closer
        free = []
        for segment in partition.chain.closed:
            if closer.is_waited_for(segment.address):
                break  # the next one waits until its end is heard: it cannot be deleted yet
            if (segment.end_offset or 0) > partition.last_stable_offset:
                break  # a record of an open transaction supersedes nothing yet
            free.append(segment)
        return cleanable(free, self._context.now_ms(), limits)

    async def _compact(self, partition: Partition) -> None:
        name = f"{partition.topic.name}-{partition.index}"
        # Its front may have gone while other logs were looked at: those behind it were not judged.
        plan = await self._look(partition.topic, partition)
        if not plan.is_due(_limits(partition.topic)):
            return
        run = CompactionRun(self._context, partition, plan, _rest)
        try:
            await run.run()
        except Abandoned as error:
            if run.was_overtaken:
                logger.debug("%s: retention was faster than its compaction", name)
                return
            logger.warning("%s is not compacted now: %s", name, error)
            self._failed(partition, f"{name}: {error}")
            return
        except ProcessEnds:
            raise
        except Exception as error:
            # A bug: the log is as it was, and the gateway's clients need not suffer.
            logger.exception("%s is not compacted now", name)
            self._failed(partition, f"{name}: {error!r}")
            return
        self.runs += 1
        self.records_removed += run.records_removed
        self.bytes_removed += run.bytes_before - run.bytes_after
        logger.info(
            "%s was compacted up to offset %d: %d records removed, %d bytes of %d are left",
            name, run.sources[-1].end_offset, run.records_removed, run.bytes_after, run.bytes_before,
        )  # fmt: skip
        if run.unreadable:
            logger.warning("%s: %d batches stay as they are: they cannot be read", name, run.unreadable)

    def _failed(self, partition: Partition, why: str) -> None:
        """Leave this log alone for a while."""
        self.failures += 1
        self.last_error = why
        now = trio.current_time()
        self._put_off = {p: until for p, until in self._put_off.items() if until > now}
        self._put_off[partition] = now + PUT_OFF_SECONDS


def _limits(topic: "Topic") -> CompactionLimits:
    settings = topic.settings
    return CompactionLimits(
        settings.min_cleanable_dirty_ratio, settings.min_compaction_lag_ms, settings.max_compaction_lag_ms
    )


async def _rest(size: int, seconds: float) -> None:
    """Rest after a piece of so many bytes, for which the thread took so long."""
    await trio.sleep(max(size / COMPACTION_BYTES_PER_SECOND - seconds, REST_SHARE * seconds))
