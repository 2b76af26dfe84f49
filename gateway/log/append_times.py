"""When the records of a partition were appended, about: what is known of where its log ended, and when.

Pure. The time is the gateway's own, so a client whose clock is wrong, or who sets timestamps, changes
nothing. It is told once a second or so where the log ends (`note`), and keeps `MAX_POINTS` pairs of (end,
time) at most, the newest of them a second apart and older ones ever further; between two of them records
count as evenly spread.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Final

MAX_POINTS: Final = 64
"""Pairs of (end, time) for one partition, 16 bytes each. Of the older half every second pair goes when there
is no room: what began a second apart spans days."""


class AppendTimes:
    """Where one log ended, and when. Times are seconds of one clock that only goes forward."""

    __slots__ = ("_ends", "_looked", "_times", "floor")

    def __init__(self) -> None:
        self._ends = array("q")
        self._times = array("d")
        self._looked = 0.0
        self.floor = 0
        """Nobody asks for an offset below this any more: older pairs are of no use."""

    def __len__(self) -> int:
        return len(self._ends)

    def note(self, end: int, now: float) -> None:
        """The log ends at `end` (exclusive) now."""
        ends, times = self._ends, self._times
        if ends and end <= ends[-1]:
            self._looked = now  # idle: so much later is the next record at least
        else:
            if ends and self._looked > times[-1]:
                self._add(ends[-1], self._looked)
            self._add(end, now)
            self._looked = now
        self._drop_below(self.floor)
        if len(ends) > MAX_POINTS:
            self._thin()

    def appended(self, offset: int) -> float | None:
        """When the record at `offset` was appended; None where that was before the first look, or it is not
        there yet.
        """
        ends, times = self._ends, self._times
        after = bisect_right(ends, offset)
        if after == len(ends) or after == 0:
            return None
        first, last = ends[after - 1], ends[after]
        return times[after - 1] + (offset - first + 1) / (last - first) * (times[after] - times[after - 1])

    @property
    def first(self) -> tuple[int, float] | None:
        """The oldest pair: what lies below this end was appended by then."""
        return (self._ends[0], self._times[0]) if self._ends else None

    def _add(self, end: int, now: float) -> None:
        self._ends.append(end)
        self._times.append(now)

    def _drop_below(self, floor: int) -> None:
        """Keep the last pair at or below `floor`: what is asked for lies after it."""
        useless = bisect_right(self._ends, floor) - 1
        if useless > 0:
            del self._ends[:useless]
            del self._times[:useless]

    def _thin(self) -> None:
        half = len(self._ends) // 2
        del self._ends[1:half:2]
        del self._times[1:half:2]
