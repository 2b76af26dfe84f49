"""Which transactions' markers came to a partition a moment ago, by their numbers. Pure.

A coordinator that gets no answer sends a marker again; when that has gone well the first one may still lie in
front of the log, and would end the producer's next transaction, which may have the same epoch. So what was
done is not done again. It is remembered beside what is known of producers, who may be forgotten for others.
Another coordinator counts anew, under a later epoch; it has all markers of what is not complete sent again.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from gateway.common.marker import Marker

REMEMBERED_SECONDS: Final = 60.0
"""Longer than a marker may wait anywhere: a leader that does not run for a tenth of that leads no more, and
the next one takes nothing that was sent before."""

MAX_ENDED_IN_ALL: Final = 200_000
"""Of all partitions together, some 400 bytes each. Beyond it the oldest is forgotten: its marker would have
to come late, and its producer go on in the same epoch, for that to be missed."""


class _Ended(NamedTuple):
    coordinator_epoch: int
    number: int
    offset: int


class EndedAccount:
    """What is remembered of all partitions together."""

    __slots__ = ("_most", "_order")

    def __init__(self, most: int = MAX_ENDED_IN_ALL) -> None:
        self._most = most
        self._order: OrderedDict[tuple[EndedTransactions, int], float] = OrderedDict()
        """When each was heard, the one of longest ago first."""

    def __len__(self) -> int:
        return len(self._order)

    def heard(self, holder: EndedTransactions, producer_id: int, now: float) -> None:
        """A partition remembers one more, or one anew; those that are too old are forgotten, wherever they
        are, and at the bound the oldest one.
        """
        order = self._order
        order[holder, producer_id] = now
        order.move_to_end((holder, producer_id))
        oldest = now - REMEMBERED_SECONDS
        while order[first := next(iter(order))] <= oldest or len(order) > self._most:
            first[0].forget(first[1])

    def forget(self, holder: EndedTransactions, producer_id: int) -> None:
        """A partition remembers one no more."""
        del self._order[holder, producer_id]


class EndedTransactions:
    """Those of one partition, as long as it has one leader, under one epoch of the table."""

    __slots__ = ("_account", "_last")

    def __init__(self, account: EndedAccount) -> None:
        self._account = account
        self._last: dict[int, _Ended] = {}
        """By producer id."""

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
        self._last[marker.producer_id] = _Ended(marker.coordinator_epoch, marker.number, offset)
        self._account.heard(self, marker.producer_id, now)

    def cut(self, end: int) -> None:
        """The partition was recovered, and ends here: markers beyond are lost, and will come again. Those
        of their producers' transactions before are not.
        """
        for producer_id, last in self._last.items():
            if last.offset >= end:
                self._last[producer_id] = last._replace(number=last.number - 1, offset=end - 1)

    def forget(self, producer_id: int) -> None:
        """Remember it no more."""
        del self._last[producer_id]
        self._account.forget(self, producer_id)

    def clear(self) -> None:
        """It is led anew, or is no more."""
        for producer_id in tuple(self._last):
            self.forget(producer_id)
