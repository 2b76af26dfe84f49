"""What was refused of one idempotent producer, and is to come again. Pure.

Kept are the first sequence that is awaited, the first one that was refused after it, and the last one: who
gives the first one up still sends the second again, and others must not overtake that either.
"""

from typing import Final

from gateway.log.idempotence.producer import MAX_SEQUENCE, sequence_after

REFUSED_SECONDS: Final = 180.0
"""For which a batch that was refused is awaited. Clients send it again for `delivery.timeout.ms`, two minutes
unless they say otherwise."""

_HALF: Final = 1 << 30
"""Sequences wrap at 2^31: one is after another if it is less than half of that ahead."""


class RefusedBatches:
    """Of one producer in one epoch. `heard` is when `lowest` was refused, or the batch before it appended;
    `for_good`: it was refused with an error after which its client does not send it again.
    """

    __slots__ = ("_highest", "_next", "_next_heard", "client", "epoch", "for_good", "heard", "lowest")

    def __init__(self, client: str, epoch: int, sequence: int, now: float, *, for_good: bool = False) -> None:
        self.client = client
        self.begin(epoch, sequence, now, for_good=for_good)

    def begin(self, epoch: int, sequence: int, now: float, *, for_good: bool = False) -> None:
        """The first one of an epoch."""
        self.epoch, self.heard, self.for_good = epoch, now, for_good
        self.lowest = self._highest = sequence
        self._next: int | None = None
        self._next_heard = now

    def precedes(self, sequence: int) -> bool:
        """Whether an earlier batch than this one is awaited."""
        return sequence != self.lowest and is_after(sequence, self.lowest)

    def refused(self, sequence: int, now: float, *, for_good: bool = False) -> bool:
        """One more; whether it is the one that is awaited."""
        if is_after(sequence, self._highest):
            self._highest = sequence
        if self.precedes(sequence):
            if self._next is None or is_after(self._next, sequence):
                self._next, self._next_heard = sequence, now
            return False
        if sequence != self.lowest:
            self._next, self._next_heard = self.lowest, self.heard
        self.lowest, self.heard, self.for_good = sequence, now, for_good
        return True

    def accepted(self, last: int, now: float) -> bool:
        """A batch that ends with this sequence is in the log; whether nothing is awaited any more."""
        if is_after(last, self._highest):
            return True
        if is_after(last, self.lowest):
            self.lowest, self.heard, self.for_good = sequence_after(last), now, False
            if self._next is not None and is_after(self.lowest, self._next):
                self._next = None
        return False

    def is_over(self, now: float) -> bool:
        """Whether the client has given up all that is known of."""
        if now - self.heard < REFUSED_SECONDS:
            return False
        if self._next is None or now - self._next_heard >= REFUSED_SECONDS:
            return True
        self.lowest, self.heard, self._next, self.for_good = self._next, self._next_heard, None, False
        return False


def is_after(sequence: int, other: int) -> bool:
    """Whether `sequence` is `other` or comes after it."""
    return (sequence - other) & MAX_SEQUENCE < _HALF
