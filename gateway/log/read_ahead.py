"""Read-ahead for consumers that read a log from the store, as a file system does it for Kafka's.

Rule: what was read ahead is given only to a read of the very same range, once; it was checked like any other
read, and what failed is read again by whoever wants it. So this changes when bytes are fetched, never which.

Theory of operation: a read that went on where an earlier one had ended is taken for a consumer that goes
through the log; `start` then reads the range after it while the client looks at the one it has. Nothing that
was read ahead is thrown away for another consumer until it is old: with more consumers than there is room
for, some go without, and the store reads nothing twice.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import trio

from gateway.log.tail_cache import Batch
from wireproto.kafka.errors import KafkaError

MAX_AHEAD_BYTES = 16 * 1024 * 1024
"""Read ahead and not yet asked for, all consumers together. Of a topic whose `max.message.bytes` is larger,
nothing is read ahead."""

MAX_AHEAD_ENTRIES = 1024
"""Ranges read ahead, for consumers that ask for very little at once."""

MAX_AHEAD_RANGE_BYTES = 4 * 1024 * 1024
"""Who asks for more than this at once waits little as it is: nothing is read ahead for it."""

AHEAD_SECONDS = 10.0
"""After this a range that nobody asked for makes room for others."""


class Range(NamedTuple):
    """What a client asks for: batches of a segment, from the one that holds `offset`, up to `max_bytes`."""

    address: str
    offset: int
    max_bytes: int


class Ahead:
    """One range on its way, or here. `contents` is None until then, and for good if it could not be read."""

    __slots__ = ("bytes", "contents", "done", "started")

    def __init__(self, size: int, now: float) -> None:
        self.bytes = size
        self.started = now
        self.done = trio.Event()
        self.contents: Sequence[Batch] | None = None


class ReadAhead:
    """All ranges of one gateway. Nothing is read ahead unless `run` runs."""

    def __init__(self) -> None:
        self.started = 0
        self.used = 0
        self.bytes = 0
        """Held, with what the ranges on their way may become."""
        self._ranges: OrderedDict[Range, Ahead] = OrderedDict()
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        """Read, for ever."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            await trio.sleep_forever()

    def start(
        self, wanted: Range, largest_batch: int, read: Callable[[], Awaitable[Sequence[Batch]]]
    ) -> None:
        """Read a range, if there is room for it. `read` raises KafkaError.

        One batch comes whole, however little is asked for: until it is here it counts as `largest_batch`,
        the bytes that a batch of the topic may have.
        """
        if self._nursery is None or wanted.max_bytes > MAX_AHEAD_RANGE_BYTES or wanted in self._ranges:
            return
        size = max(wanted.max_bytes, largest_batch)
        now = trio.current_time()
        self._drop_old(now)
        if self.bytes + size > MAX_AHEAD_BYTES or len(self._ranges) >= MAX_AHEAD_ENTRIES:
            return
        ahead = self._ranges[wanted] = Ahead(size, now)
        self.bytes += size
        self.started += 1
        self._nursery.start_soon(self._read, wanted, ahead, read)

    async def take(self, wanted: Range) -> Sequence[Batch] | None:
        """The range, if it was read ahead, waiting for it if it is on its way; None if it is to be read."""
        ahead = self._ranges.pop(wanted, None)
        if ahead is None:
            return None
        try:
            await ahead.done.wait()
        finally:
            self.bytes -= ahead.bytes
            ahead.bytes = 0
        if ahead.contents is not None:
            self.used += 1
        return ahead.contents

    async def _read(
        self, wanted: Range, ahead: Ahead, read: Callable[[], Awaitable[Sequence[Batch]]]
    ) -> None:
        try:
            contents = await read()
            if self._ranges.get(wanted) is ahead:
                size = sum(map(len, contents))
                self.bytes += size - ahead.bytes
                ahead.bytes = size
            ahead.contents = contents
        except KafkaError:
            pass  # whoever asks for it reads it again, and is told
        finally:
            ahead.done.set()

    def _drop_old(self, now: float) -> None:
        while self._ranges:
            wanted, oldest = next(iter(self._ranges.items()))
            if now - oldest.started < AHEAD_SECONDS or not oldest.done.is_set():
                return
            del self._ranges[wanted]
            self.bytes -= oldest.bytes
