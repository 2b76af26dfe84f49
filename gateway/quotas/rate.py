"""How much was used lately, per second: over N samples of W seconds each (``Rate``, ``SampledStat``).

A sample begins with the first use after the one before is W old, and counts as long as its last use is not
N x W old. So what is measured covers N-1 whole windows and a part of one at least, whoever has just begun:
a burst of up to (N-1) x W x the bound is no violation.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple


class Windows(NamedTuple):
    """Samples, and milliseconds of each: `quota.window.num`, `quota.window.size.seconds`."""

    samples: int = 11
    each_ms: int = 1_000

    @property
    def burst_seconds(self) -> float:
        """What may be used at once is what the bound gives in so many seconds."""
        return (self.samples - 1) * self.each_ms / 1_000


KAFKAS_WINDOWS: Final = Windows()


MAX_THROTTLE_MS: Final = 2**31 - 1
"""Longest time that somebody is told to wait: the field of the answers is an int32."""


def whole_ms(milliseconds: float) -> int:
    """Rounded, infinity included, and no more than an answer can say."""
    return math.floor(min(milliseconds + 0.5, MAX_THROTTLE_MS))


class _Sample:
    __slots__ = ("began", "last", "value")

    def __init__(self, now_ms: int) -> None:
        self.began = now_ms
        self.last = now_ms
        self.value = 0.0


class Rate:
    """Of one bucket. Times do not go back."""

    __slots__ = ("_samples", "_windows")

    def __init__(self, windows: Windows = KAFKAS_WINDOWS) -> None:
        self._windows = windows
        self._samples: list[_Sample] = []

    def record(self, value: float, now_ms: int) -> None:
        """So much is used now."""
        self._forget_old(now_ms)
        samples = self._samples
        if not samples or now_ms - samples[-1].began >= self._windows.each_ms:
            samples.append(_Sample(now_ms))
        newest = samples[-1]
        newest.value += value
        newest.last = now_ms

    def used(self, now_ms: int) -> float:
        """All that counts."""
        self._forget_old(now_ms)
        return sum(sample.value for sample in self._samples)

    def span_ms(self, now_ms: int) -> int:
        """Milliseconds that it is divided by."""
        self._forget_old(now_ms)
        each, least = self._windows.each_ms, self._windows.samples - 1
        elapsed = now_ms - self._samples[0].began if self._samples else 0
        whole = elapsed // each
        if whole < least:
            elapsed += (least - whole) * each
        return max(elapsed, 1)

    def per_second(self, now_ms: int) -> float:
        """The rate."""
        return self.used(now_ms) * 1_000 / self.span_ms(now_ms)

    def excess_ms(self, bound: float, now_ms: int) -> int:
        """For how long nothing may be used until the rate is the bound again (`QuotaUtils.throttleTime`);
        0 while it is not above.
        """
        rate = self.per_second(now_ms)
        if rate <= bound:
            return 0
        return whole_ms((rate - bound) / bound * self.span_ms(now_ms))

    def _forget_old(self, now_ms: int) -> None:
        samples, expired = self._samples, self._windows.samples * self._windows.each_ms
        while samples and now_ms - samples[0].last >= expired:
            del samples[0]
