"""Tokens that come back at a rate and are spent on changes (``TokenBucket``, KIP-599)."""

from __future__ import annotations

import math

from gateway.quotas.rate import KAFKAS_WINDOWS, Windows, whole_ms


class TokenBucket:
    """Of one bucket: full at first. One change may take more tokens than there are; then nothing may be
    changed until they are back. Times do not go back.
    """

    __slots__ = ("_at", "_tokens", "_windows")

    def __init__(self, windows: Windows = KAFKAS_WINDOWS) -> None:
        self._windows = windows
        self._tokens = math.inf
        self._at = 0

    def tokens(self, rate: float, now_ms: int) -> float:
        """What there is at this rate; less than nothing where too much was spent."""
        burst = self._windows.samples * self._windows.each_ms / 1_000 * rate
        self._tokens = min(burst, self._tokens + rate * (now_ms - self._at) / 1_000)
        self._at = now_ms
        return self._tokens

    def spend(self, tokens: float, rate: float, now_ms: int) -> None:
        """So many are spent now, whether they are there or not."""
        self._tokens = self.tokens(rate, now_ms) - tokens

    def debt_ms(self, rate: float, now_ms: int) -> int:
        """Until nothing is owed any more."""
        tokens = self.tokens(rate, now_ms)
        return 0 if tokens >= 0 else whole_ms(-tokens / rate * 1_000)

    def is_in_debt(self, rate: float, now_ms: int) -> bool:
        """Whether more was spent than there was."""
        return self.tokens(rate, now_ms) < 0
