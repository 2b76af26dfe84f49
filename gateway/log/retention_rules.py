"""What retention drops: segments with their sizes and times in, how much of the front goes out. Pure.

The rules are those of Kafka's ``UnifiedLog.deleteOldSegments``, so that a topic that moves here keeps as much
as it did:

* by size: from the oldest on, each segment that may go without the log falling below ``retention.bytes``;
  the open one counts as part of the log;
* by time: from the oldest that is left on, each segment whose largest timestamp is more than
  ``retention.ms`` old. The first one that is younger keeps all behind it; one with a timestamp in the future
  is kept until that time has come and gone;
* the open segment goes like any other, once all before it go: it has to be closed first.

``retention.disk.percent`` is our own: what all partitions of a topic have on one store's disk. Beyond that
share the oldest segments of the topic go, by their largest timestamps, but never the open ones.
"""

import heapq
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

Key = TypeVar("Key")


class SegmentFacts(NamedTuple):
    """One segment. `size` in bytes, 0 where it is not known; `largest_timestamp` in ms since 1970."""

    end_offset: int
    size: int
    largest_timestamp: int
    members: tuple[str, ...] = ()


def count_breached(
    segments: Sequence[SegmentFacts], now_ms: int, *, retention_ms: int, retention_bytes: int
) -> int:
    """How many of a partition's segments, oldest first and the open one last, may go. Negative: no limit."""
    count = 0
    if retention_bytes >= 0:
        too_much = sum(segment.size for segment in segments) - retention_bytes
        # Kafka asks for more than the limit, then for whole segments of the difference.
        while too_much >= 0 and count < len(segments) and too_much - segments[count].size >= 0:
            too_much -= segments[count].size
            count += 1
    if retention_ms >= 0:
        while count < len(segments) and now_ms - segments[count].largest_timestamp > retention_ms:
            count += 1
    return count


def _touches(segment: SegmentFacts, over: Mapping[str, int]) -> bool:
    """Whether a store that has too much has this segment."""
    return any(over.get(member, 0) > 0 for member in segment.members)


def counts_within_disks(
    logs: Mapping[Key, Sequence[SegmentFacts]], allowed_bytes: Mapping[str, int]
) -> dict[Key, int]:
    """How many closed segments of each log of one topic go, so that no store has more of it than allowed.

    `logs` has closed segments only, oldest first, `allowed_bytes` what each store may have of them and of
    nothing else; a store that is not in it has no limit. A log that only touches stores with room keeps all.
    """
    held: dict[str, int] = {}
    for segments in logs.values():
        for segment in segments:
            for member in segment.members:
                held[member] = held.get(member, 0) + segment.size
    over = {name: held[name] - allowed for name, allowed in allowed_bytes.items() if name in held}
    counts = dict.fromkeys(logs, 0)
    order = list(logs)
    oldest = [(logs[key][0].largest_timestamp, place) for place, key in enumerate(order) if logs[key]]
    heapq.heapify(oldest)
    while oldest and any(excess > 0 for excess in over.values()):
        _, place = heapq.heappop(oldest)
        key = order[place]
        segment = logs[key][counts[key]]
        if not any(_touches(one, over) for one in logs[key][counts[key] :]):
            continue  # its stores have room: nothing of this log is to go
        for member in segment.members:
            if member in over:
                over[member] -= segment.size
        counts[key] += 1
        if counts[key] < len(logs[key]):
            heapq.heappush(oldest, (logs[key][counts[key]].largest_timestamp, place))
    return counts
