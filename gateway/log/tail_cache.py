"""The tail cache: the newest batches of all partitions in memory, bounded in bytes for the whole gateway.

A batch enters when it is appended and leaves, oldest first over all partitions, when the bound is passed. So
what a partition has here is always a run without gaps that ends at its log's end; what was never written by
this life, or has left, is read from a store.
"""

from bisect import bisect_left
from collections import deque

DEFAULT_BYTES = 64 * 1024 * 1024
"""Bound of the cache: a few seconds of a busy gateway, so that consumers at the tail never reach a disk."""

ENTRY_OVERHEAD_BYTES = 400
"""Counted per batch besides its bytes, so that a million tiny batches cannot outgrow the bound."""

COMPACT_AFTER = 4096
"""Evicted entries at the front of a partition's lists before these are cut."""

Batch = bytes | bytearray | memoryview


class TailCache:
    """The common bound. `evictions` counts batches that left."""

    def __init__(self, limit_bytes: int = DEFAULT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.bytes = 0
        self.evictions = 0
        self.order: deque[HotBatches] = deque()
        """Whose batches are here, oldest first."""

    def evict(self) -> None:
        """Let the oldest batches go until the bound holds."""
        order = self.order
        while self.bytes > self.limit_bytes and order:
            self.bytes -= order.popleft().evict_first()
            self.evictions += 1


class HotBatches:
    """One partition's part of the cache."""

    __slots__ = ("_batches", "_cache", "_first", "_lasts", "start_offset")

    def __init__(self, cache: TailCache) -> None:
        self._cache = cache
        self._lasts: list[int] = []
        self._batches: list[Batch | None] = []
        self._first = 0
        self.start_offset: int | None = None
        """Offset of the first record here; None when nothing was ever appended in this life."""

    def append(self, base_offset: int, last_offset: int, batch: Batch) -> None:
        if self.start_offset is None:
            self.start_offset = base_offset
        self._lasts.append(last_offset)
        self._batches.append(batch)
        cache = self._cache
        cache.bytes += len(batch) + ENTRY_OVERHEAD_BYTES
        cache.order.append(self)
        if cache.bytes > cache.limit_bytes:
            cache.evict()

    def holds(self, offset: int) -> bool:
        """Whether a batch with this offset is here, or will be once it is written."""
        return self.start_offset is not None and offset >= self.start_offset

    def evict_first(self) -> int:
        """Drop the oldest batch; the bytes that it was counted with. An empty part (cleared) gives none."""
        first = self._first
        if first >= len(self._batches):
            return 0
        batch = self._batches[first]
        self._batches[first] = None
        self.start_offset = max(self.start_offset or 0, self._lasts[first] + 1)
        self._first = first + 1
        if self._first >= COMPACT_AFTER and self._first * 2 >= len(self._lasts):
            del self._lasts[: self._first], self._batches[: self._first]
            self._first = 0
        return ENTRY_OVERHEAD_BYTES + (len(batch) if batch is not None else 0)

    def drop_below(self, offset: int) -> None:
        """Forget the batches that end below `offset`. Their places stay until their turn to leave comes."""
        for position in range(self._first, len(self._lasts)):
            if self._lasts[position] >= offset:
                break
            batch = self._batches[position]
            if batch is not None:
                self._cache.bytes -= len(batch)
                self._batches[position] = None
            self.start_offset = max(self.start_offset or 0, self._lasts[position] + 1)

    def read(self, offset: int, high_watermark: int, max_bytes: int, *, whole: bool) -> list[Batch] | None:
        """Batches from the one that holds `offset`, below `high_watermark`, up to `max_bytes`; None if not
        all here.

        With `whole` the first batch is given even if it is larger than `max_bytes`.
        """
        if not self.holds(offset):
            return None
        lasts, batches = self._lasts, self._batches
        index = bisect_left(lasts, offset, self._first)
        found: list[Batch] = []
        room = max_bytes
        for position in range(index, len(lasts)):
            if lasts[position] >= high_watermark:
                break
            batch = batches[position]
            if batch is None:
                break
            room -= len(batch)
            if room < 0 and (found or not whole):
                break
            found.append(batch)
        return found
