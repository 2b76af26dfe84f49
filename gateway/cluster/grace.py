"""What has been in the catalog for a while, known without a note of when each entry was put. Pure.

The catalog's revision only goes up. So whoever notes now and then how high those are that wait knows of each
entry, by the revision that last changed it, whether it was there at one of these times.
"""

import math
from collections import deque

PARTS = 1000
"""What comes within such a part of the delay counts as one: so many are kept at most."""


class Grace:
    """Which revisions are `seconds` old. Its methods take the time, seconds by a clock that only goes on."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._seen: deque[tuple[float, int]] = deque()
        """(when it was first seen, revision), ascending."""
        self._old = -1
        self._highest = -1

    def note(self, now: float, revision: int) -> None:
        """An entry of this revision is there, and waits."""
        if revision <= self._highest:
            return
        self._highest = revision
        first = now
        if self._seen and now < self._seen[-1][0] + self._seconds / PARTS:
            first, _ = self._seen.pop()
        self._seen.append((first, revision))

    def old_at(self, now: float) -> float:
        """The highest revision that is old, below 0 for none. Without any delay, all of them are."""
        while self._seen and self._seen[0][0] + self._seconds <= now:
            self._old = self._seen.popleft()[1]
        return self._old if self._seconds > 0 else math.inf

    @property
    def next(self) -> float:
        """When another revision will be old; infinity for never."""
        return self._seen[0][0] + self._seconds if self._seen else math.inf
