"""Which topics a consumer's join metadata names: the beginning of `ConsumerProtocolSubscription`.

The bytes belong to the clients and are passed on as they are. The coordinator looks into them for one thing
only: offsets of a topic that a group reads are neither deleted nor expired. All versions begin alike:
version, then the topics (KIP-429 and later add fields behind them).
"""

from __future__ import annotations

import struct
from typing import Final

MAX_SUBSCRIBED_TOPICS: Final = 20_000
"""Topics that are read of one member, about 5 ms of the loop at each generation. A member that names more
counts as reading everything: offsets of its group then neither expire nor are deleted while it is there."""

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics; None when these are not a consumer's bytes, or too many."""
    try:
        (count,) = _INT.unpack_from(metadata, _SHORT.size)
        if not 0 <= count <= min(len(metadata) // _SHORT.size, MAX_SUBSCRIBED_TOPICS):
            return None
        at = _SHORT.size + _INT.size
        topics = set()
        for _ in range(count):
            (length,) = _SHORT.unpack_from(metadata, at)
            at += _SHORT.size
            if length < 0 or at + length > len(metadata):
                return None
            topics.add(metadata[at : at + length].decode())
            at += length
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)
