"""Which partitions of `__consumer_offsets` are loaded: nobody is answered from one before it is.

Each is read from its log once, several at a time, again and again until that succeeds: a partition whose
stores are away is loaded when they are back.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import trio

from wireproto.kafka.errors import KafkaError

if TYPE_CHECKING:
    from gateway.groups.replay import LoadedGroup

CONCURRENT_LOADS: Final = 8
"""Partitions that are read at the same time: each may hold a few megabytes of records."""

FIRST_RETRY_SECONDS: Final = 0.1
"""Wait after the first failure to read a partition; it doubles up to LAST_RETRY_SECONDS."""

LAST_RETRY_SECONDS: Final = 1.0
"""Longest wait between two attempts: clients ask again about every 100 ms meanwhile."""

logger = logging.getLogger(__name__)


class PartitionLoads:
    """The partitions of one topic. `load` reads one, `loaded` takes over what it found."""

    def __init__(
        self,
        partitions: int,
        load: Callable[[int], Awaitable[dict[str, LoadedGroup]]],
        loaded: Callable[[int, dict[str, LoadedGroup]], Awaitable[None]],
    ) -> None:
        self._load = load
        self._loaded = loaded
        self._done = [trio.Event() for _ in range(partitions)]
        self.left = partitions
        """Partitions that are not loaded."""
        self._limit = trio.CapacityLimiter(CONCURRENT_LOADS)
        self._closed = False

    def is_loaded(self, partition: int) -> bool:
        return self._done[partition].is_set()

    @property
    def partitions(self) -> int:
        return len(self._done)

    def lost(self, partition: int) -> bool:
        """What was loaded is worth nothing any more. False if that was known: a load is under way."""
        if not self._done[partition].is_set():
            return False
        self._done[partition] = trio.Event()
        self.left += 1
        return True

    def close(self) -> None:
        """The topic is gone: nothing is taken over any more."""
        self._closed = True

    async def wait(self, partition: int) -> None:
        """Return when the partition is loaded."""
        await self._done[partition].wait()

    async def run(self, partition: int) -> None:
        """Read the partition until that succeeds."""
        done, delay = self._done[partition], FIRST_RETRY_SECONDS
        while True:
            try:
                async with self._limit:
                    groups = await self._load(partition)
            except KafkaError as error:
                if self._closed:
                    return
                if delay == FIRST_RETRY_SECONDS:
                    logger.warning("the groups of partition %d cannot be read yet: %s", partition, error)
                await trio.sleep(delay)
                delay = min(delay * 2, LAST_RETRY_SECONDS)
            else:
                if not self._closed:
                    await self._loaded(partition, groups)
                if not self._closed:
                    done.set()
                    self.left -= 1
                return
