"""What consumers write into a group: `ConsumerProtocolSubscription` and `ConsumerProtocolAssignment`.

The bytes belong to the clients and are passed on as they are. The coordinator looks into subscriptions
for one thing only: offsets of a topic that a group reads are neither deleted nor expired. Assignments are
for those who look at groups. All versions begin alike: version, then the topics (KIP-429 and later add fields
behind them).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final

MAX_SUBSCRIBED_TOPICS: Final = 20_000
"""Topics that are read of one member, about 5 ms of the loop at each generation. A member that names more
counts as reading everything: offsets of its group then neither expire nor are deleted while it is there."""

MAX_TOPICS_OF_GROUP: Final = 80_000
"""The same of all members together, of those that subscribe alike once: 20 ms."""

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_TOPICS_AT: Final = _SHORT.size + _INT.size  # behind the version and their number


_NOT_A_CONSUMERS = (struct.error, ValueError)
"""What reading other bytes, or text that is not UTF-8, raises."""


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics; None when these are not a consumer's bytes, or too many."""
    try:
        if _topic_count(metadata) > MAX_SUBSCRIBED_TOPICS:
            return None
        return frozenset(name for name, _ in _topics(metadata, with_partitions=False))
    except _NOT_A_CONSUMERS:
        return None


def topics_of_all(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of several members; None when some cannot be read, or they name too many."""
    topics: set[str] = set()
    named = 0
    for metadata in subscriptions:
        some = subscribed_topics(metadata)
        if some is None or (named := named + _topic_count(metadata)) > MAX_TOPICS_OF_GROUP:
            return None
        topics |= some
    return frozenset(topics)


def assigned_partitions(assignment: bytes) -> dict[str, list[int]] | None:
    """Topic -> partitions, as they were written; None when these are not a consumer's bytes."""
    found: dict[str, list[int]] = {}
    try:
        for name, partitions in _topics(assignment, with_partitions=True):
            found.setdefault(name, []).extend(partitions)
    except _NOT_A_CONSUMERS:
        return None
    return found


def _topics(data: bytes, *, with_partitions: bool) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The topics of a subscription, or of an assignment, which has partitions with each. Raises
    `_NOT_A_CONSUMERS`.
    """
    at = _TOPICS_AT
    partitions: tuple[int, ...] = ()
    for _ in range(_topic_count(data)):
        name, at = _string(data, at)
        if with_partitions:
            partitions, at = _partitions(data, at)
        yield name, partitions


def _topic_count(data: bytes) -> int:
    (count,) = _INT.unpack_from(data, _SHORT.size)
    return _fits(count, data)


def _partitions(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """The partitions there, and what follows them."""
    (count,) = _INT.unpack_from(data, at)
    at += _INT.size
    return struct.unpack_from(f">{_fits(count, data)}i", data, at), at + count * _INT.size


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
