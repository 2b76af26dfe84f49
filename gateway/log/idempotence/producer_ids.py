"""Producer ids: taken from the catalog in blocks, so that none is ever given twice (`ProducerIdManager`)."""

import trio

from gateway.catalog import keys
from gateway.catalog.interface import Catalog

BLOCK = 1000
"""Ids taken from the catalog at once, as in Kafka: what a crash may skip."""


class ProducerIds:
    """One gateway life's ids."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._lock = trio.Lock()
        self._next = 0
        entry = catalog.get(keys.PRODUCER_IDS)
        self._end = self._next = 0 if entry is None else int(keys.unpack(entry.value))

    @property
    def floor(self) -> int:
        """No id at or above this was ever given; told to the stores, for a lost catalog."""
        return self._end

    async def allocate(self) -> int:
        """An id that was never given before."""
        async with self._lock:
            if self._next == self._end:
                await self._catalog.transact([], {keys.PRODUCER_IDS: keys.pack(self._end + BLOCK)})
                self._end += BLOCK
            self._next += 1
            return self._next - 1
