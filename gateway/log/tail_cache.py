"""The tail cache: the newest batches of all partitions in memory, bounded in bytes for the whole gateway.

A batch enters when it is appended and leaves, oldest first over all partitions, when the bound is passed. So
what a partition has here is always a run without gaps that ends at its log's end; what was never written by
this life, or has left, is read from a store.
"""

from bisect import bisect_left, bisect_right
from collections import deque

ENTRY_OVERHEAD_BYTES = 400
"""Counted per batch besides its bytes, so that a million tiny batches cannot outgrow the bound."""

COMPACT_AFTER = 4096
"""Evicted entries at the front of a partition's lists before these are cut."""

Batch = bytes | bytearray | memoryview


class TailCache:
    """The common bound. `evictions` counts batches that left."""

    def __init__(self, limit_bytes: int) -> None:
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

    __slots__ = ("_batches", "_bytes", "_cache", "_ends", "_first", "_lasts", "start_offset")

    def __init__(self, cache: TailCache) -> None:
        self._cache = cache
        self._bytes = 0
        self._ends: list[int] = []
        """How many bytes were appended up to the end of each batch: thousands may ask how much there is."""
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
        size = len(batch)
        self._bytes += size
        self._ends.append(self._bytes)
        cache = self._cache
        cache.bytes += size + ENTRY_OVERHEAD_BYTES
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
            del self._lasts[: self._first], self._batches[: self._first], self._ends[: self._first]
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

    def size(self, offset: int, high_watermark: int, max_bytes: int, *, whole: bool) -> int | None:
        """Bytes that `read` would give; None if not all are here. As quick for thousands as for one."""
        if not self.holds(offset):
            return None
        first, last = self._span(offset, high_watermark, max_bytes, whole=whole)
        return self._ends[last - 1] - self._begin(first) if last > first else 0

    def read(self, offset: int, high_watermark: int, max_bytes: int, *, whole: bool) -> list[Batch] | None:
        """Batches from the one that holds `offset`, below `high_watermark`, up to `max_bytes`; None if not
        all here.

        With `whole` the first batch is given even if it is larger than `max_bytes`.
        """
        if not self.holds(offset):
            return None
        first, last = self._span(offset, high_watermark, max_bytes, whole=whole)
        return self._batches[first:last]  # type: ignore[return-value]  # what was dropped ends below offset

    def _span(self, offset: int, high_watermark: int, max_bytes: int, *, whole: bool) -> tuple[int, int]:
        """Places of the first of these batches, and after the last."""
        lasts = self._lasts
        first = bisect_left(lasts, offset, self._first)
        last = bisect_left(lasts, high_watermark, first)
        if first == last:
            return first, last
        most = self._begin(first) + max_bytes
        if self._ends[last - 1] > most:
            last = max(bisect_right(self._ends, most, first, last), first + whole)
        return first, last

    def _begin(self, place: int) -> int:
        return self._ends[place] - len(self._batches[place] or b"")
