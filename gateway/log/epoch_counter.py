"""The numbers of leader epochs: one counter in the catalog for all partitions of the cluster.

The key `/leader-epoch` holds the highest number that was ever drawn. Rules:

* A number is drawn, by comparing the counter and putting it, in the first transaction that uses it. So nobody
  else has it, a crash leaves no number in use that the counter does not know, and a gateway that writes
  nothing draws nothing.
* Each gateway life has one number for its leadership, and so have the topics that it makes. A partition that
  is recovered again in that life takes the next one, which serves all that are recovered with it.
* What clients are told lies at most one above what is drawn. So the next life, which begins with the next
  number at least, never tells them a lower one.

Between the numbers of one partition there are gaps: others have those.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final

import trio

from gateway.catalog import keys
from gateway.catalog.interface import Catalog, Compare, CompareFailed, unchanged
from gateway.log.segment import Segment

NONE_DRAWN: Final = -1
"""The counter before the first number, which is 0."""

EPOCH_TAKEN: Final = "another gateway has drawn its leader epoch"
"""Why something has to begin anew whose number was not drawn in time."""

MAX_HEARD_AHEAD: Final = 1_000_000
"""By how much a store's word alone may raise the next number: they have 31 bits, and are never given back."""


class EpochCounter:
    """One gateway life's view of the counter."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._least = _highest_in_use(catalog)
        self._heard = NONE_DRAWN
        self._drawn: trio.Event | None = None
        """Set when the transaction is over that draws; None while none does. What uses a number that is drawn
        already waits for nobody."""
        self._own: list[range] = []
        """The numbers that this life has drawn, or passed over."""
        self._leadership = self.next

    @property
    def leadership(self) -> int:
        """The number of this life's leadership, drawn or not yet; another one once another gateway has drawn
        it.
        """
        if self.is_taken(self._leadership):
            self._leadership = self.next
        return self._leadership

    def following(self, epoch: int) -> int:
        """The number of a partition that had this one and leads anew."""
        leadership = self.leadership
        return leadership if leadership > epoch else self.next

    @property
    def highest(self) -> int:
        """The highest number that was drawn, -1 for none."""
        entry = self._catalog.get(keys.LEADER_EPOCH)
        return self._least if entry is None else max(self._least, int(keys.unpack(entry.value)))

    @property
    def next(self) -> int:
        """The number that is drawn next. Until then all who ask share it."""
        return max(self.highest, self._heard) + 1

    @asynccontextmanager
    async def using(
        self,
        epochs: Iterable[int],
        compares: list[Compare],
        puts: dict[str, bytes],
        *,
        for_another: bool = False,
    ) -> AsyncIterator[None]:
        """Around a transaction of these `compares` and `puts` that uses `epochs`: what it takes to draw those
        that are not drawn yet is added to both. Left without an error, the transaction is durable. What is
        drawn `for_another` life is its alone, also if something here was about to use it.

        Raises CompareFailed with the counter's key: another gateway has drawn one of them. So does the
        transaction.
        """
        wanted = frozenset(epochs)
        while (undrawn := self._undrawn(wanted)) and self._drawn is not None:
            await self._drawn.wait()
        if not undrawn:
            yield
            return
        highest, last = self.highest, max(undrawn)
        if self.is_taken(min(undrawn)):
            raise CompareFailed(keys.LEADER_EPOCH)
        compares += unchanged(self._catalog, [keys.LEADER_EPOCH])
        puts[keys.LEADER_EPOCH] = keys.pack(last)
        over = self._drawn = trio.Event()
        try:
            yield
            if not for_another:
                self._take(highest + 1, last)
        finally:
            self._drawn = None
            over.set()

    def given(self, epoch: int) -> None:
        """Another gateway has drawn this number for what this life leads from now on."""
        if self._undrawn([epoch]):
            self._take(epoch, epoch)

    def is_taken(self, epoch: int) -> bool:
        """Whether another gateway has drawn a number, or passed it over: it is of no use here any more."""
        return epoch <= self.highest and bool(self._undrawn([epoch]))

    def _take(self, first: int, last: int) -> None:
        """These numbers are this life's."""
        if self._own and self._own[-1].stop == first:
            first = self._own.pop().start
        self._own.append(range(first, last + 1))

    def _undrawn(self, epochs: Iterable[int]) -> list[int]:
        return [epoch for epoch in epochs if not any(epoch in own for own in self._own)]

    async def settled(self) -> None:
        """Return when no transaction draws."""
        while self._drawn is not None:
            await self._drawn.wait()

    def heard(self, epoch: int) -> None:
        """A store knows this epoch, and the catalog does not: the numbers from the next one on lie above it.

        Nothing is written: a catalog that a store refutes is left as it is.
        """
        if epoch <= self.highest + MAX_HEARD_AHEAD:
            self._heard = max(self._heard, epoch)


def _highest_in_use(catalog: Catalog) -> int:
    """The highest epoch in a catalog, whatever its counter says: versions before the counter have none, and
    leave it as it is.
    """
    used = [keys.unpack(entry.value)["next_epoch"] - 1 for entry in catalog.range(keys.PARTITIONS)]
    if catalog.get(keys.LEADER_EPOCH) is None:
        used += [Segment.unpack(entry.value).epoch for entry in catalog.range(keys.SEGMENTS)]
    return max(used, default=NONE_DRAWN)
