"""What the catalog remembers of the stores' lives: the last start that was seen of each, and how far it was.

Rule: a start of a store that the catalog counts on is in the catalog before the gateway counts on anything it
says (`mesh.protocol.vouching` decides whether it may); how far it is follows every `KEEP_SECONDS` while that
changes. So a store that was set back to a copy which is older than that is noticed, whenever it comes back.
Of a store that is not admitted nothing is kept: it counts for nothing, and `Stores.admit` takes what was seen
of it into the transaction that lets it count.
"""

import logging
from collections.abc import Callable, Iterable

import trio

from gateway.catalog import keys
from gateway.catalog.interface import Catalog, Compare, CompareFailed
from mesh.presence import StorePresence
from mesh.protocol.vouching import Keep, StoreLife

KEEP_SECONDS = 2.0
"""How often it is kept how far the stores are. Stores tell it once a second (`ROUND_SECONDS`), so a copy that
was made within the last three seconds of a store may not be noticed."""

logger = logging.getLogger(__name__)


class StoreLives:
    """`counted` tells whether the catalog counts on an incarnation."""

    def __init__(self, catalog: Catalog, presence: StorePresence, counted: Callable[[str], bool]) -> None:
        """To be made before the presence runs: what is remembered must be known when the first PONG comes."""
        self._catalog = catalog
        self._presence = presence
        self._vouching = presence.vouching
        self._counted = counted
        self._new = trio.Event()
        """A start waits for being kept."""
        for entry in catalog.range(keys.STORE_LIVES):
            self._vouching.remember(entry.key.removeprefix(keys.STORE_LIVES), _unpack(entry.value))
        presence.keep = self._keep

    def _keep(self, keep: Keep) -> None:
        if self._counted(keep.store):
            self._new.set()
        else:
            self._presence.counts_now(*keep)

    async def run(self) -> None:
        """Keep what is seen, for ever."""
        while True:
            with trio.move_on_after(KEEP_SECONDS):
                await self._new.wait()
            self._new = trio.Event()
            await self._keep_all()

    async def _keep_all(self) -> None:
        seen = {store: life for store, life in self._vouching.unkept().items() if self._counted(store)}
        if not seen:
            return
        try:
            await self._catalog.transact(self.compares(seen), puts(seen))
        except CompareFailed as error:
            # Somebody else has seen another start of this store: what is here has to know that one.
            entry = self._catalog.get(error.key)
            if entry is not None:
                store = error.key.removeprefix(keys.STORE_LIVES)
                self._vouching.remember(store, _unpack(entry.value))
            return
        self.are_kept(seen)

    def seen(self, stores: Iterable[str]) -> dict[str, StoreLife]:
        """What was seen of these and is not in the catalog."""
        unkept = self._vouching.unkept()
        return {store: unkept[store] for store in stores if store in unkept}

    def compares(self, stores: Iterable[str]) -> list[Compare]:
        """That nobody else has changed what is remembered of these."""
        found = {key: self._catalog.get(key) for key in map(keys.store_life_key, stores)}
        return [Compare(key, 0 if entry is None else entry.mod_revision) for key, entry in found.items()]

    def are_kept(self, lives: dict[str, StoreLife]) -> None:
        """These are in the catalog."""
        for store, life in lives.items():
            self._vouching.kept(store, life)
            self._presence.counts_now(store, life)


def puts(lives: dict[str, StoreLife]) -> dict[str, bytes]:
    """As the catalog's keys and values."""
    return {
        keys.store_life_key(store): keys.pack({"nonce": life.nonce.hex(), "commit": life.commit})
        for store, life in lives.items()
    }


def _unpack(value: bytes) -> StoreLife:
    fields = keys.unpack(value)
    return StoreLife(bytes.fromhex(fields["nonce"]), fields["commit"])
