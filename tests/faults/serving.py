"""How long partitions are away: from a fault to the first acknowledgement of a record sent after it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence


class Serving:
    """Told of each acknowledgement by the load, from whatever thread."""

    def __init__(self, partitions: int) -> None:
        self._partitions = range(partitions)
        self._from = 0
        self._at: dict[int, float] = {}

    def begin(self, number: int) -> None:
        """Records from this one on count."""
        self._from, self._at = number, {}

    def acknowledged(self, partition: int, number: int) -> None:
        at = self._at
        if number >= self._from:
            at.setdefault(partition, time.monotonic())

    @property
    def missing(self) -> list[int]:
        """Partitions of which none was acknowledged since."""
        return [one for one in self._partitions if one not in self._at]

    def wait(self, seconds: float, meanwhile: Callable[[], None]) -> float:
        """The time at which the last partition acknowledged. Raises AssertionError after so many seconds."""
        deadline = time.monotonic() + seconds
        while missing := self.missing:
            assert time.monotonic() < deadline, f"partitions {missing} do not go on within {seconds:g} s"
            meanwhile()
            time.sleep(0.002)
        return max(self._at.values())


def distribution(took: Mapping[str, Sequence[float]]) -> str:
    """Of each kind how often, and after how many seconds half of them, nine in ten and all were over."""
    rows = []
    for kind, seconds in sorted(took.items()):
        ordered = sorted(seconds)
        shown = [ordered[int(len(ordered) * share)] for share in (0.5, 0.9)] if ordered else []
        figures = " ".join(f"{one:.2f}" for one in [*shown, *ordered[-1:]])
        rows.append(f"{kind} {len(ordered)}: {figures}")
    return "\n".join(rows)
