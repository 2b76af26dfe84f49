"""What consumers write into a group: `ConsumerProtocolSubscription` and `ConsumerProtocolAssignment`.

The bytes belong to the clients and are passed on as they are. The coordinator looks into subscriptions
for one thing only: offsets of a topic that a group reads are neither deleted nor expired. Assignments are
for those who look at groups. All versions begin alike: version, then the topics (KIP-429 and later add fields
behind them).
"""

from __future__ import annotations

import struct
from typing import Final

MAX_SUBSCRIBED_TOPICS: Final = 20_000
"""Topics that are read of one member, about 5 ms of the loop at each generation. A member that names more
counts as reading everything: offsets of its group then neither expire nor are deleted while it is there."""

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_TOPICS_AT: Final = _SHORT.size + _INT.size  # behind the version and their number


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics; None when these are not a consumer's bytes, or too many."""
    try:
        count = _topic_count(metadata)
        if count > MAX_SUBSCRIBED_TOPICS:
            return None
        topics, at = set(), _TOPICS_AT
        for _ in range(count):
            name, at = _string(metadata, at)
            topics.add(name)
    except (struct.error, ValueError):
        return None
    return frozenset(topics)


def assigned_partitions(assignment: bytes) -> dict[str, list[int]] | None:
    """Topic -> partitions, as they were written; None when these are not a consumer's bytes."""
    try:
        found: dict[str, list[int]] = {}
        at = _TOPICS_AT
        for _ in range(_topic_count(assignment)):
            name, at = _string(assignment, at)
            (partitions,) = _INT.unpack_from(assignment, at)
            at += _INT.size
            indexes = struct.unpack_from(f">{_fits(partitions, assignment)}i", assignment, at)
            at += partitions * _INT.size
            found.setdefault(name, []).extend(indexes)
    except (struct.error, ValueError):
        return None
    return found


def _topic_count(data: bytes) -> int:
    (count,) = _INT.unpack_from(data, _SHORT.size)
    return _fits(count, data)


def _string(data: bytes, at: int) -> tuple[str, int]:
    """The string there, and what follows it."""
    (length,) = _SHORT.unpack_from(data, at)
    at += _SHORT.size
    end = at + length
    if not at <= end <= len(data):
        raise ValueError("a string that the bytes have no room for")
    return data[at:end].decode(), end


def _fits(count: int, data: bytes) -> int:
    if not 0 <= count <= len(data):
        raise ValueError("a count that the bytes have no room for")
    return count
