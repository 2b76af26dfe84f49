"""Where a store that comes late begins to keep a native address whose first records are gone everywhere.

A store keeps an address from sequence 0, without gaps. Of a native address that others have trimmed, by quota
or retention, nobody has sequence 0 any more: whoever is asked for it says where it begins now
(`STATUS_BEGINS_LATER`). The producer, and any store that still has the beginning, hear the same FETCH and
would answer with records. So who was told so `TRIES` times, and was given nothing, begins there.
"""

TRIES = 4
"""FETCHes that were answered so and brought no record: as a consumer's, which then goes on from there."""

MAX_TOLD = 4096
"""Addresses of which a store was told so; the oldest are forgotten, and begin anew."""


class LateBeginnings:
    """One store's."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[int, int]] = {}
        """address -> (how often it was told, the lowest sequence that somebody has)."""

    def on_told(self, address: str, first: int) -> int | None:
        """Some store's records of the address begin at `first`; where to begin, once that is to be done."""
        times, lowest = self._told.pop(address, (0, first))
        times, lowest = times + 1, min(lowest, first)
        if times >= TRIES:
            return lowest
        self._told[address] = times, lowest
        if len(self._told) > MAX_TOLD:
            del self._told[next(iter(self._told))]
        return None
