"""A bound on a rate, with what one second may hold as its burst."""


class TokenBucket:
    """`rate` tokens a second. A taker may overdraw once; then it waits until that is paid back."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._tokens = rate
        self._at = 0.0

    def has_some(self, now: float) -> bool:
        """Whether something may be taken."""
        self._tokens = min(self._rate, self._tokens + (now - self._at) * self._rate)
        self._at = now
        return self._tokens > 0

    def take(self, tokens: float) -> None:
        self._tokens -= tokens

    def give_back(self, tokens: float) -> None:
        """So many of those that were taken were not used."""
        self._tokens += tokens
