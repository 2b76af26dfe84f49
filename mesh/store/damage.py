"""Which records of a store are known to be damaged: nobody is given them.

Known is what a scrub has found and not yet mended. It is forgotten at a start, and found again by the next
pass; until then readers check what they get, as ever.
"""

from typing import NamedTuple

from mesh.protocol.disk import StoreCorrupt

MAX_RANGES = 4096
"""Damaged ranges that are kept apart. Beyond it the disk is gone, and no pass looks for more."""


class BadRange(NamedTuple):
    """Records of one address, `first` to `last`, and what is wrong with the first of them."""

    first: int
    last: int
    why: str
    is_irreparable: bool = False
    """No other store has a good copy, as of the latest look."""


class Damage:
    """Changed on the loop; read by worker threads, which see each change whole."""

    def __init__(self) -> None:
        self._ranges: dict[str, tuple[BadRange, ...]] = {}

    @property
    def addresses(self) -> dict[str, str]:
        """Address -> what is wrong with it."""
        return {address: ranges[0].why for address, ranges in self._ranges.items()}

    @property
    def count(self) -> int:
        return sum(map(len, self._ranges.values()))

    @property
    def irreparable(self) -> int:
        """Ranges that no other store has a good copy of."""
        return sum(one.is_irreparable for ranges in self._ranges.values() for one in ranges)

    @property
    def is_full(self) -> bool:
        return self.count >= MAX_RANGES

    def overlap(self, address: str, first: int, last: int) -> BadRange | None:
        """A damaged range of which some record is among these. Safe from any thread."""
        for one in self._ranges.get(address, ()):
            if one.first <= last and first <= one.last:
                return one
        return None

    def refuse(self, address: str, first: int, last: int) -> None:
        """Raises `StoreCorrupt` if one of these records is known to be damaged. Safe from any thread."""
        bad = self.overlap(address, first, last)
        if bad is not None:
            raise StoreCorrupt(
                f"address {address}: sequence {bad.first} to {bad.last} is damaged here: {bad.why}"
            )

    def mark(self, address: str, bad: BadRange) -> bool:
        """Nobody is to get these records. True if not all of them were known."""
        known = self._ranges.get(address, ())
        is_known = sum(_common(one, bad) for one in known) == bad.last - bad.first + 1
        kept = tuple(one for one in known if one.last < bad.first or bad.last < one.first)
        touched = [one for one in known if one not in kept]
        whole = bad._replace(
            first=min([bad.first, *(one.first for one in touched)]),
            last=max([bad.last, *(one.last for one in touched)]),
        )
        self._ranges[address] = tuple(sorted((*kept, whole)))
        return not is_known

    def mended(self, address: str, first: int, last: int) -> None:
        """These records are good."""
        left: list[BadRange] = []
        for one in self._ranges.get(address, ()):
            if last < one.first or one.last < first:
                left.append(one)
                continue
            if one.first < first:
                left.append(one._replace(last=first - 1))
            if last < one.last:
                left.append(one._replace(first=last + 1))
        if left:
            self._ranges[address] = tuple(left)
        else:
            self._ranges.pop(address, None)

    def forget(self, address: str) -> None:
        """It was deleted, or is good as a whole."""
        self._ranges.pop(address, None)


def _common(one: BadRange, other: BadRange) -> int:
    """How many records are in both."""
    return max(0, min(one.last, other.last) - max(one.first, other.first) + 1)
