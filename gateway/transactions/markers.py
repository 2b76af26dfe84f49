"""The markers of transactions that end: every partition of one gets its own, and then it is complete.

Each partition is asked again with a short pause until it has its marker: its leader may be another one by
then, or its stores may be away. One whose topic is gone needs none. A leader that knows of a later epoch of
the producer, or of a later coordinator, ends it: somebody else has taken over, and this gateway waits until
the partition of the id is loaded anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol

import trio

from gateway.common.log_limit import LogLimit
from gateway.common.marker import Marker
from gateway.common.printable import printable
from gateway.transactions.metadata import TopicPartition
from wireproto.kafka.errors import ErrorCode

MARKERS_AT_ONCE: Final = 64
"""Markers of one transaction that are on their way together: each is waited for by a task."""

FIRST_PAUSE_SECONDS: Final = 0.02
"""Pause after the first answer that is not the last; it doubles up to LAST_PAUSE_SECONDS. The producer waits
for the end of it with its next transaction."""

LAST_PAUSE_SECONDS: Final = 1.0
"""Longest pause: a partition may be away for hours."""

MISSING_SECONDS: Final = 1.0
"""So long a topic is not there before its partitions count as deleted: what a gateway sees of the catalog
may be so old."""

GIVES_UP: Final = frozenset((ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED))
"""Answers after which the marker is not sent again (``TransactionMarkerRequestCompletionHandler``)."""

logger = logging.getLogger(__name__)


class MarkerTarget(Protocol):
    """Who has markers written."""

    def exists(self, partition: TopicPartition) -> bool:
        """Whether the partition is there, as far as this gateway sees."""

    async def write(self, partition: TopicPartition, marker: Marker) -> ErrorCode:
        """Have it appended by the partition's leader; how that went, as soon as it is durable or refused."""


class Ending:
    """A transaction whose end is decided."""

    __slots__ = ("left", "marker", "transactional_id")

    def __init__(self, transactional_id: str, marker: Marker, partitions: Iterable[TopicPartition]) -> None:
        self.transactional_id = transactional_id
        self.marker = marker
        self.left = set(partitions)
        """Those that have no marker yet."""


class Markers:
    """Writes them to `target`; `exists` knows whether a partition is there."""

    def __init__(self, target: MarkerTarget, exists: Callable[[TopicPartition], bool]) -> None:
        self.written = 0
        """Markers that are durable, in this life."""
        self._target = target
        self._exists = exists
        self._limit = LogLimit(logger)

    async def write(self, ending: Ending) -> bool:
        """True once every partition has its marker, or is gone; False: some leader will never take it."""
        waiting = sorted(ending.left)
        if len(waiting) == 1:
            await self._write_one(ending, waiting[0])
        elif waiting:
            left = iter(waiting)
            async with trio.open_nursery() as nursery:
                for _ in range(min(len(waiting), MARKERS_AT_ONCE)):
                    nursery.start_soon(self._write_some, ending, left)
        return not ending.left

    async def _write_some(self, ending: Ending, waiting: Iterable[TopicPartition]) -> None:
        for partition in waiting:
            await self._write_one(ending, partition)

    async def _write_one(self, ending: Ending, partition: TopicPartition) -> None:
        """One partition is left no more, unless its leader will never take the marker."""
        pause, missing_since = FIRST_PAUSE_SECONDS, None
        while True:
            if self._exists(partition):
                missing_since = None
                error = await self._target.write(partition, ending.marker)
                if error is ErrorCode.NONE:
                    self.written += 1
                    ending.left.discard(partition)
                    return
                if error in GIVES_UP:
                    self._give_up(ending, partition, error)
                    return
            elif missing_since is None:
                missing_since = trio.current_time()
            elif trio.current_time() - missing_since >= MISSING_SECONDS:
                ending.left.discard(partition)
                return
            await trio.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE_SECONDS)

    def _give_up(self, ending: Ending, partition: TopicPartition, error: ErrorCode) -> None:
        self._limit.warning(
            "transactional id %s: %s-%d refuses the marker of producer %d, epoch %d: %s. Another coordinator "
            "has the id, or a later producer; the transaction stays as it is here until the partition of %s "
            "is loaded anew",
            printable(ending.transactional_id),
            *partition,
            ending.marker.producer_id,
            ending.marker.producer_epoch,
            error.message,
            "the id",
        )
