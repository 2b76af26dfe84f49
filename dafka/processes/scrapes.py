"""The text of all metrics, made for one scrape or several, beside what the loop has to do otherwise."""

from __future__ import annotations

import math
from time import perf_counter

import trio

from gateway.common.metrics import Metrics

SLICE_SECONDS = 0.001
"""Work on the text before others have their turn."""

REST = 9
"""A text is used again for so many times as long as it took to make, so that scrapes without end take a tenth
of the loop; of a small gateway that is not noticed."""

MAX_AGE_SECONDS = 1.0
"""But not longer than this."""


class Scrapes:
    """Makes the text, for one at a time."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._making = trio.Lock()
        self._text = b""
        self._good_until = -math.inf

    async def text(self) -> bytes:
        """The text as it is now, or was a moment ago."""
        async with self._making:
            if trio.current_time() >= self._good_until:
                took = await self._make()
                self._good_until = trio.current_time() + min(REST * took, MAX_AGE_SECONDS)
            return self._text

    async def _make(self) -> float:
        """Make it; the seconds of work that it was."""
        pieces: list[str] = []
        took = 0.0
        began = perf_counter()
        for piece in self._metrics.pieces():
            pieces.append(piece)
            worked = perf_counter() - began
            if worked > SLICE_SECONDS:
                took += worked
                await trio.lowlevel.checkpoint()
                began = perf_counter()
        self._text = "".join(pieces).encode()
        return took + perf_counter() - began
