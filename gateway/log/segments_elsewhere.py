"""Segments of a partition that another gateway leads, as this one's copy of the catalog has them."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from gateway.catalog import keys
from gateway.log.segment import Segment

if TYPE_CHECKING:
    from gateway.catalog.interface import Catalog
    from gateway.log.partition import Partition

_OFFSET_DIGITS: Final = 20


def segment_at(catalog: Catalog, partition: Partition, offset: int) -> Segment | None:
    """The last one that begins at or below `offset`, as `SegmentChain.segment_at` says it of what is led
    here; None below the first one.
    """
    prefix = keys.partition_segments(partition.topic.id, partition.index)
    entries = catalog.range(prefix)
    start = slice(len(prefix), len(prefix) + _OFFSET_DIGITS)
    found = bisect_right(entries, offset, key=lambda entry: int(entry.key[start]))
    return Segment.unpack(entries[found - 1].value) if found else None
