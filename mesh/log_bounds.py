"""Which lines about others are written to the log: nobody fills it, and nobody keeps others out of it.

A line about the same comes again after `AGAIN_SECONDS` only. Of different ones each source has a few a
minute, and all sources together some more: what one of them does leaves room for what is said of the others.
"""

import time
from collections import Counter
from collections.abc import Callable

AGAIN_SECONDS = 600.0
"""A line about the same is written again after so long: who looks at a log sees what still lasts."""

WINDOW_SECONDS = 60.0
"""Lines are counted anew after so long."""

MAX_LINES_OF_SOURCE = 5
"""Lines about one source in a window."""

MAX_LINES = 30
"""Lines about all sources in a window."""

MAX_REMEMBERED = 4096
"""What lines were about, remembered until they may come again; the oldest goes first."""


class LogBounds:
    """Decides for one kind of line. Not for several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said: dict[str, float] = {}
        """What a line was about -> when it was written."""
        self._window = clock()
        self._lines: Counter[str] = Counter()
        """Source -> its lines in this window."""

    def may(self, about: str, source: str) -> bool:
        """Whether to write a line about this, of somebody; it is written then."""
        now = self._clock()
        said = self._said.get(about)
        if said is not None and now < said + AGAIN_SECONDS:
            return False
        if now >= self._window + WINDOW_SECONDS:
            self._window = now
            self._lines.clear()
        if self._lines[source] >= MAX_LINES_OF_SOURCE or self._lines.total() >= MAX_LINES:
            return False
        self._lines[source] += 1
        self._said.pop(about, None)
        if len(self._said) >= MAX_REMEMBERED:
            del self._said[next(iter(self._said))]
        self._said[about] = now
        return True
