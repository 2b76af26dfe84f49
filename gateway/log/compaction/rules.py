"""What compaction decides: which logs, how much of each, and which records stay. Pure.

As Kafka's ``LogCleanerManager`` and ``LogCleaner``: a log's front that was compacted before is clean, what
follows is dirty. A compaction goes through the dirty part once to learn the newest offset of each key, as far
as its memory reaches, and then writes the whole front anew without the records that are not the newest of
their keys. It never looks at the open segment, nor at one that is younger than ``min.compaction.lag.ms``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from gateway.log.segment import UNKNOWN, Segment

DEDUPE_BUFFER_BYTES = 32 * 1024 * 1024
"""Memory for the newest offsets of keys, of the one compaction that runs: 160,000 keys a pass. Kafka's
``log.cleaner.dedupe.buffer.size`` is 128 MiB, which takes 24 bytes for each."""

KEY_BYTES = 200
"""What one key takes: a digest of 16 bytes, an offset, and their places in a dict that has just grown."""

DIGEST_BYTES = 16
"""Two keys of one digest would be taken for the same one. With 128 bits and a billion keys the chance is
one in 10^20."""


@dataclass(frozen=True, slots=True)
class CompactionLimits:
    """The configs of a topic that compaction goes by."""

    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int


class Cleanable(NamedTuple):
    """A log's front that may be compacted: so many segments, of which the records from `first_dirty` on are
    dirty. `overdue`: the oldest of them has waited for ``max.compaction.lag.ms``.
    """

    segments: int
    first_dirty: int
    clean_bytes: int
    dirty_bytes: int
    overdue: bool

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, limits: CompactionLimits) -> bool:
        """Whether it is worth while now (``LogCleanerManager.grabFilthiestCompactedLog``)."""
        if not self.segments:
            return False
        return self.overdue or self.dirty_ratio > limits.min_cleanable_dirty_ratio


def cleanable(segments: Sequence[Segment], now_ms: int, limits: CompactionLimits) -> Cleanable:
    """What may be compacted of these closed segments, a log's oldest first."""
    first_dirty = max((segment.cleaned_to for segment in segments), default=UNKNOWN)
    clean_bytes = dirty_bytes = count = 0
    overdue = has_dirty = False
    for segment in segments:
        end = segment.end_offset
        if end is None:
            break
        if end <= first_dirty:
            clean_bytes += max(0, segment.size)
            count += 1
            continue
        if limits.min_compaction_lag_ms and now_ms - segment.largest_timestamp < limits.min_compaction_lag_ms:
            break
        dirty_bytes += max(1, segment.size)
        # The first of them is the oldest: it was opened when its first record came.
        if not has_dirty:
            overdue = now_ms - segment.opened_ms > limits.max_compaction_lag_ms
        has_dirty = True
        count += 1
    if not has_dirty:
        return Cleanable(0, first_dirty, clean_bytes, 0, overdue=False)
    return Cleanable(count, first_dirty, clean_bytes, dirty_bytes, overdue)


class NewestOffsets:
    """The newest offset of each key of a log's dirty part, as far as the memory reaches.

    Keys are added in the order of offsets. `upto` is the offset behind the last one that was: the records
    from there on are none of its business.
    """

    def __init__(self, limit_bytes: int = DEDUPE_BUFFER_BYTES) -> None:
        self.upto = 0
        self._most = max(1, limit_bytes // KEY_BYTES)
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, keys: Iterable[tuple[int, bytes | None]]) -> bool:
        """Take (offset, key) pairs; false as soon as there is no room for another key."""
        offsets = self._offsets
        for offset, key in keys:
            if key is not None:
                digest = _digest(key)
                if digest not in offsets and len(offsets) >= self._most:
                    return False
                offsets[digest] = offset
            self.upto = offset + 1
        return True

    def keeps(self, offset: int, key: bytes | None, *, has_value: bool, keep_tombstones: bool) -> bool:
        """Whether a record stays (``Cleaner.shouldRetainRecord``): a key's newest one does, a tombstone for
        as long as its batch's are kept. A record without a key goes.
        """
        if offset >= self.upto:
            return True
        if key is None:
            return False
        return offset >= self._offsets.get(_digest(key), -1) and (has_value or keep_tombstones)


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=DIGEST_BYTES).digest()
