"""Bugs on the way of a topic's values to native readers, each of which a schedule with such readers finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any
from unittest.mock import patch

from gateway.log.partition import Partition
from gateway.log.transactions.aborted_reading import AbortedReader
from gateway.native.publishing import PublishedPartition
from mesh.store import published
from mesh.store.published import PublishedRecords
from wireproto.dafka.additions import PublishEntry

Plant = Callable[[], AbstractContextManager[object]]


@contextmanager
def _up_to(end: Callable[[Partition], int]) -> Iterator[None]:
    """Leaders tell what lies below another offset than the last stable one.

    Partitions are told of beside each other, so who tells is a matter of the task; a patch that each of them
    makes and takes away again would be taken away in the wrong order, and stay.
    """
    tells = ContextVar("tells", default=False)
    tell, visible_end = PublishedPartition.tell, Partition.visible_end

    async def telling(self: PublishedPartition, now: float) -> None:
        token = tells.set(True)
        try:
            await tell(self, now)
        finally:
            tells.reset(token)

    def shown(self: Partition, committed: bool) -> int:
        return end(self) if tells.get() else visible_end(self, committed)

    with patch.object(PublishedPartition, "tell", telling), patch.object(Partition, "visible_end", shown):
        yield


def _before_the_high_watermark() -> AbstractContextManager[object]:
    return _up_to(lambda log: log.next_offset)


def _before_the_last_stable_offset() -> AbstractContextManager[object]:
    return _up_to(lambda log: log.high_watermark)


def _with_what_was_aborted() -> AbstractContextManager[object]:
    """Stores are not told of aborted transactions."""

    async def none(*_: Any) -> list[Any]:
        return []

    return patch.object(AbortedReader, "spans", none)


def _beyond_the_piece() -> AbstractContextManager[object]:
    """A store goes on to the end of what it has."""
    read = PublishedRecords.read

    def on(self: PublishedRecords, piece: PublishEntry, first: int, last: int) -> list[bytes]:
        return read(self, piece._replace(last=1 << 60), first, last)

    return patch.object(PublishedRecords, "read", on)


def _sequences_of_values_alone() -> AbstractContextManager[object]:
    """What is no value has no sequence: the next value has it."""
    read = PublishedRecords.read

    def closing_up(self: PublishedRecords, piece: PublishEntry, first: int, last: int) -> list[bytes]:
        return [content for content in read(self, piece, first, last) if content]

    return patch.object(PublishedRecords, "read", closing_up)


def _markers_too() -> AbstractContextManager[object]:
    return patch.object(published, "_is_shown", lambda _row, _aborted: True)


PUBLISHING_BUGS: dict[str, Plant] = {
    "published before the high watermark": _before_the_high_watermark,
    "published before the last stable offset": _before_the_last_stable_offset,
    "aborted transactions are published": _with_what_was_aborted,
    "a store goes beyond its piece": _beyond_the_piece,
    "a sequence is used again": _sequences_of_values_alone,
    "markers and aborted records are values": _markers_too,
}
