"""Where the log of a partition ends that another gateway leads, as that one has said. Pure."""

from __future__ import annotations

import math
from typing import Final

from gateway.log.append_times import AppendTimes

UNKNOWN: Final = -1


class HeardEnds:
    """One partition's. Times are seconds of one clock that only goes forward."""

    __slots__ = ("before", "end", "heard_at", "start", "times", "wanted_at")

    def __init__(self, now: float) -> None:
        self.end = UNKNOWN
        """The high watermark."""
        self.start = UNKNOWN
        """The log's first offset; it is asked for more seldom than the end."""
        self.heard_at = -math.inf
        """When `end` was heard last."""
        self.wanted_at = now
        """When somebody looked last."""
        self.times = AppendTimes()
        """When what was appended since then was."""
        self.before: tuple[int, float] | None = None
        """An offset that was there before that, and when it was appended, as somebody has found out."""

    def hear_end(self, end: int, now: float) -> None:
        self.end, self.heard_at = end, now
        self.times.note(end, now)

    def lag(self, committed: int) -> int:
        """Records between a committed offset and the end: never below 0, also where what was committed is
        newer than what was heard.
        """
        return max(0, self.end - max(committed, self.start))

    def lost(self, committed: int) -> int:
        """Records that went before they were read, as far as that was heard."""
        return max(0, self.start - committed)
