"""Which partitions of an internal topic are loaded: nobody is answered from one before it is.

Each is read from its log once, several at a time, again and again until that succeeds: a partition whose
stores are away is loaded when they are back. Those that somebody asks for come first: a start with very many
keys takes seconds, and most of them have nobody yet.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Final, Generic, TypeVar

import trio

from wireproto.kafka.errors import KafkaError

_Found = TypeVar("_Found")

CONCURRENT_LOADS: Final = 8
"""Partitions that are read at the same time: each may hold a few megabytes of records."""

FIRST_RETRY_SECONDS: Final = 0.1
"""Wait after the first failure to read a partition; it doubles up to LAST_RETRY_SECONDS."""

LAST_RETRY_SECONDS: Final = 1.0
"""Longest wait between two attempts: clients ask again about every 100 ms meanwhile."""

SAID_AFTER: Final = 5
"""Attempts that fail before that is said, after a second and a half: what is being recovered is read in a
moment."""

logger = logging.getLogger(__name__)


class _Turns:
    """Who reads now: `at_once` of them, and then who comes first, every second time of those that were asked
    for. (Some of these may fail, again and again.)
    """

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._is_for_asked = False
        """Whether the next turn is for those that were asked for."""
        self._waiting: OrderedDict[trio.Event, int] = OrderedDict()
        self.asked: set[int] = set()
        """Partitions that somebody waits for, as far as they have had no turn since."""

    @asynccontextmanager
    async def one(self, partition: int) -> AsyncIterator[None]:
        """Have a turn for the length of the block."""
        await self._take(partition)
        self.asked.discard(partition)
        try:
            yield
        finally:
            self._give()

    async def _take(self, partition: int) -> None:
        if self._free:
            self._free -= 1
            return
        turn = trio.Event()
        self._waiting[turn] = partition
        try:
            await turn.wait()
        except trio.Cancelled:
            if self._waiting.pop(turn, None) is None:
                self._give()  # it was its turn already
            raise

    def _give(self) -> None:
        if not self._waiting:
            self._free += 1
            return
        turn = next(iter(self._waiting))
        self._is_for_asked = not self._is_for_asked
        if self._is_for_asked:
            asked = (turn for turn, partition in self._waiting.items() if partition in self.asked)
            turn = next(asked, turn)
        del self._waiting[turn]
        turn.set()


class PartitionLoads(Generic[_Found]):
    """The partitions of one topic, all of them other gateways' at first. `load` reads one, `loaded` takes
    over what it found, unless what it is given says that it is old by then.
    """

    def __init__(
        self,
        partitions: int,
        what: str,
        load: Callable[[int], Awaitable[_Found]],
        loaded: Callable[[int, _Found, Callable[[], bool]], Awaitable[None]],
    ) -> None:
        """`what` is in them, in words."""
        self._what = what
        self._load = load
        self._loaded = loaded
        self._done = [trio.Event() for _ in range(partitions)]
        self._elsewhere = set(range(partitions))
        self._begun = [0] * partitions
        """How often each was begun to be loaded: what an earlier load finds is old."""
        self._left = 0
        self._turns = _Turns(CONCURRENT_LOADS)
        self._closed = False

    def is_loaded(self, partition: int) -> bool:
        return self._done[partition].is_set()

    def is_elsewhere(self, partition: int) -> bool:
        """Whether it is another gateway's."""
        return partition in self._elsewhere

    @property
    def all_loaded(self) -> bool:
        """Whether there is no partition that is not loaded, or another gateway's."""
        return not self._elsewhere and not self.left

    @property
    def left(self) -> int:
        """Partitions that are this gateway's, and not loaded."""
        return self._left

    @property
    def partitions(self) -> int:
        return len(self._done)

    def lost(self, partition: int) -> bool:
        """What was loaded is worth nothing any more. False if that was known: a load is under way."""
        if not self._done[partition].is_set():
            return False
        self._done[partition] = trio.Event()
        self._left += 1
        return True

    def came(self, partition: int) -> None:
        """It is this gateway's now, or anew: it is to be loaded (`run`)."""
        if partition in self._elsewhere:
            self._elsewhere.discard(partition)
            self._left += 1
        else:
            self.anew(partition)

    def anew(self, partition: int) -> None:
        """What was loaded is worth nothing any more, nor what is being loaded: that may end before `run` is
        there to begin again.
        """
        self._begun[partition] += 1
        self.lost(partition)

    def went(self, partition: int) -> None:
        """It is another gateway's now."""
        if partition not in self._elsewhere:
            self._elsewhere.add(partition)
            self._begun[partition] += 1
            if self._done[partition].is_set():
                self._done[partition] = trio.Event()
            else:
                self._left -= 1

    def close(self) -> None:
        """The topic is gone: nothing is taken over any more."""
        self._closed = True

    def asked(self, partition: int) -> None:
        """Somebody waits for what is in it: it is one of the next ones to be read."""
        if not self._done[partition].is_set():
            self._turns.asked.add(partition)

    async def wait(self, partition: int) -> None:
        """Return when the partition is loaded; it is read before those that nobody has asked for."""
        self.asked(partition)
        await self._done[partition].wait()

    async def run(self, partition: int) -> None:
        """Read the partition until that succeeds, or it is begun anew or goes to another gateway."""
        self._begun[partition] += 1
        begun, done, delay = self._begun[partition], self._done[partition], FIRST_RETRY_SECONDS

        def is_old() -> bool:
            return self._closed or self._begun[partition] != begun

        for attempt in count(1):
            try:
                async with self._turns.one(partition):
                    found = await self._load(partition)
            except KafkaError as error:
                if is_old():
                    return
                if attempt == SAID_AFTER:
                    logger.warning(
                        "the %s of partition %d cannot be read yet: %s", self._what, partition, error
                    )
                await trio.sleep(delay)
                delay = min(delay * 2, LAST_RETRY_SECONDS)
            else:
                if not is_old():
                    await self._loaded(partition, found, is_old)
                if not is_old():
                    done.set()
                    self._left -= 1
                return
