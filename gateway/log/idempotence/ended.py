"""Which transactions' markers came to a partition a moment ago, by their numbers. Pure.

A coordinator that gets no answer sends a marker again; when that has gone well the first one may still lie in
front of the log, and would end the producer's next transaction, which may have the same epoch. So what was
done is not done again. It is remembered beside what is known of producers, who may be forgotten for others.
Another coordinator counts anew, under a later epoch; it has all markers of what is not complete sent again.
"""

from collections import OrderedDict
from typing import Final, NamedTuple

from gateway.common.marker import Marker

REMEMBERED_SECONDS: Final = 60.0
"""Longer than a marker may wait anywhere: a leader that does not run for a tenth of that leads no more, and
under another leader epoch nothing is taken that was sent before."""


class _Ended(NamedTuple):
    coordinator_epoch: int
    number: int
    offset: int
    heard: float


class EndedTransactions:
    """Those of one partition, under one leader epoch."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: OrderedDict[int, _Ended] = OrderedDict()
        """By producer id, the one heard longest ago first."""

    def __len__(self) -> int:
        return len(self._last)

    def find(self, marker: Marker) -> int | None:
        """The offset of the marker that this one repeats, or that came after it, be it of a later
        coordinator.
        """
        last = self._last.get(marker.producer_id)
        if last is None:
            return None
        came, is_now = (last.coordinator_epoch, last.number), (marker.coordinator_epoch, marker.number)
        return last.offset if is_now <= came else None

    def add(self, marker: Marker, offset: int, now: float) -> None:
        """This marker, which has a number, is appended; `now` in seconds, by a clock that nobody sets."""
        last = self._last
        last.pop(marker.producer_id, None)
        last[marker.producer_id] = _Ended(marker.coordinator_epoch, marker.number, offset, now)
        while last[next(iter(last))].heard <= now - REMEMBERED_SECONDS:
            last.popitem(last=False)

    def clear(self) -> None:
        """Another leader epoch begins."""
        self._last.clear()
