"""Producer ids: taken from the catalog in blocks, so that none is ever given twice (`ProducerIdManager`).

A block is handed out when enough stores remember it: a catalog that goes back to before it is noticed then.
"""

import trio

from gateway.catalog import keys
from gateway.catalog.interface import Catalog, Compare, CompareFailed
from gateway.log.neighbours import CatalogCopies
from wireproto.kafka.errors import ErrorCode, KafkaError

BLOCK = 1000
"""Ids taken from the catalog at once, as in Kafka: what a crash may skip."""

BLOCK_SECONDS = 2.0
"""How long a producer waits for the stores to remember a new block; then it is to ask again."""


class ProducerIds:
    """One gateway life's ids."""

    def __init__(self, catalog: Catalog, copies: CatalogCopies) -> None:
        self._catalog = catalog
        self._copies = copies
        self._lock = trio.Lock()
        """Who takes a block in the catalog; nobody waits for stores with it."""
        self._next = self._end = self._revision = 0
        self._taken = 0
        """The end of what is taken in the catalog, which may be more than what may be handed out."""
        self._read()

    def _read(self) -> None:
        """Begin with what the catalog says: everything below it may have been given."""
        entry = self._catalog.get(keys.PRODUCER_IDS)
        if entry is not None:
            self._revision = entry.mod_revision
            self._taken = int(keys.unpack(entry.value))
        self._end = self._next = self._taken

    @property
    def floor(self) -> int:
        """No id at or above this was ever given; told to the stores, for a lost catalog."""
        return self._end

    async def allocate(self) -> int:
        """An id that was never given before.

        Raises KafkaError: COORDINATOR_LOAD_IN_PROGRESS, too few stores remember the next block yet, or the
        catalog is away.
        """
        while self._next == self._end:
            await self._take_block()
        self._next += 1
        return self._next - 1

    async def _take(self) -> None:
        """Take the next block in the catalog. Of an earlier one nothing is left."""
        while True:
            compares = [Compare(keys.PRODUCER_IDS, self._revision)]
            puts = {keys.PRODUCER_IDS: keys.pack(self._end + BLOCK)}
            try:
                self._revision = await self._catalog.transact(compares, puts)
            except CompareFailed:
                self._read()  # another gateway has taken that one
                continue
            self._taken = self._end + BLOCK
            return

    async def _take_block(self) -> None:
        """Have ids that may be handed out. All who ask meanwhile wait for the stores together."""
        if trouble := self._catalog.trouble:
            reason = f"no producer ids can be taken: {trouble}"
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, reason)
        async with self._lock:
            if self._next < self._end:
                return
            if self._taken == self._end:
                await self._take()
            taken = self._taken
        if not await self._copies.keep(BLOCK_SECONDS):
            raise KafkaError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                "too few stores remember the next block of producer ids: start those that are away",
            )
        # Who waited longer than others may find the block after this one taken, or handed out.
        self._end = max(self._end, taken)
